"""The command `python -m normkernels.bench`: exit 0 fine, 1 red, 2 misuse."""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from normkernels.bench.device import Gpu, Pretend
from normkernels.bench.measure import DeviceLost, describe_entry, measure_size
from normkernels.bench.operations import OPERATIONS
from normkernels.bench.plan import PHASES, plan_sizes
from normkernels.bench.providers import NAMES, Call, find_call
from normkernels.bench.results import Results, choose_path
from normkernels.launch import INTERPRETED

DRY = "**DRY RUN.** Triton's interpreter on a CPU, at tiny sizes: the numbers are no measurements."
LONGEST = 30.0  # seconds that a size may take, until one has been seen to take longer


def main(argv: list[str] | None = None) -> int:
    """Run one command."""
    argv = sys.argv[1:] if argv is None else argv
    options = build_parser().parse_args(argv)
    if options.dry_run and not INTERPRETED:  # Triton reads this when it is imported
        here = [sys.executable, "-m", "normkernels.bench", *argv]
        os.execve(sys.executable, here, os.environ | {"TRITON_INTERPRET": "1"})
    try:
        device = Pretend() if options.dry_run else Gpu()
        print(DRY if device.dry else device.name, flush=True)
        with device.work():
            return measure_sizes(options, device)
    except ValueError as error:
        print(f"normkernels.bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; what is done is kept, the same command goes on", file=sys.stderr)
        return 1


def build_parser() -> argparse.ArgumentParser:
    """Describe the command."""
    top = argparse.ArgumentParser("python -m normkernels.bench", description=__doc__)
    top.add_argument("--minutes", type=float, default=8, help="stop before this long (default: 8)")
    top.add_argument("--out", type=Path, help="the file (default: data/bench/DEVICE.json)")
    top.add_argument("--kernels", nargs="+", choices=OPERATIONS, default=[*OPERATIONS])
    top.add_argument("--phases", nargs="+", choices=PHASES, default=[*PHASES])
    top.add_argument("--commit", help="of the sources, where git is absent")
    top.add_argument("--dry-run", action="store_true", help="no GPU: tiny sizes, interpreted")
    return top


def measure_sizes(
    options: argparse.Namespace,
    device: Gpu | Pretend,
    find: Callable[[str, str], Call | str] = find_call,
) -> int:
    """Measure size after size until the time is up or all is done.

    options    of `build_parser`
    find       gives the call of a provider for a kernel, or the reason why there is none
    """
    start = time.monotonic()
    results = Results(options.out or choose_path(device), device, options.commit)
    # On a CPU torch.compile needs a C++ compiler, which is not asked of anybody.
    every = tuple(name for name in NAMES if not (device.dry and name == "compile"))
    work = [
        (case, ("normkernels", "torch") if phase == "targets" else every)
        for phase, case in plan_sizes(options.kernels, tuple(options.phases), device.dry)
    ]
    longest, done = 0.0 if device.dry else LONGEST, 0
    for case, names in work:
        began = time.monotonic()
        if results.has(case.key, names):
            continue
        if began - start + longest > 60 * options.minutes:
            break
        crashed = results.data["crashed"]
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
        longest, done = max(longest, entry["seconds"]), done + 1
        results.add(case.key, entry)
        print(describe_entry(case.key, entry), flush=True)
    if done:
        results.end_slice(device, (time.monotonic() - start) / 60)
    left = sum(not results.has(case.key, names) for case, names in work)
    print(f"{done} sizes measured, {left} left; {results.path}")
    if left:
        print("the same command goes on where this one stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
