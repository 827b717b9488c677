"""Replays detect changes that affect a number, and ignore others.

Quick: tiny runs, recorded into a root of their own. Slow: the book's records, replayed with one
planted change each. (That they replay without one, a build of the book shows.)
"""

import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from labkit.corpora import Text
from labkit.experiments import Run
from labkit.experiments.records import FIRST, Records, compute_checksum, from_row, to_row
from labkit.experiments.replay import OPENING, WHOLE, Replay, replay_run, retrain_run
from labkit.experiments.run import CPU, execute_run
from labkit.model import ModelConfig
from labkit.placements.residual import StreamNorm
from labkit.probes import PROBES
from labkit.system.files import write_whole
from labkit.system.provenance import collect_provenance
from labkit.training import TrainConfig
from press.book import asked, build, chapters, closure, replaying, replays
from press.book.chapters import Chapter
from tests.toy_book import make_book

ROOT = Path(__file__).resolve().parents[1]
Row = dict[str, Any]


# Quick: tiny runs.

MODEL = ModelConfig(dim=16, depth=1, heads=2, context=8)
TOY = Run(MODEL, Text(batch=2, time=8), TrainConfig(steps=20, warmup=4), probes=("validation",))
OTHER = replace(TOY, model=replace(MODEL, recipe="post"))
TOYS = [replace(run, seed=seed) for run in (TOY, OTHER) for seed in (0, 1)]
TOYS += [replace(run, train=replace(TOY.train, lr=0.01)) for run in TOYS[:2]]
POST_TOYS = {2, 3}  # of TOYS, by configuration


@cache
def recorded(run: Run) -> Row:
    """Train a run here and return its row in the format of the records."""
    return to_row(run, execute_run(run), "2026-01-01T00:00:00+00:00")


def changed(row: Row, **changes: Any) -> Row:
    """Change a row and update its checksum."""
    row = {**row, **changes}
    return {**row, "sum": compute_checksum(row)}


def nudged(row: Row) -> Row:
    """Change one of a row's first losses in its last digits."""
    return changed(row, first=[*row["first"][:3], row["first"][3] * 1.0001, *row["first"][4:]])


def keys_of(places: Iterable[int]) -> set[str]:
    return {TOYS[place].key() for place in places}


@dataclass
class Toy:
    """A book of one chapter with recorded runs, and the runs that its checks replayed."""

    root: Path
    rows: list[Row] = field(default_factory=lambda: [recorded(run) for run in TOYS])
    performed: list[tuple] = field(default_factory=list)

    @property
    def chosen(self) -> list[Chapter]:
        return chapters.find_chapters(self.root)

    def write(self, *rows: Row) -> None:
        """Record these rows, replacing those with the same keys."""
        by_key = {row["key"]: row for row in (*self.rows, *rows)}
        self.rows = list(by_key.values())
        Records(self.root).write_rows("01", self.rows)

    def check(self, *chosen: Chapter, every: bool = False) -> tuple[set[str], int]:
        """Return which runs differ, and how many were replayed."""
        self.performed.clear()
        stale = replays.check_replays(self.root, "book", chosen or self.chosen, every=every)
        return set(stale), len(self.performed)


def ask(root: Path, name: str, rows: list[Row]) -> None:
    """Write the list of runs that a chapter requests."""
    lines = [json.dumps({"key": row["key"], "run": row["run"], "own": {}}) for row in rows]
    write_whole(asked.path_of(root, "book", name), "\n".join(lines))


@pytest.fixture
def toy(tmp_path, monkeypatch) -> Toy:
    made = Toy(make_book(tmp_path, c01_toy="# %%\n"))
    made.write()
    ask(made.root, "01_toy", made.rows)

    def here(tasks: list[tuple]) -> Iterable[Replay]:  # new processes would import torch first
        for task in tasks:
            made.performed.append(task)
            yield replaying._run_replay(task)

    monkeypatch.setattr(replaying, "_run_replays", here)
    return made


