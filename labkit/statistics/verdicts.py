"""The verdict of an estimate on a criterion.

holds          the whole 95 % interval meets the criterion
contradicted   the whole 95 % interval lies beyond one bound
not-seen       otherwise

For "in [a, b]" an estimate holds if its 90 % interval lies inside: two one-sided tests at 5 % each
(Schuirmann 1987). Two proportions differ if Fisher's exact test says so at 5 %.

On the shared ladder every rung is judged like this, and then all rungs together (`judge_rungs`):

not-seen       the means of two sizes lie on different sides of the criterion
contradicted   one size is contradicted
not-seen       a variant is contradicted, or no size holds
holds          two or more sizes hold
holds-on-one   one size holds

The first line that applies counts. If only one rung holds or is contradicted, it is named. If no
size was run, variants replace the sizes, with holds-on-one as the best verdict. A comparison that
does not meet a requirement is not-seen.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeVar

from labkit.statistics.criteria import Criterion, Estimate
from labkit.statistics.proportions import Gap

T = TypeVar("T")
LEVEL = 0.05
DIRECTIONS = ("D", "D24", "W", "C", "MW")  # rungs that are variants of one size


def judge_estimate(estimate: Estimate, criterion: Criterion, lacking: Collection[str] = ()) -> str:
    """Judge an estimate: holds, contradicted, or not-seen.

    `lacking` are requirements that the comparison fails; if there are any, it is `not-seen`.
    """
    if lacking:
        return "not-seen"
    if isinstance(estimate, Gap):
        p = estimate.p_value(criterion)
        if p is None:
            raise ValueError(
                "a difference of proportions can be tested only against 0, with Fisher's exact "
                f"test; got bounds at {criterion.bounds}; use '> 0' or '< 0'"
            )
        if p > LEVEL:
            return "not-seen"
        return "holds" if criterion.is_met(estimate.mean) else "contradicted"
    if criterion.contains_interval(
        estimate.compute_interval(1 - 2 * LEVEL if criterion.two_sided else 1 - LEVEL)
    ):
        return "holds"
    return (
        "contradicted" if criterion.excludes_interval(estimate.compute_interval()) else "not-seen"
    )


def split_rungs(rungs: Mapping[str, T]) -> tuple[dict[str, T], dict[str, T]]:
    """Split the ladder's rungs into sizes and variants."""
    sizes = {rung: one for rung, one in rungs.items() if rung not in DIRECTIONS}
    return sizes, {rung: one for rung, one in rungs.items() if rung in DIRECTIONS}


def judge_rungs(
    rungs: Mapping[str, Estimate], criterion: Criterion, lacking: Collection[str] = ()
) -> tuple[str, str | None]:
    """Judge a comparison on the ladder; if only one rung decides it, return that rung too."""
    sizes, directions = split_rungs(rungs)
    alike = {criterion.is_met(one.mean) for one in (sizes or directions).values()}
    if lacking or len(alike) > 1:
        return "not-seen", None
    of_size = {rung: judge_estimate(one, criterion) for rung, one in sizes.items()}
    beside = {rung: judge_estimate(one, criterion) for rung, one in directions.items()}
    judged = of_size or beside
    holding = [rung for rung, verdict in judged.items() if verdict == "holds"]
    against = [rung for rung, verdict in judged.items() if verdict == "contradicted"]
    if against:
        return "contradicted", against[0] if len(against) == 1 else None
    if not holding or "contradicted" in beside.values():
        return "not-seen", None
    if len(holding) > 1 and sizes:
        return "holds", None
    return "holds-on-one", holding[-1]


def is_weak_on_rungs(rungs: Mapping[str, Estimate], criterion: Criterion) -> bool:
    """Return whether leaving out one run, of any rung, changes the verdict of the ladder."""
    whole, _ = judge_rungs(rungs, criterion)
    return any(
        judge_rungs({**rungs, rung: other}, criterion)[0] != whole
        for rung, one in rungs.items()
        for other in one.without_one()
    )


def is_weak(estimate: Estimate, criterion: Criterion) -> bool:
    """Return whether leaving out one run changes the verdict."""
    whole = judge_estimate(estimate, criterion)
    return any(judge_estimate(other, criterion) != whole for other in estimate.without_one())


class Judgement(NamedTuple):
    """A claim's verdict, the rung if only one decides it, and whether a single run decides it."""

    verdict: str
    only: str | None = None
    weak: bool = False


def judge_claim(
    result: Estimate | Mapping[str, Estimate],
    criterion: Criterion,
    *,
    lacking: Collection[str] = (),
    waits: bool = False,
    inside: bool = True,
) -> Judgement:
    """Judge the result of a claim: an estimate, or one for each rung of the ladder.

    There is no verdict if its preregistered runs are missing (`waits`), or if our runs are outside
    the domain of the source's statement (`inside=False`).
    """
    if waits:
        return Judgement("waits")
    if not inside:
        return Judgement("out-of-range")
    if isinstance(result, Mapping):
        verdict, only = judge_rungs(result, criterion, lacking)
        return Judgement(verdict, only, not lacking and is_weak_on_rungs(result, criterion))
    verdict = judge_estimate(result, criterion, lacking)
    return Judgement(verdict, weak=not lacking and is_weak(result, criterion))
