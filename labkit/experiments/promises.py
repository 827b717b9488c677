"""What a claim must bring before it is judged: an estimate, a margin, its sentence's numbers."""

import math
from collections.abc import Mapping, Sequence
from numbers import Integral
from string import Formatter

from labkit.statistics.criteria import Criterion, Estimate, Interval
from labkit.statistics.proportions import Gap, Proportion
from labkit.statistics.seeds import Given, Seeds


def estimate_of(
    id: str,
    values: float | Sequence[float] | Proportion | Gap,
    kind: str,
    interval: Interval | None,
) -> Estimate:
    """Make an estimate of what was measured, and refuse what is none."""
    if isinstance(values, Proportion | Gap):
        return values
    sample = tuple(float(v) for v in (values if isinstance(values, Sequence) else [values]))
    if not sample or not all(map(math.isfinite, sample)):
        raise ValueError(
            f"claim {id!r} needs at least one value, each finite; got {list(sample)}. For runs "
            "that diverged, claim how many did"
        )
    if kind == "best" and len(sample) < 5:
        raise ValueError(
            f"a claim of kind 'best' needs five seeds or more, {id!r} has {len(sample)}"
        )
    if interval is not None:
        return Given(sample, (float(interval[0]), float(interval[1])))
    seeds = Seeds(sample)
    if kind != "exact" and len(sample) > 1 and seeds.flat:
        raise ValueError(
            f"an interval of width 0 is no evidence, and claim {id!r} has {len(sample)} values of "
            f"{sample[0]:g}; if runs are counted, give proportion(flags); if it is algebra or a "
            "count, its kind is 'exact'"
        )
    return seeds


def means_of(id: str, values: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Average what each rung of the ladder reports."""
    if not values or not all(values.values()):
        raise ValueError(
            f"claim {id!r} reads the ladder, but no rung has reported for both arms; train them "
            "with: make runs ONLY=ladder"
        )
    return {rung: math.fsum(of) / len(of) for rung, of in values.items()}


def check_margin(
    id: str,
    rule: Criterion,
    criterion: str,
    kind: str,
    effect: float | None,
    predicted: float | None,
) -> None:
    """Check that a range is one that somebody would call the same."""
    if effect is None and (predicted is None or kind == "best"):
        raise ValueError(
            f"a criterion with two bounds says what its margin is a share of, and claim {id!r} "
            f"asks {criterion!r} of kind {kind!r}; give effect=, the chapter's headline effect in "
            "the same unit, or, where theory gives a number, predicted="
        )
    if effect is not None and rule.margin > abs(effect) / 4 * (1 + 1e-9):
        raise ValueError(
            f"an equivalence margin is at most a quarter of the effect, and claim {id!r} has "
            f"{rule.margin:g} beside an effect of {effect:g}; ask for {abs(effect) / 4:g} or less"
        )
    if predicted is not None and not rule.is_met(predicted):
        raise ValueError(
            f"a criterion lies around what is predicted, and claim {id!r} predicts {predicted:g} "
            f"and asks {criterion!r}; move the bounds, or mend the prediction"
        )


def numbers_of(
    statement: str, estimate: Estimate, more: dict[str, float | str]
) -> dict[str, int | float | str]:
    """Collect the numbers (or words) that the statement names."""
    low, high = estimate.compute_interval()
    known: dict[str, float | str] = {"mean": estimate.mean, "low": low, "high": high}
    if isinstance(estimate, Proportion | Gap):
        counts = [count for pair in estimate.counts for count in pair]
        known |= dict(zip(("k", "n", "other_k", "other_n"), counts, strict=False))
    else:
        known["n"] = len(estimate.values)
    known |= more
    named = [name for _, name, _, _ in Formatter().parse(statement) if name]
    if missing := set(named) - set(known):
        raise ValueError(
            f"a statement names numbers that it is given, but not {', '.join(sorted(missing))}; "
            f"it may name {', '.join(known)}"
        )
    return {name: _convert_number(known[name]) for name in dict.fromkeys(named)}


def _convert_number(value: float | str) -> int | float | str:
    if isinstance(value, str):
        return value
    return int(value) if isinstance(value, Integral) else float(value)