@pytest.fixture
def touch(monkeypatch):
    """Return a function that marks modules as changed."""

    hashes = closure.hash_modules("labkit")

    def change_modules(*names: str) -> None:
        now = hashes | dict.fromkeys(names, "changed")
        monkeypatch.setattr(closure, "hash_modules", lambda package: now)
        forget()

    def forget() -> None:
        closure.hash_closure.cache_clear()
        replays.hash_code.cache_clear()

    yield change_modules
    monkeypatch.undo()
    forget()


def test_a_record_replays_to_the_bit_and_so_does_a_thinned_curve():
    found = replay_run(TOY, from_row(recorded(TOY)))
    assert (found.difference, found.tolerance, found.agrees) == (0, 0, True)
    long = replace(TOY, train=replace(TOY.train, steps=225), probes=())
    row = recorded(long)
    assert row["every"] == 2 and row["trained"] % 2, "the last loss is alone"
    assert retrain_run(long, from_row(row)).difference == 0


def test_what_changed_is_replayed_once_and_then_known(toy, touch):
    """Two configurations begin, and one run of their one course and probe is trained in full."""
    assert toy.check() == (set(), 3)
    assert replays.is_known(toy.root)
    assert toy.check() == (set(), 0)
    (toy.root / ".labkit" / "replays-book.json").unlink()
    assert toy.check() == (set(), 0), "a fresh clone: the book says that all agreed"
    assert toy.check(every=True) == (set(), 3)
    touch("labkit.model.feed_forward")
    assert not replays.is_known(toy.root) and toy.check() == (set(), 3)
    toy.write(changed(recorded(TOYS[2]), at="2026-02-01T00:00:00+00:00"))
    assert toy.check() == (set(), 2), "one record is another: its first steps, and to the end"


def test_a_choice_of_chapters_is_replayed_alone_and_is_no_reason_to_replay_again(toy):
    (one,) = toy.chosen
    other = replace(one, name="02_toy")
    ask(toy.root, "01_toy", toy.rows[:2])
    ask(toy.root, "02_toy", toy.rows[2:4])
    assert [toy.check(*some)[1] for some in ((other,), (one, other), (one,))] == [2, 2, 0]


def test_a_probes_code_counts_for_runs_that_measure_it_and_training_code_for_all(touch):
    codes = {probe: replays.hash_code((probe,)) for probe in ("validation", "pace")}

    def list_changed() -> list[str]:
        return [probe for probe, of in codes.items() if replays.hash_code((probe,)) != of]

    touch("labkit.probes.timing")
    assert list_changed() == ["pace"]
    touch("labkit.training")
    assert list_changed() == ["validation", "pace"]
    touch("labkit.plots.style")
    assert list_changed() == []


def list_forgotten(run: Run, touch) -> set[str]:
    """List the modules that a run executes but whose change would replay nothing."""
    executed: set[str] = set()
    sys.setprofile(lambda frame, event, _: executed.add(frame.f_globals.get("__name__", "")))
    try:
        execute_run(run)
    finally:
        sys.setprofile(None)

    def is_forgotten(module: str) -> bool:
        touch()
        before = replays.hash_code(run.probes)
        touch(module)
        return replays.hash_code(run.probes) == before

    return {name for name in executed if name.startswith("labkit.") and is_forgotten(name)}


def test_no_file_that_a_run_executes_is_forgotten(touch, monkeypatch):
    """A planted bug: the replay follows only the imports of the data, not of model and loop."""
    measured = replace(TOY, probes=("validation", "step-response", "attention", "weights"))
    assert list_forgotten(measured, touch) == set()
    monkeypatch.setattr(replays, "TRAINS", "labkit.corpora")
    forgotten = list_forgotten(replace(TOY, probes=()), touch)
    assert {"labkit.model.feed_forward", "labkit.training"} <= forgotten


