"""A comparison of two arms that was locked: its card, or what it waits for."""

from collections.abc import Mapping
from typing import Any

from labkit.experiments import ladder
from labkit.experiments.cards import Claim
from labkit.experiments.locks import find_lock
from labkit.experiments.old_claim import claim
from labkit.system.root import project_root


def claim_locked(
    found: ladder.Ladder,
    id: str,
    source: str,
    *,
    names: Mapping[str, str] | None = None,
    **more: Any,
) -> Claim | None:
    """Show the card of a locked comparison on the ladder; where its runs are missing, say so.

    Sentence, criterion, arms and rungs are the lock's. `names` says what an arm is called on the
    card; `more` goes to `claim`, such as `published` or `domain` and `ours`.

    Raises:
        ValueError: no lock of two arms has this id.
    """
    lock = find_lock(project_root(), id)
    if lock is None or len(lock.arms) != 2:
        raise ValueError(
            f"a locked comparison has two arms, and {id!r} has no such lock; "
            "`labkit claims lock` writes one, `labkit claims locks` lists them"
        )
    leads = ladder.improvement(found, *lock.arms)
    if not {*lock.rungs} <= {*leads}:
        print(f"{id} waits for its runs. Asked: {lock.said} We give it {lock.probability:.0%}.")
        return None
    one, other = ((names or {}).get(arm, arm) for arm in lock.arms)
    return claim(
        id,
        "On {rung} {one} ends {apart:.4f} nats {side} {other}.",
        {rung: leads[rung] for rung in lock.rungs},
        said=lock.said,
        one=one,
        other=other,
        source=source,
        criterion=lock.criterion,
        kind="best",
        lacking=ladder.lacking_on(found, lock.rungs[-1], *lock.arms),
        **more,
    )
