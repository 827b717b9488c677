"""Train entries by the ladder's rules, with its store and engines, and rank them.

strict   the learning rate is tuned with three seeds and evaluated with twenty, or as in the book
look     one seed, five rates, few steps: it reveals a norm that fails, but gives no ranking
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from labkit.experiments import Run, ladder
from labkit.experiments.engines import make_engine
from labkit.experiments.filling import train_missing
from labkit.experiments.ladder.method import MethodRuns
from labkit.experiments.ladder.rates import Read
from labkit.experiments.ladder.reading import read_results
from labkit.experiments.store import Store
from labkit.leaderboard.entries import Entry
from labkit.leaderboard.standings import Standings, rank_ladder
from labkit.system.root import project_root

RUNG = "S"
LOOK = 300  # steps of a look
Lister = Callable[[Read], list[Run]]


@dataclass(frozen=True)
class Look:
    """Validation losses of a look, by entry and learning rate; None if the run diverged."""

    losses: dict[str, dict[float, float | None]]
    steps: int

    def __str__(self) -> str:
        rates = next(iter(self.losses.values()))
        wide = max(map(len, self.losses))
        lines = [" " * wide + "".join(f"{rate:>10g}" for rate in rates)]
        for name, of in self.losses.items():
            cells = ("  diverged" if loss is None else f"{loss:10.3f}" for loss in of.values())
            lines.append(f"{name:<{wide}}" + "".join(cells))
        return "\n".join(
            [*lines, "", f"A look: validation losses after {self.steps} steps, one seed per rate. "
             "It shows what fails, and gives no order."]
        )  # fmt: skip


def compete(entries: Sequence[Entry], *, rung: str = RUNG, engine: str | None = None) -> Standings:
    """Train the missing runs of each entry's full evaluation on a rung, and rank all entries."""
    root = project_root()
    store = Store(root)
    own = {each.name: each.arm for each in entries if each.name not in ladder.ARMS}

    def list_lacking(read: Read) -> list[Run]:
        listed = [list_needed(rung, each.method, read) for each in entries]
        return [run for runs in listed for run in runs if read(run) is None]

    _train_until_whole(list_lacking, store, root, engine)
    read = cache(store.read_record)
    every = ladder.read_ladder([rung], [*ladder.ARMS], read)
    rows = (*every.rows, *read_results([rung], own, read).rows)
    return rank_ladder(
        ladder.Ladder(rows, every.scatters), {each.name: each.name for each in entries}, rung, own
    )


def list_needed(rung: str, method: str | ladder.Arm, read: Read) -> list[Run]:
    """List the runs of a full evaluation, and of the search that determines its learning rates."""
    of = MethodRuns(rung, method, read)
    if rung == "smoke":
        return [*of.first, *of.first_finals]
    return [*MethodRuns("S", method, read).first, *of.strict]


def _train_until_whole(list_lacking: Lister, store: Store, root: Path, engine: str | None) -> None:
    """Train missing runs until none are missing: later runs depend on earlier results."""
    trainer = make_engine(root, store.device, engine)
    try:
        while todo := list_lacking(cache(store.read_record)):
            distinct = {run.key(): run for run in todo}
            said = "runs are not stored and train now; Ctrl-C stops, the same command continues"
            print(f"labkit: {len(distinct)} {said}", file=sys.stderr)
            train_missing(distinct.values(), trainer)
    finally:
        trainer.close()


def look_at(
    entries: Sequence[Entry],
    *,
    rung: str = RUNG,
    steps: int = LOOK,
    engine: str | None = None,
) -> Look:
    """Train each entry for a few steps at five learning rates with one seed, without a ranking."""
    root = project_root()
    store = Store(root)
    runs = {each.name: _list_looks(each.arm, rung, steps) for each in entries}

    def list_lacking(read: Read) -> list[Run]:
        return [run for of in runs.values() for run in of if read(run) is None]

    _train_until_whole(list_lacking, store, root, engine)
    losses = {
        name: {run.train.lr: _read_loss(store, run) for run in of} for name, of in runs.items()
    }
    return Look(losses, steps)


def _list_looks(arm: ladder.Arm, rung: str, steps: int) -> list[Run]:
    base = ladder.build_base_run(rung, arm)
    steps = min(steps, base.train.steps)
    train = replace(base.train, steps=steps, warmup=round(arm.warmup * steps))
    return [
        ladder.configure_run(replace(base, train=train), rate, ladder.TUNING_SEED, ("validation",))
        for rate in ladder.COARSE
    ]


def _read_loss(store: Store, run: Run) -> float | None:
    record = store.read_record(run)
    return None if record is None else record.probes["validation"]["loss"]