def test_a_changed_loss_makes_every_run_of_its_configuration_stale(toy, capsys):
    toy.write(*(nudged(recorded(TOYS[place])) for place in POST_TOYS))
    assert toy.check()[0] == keys_of(POST_TOYS)
    said = capsys.readouterr().out
    assert "replays: 3 runs of 2 configurations" in said
    design = r"recipe post, norm rms, activation swiglu, dim \d+, depth \d+, init \w+"
    assert re.search(rf"\b[12] of 3: {design}: [0-9a-f]{{12}} differs: first losses by", said)
    assert "RED: 2 recorded runs are stale" in said
    assert "01 (2)" in said
    assert not replays.is_known(toy.root)
    assert toy.check() == (keys_of(POST_TOYS), 0), "it stays red until record or code changes"
    assert "differs: first losses by" in capsys.readouterr().out
    toy.write(*(recorded(TOYS[place]) for place in POST_TOYS))
    assert toy.check()[0] == set() and replays.is_known(toy.root)


def test_a_difference_is_said_when_it_is_found_and_the_cheapest_come_first(
    toy, monkeypatch, capsys
):
    said = []

    def listen(tasks: list[tuple]) -> Iterable[Replay]:
        for task in tasks:
            yield replaying._run_replay(task)
            said.append((task[2]["cpu_seconds"], capsys.readouterr().out.count("differs")))

    monkeypatch.setattr(replaying, "_run_replays", listen)
    rows = [changed(nudged(row), cpu_seconds=float(9 - i)) for i, row in enumerate(toy.rows)]
    toy.write(*rows)
    toy.check()
    assert said == [(4.0, 1), (6.0, 1), (4.0, 1)], "its first steps, another's, and all of its own"


def test_a_replay_of_one_chapter_keeps_what_is_known_of_the_others(toy):
    (one,) = toy.chosen
    other = replace(one, name="02_toy")
    ours, theirs = TOYS[:2], TOYS[2:4]
    toy.write(*(nudged(recorded(run)) for run in (*ours, *theirs)))
    ask(toy.root, "01_toy", toy.rows[:2])
    ask(toy.root, "02_toy", toy.rows[2:4])
    assert toy.check(one, other)[0] == {run.key() for run in (*ours, *theirs)}
    before = replays.read_stale(toy.root, "book")
    toy.write(*map(recorded, ours))
    assert toy.check(one)[0] == set()
    after = replays.read_stale(toy.root, "book")
    assert after == {run.key(): before[run.key()] for run in theirs}, "when it was, too"


@pytest.mark.parametrize(
    "different", [{"cpu": "another"}, {"threads": 2}, {"together": 4}], ids=str
)
def test_another_machine_is_given_a_tolerance(different):
    row = recorded(TOY)
    row = changed(row, provenance=row["provenance"] | different)
    assert replay_run(TOY, from_row(row)).tolerance == OPENING
    assert retrain_run(TOY, from_row(row)).tolerance == WHOLE
    first = row["first"]
    near, far = (changed(row, first=[x * (1 + e) for x in first]) for e in (OPENING / 2, 1e-3))
    assert 0 < replay_run(TOY, from_row(near)).difference < OPENING
    assert replay_run(TOY, from_row(near)).agrees
    assert not replay_run(TOY, from_row(far)).agrees


def test_a_probes_changed_value_makes_every_run_that_measures_it_stale(toy, capsys):
    value = recorded(TOY)["probes"]["validation"]
    probes = {"validation": {**value, "loss": value["loss"] * 1.001}}
    rows = [changed(recorded(run), probes=probes) for run in TOYS]
    assert replay_run(TOY, from_row(rows[0])).agrees, "its first steps are right"
    toy.write(*rows)
    assert toy.check()[0] == {run.key() for run in TOYS}
    assert "validation by" in capsys.readouterr().out


