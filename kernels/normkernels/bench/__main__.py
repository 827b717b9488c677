"""The command `python -m normkernels.bench`: exit 0 fine, 1 red, 2 misuse."""

import argparse
import os
import sys
import time
from pathlib import Path

from normkernels.bench import report
from normkernels.bench.device import Gpu, Pretend
from normkernels.bench.measure import Lost, measure
from normkernels.bench.operations import OPERATIONS
from normkernels.bench.plan import PHASES, dry_plan, plan
from normkernels.bench.providers import NAMES
from normkernels.bench.results import Results, file_name
from normkernels.bench.tune import tune
from normkernels.launch import INTERPRETED


def main(argv: list[str] | None = None) -> int:
    """Run one command."""
    argv = sys.argv[1:] if argv is None else argv
    options = parser().parse_args(argv)
    if options.dry_run and not INTERPRETED:  # Triton reads this when it is imported
        here = [sys.executable, "-m", "normkernels.bench", *argv]
        os.execve(sys.executable, here, os.environ | {"TRITON_INTERPRET": "1"})
    try:
        device = Pretend() if options.dry_run else Gpu()
        print(report.NOTE.replace("> ", "").strip() if device.dry else device.name, flush=True)
        with device.working():
            if options.what == "tune":
                return tune(options.kernels, device, options.minutes)
            return run(options, device)
    except ValueError as error:
        print(f"normkernels.bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; what is done is kept, the same command goes on", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """Describe the command."""
    top = argparse.ArgumentParser("python -m normkernels.bench", description=__doc__)
    top.add_argument("what", nargs="?", choices=("run", "tune"), default="run")
    top.add_argument("--minutes", type=float, default=8, help="stop before this long (default: 8)")
    top.add_argument("--out", type=Path, help="the file (default: data/bench/DEVICE.json)")
    top.add_argument("--kernels", nargs="+", choices=OPERATIONS, default=[*OPERATIONS])
    top.add_argument("--phases", nargs="+", choices=PHASES, default=[*PHASES])
    top.add_argument("--commit", help="of the sources, where git is absent")
    top.add_argument("--dry-run", action="store_true", help="no GPU: tiny sizes, interpreted")
    return top


def run(options: argparse.Namespace, device: Gpu | Pretend) -> int:
    """Measure size after size until the time is up or all is done."""
    start = time.monotonic()
    results = Results(options.out or file_name(device), device, options.commit)
    # On a CPU torch.compile needs a C++ compiler, which is not asked of anybody.
    every = tuple(name for name in NAMES if not (device.dry and name == "compile"))
    make = dry_plan if device.dry else plan
    work = [
        (case, ("normkernels", "torch") if phase == "targets" else every)
        for phase, case in make(options.kernels, tuple(options.phases))
    ]
    longest, done = 0.0 if device.dry else 30.0, 0  # seconds of a size
    for case, names in work:
        began = time.monotonic()
        if results.has(case.key, names):
            continue
        if began - start + longest > 60 * options.minutes:
            break
        crashed = results.crashed(case.key)
        try:
            entry = measure(case, tuple(n for n in names if n not in crashed), device)
        except Lost as lost:
            results.crashed(case.key, str(lost))
            print(f"{lost} broke the device at {case.key}: noted; call again to go on without it")
            return 1
        reason = {"status": "failed", "reason": "broke the device's context"}
        entry["providers"] |= {name: reason for name in crashed}
        device.free()
        entry["seconds"] = round(time.monotonic() - began, 1)
        longest, done = max(longest, entry["seconds"]), done + 1
        results.add(case.key, entry)
        print(report.line(case.key, entry), flush=True)
    if done:
        results.slice["clocks_after"] = device.clocks()
        results.slice["minutes"] = round((time.monotonic() - start) / 60, 2)
        results.save()
        results.path.with_suffix(".md").write_text(report.table(results.data))
    rest = sum(not results.has(case.key, names) for case, names in work)
    print(f"{done} sizes measured, {rest} left; {results.path}, and its table beside it (.md)")
    if rest:
        print("the same command goes on where this one stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
