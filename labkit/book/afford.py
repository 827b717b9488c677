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
    from labkit.experiments.budget import estimate, refusal
    from labkit.experiments.durations import format_duration, parse_duration
    from labkit.experiments.engines import make_engine
    from labkit.experiments.lab import device_of
    from labkit.experiments.store import Store

    allowed, device, missing = parse_duration(budget), device_of(profile), {}
    for chapter in chosen:
        found = look(chapter, profile, seed)
        missing |= {run.key(device): run for run in found.missing}
        for fault in found.faults:
            print(f"red     {chapter.name}, {fault} (its runs are not counted)")
    engine = make_engine(root, device)
    try:
        runs, store = list(missing.values()), Store(root, device)
        expected = estimate(runs, store, engine.slots if runs else 1, measure=True)
    except RuntimeError as error:  # no cluster is there
        raise Red(str(error)) from error
    finally:
        engine.close()
    if refused := refusal(expected, allowed):
        raise Red(f"{refused} ({LATER}); nothing was trained")
    print(f"budget {format_duration(allowed)}: {expected}" + (f" ({LATER})" if runs else ""))