def test_what_differs_later_makes_stale_what_shares_norm_optimizer_and_schedule(
    toy, touch, monkeypatch
):
    linear = replace(TOY, train=replace(TOY.train, schedule="linear"))
    toy.write(recorded(linear))
    ask(toy.root, "01_toy", toy.rows)
    begin = TrainConfig.lr_at

    def end_lower(config: TrainConfig, step: int) -> float:
        return begin(config, step) * (0.5 if step > 12 and config.schedule == "linear" else 1)

    monkeypatch.setattr(TrainConfig, "lr_at", end_lower)
    assert toy.check()[0] == {linear.key()}


@pytest.mark.parametrize("compare", [replay_run, retrain_run])
def test_a_run_that_carries_rounding_on_is_given_the_room_of_a_nudge(compare, monkeypatch):
    """A factor that depends on the nudge stands for a run that is chaos."""
    from labkit.experiments import replay as module

    def agrees(row, swing, wrong):
        def chaotic(run, device, nudge, progress=False):
            record = execute_run(run, device=device)
            factor = 1 + wrong + swing * bool(nudge)
            return replace(record, losses=[x * factor for x in record.losses])

        monkeypatch.setattr(module, "execute_run", chaotic)
        return compare(TOY, from_row(row)).agrees

    row = recorded(TOY)
    foreign = changed(row, provenance=row["provenance"] | {"cpu": "another"})
    assert not agrees(foreign, swing=0, wrong=0.06)
    assert agrees(foreign, swing=0.02, wrong=0.3)
    assert not agrees(foreign, swing=0.02, wrong=0.9)
    assert agrees(foreign, swing=1.0, wrong=2.5), "a nudge changes it by more than itself"
    assert not agrees(row, swing=1.0, wrong=0.001), "on the machine that recorded it is exact"


def test_a_nudge_moves_little_and_a_number_that_is_none_in_one_of_them_is_a_difference():
    record, moved = from_row(recorded(TOY)), execute_run(TOY, nudge=1e-6).losses
    assert moved != pytest.approx(record.losses, rel=1e-9)
    assert moved == pytest.approx(record.losses, rel=1e-3)
    spoilt = replace(record, losses=[*record.losses[:7], float("nan"), *record.losses[8:]])
    assert not replay_run(TOY, spoilt).agrees


def test_what_is_trained_to_its_end_is_cheap_made_here_and_longer_than_its_first_steps():
    keys = [run.key() for run in TOYS[:3]]
    rows = {
        key: {**recorded(run), "cpu_seconds": 1.0} for key, run in zip(keys, TOYS, strict=False)
    }
    rows[keys[0]] |= {"diverged_at": 2, "cpu_seconds": 0.0}

    def choose(*among: str) -> list[tuple[str, bool]]:
        return replaying.choose_replays({}, {"a probe": among}, rows, CPU)

    assert choose(*keys[:2]) == [(keys[1], True)]
    assert choose(keys[0]) == [(keys[0], True)], "no other has the probe"
    rows[keys[1]]["cpu_seconds"] = replaying.WHOLE + 1
    rows[keys[2]]["provenance"] = {"device": "a GPU"}
    assert choose(*keys[1:]) == []


def test_code_that_fails_at_a_run_refutes_it(toy, monkeypatch, capsys):
    build_model = ModelConfig.build

    def broken(config):
        if config.recipe == "post":
            raise RuntimeError("no such thing")
        return build_model(config)

    monkeypatch.setattr(ModelConfig, "build", broken)
    assert toy.check()[0] == keys_of(POST_TOYS)
    assert "RuntimeError: no such thing" in capsys.readouterr().out


@pytest.mark.parametrize("name", Records(ROOT).list_names())
def test_every_recorded_run_can_be_trained_anew_by_the_code_as_it_is(name):
    """What a probe or a recipe is called stands in the records: who renames it drops its runs."""
    for key, row in Records(ROOT).load_rows(name).items():
        run = Run.from_dict(row["run"])
        assert run.key() == key, f"{name}: the key of {key} is another by now"
        unknown = set(run.probes) | set(row["probes"])
        assert not unknown - PROBES.keys(), f"{name}: {key} asks for what no code measures"


