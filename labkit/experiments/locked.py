"""A comparison of two arms that was locked: its card, or what it waits for."""

from collections.abc import Mapping
from typing import Any

from labkit.experiments import ladder
from labkit.experiments.cards import Claim
from labkit.experiments.locks import find_lock
from labkit.system.root import project_root


def claim_locked(
    found: ladder.Ladder,
    id: str,
    source: str,
    *,
    names: Mapping[str, str] | None = None,
    effect: float | None = None,
    **more: Any,
) -> Claim | None:
    """Show the card of a locked comparison on the ladder; where its runs are missing, say so.

    Sentence, criterion, arms and rungs are the lock's. `names` says what an arm is called on the
    card; `effect` is what the margin of a criterion with two bounds is a share of; `more` goes to
    the comparison's `claim`, such as `published` or `domain`.

    Raises:
        ValueError: no lock of two arms has this id.
    """
    lock = find_lock(project_root(), id)
    if lock is None or len(lock.arms) != 2:
        raise ValueError(
            f"a locked comparison has two arms, and {id!r} has no such lock; "
            "`labkit claims lock` writes one, `labkit claims locks` lists them"
        )
    one, other = ((names or {}).get(arm, arm) for arm in lock.arms)
    return ladder.improvement(found, *lock.arms).claim(
        id,
        lock.criterion if effect is None else f"{lock.criterion} of {effect}",
        lock.said,
        found="On {rung} {one} ends {apart:.4f} nats {side} {other}.",
        source=source,
        beside={"one": one, "other": other},
        **more,
    )
