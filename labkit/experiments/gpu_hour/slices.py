"""In which order an hour on a GPU goes, for how long, and what was done of it so far.

    state.json   {"format": 1, "rehearsal": …, "who": {device, versions, commit}, "slices": […],
                  "steps": {name: {"state": begun|done|failed, "seconds": …, "said": …}}}

A step that has had its share of time makes room; what it left is a step of its own, further down.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from labkit.system.files import write_whole

FORMAT = 1
LEAST = 20.0  # seconds without which nothing is begun


@dataclass(frozen=True)
class Outcome:
    """What one call of a step left behind: its state, and in a line how it stands."""

    state: str  # begun, done or failed
    said: str = ""


@dataclass(frozen=True)
class Step:
    """One step: what it does with so many seconds, and how many it may have before others do.

    `trusting`: without a check that held it is left out.
    """

    name: str
    work: Callable[[float, Callable[[float], None]], Outcome]
    most: float = math.inf
    trusting: bool = False


@dataclass(frozen=True)
class Clock:
    """Seconds; `speed` times as many as on the wall, in a rehearsal."""

    speed: float = 1.0
    read: Callable[[], float] = time.monotonic

    def now(self) -> float:
        """Return the time."""
        return self.read() * self.speed

    def on_the_wall(self, seconds: float) -> float:
        """Return how long so many seconds take for a program that knows no other clock."""
        return seconds / self.speed


class State:
    """The file that says what was done."""

    def __init__(self, path: Path, rehearsal: bool):
        self.path = path
        self.data: dict[str, Any] = {
            "format": FORMAT, "rehearsal": rehearsal, "who": {}, "slices": [], "steps": {},
        }  # fmt: skip
        if path.exists():
            self.data = json.loads(path.read_text(encoding="utf-8"))
            if self.data["format"] != FORMAT or self.data["rehearsal"] != rehearsal:
                raise ValueError(
                    f"{path} is of another kind (a rehearsal, or an older format); name another "
                    "folder with --work"
                )

    def meet(self, who: dict[str, Any]) -> None:
        """Note who computes. With other versions, or where it failed, the check is due again."""
        if self.data["who"] != who or self.note("check")["state"] == "failed":
            self.data["who"] = who
            self.data["steps"].pop("check", None)
        self.save()

    def note(self, name: str) -> dict[str, Any]:
        """Return what is known of a step."""
        fresh = {"state": "begun", "seconds": 0.0, "said": ""}
        return self.data["steps"].setdefault(name, fresh)

    def is_over(self, step: Step) -> bool:
        """Return whether nothing is left of a step: it ended, had its share, or may not begin."""
        note, distrusted = self.note(step.name), self.note("check")["state"] == "failed"
        late = note["state"] != "begun" or note["seconds"] >= step.most
        return late or (step.trusting and distrusted)

    def save(self) -> None:
        """Write it whole."""
        write_whole(self.path, json.dumps(self.data, indent=1, ensure_ascii=False) + "\n")


def run_slice(
    state: State,
    steps: Sequence[Step],
    seconds: float,
    clock: Clock,
    keep: Callable[[], object] = lambda: None,
) -> bool:
    """Work on the steps in order until the time is up; return whether nothing is left.

    `keep` is called now and then.
    """
    began = clock.now()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    slice_ = {"at": now, "seconds": 0.0}
    state.data["slices"].append(slice_)
    for step in steps:
        if state.is_over(step):
            continue
        note = state.note(step.name)
        left = seconds - (clock.now() - began)
        if left < LEAST:
            break
        before, start = note["seconds"], clock.now()

        def charge(taken: float, note: dict[str, Any] = note, before: float = before) -> None:
            note["seconds"], slice_["seconds"] = round(before + taken, 1), clock.now() - began
            state.save()
            keep()

        print(
            f"== {step.name}: at most {min(left, step.most - before) / 60:.1f} minutes", flush=True
        )
        outcome = step.work(min(left, step.most - before), charge)
        note["state"], note["said"] = outcome.state, outcome.said
        charge(clock.now() - start)
        print(f"== {step.name}: {outcome.state}; {outcome.said}", flush=True)
    slice_["seconds"] = round(clock.now() - began, 1)
    state.save()
    keep()
    return all(map(state.is_over, steps))
