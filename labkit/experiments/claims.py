"""Claims: sentences with numbers that a run produced, judged by a criterion written before it."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from string import Formatter

from labkit.display import CLAIM, publish_bundle
from labkit.experiments.card_html import KINDS, TRIED, VERDICTS
from labkit.experiments.cards import Claim
from labkit.experiments.ladder import DIRECTIONS
from labkit.experiments.locks import (
    Lock,
    LockError,
    choose_word,
    describe_waiting,
    find_lock,
    refuse_difference,
)
from labkit.statistics.criteria import Criterion, Estimate, Interval, parse_criterion
from labkit.statistics.pooled import Difference, has_pairs
from labkit.statistics.proportions import Gap, Proportion
from labkit.statistics.seeds import Given, Seeds
from labkit.statistics.verdicts import is_weak, is_weak_on_rungs, judge_estimate, judge_rungs
from labkit.system.root import project_root
from labkit.system.unknown import explain_unknown

__all__ = ["KINDS", "VERDICTS", "Claim", "claim"]
Values = float | Sequence[float] | Proportion | Gap | Difference
SHARE = 0.05  # of the mean, or half of the interval if that is wider: how far a later mean may lie
_collections: list[list["Claim"]] = []  # of the blocks that collect claims, the innermost last


def claim(
    id: str,
    statement: str,
    values: Values | Mapping[str, Sequence[float] | Difference],
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
    since: str = "",
    looked: str | None = None,
    tried: Mapping[str, str] | None = None,
    tolerance: float | None = None,
    rtol: float | None = None,
    **numbers: float | str,
) -> Claim:
    """Judge and show a claim.

    `values` has one number per seed: what the criterion is about (a difference between paired
    seeds, say). Runs that did something or not are counted: `proportion(flags)`, or one proportion
    minus another. Of the shared ladder they come by rung (`ladder.lead`), the smallest first: the
    largest reports, and all rungs and directions are judged together
    (labkit.statistics.verdicts.judge_rungs). What a comparison is `lacking`
    (labkit.experiments.regime) stands on the card, and leaves it without a verdict, too. `unit`
    names what the sample is of (not seeds or runs); of one value, what its `interval` is.

    A finding that was locked (labkit.experiments.locks) is judged on the rungs and with the number
    of seeds that its lock names, and seed by seed where its lock says so; until they are there the
    card shows a first look, and that the lock waits. `since` says when the first of its runs began,
    where the ladder does not, of both sides of a comparison; `looked` the same of runs that were
    seen before, as those that searched its rate: the card says whether the lock was earlier.

    `tried` says how somebody tried to break a finding, in words: at a `second value` of what is
    varied, at the `last step` that probes looked at, with which `control`. What is not named the
    card calls not tried. A comparison on the ladder says by itself on which rungs it stands, and
    that each arm has its own rate.

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
    _check_words(id, kind, domain, ours, in_range)
    rule = parse_criterion(criterion)
    lock = None if kind == "exact" else find_lock(project_root(), id)
    estimate, rungs, waits = _read_values(id, values, kind, interval, lock)
    if rungs:
        numbers["rung"] = _choose_rung(rungs)
    if lock is not None:
        refuse_difference(lock, _list_asked(said, criterion, estimate))
    if (rule.two_sided and kind != "exact") or effect is not None:
        _check_margin(id, rule, criterion, kind, effect, predicted)
    if tolerance is None and rtol is None:
        tolerance, rtol = _choose_tolerance(estimate)
    verdict, only = _judge_values(estimate, rungs, rule, lacking)
    tried = _list_trials(tried, rungs, kind)
    weak = is_weak_on_rungs(*_split_rungs(rungs), rule) if rungs else is_weak(estimate, rule)
    weak = weak and in_range and not lacking
    if not since:
        since, looked = _find_starts(list(rungs.values()) or [estimate])
    judged = Claim(
        id=id,
        said=said,
        wording=statement,
        numbers=_collect_numbers(statement, estimate, numbers),
        estimate=estimate,
        source=source,
        criterion=criterion,
        kind=kind,
        verdict=verdict if in_range else "out-of-range",
        weak=weak,
        published=published,
        domain=(domain and {"theirs": domain, "ours": ours, "inside": in_range}) or None,
        effect=effect,
        predicted=predicted,
        primary=primary,
        derived_from=tuple(derived_from),
        rungs=rungs,
        only=only if in_range else None,
        word=None if kind == "exact" or waits else choose_word(lock, since, looked),
        lock=lock and _sum_up_lock(lock, waits),
        lacking=tuple(lacking),
        unit=unit,
        tried=tried,
        tolerance=tolerance,
        rtol=rtol,
    )
    _show_claim(judged)
    return judged