def test_a_build_is_red_where_a_run_is_stale_and_names_what_rests_on_it(toy, capsys):
    page = {"cells": []}
    write_whole(toy.root / "build" / "book" / "book" / "01_toy.ipynb", json.dumps(page))
    assert build._check_replays(toy.root, "book", toy.chosen)
    toy.write(*map(nudged, toy.rows))
    assert not build._check_replays(toy.root, "book", toy.chosen)
    assert "RED: 6 recorded runs" in capsys.readouterr().out


# Slow: the book's own records.


def names() -> list[str]:
    """List the files of the book's records."""
    return Records(ROOT).list_names()


@cache
def book(name: str) -> dict[str, Row]:
    """Read a file of records, without the norms that a chapter defines: their code is there."""
    rows = Records(ROOT).load_rows(name)
    return {key: row for key, row in rows.items() if "@" not in str(row["run"]["model"])}


def has(row: Row, fields: dict[str, Any]) -> bool:
    """Return whether a row's run has these values, by dotted names."""
    return all(_get(row["run"], name.split(".")) == value for name, value in fields.items())


def _get(value: Any, names: list[str]) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def here(row: Row) -> Row:
    """Return a row as this machine would write it: digits differ on another kind of machine."""
    there = row["provenance"]
    if all(there[name] == collect_provenance()[name] for name in ("cpu", "torch")):
        return row
    run = Run.from_dict(row["run"])
    return to_row(run, execute_run(run), row["at"])


def bias_the_running_variance(monkeypatch):
    native = torch.batch_norm

    def biased(rows, weight, bias, mean, var, training, momentum, *rest):
        before = None if var is None else var.clone()
        y = native(rows, weight, bias, mean, var, training, momentum, *rest)
        if training and var is not None:
            n = rows.numel() // rows.shape[1]
            var.data.sub_((var - (1 - momentum) * before) / n)
        return y

    monkeypatch.setattr(torch, "batch_norm", biased)


def add_to_the_stream_before_its_norm(monkeypatch):
    monkeypatch.setattr(StreamNorm, "step", lambda self, x, f, N: x + f(N(x)))


def lose_the_seed(monkeypatch):
    seed_weights = torch.manual_seed
    monkeypatch.setattr(torch, "manual_seed", lambda seed: seed_weights(0))


def halve_the_last_third(monkeypatch):
    begin = TrainConfig.lr_at
    monkeypatch.setattr(
        TrainConfig, "lr_at", lambda c, s: begin(c, s) * (0.5 if 3 * s >= 2 * c.steps else 1)
    )


# What a planted change concerns, and which replay must notice it.
PLANTS = {
    bias_the_running_variance: (retrain_run, {"model.norm": "batch"}),
    add_to_the_stream_before_its_norm: (replay_run, {"model.recipe": "hybrid"}),
    lose_the_seed: (replay_run, {"seed": 1}),
    halve_the_last_third: (retrain_run, {"train.schedule": "cosine"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_change_is_noticed(plant, monkeypatch):
    compare, fields = PLANTS[plant]
    rows = {key: row for name in names() for key, row in book(name).items()}
    keys = list(rows)
    if compare is retrain_run:  # those that a build trains to their end
        runs = {key: Run.from_dict(row["run"]) for key, row in rows.items()}
        ends = replaying._group_keys(rows, lambda key: replaying._list_ends(runs[key]))
        keys = [key for key, _ in replaying.choose_replays({}, ends, rows, CPU)]
    found = [rows[key] for key in keys if has(rows[key], fields) and rows[key]["trained"] > FIRST]
    found.sort(key=lambda row: row["trained"])  # `here` may have to train them, on this processor
    found = [here(row) for row in (found if compare is retrain_run else found[:2])]

    def notice():
        return (not compare(Run.from_dict(row["run"]), from_row(row)).agrees for row in found)

    assert found and not any(notice()), "without the change"
    plant(monkeypatch)
    # Of the runs that are trained in full one is enough: the rest has nothing to do with it.
    assert any(notice()) if compare is retrain_run else all(notice())
