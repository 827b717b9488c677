"""Claims: sentences with numbers that a run produced, judged by a criterion written before it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from labkit.display import CLAIM, publish_bundle
from labkit.experiments.card_html import KINDS, VERDICTS
from labkit.experiments.cards import Claim
from labkit.experiments.promises import check_margin, estimate_of, means_of, numbers_of
from labkit.statistics.criteria import Interval, parse_criterion
from labkit.statistics.proportions import Gap, Proportion
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
    tolerance: float | None = None,
    rtol: float | None = None,
    **numbers: float | str,
) -> Claim:
    """Judge and show a claim.

    `values` has one number per seed: what the criterion is about (a difference between paired
    seeds, say). Runs that did something or not are counted: `proportion(flags)`, or one proportion
    minus another. Of the shared ladder they come by rung, the smallest first: the largest reports,
    and where another rung's mean is on the other side of the criterion, nothing has been seen.
    What a comparison is `lacking` (labkit.experiments.regime) stands on the card, and leaves it
    without a verdict, too.

    `said` is the sentence that is tested, in words and without our numbers: what a source says, or
    what we predicted. `statement` is what was found. Simple math is typeset in both: d_k, x^2,
    3e-16. The statement may hold {mean}, {low}, {high}, {n} and any of `numbers`, with a format
    such as {mean:.3f}; of proportions also {k}, {other_k} and {other_n}, of the ladder {rung}.
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
        rungs = means_of(id, values)
        *_, numbers["rung"] = values
        values = values[numbers["rung"]]
    estimate = estimate_of(id, values, kind, interval)
    if (rule.two_sided and kind != "exact") or effect is not None:
        check_margin(id, rule, criterion, kind, effect, predicted)
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
        numbers=numbers_of(statement, estimate, numbers),
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