def _check_words(id: str, kind: str, domain: str | None, ours: str | None, in_range: bool) -> None:
    """Refuse an id, a kind or a domain that no card could show."""
    if not re.fullmatch(r"(?:[A-Z]-)?[a-z0-9][a-z0-9*.-]*", id):
        raise ValueError(
            "a claim's id has lower-case letters, digits, - and ., after the number of its chapter "
            f"or the letter of its shelf; got {id!r}"
        )
    if kind not in KINDS:
        raise ValueError(explain_unknown("kind", kind, KINDS))
    if (domain is None) != (ours is None) or (domain is None and not in_range):
        raise ValueError(
            f"a claim names the source's domain and ours together, {id!r} has domain={domain!r} "
            f"and ours={ours!r}; give both, or neither and leave in_range alone"
        )


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


def _read_values(
    id: str,
    values: Values | Mapping[str, Sequence[float] | Difference],
    kind: str,
    interval: Interval | None,
    lock: Lock | None,
) -> tuple[Estimate, dict[str, Estimate], list[str]]:
    """Make the estimate that reports, those of all rungs, and what a lock still waits for.

    A lock that waits for nothing is judged on its own rungs alone.
    """
    paired = lock is not None and lock.paired
    if not isinstance(values, Mapping):
        estimate = _make_estimate(id, values, kind, interval)
        return (_pair_seeds(id, estimate) if paired else estimate), {}, []
    rungs, waits = _read_rungs(id, values, kind), list[str]()
    if lock is not None and not (waits := _describe_waiting(lock, rungs)):
        rungs = {rung: one for rung, one in rungs.items() if rung in (lock.rungs or rungs)}
    if paired:
        # While a lock waits, a rung without shared seeds shows its first look as it is.
        rungs = {
            rung: one if waits and not has_pairs(one) else _pair_seeds(id, one)
            for rung, one in rungs.items()
        }
    return rungs[_choose_rung(rungs)], rungs, waits


def _pair_seeds(id: str, one: Estimate) -> Estimate:
    """Compare two arms seed by seed, as their lock asks."""
    if not isinstance(one, Difference):
        raise LockError(
            f"claim {id!r} was locked seed by seed, and the chapter gives one sample; give what "
            "ladder.lead returns, or lock the claim anew"
        )
    return one.pair()


def _judge_values(
    estimate: Estimate, rungs: Mapping[str, Estimate], rule: Criterion, lacking: Sequence[str]
) -> tuple[str, str | None]:
    """Return the verdict and, of the ladder, where it holds alone."""
    if not rungs:
        return judge_estimate(estimate, rule, lacking), None
    return judge_rungs(*_split_rungs(rungs), rule, lacking)


def _split_rungs(rungs: Mapping[str, Estimate]) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
    """Split what the ladder says into sizes and directions."""
    sizes = {rung: one for rung, one in rungs.items() if rung not in DIRECTIONS}
    return sizes, {rung: one for rung, one in rungs.items() if rung in DIRECTIONS}


