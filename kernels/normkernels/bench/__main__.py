"""The command `python -m normkernels.bench`: exit 0 is success, 1 failure, 2 misuse."""

import argparse
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from normkernels.bench.device import Device
from normkernels.bench.measure import DeviceLost, describe_entry, measure_size
from normkernels.bench.operations import OPERATIONS
from normkernels.bench.plan import PHASES, choose_cases, plan_sizes
from normkernels.bench.providers import NAMES, Call, find_call
from normkernels.bench.results import Results
from normkernels.launch import INTERPRETED

DRY = "**DRY RUN.** Triton's interpreter on a CPU, at tiny sizes: the numbers are no measurements."
LONGEST = 30.0  # seconds that a size may take, until one has been seen to take longer


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    argv = sys.argv[1:] if argv is None else argv
    options = build_parser().parse_args(argv)
    if options.dry_run and not INTERPRETED:  # Triton reads this when it is imported
        here = [sys.executable, "-m", "normkernels.bench", *argv]
        os.execve(sys.executable, here, os.environ | {"TRITON_INTERPRET": "1"})
    try:
        device = Device(options.dry_run)
        print(DRY if device.dry else device.name, flush=True)
        if options.steps:
            from normkernels.bench.steps import record_steps  # needs labkit

            return record_steps(options, device)
        return measure_sizes(options, device)
    except ValueError as error:
        print(f"normkernels.bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; what is done is kept, the same command goes on", file=sys.stderr)
        return 1


def build_parser() -> argparse.ArgumentParser:
    """Make the command's parser."""
    top = argparse.ArgumentParser("python -m normkernels.bench", description=__doc__)
    top.add_argument("--minutes", type=float, default=8, help="stop before this long (default: 8)")
    top.add_argument("--out", type=Path, help="the file to write (default: in data/bench)")
    top.add_argument("--cases", default="", help="a regular expression: how their names begin")
    top.add_argument("--phases", nargs="+", choices=PHASES, default=[*PHASES])
    top.add_argument("--steps", action="store_true", help="measure whole training steps instead")
    top.add_argument("--commit", help="the sources' commit, if git is absent")
    top.add_argument("--dry-run", action="store_true", help="interpret tiny sizes without a GPU")
    return top


def choose_path(device: Device) -> Path:
    """Return the default file for this device's results."""
    slug = re.sub(r"[^a-z0-9]+", "-", device.name.lower()).strip("-")
    return Path("build", "bench-dry-run.json") if device.dry else Path("data/bench", f"{slug}.json")


def measure_sizes(
    options: argparse.Namespace,
    device: Device,
    find: Callable[[str, str], Call | str] = find_call,
) -> int:
    """Measure one size after another until the time is up or all are done.

    options    of `build_parser`
    find       returns the call of a provider for a kernel, or the reason why there is none
    """
    start = time.monotonic()
    results = Results(options.out or choose_path(device), device, options.commit)
    # On a CPU torch.compile needs a C++ compiler, which we do not require.
    names = [name for name in NAMES if not (device.dry and name == "compile")]
    cases = plan_sizes([*OPERATIONS], tuple(options.phases), device.dry)
    cases = choose_cases(cases, options.cases)
    left = [case for case in cases if case.key not in results.data["results"]]
    longest, crashed = 0.0 if device.dry else LONGEST, results.data["crashed"]
    while left and time.monotonic() - start + longest < 60 * options.minutes:
        case, began = left[0], time.monotonic()
        calls = {n: crashed.get(f"{n} {case.kernel}") or find(n, case.kernel) for n in names}
        try:
            entry = measure_size(case, calls, device)
        except DeviceLost as lost:
            crashed[f"{lost} {case.kernel}"] = reason = f"broke the device at {case.key}"
            results.save()
            print(f"{lost} {reason}: noted; call again to go on without it")
            return 1
        device.free()
        entry["seconds"] = round(time.monotonic() - began, 1)
        longest = max(longest, entry["seconds"])
        results.add(case.key, entry)
        print(describe_entry(case.key, entry), flush=True)
        del left[0]
    more = "; the same command goes on where this one stopped" if left else ""
    print(f"{len(left)} sizes left; {results.path}{more}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
