"""python3 gpu_hour.py: work on an hour on a GPU for a slice of time; call it again, and it goes on.

Needs Python 3.11, torch with CUDA, triton, numpy, scipy, pandas and matplotlib: no set-up, no
network. What came out is one file, gpu-hour-DEVICE.tar.gz, whole at any moment: bring it back.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

from labkit.experiments.gpu_hour.commands import AT_ONCE, HERE, RUNG_ARMS, Hour
from labkit.experiments.gpu_hour.slices import Clock, State, run_slice
from labkit.experiments.ladder.rungs import ARMS, RUNGS
from labkit.system.files import make_slug


def main(argv: list[str] | None = None) -> int:
    """Work for one slice: 0 all is done, 1 it cannot go on, 2 there is more to do."""
    options = parser().parse_args(argv)
    pack, clock = Path(options.pack).resolve(), Clock(options.speed)
    begun = clock.now()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    arms = [name_arm(said) for said in options.arms] or None
    hour = Hour(pack, work, clock, options.rehearse, options.at_once, options.rungs, arms)
    who = hour.start("-m", f"{HERE}.measure", "who")
    who.process.wait()
    if not who.has_ended() or who.process.returncode:
        print("gpu_hour: " + "\n".join(who.lines[-20:]), file=sys.stderr)
        return 1
    facts = hour.read("who.json") | {"commit": hour.read_pack()["commit"]}
    name = f"gpu-hour-{make_slug(facts['device'])}"
    hour.base, out = work / name, options.out.resolve() / f"{name}.tar.gz"
    os.environ["GPU_HOUR_COMMIT"] = facts["commit"]
    before = pack / out.name
    if not (hour.base / "state.json").exists() and before.is_file():
        hour.restore(before)
        print(f"goes on from {before.name}")
    records = hour.base / "data" / "records"
    records.mkdir(parents=True, exist_ok=True)
    for path in (pack / "data" / "records").glob("*.jsonl"):
        shutil.copyfile(path, records / path.name)
    state = State(hour.base / "state.json", options.rehearse)
    state.meet(facts)
    if hour.list_waiting():
        state.note("ladder")["state"] = "begun"  # other arms are asked for than before
    last = [0.0]

    def keep(always: bool = False) -> None:
        if always or clock.now() > last[0] + 60:
            hour.archive(out)
            last[0] = clock.now()

    seconds = 60 * options.minutes - (clock.now() - begun)
    steps = [s for s in hour.list_steps() if not options.only or s.name in options.only]
    try:
        whole = run_slice(state, steps, seconds, clock, keep)
    except KeyboardInterrupt:
        whole = False
    keep(always=True)
    failed = [s.name for s in steps if state.note(s.name)["state"] == "failed"]
    print(f"bring back {out}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    if whole:
        return 1 if failed else 0
    print("the same command goes on where this one stopped")
    return 2


def name_arm(said: str) -> tuple[str, str]:
    """Read "D24 hybrid*": a rung, and one of the ladder's arms."""
    rung, _, arm = said.partition(" ")
    if rung not in RUNGS or arm not in ARMS:
        raise SystemExit(
            f"--arms: each is a rung and an arm, such as 'D24 hybrid*'; got {said!r}. Rungs: "
            f"{', '.join(RUNGS)}. Arms: {'; '.join(ARMS)}"
        )
    return rung, arm


def parser() -> argparse.ArgumentParser:
    """Describe the command."""
    here = Path(os.environ.get("GPU_HOUR_PACK", Path.cwd()))
    top = argparse.ArgumentParser("gpu_hour.py", description=__doc__)
    top.add_argument("--minutes", type=float, default=9, help="of this slice (default: 9)")
    top.add_argument("--work", type=Path, default=here / "work", help="what is kept between slices")
    top.add_argument("--out", type=Path, default=here, help="the folder of what to bring back")
    top.add_argument("--only", nargs="+", metavar="STEP", help="these steps, by their names")
    top.add_argument("--at-once", type=int, default=AT_ONCE, help=f"arms (default: {AT_ONCE})")
    top.add_argument("--rungs", nargs="+", choices=RUNG_ARMS, default=tuple(RUNG_ARMS))
    top.add_argument(
        "--arms", nargs="+", default=(), metavar="'RUNG ARM'", help="these alone, in this order"
    )
    top.add_argument("--rehearse", action="store_true", help="no GPU: tiny sizes, on the CPU")
    top.add_argument("--speed", type=float, default=1, help="of the rehearsal's clock")
    top.add_argument("--pack", default=here, help=argparse.SUPPRESS)
    return top


if __name__ == "__main__":
    sys.exit(main())