def _find_starts(estimates: Sequence[Estimate]) -> tuple[str, str | None]:
    """Find when the first run began that these judge, and the first of all; "" if unknown."""
    found = [one for one in estimates if isinstance(one, Difference)]
    looks = [one.looked for one in found if one.looked is not None]
    return min((one.since for one in found), default=""), min(looks, default=None)


def _choose_tolerance(estimate: Estimate) -> tuple[float | None, float | None]:
    """Choose how far a later mean may lie: (in the unit, as a share), one of them None."""
    low, high = estimate.compute_interval()
    half = (high - low) / 2
    if not estimate.mean:
        return half, None  # zero has no share
    return None, max(SHARE, half / abs(estimate.mean))


def _make_estimate(
    id: str,
    values: Values,
    kind: str,
    interval: Interval | None,
) -> Estimate:
    """Make an estimate of what was measured, and refuse what is none."""
    if isinstance(values, Proportion | Gap | Difference):
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
    if kind != "exact" and seeds.flat:
        raise ValueError(
            f"an interval of width 0 is no evidence, and claim {id!r} has "
            f"{len(sample)} value{'s' * (len(sample) > 1)} of {sample[0]:g}; measure it with "
            "several seeds or turns; if runs are counted, give proportion(flags); if it is algebra "
            "or a count, its kind is 'exact'"
        )
    return seeds


def _read_rungs(
    id: str, values: Mapping[str, Sequence[float] | Difference], kind: str
) -> dict[str, Estimate]:
    """Make an estimate of each rung of the ladder."""
    if not values or not all(isinstance(of, Difference) or of for of in values.values()):
        raise ValueError(
            f"claim {id!r} reads the ladder, but no rung has reported for both arms; train them "
            "with: make runs ONLY=ladder"
        )
    return {rung: _make_estimate(id, of, kind, None) for rung, of in values.items()}


def _choose_rung(rungs: Mapping[str, Estimate]) -> str:
    """Choose the rung that reports: the largest size, or else the first direction."""
    sizes = [rung for rung in rungs if rung not in DIRECTIONS]
    return sizes[-1] if sizes else next(iter(rungs))


def _list_asked(said: str | None, criterion: str, estimate: Estimate) -> dict[str, object]:
    """List what a claim asks, to be held against its lock."""
    asked: dict[str, object] = {"said": said, "criterion": criterion}
    return asked | ({"arms": estimate.arms} if isinstance(estimate, Difference) else {})


def _list_trials(
    tried: Mapping[str, str] | None, rungs: Mapping[str, Estimate], kind: str
) -> dict[str, str]:
    """List what was tried against a finding; what its kind says by itself is added.

    Where nobody says anything, and of what is exact, the card says nothing either.
    """
    known = {}
    if kind != "exact" and (tried is not None or rungs):
        if len(rungs) > 1:
            known["second value"] = f"rungs {' and '.join(rungs)}"
        if rungs and kind == "best":
            known["last step"] = "the test loss at the end"
        if kind == "best":
            known["control"] = "each at its own rate"
        if kind == "range":
            known["control"] = "every rate of the range"
    found = known | dict(tried or {})
    if unknown := [name for name in found if name not in TRIED]:
        raise ValueError(explain_unknown("trial", unknown[0], TRIED))
    return found


def _sum_up_lock(lock: Lock, waits: Sequence[str]) -> Mapping[str, object]:
    """Say of a lock what a card shows: when, how likely, and what it waits for."""
    kept = {"at": lock.at, "probability": lock.probability, "sum": lock.compute_sum()}
    return kept | ({"waits": list(waits)} if waits else {})


def _describe_waiting(lock: Lock, rungs: Mapping[str, Estimate]) -> list[str]:
    """Say which seeds of a lock have not reported yet; a first look may not pass for them."""
    pairs = {rung: one for rung, one in rungs.items() if isinstance(one, Difference)}
    seeds = {
        rung: len(one.pairs) if lock.paired else min(len(one.one), len(one.other))
        for rung, one in pairs.items()
    }
    return describe_waiting(lock, seeds) if lock.rungs else []


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
