"""Claims: sentences with numbers that a run produced, judged by a criterion written before it."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from string import Formatter

from labkit.display import CLAIM, publish_bundle
from labkit.experiments.card_html import KINDS, VERDICTS
from labkit.experiments.cards import Claim
from labkit.statistics.criteria import Criterion, Estimate, Interval, parse_criterion
from labkit.statistics.proportions import Gap, Proportion
from labkit.statistics.seeds import Given, Seeds
from labkit.statistics.verdicts import is_weak, judge_estimate
from labkit.unknown import explain_unknown

__all__ = ["KINDS", "VERDICTS", "Claim", "claim"]
SHARE = 0.05  # of the mean, or half of the interval if that is wider: how far a later mean may lie
_collections: list[list["Claim"]] = []  # of the blocks that collect claims, the innermost last


def claim(
    id: str,
    statement: str,
    values: float | Sequence[float] | Mapping[str, Sequence[float]] | Proportion | Gap,
    *,
    source: str,
    criterion: str,
    kind: str,
    said: str | None = None,
    interval: Interval | None = None,
    published: str | None = None,
    domain: str | None = None,
    ours: str | None = None,
    in_range: bool = True,
    effect: float | None = None,
    predicted: float | None = None,
    primary: bool = True,
    derived_from: Sequence[str] = (),
    lacking: Sequence[str] = (),
    unit: str | None = None,
    tolerance: float | None = None,
    rtol: float | None = None,
    **numbers: float | str,
) -> Claim:
    """Judge and show a claim.

    `values` has one number per seed: what the criterion is about (a difference between paired
    seeds, say). Runs that did something or not are counted: `proportion(flags)`, or one proportion
    minus another. Of the shared ladder they come by rung, the smallest first: the largest reports,
    and where another rung's mean is on the other side of the criterion, nothing has been seen. What
    a comparison is `lacking` (labkit.experiments.regime) stands on the card, and leaves it without
    a verdict, too. `unit` names what the sample is of, where it is not seeds or runs.

    `said` is the sentence that is tested, in words and without our numbers: what a source says, or
    what we predicted. `statement` is what was found. Simple math is typeset in both: d_k, x^2,
    3e-16. The statement may hold {mean}, {low}, {high}, {n} and any of `numbers`, with a format
    such as {mean:.3f}; of proportions also {k}, {other_k} and {other_n}, of the ladder {rung}, and
    of a lead {apart} and {side}: how far one loss lies below or, where the mean is negative, above.
    `interval` overrides Student's t interval where the values are not a sample of seeds.

    `domain` says where the source's statement applies and `ours` where these runs lie; with
    `in_range=False` the card gives no verdict. A criterion with two bounds needs `effect`, the
    chapter's headline effect in the same unit, of which its margin is at most a quarter; or
    `predicted`, the number that theory gives. Findings that are not `primary` are no part of the
    chapter's family of tests. `tolerance` is how far a later mean may lie from the recorded one,
    `rtol` the same as a share of it; by default the larger of half the interval's width and 5 %.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9*.-]*", id):
        raise ValueError(f"a claim's id has lower-case letters, digits, - and .; got {id!r}")
    if kind not in KINDS:
        raise ValueError(explain_unknown("kind", kind, KINDS))
    rule, rungs = parse_criterion(criterion), {}
    if isinstance(values, Mapping):
        rungs = _average_rungs(id, values)
        *_, numbers["rung"] = values
        values = values[numbers["rung"]]
    estimate = _make_estimate(id, values, kind, interval)
    if (rule.two_sided and kind != "exact") or effect is not None:
        _check_margin(id, rule, criterion, kind, effect, predicted)
    if (domain is None) != (ours is None) or (domain is None and not in_range):
        raise ValueError(
            f"a claim names the source's domain and ours together, {id!r} has domain={domain!r} "
            f"and ours={ours!r}; give both, or neither and leave in_range alone"
        )
    if tolerance is None and rtol is None:
        low, high = estimate.compute_interval()
        if estimate.mean:
            rtol = max(SHARE, (high - low) / 2 / abs(estimate.mean))
        else:
            tolerance = (high - low) / 2  # zero has no share
    judged = Claim(
        id=id,
        said=said,
        wording=statement,
        numbers=_collect_numbers(statement, estimate, numbers),
        estimate=estimate,
        source=source,
        criterion=criterion,
        kind=kind,
        verdict=judge_estimate(estimate, rule, rungs.values(), lacking)
        if in_range
        else "out-of-range",
        weak=in_range and is_weak(estimate, rule),
        published=published,
        domain=(domain and {"theirs": domain, "ours": ours, "inside": in_range}) or None,
        effect=effect,
        predicted=predicted,
        primary=primary,
        derived_from=tuple(derived_from),
        rungs=rungs,
        lacking=tuple(lacking),
        unit=unit,
        tolerance=tolerance,
        rtol=rtol,
    )
    _show_claim(judged)
    return judged


@contextmanager
def collect_claims() -> Iterator[list[Claim]]:
    """Collect the claims that a block makes; they are shown as ever."""
    _collections.append([])
    try:
        yield _collections[-1]
    finally:
        _collections.pop()


def _show_claim(made: Claim) -> None:
    for collection in _collections:
        collection.append(made)
    bundle = {"text/plain": str(made), "text/html": made.to_html(), CLAIM: made.to_dict()}
    publish_bundle(bundle, "claim", id=made.id)


def _make_estimate(
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


def _average_rungs(id: str, values: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Average what each rung of the ladder reports."""
    if not values or not all(values.values()):
        raise ValueError(
            f"claim {id!r} reads the ladder, but no rung has reported for both arms; train them "
            "with: make runs ONLY=ladder"
        )
    return {rung: math.fsum(of) / len(of) for rung, of in values.items()}


def _check_margin(
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


def _collect_numbers(
    statement: str, estimate: Estimate, more: dict[str, float | str]
) -> dict[str, int | float | str]:
    """Collect the numbers (or words) that the statement names."""
    low, high = estimate.compute_interval()
    known: dict[str, float | str] = {"mean": estimate.mean, "low": low, "high": high}
    known |= {"apart": abs(estimate.mean), "side": "above" if estimate.mean < 0 else "below"}
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
