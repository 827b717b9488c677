"""The verdict of an estimate on a criterion.

holds          the whole 95 % interval meets the criterion
contradicted   the whole 95 % interval lies on one side that does not
not-seen       otherwise

For "in [a, b]" an estimate holds where its 90 % interval lies inside: two one-sided tests at 5 %
each (Schuirmann 1987). Two proportions are told apart by Fisher's exact test at 5 %. A finding on a
ranking has the same sign on every rung of the ladder that was run, and lacks nothing that such a
comparison needs; else nothing has been seen.
"""

from collections.abc import Collection

from labkit.statistics.criteria import Criterion, Estimate
from labkit.statistics.proportions import Gap

LEVEL = 0.05


def judge_estimate(
    estimate: Estimate,
    criterion: Criterion,
    rungs: Collection[float] = (),
    lacking: Collection[str] = (),
) -> str:
    """Judge an estimate: holds, contradicted, or not-seen.

    `rungs` are the means on all rungs, `lacking` the conditions that the comparison does not meet.
    """
    if lacking or len({criterion.is_met(mean) for mean in rungs}) > 1:
        return "not-seen"
    if isinstance(estimate, Gap):
        p = estimate.p_value(criterion)
        if p is None:
            raise ValueError(
                "two proportions are compared by Fisher's exact test, which asks whether they "
                f"differ; got bounds at {criterion.bounds}. Ask for '> 0' or '< 0'"
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


def is_weak(estimate: Estimate, criterion: Criterion) -> bool:
    """Return whether leaving out one run changes the verdict."""
    whole = judge_estimate(estimate, criterion)
    return any(judge_estimate(other, criterion) != whole for other in estimate.without_one())
