"""Run the laws without pytest, on a GPU or interpreted; only torch and triton are needed.

    python -m tests.kernels --minutes 8        or  python tests/kernels --minutes 8
    python -m tests.kernels --workers 12       as many processes: compiling takes most of the time

Each check leaves a line. What is done is written to a file, and the next call goes on from there:
call again until nothing is left. `--fresh` forgets the file. Failures, told again at the end,
make the exit status 1; work left over makes it 2.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Parse the arguments, run the remaining checks, print the status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=8, help="stop before more have passed")
    parser.add_argument(
        "--only", nargs="*", default=[], help="checks whose names hold all of these"
    )
    parser.add_argument("--quick", action="store_true", help="leave the slow ones out")
    parser.add_argument("--list", action="store_true", help="name the checks and run none")
    parser.add_argument("--fresh", action="store_true", help="begin again")
    parser.add_argument("--state", type=Path, help="default: build/gpu-test/<device>.json")
    parser.add_argument("--workers", type=int, default=1, help="processes that share the checks")
    parser.add_argument("--share", type=int, nargs=2, metavar=("I", "N"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    sys.path[:0] = [str(ROOT), str(ROOT / "kernels")]
    import torch

    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
    from tests.kernels import laws

    chosen = [
        check
        for check in laws.checks()
        if all(text in check.name for text in asked.only) and not (asked.quick and check.slow)
    ]
    if asked.list:
        print(*(check.name for check in chosen), sep="\n")
        return 0
    name = torch.cuda.get_device_name() if laws.DEVICE.type == "cuda" else "interpreted"
    file = asked.state or ROOT / f"build/gpu-test/{name.lower().replace(' ', '-')}.json"
    known = {} if asked.fresh or not file.exists() else json.loads(file.read_text())
    stamp = _stamp()
    done = known.get("done", {}) if known.get("stamp") == stamp else {}
    until = time.monotonic() + 60 * asked.minutes
    head = {"device": name, "torch": torch.__version__, "stamp": stamp}
    if asked.workers > 1:
        found = _share_out(asked, file, head | {"done": done})
        # What lacked memory beside the others runs alone.
        done |= {n: one for n, one in found.items() if "GPU memory" not in one["reason"]}
        _write(file, head | {"done": done})
    if asked.share:
        first, every = asked.share
        chosen = chosen[first::every]
    left = 0
    for check in chosen:
        if check.name in done:
            continue
        if time.monotonic() > until:
            left += 1
            continue
        done[check.name] = result = _run(check, laws.Skip)
        print(f"{result['seconds']:7.2f} s  {result['outcome']:7}  {check.name}", flush=True)
        if result["outcome"] != "passed":
            print("          " + result["reason"].strip().replace("\n", "\n          "), flush=True)
        _write(file, head | {"done": done})
    if asked.share:
        return 0
    return _summary(name, {c.name: done[c.name] for c in chosen if c.name in done}, left)


def _share_out(
    asked: argparse.Namespace, file: Path, state: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Divide the checks among several processes; collect the results."""
    files = [file.with_suffix(f".{i}.json") for i in range(asked.workers)]
    minutes = max(0.1, asked.minutes - 0.3)  # they begin later, and end with a check in hand
    words = ["--minutes", str(minutes), *(["--quick"] if asked.quick else [])]
    words += ["--only", *asked.only] if asked.only else []
    running = []
    for i, own in enumerate(files):
        _write(own, state)
        share = ["--share", str(i), str(asked.workers), "--state", str(own)]
        running.append(subprocess.Popen([sys.executable, __file__, *words, *share]))
    for process in running:
        process.wait()
    found: dict[str, dict[str, Any]] = {}
    for own in files:
        found |= json.loads(own.read_text())["done"]
        own.unlink()
    return found


def _run(check: Any, skip: type[Exception]) -> dict[str, Any]:
    began = time.monotonic()
    outcome, reason = "passed", ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check.run()
    except skip as error:
        outcome, reason = "skipped", str(error)
    except Exception as error:
        outcome = "failed"
        reason = f"{type(error).__name__}: {error}\n" + "".join(
            traceback.format_tb(error.__traceback__)[-3:]
        )
    return {"outcome": outcome, "reason": reason, "seconds": round(time.monotonic() - began, 2)}


def _summary(device: str, done: dict[str, dict[str, Any]], left: int) -> int:
    count = {word: 0 for word in ("passed", "failed", "skipped")}
    for name, result in done.items():
        count[result["outcome"]] += 1
        if result["outcome"] == "failed":
            print(f"failed: {name}: {result['reason'].splitlines()[0]}")
    seconds = sum(result["seconds"] for result in done.values())
    told = ", ".join(f"{number} {word}" for word, number in count.items())
    print(f"{device}: {told}, {left} left to run; {seconds:.0f} s so far")
    return 1 if count["failed"] else 2 if left else 0


def _stamp() -> str:
    """Return a hash of kernels and tests: if it changes, all results are outdated."""
    files = sorted([*(ROOT / "kernels").rglob("*.py"), *Path(__file__).parent.glob("*.py")])
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def _write(file: Path, state: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_suffix(".new")
    beside.write_text(json.dumps(state, indent=1))
    beside.replace(file)


if __name__ == "__main__":
    sys.exit(main())
