"""Say what a build's training will take, and refuse it where that is more than was allowed."""

from collections.abc import Sequence
from pathlib import Path

from labkit.book.chapters import Chapter
from labkit.book.files import Red
from labkit.book.grids import look, prepare

LATER = "runs that wait for the results of these are not counted"


def afford(
    root: Path, chosen: Sequence[Chapter], profile: str, seed: int, budget: str | float
) -> None:
    """Print the expected time of the runs that these chapters lack; Red when it is over budget."""
    prepare(root)
    from labkit.experiments.budget import estimate, format_duration, parse_duration, within
    from labkit.experiments.lab import device_of
    from labkit.experiments.store import Store
    from labkit.pool import Pool

    allowed, device, slots = parse_duration(budget), device_of(profile), Pool(root).slots
    store, missing = Store(root, device), {}
    for chapter in chosen:
        missing |= {run.key(device): run for run in look(chapter, profile, seed).missing}
    runs = list(missing.values())
    try:
        within(runs, store, slots, allowed)
    except ValueError as error:
        raise Red(f"{error} ({LATER}); nothing was trained") from error
    expected = estimate(runs, store, slots)
    print(f"budget {format_duration(allowed)}: {expected}" + (f" ({LATER})" if runs else ""))
