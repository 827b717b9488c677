"""Measure the grading time of a class: python -m tests.homework.class_of_300 [--students 300]

It writes a class's submissions to two questions, grades them with a fresh worker per question, and
prints the figure. A program and no test: what it says depends on who else uses the machine.
"""

import argparse
import tempfile
import time
from pathlib import Path

from labkit.system.pool import count_cores
from press.homework.grading import batch
from tests.homework.grading_case import CELLS, NAME, released, write


def main() -> None:
    """Grade one class and print the time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--students", type=int, default=300)
    parser.add_argument("--jobs", type=int)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = released(folder)
        for number in range(args.students):
            # Every submission differs, so that nothing could be remembered of another.
            write(folder / "in", f"s{number}", [*CELLS, f"def mine():\n    return {number}\n"])
        files = batch.find_submissions([folder / "in"], NAME)
        begun = time.perf_counter()
        done = batch.grade_class(files, path, folder / "out", jobs=args.jobs)
        seconds = time.perf_counter() - begun
    print(
        f"{len(done.graded)} submissions of two questions, "
        f"{args.jobs or count_cores()} examiners: {seconds:.1f} s, start included; "
        f"{60 * len(done.graded) / seconds:.0f} a minute"
    )


if __name__ == "__main__":
    main()
