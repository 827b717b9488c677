"""Replays: what changes a number is noticed by one, and what changes none is not.

Quick: tiny runs, recorded into a root of their own. Slow: the book's records, replayed with one
planted change each. (That they replay without one, every build of the book shows.)
"""

import json
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
from labkit.experiments.run import execute_run
from labkit.model import ModelConfig
from labkit.placements.residual import StreamNorm
from labkit.probes import PROBES
from labkit.system.files import write_whole
from labkit.system.provenance import collect_provenance
from labkit.training import TrainConfig
from press.book import asked, build, chapters, replaying, replays
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


@cache
def recorded(run: Run) -> Row:
    """Train a run here and give its row, as the book would keep it."""
    return to_row(run, execute_run(run), "2026-01-01T00:00:00+00:00")


def changed(row: Row, **changes: Any) -> Row:
    """Change a row and give it the checksum that it then has."""
    row = {**row, **changes}
    return {**row, "sum": compute_checksum(row)}


def nudged(row: Row) -> Row:
    """Change one of a row's first losses in its last digits."""
    return changed(row, first=[*row["first"][:3], row["first"][3] * 1.0001, *row["first"][4:]])


@dataclass
class Toy:
    """A book of one chapter whose runs are recorded, and what its checks performed."""

    root: Path
    rows: list[Row] = field(default_factory=lambda: [recorded(run) for run in TOYS])
    performed: list[list[tuple]] = field(default_factory=list)

    @property
    def chosen(self) -> list[Chapter]:
        return chapters.find_chapters(self.root)

    def write(self, *rows: Row) -> None:
        """Record these rows, in place of those of the same keys."""
        by_key = {row["key"]: row for row in (*self.rows, *rows)}
        self.rows = list(by_key.values())
        Records(self.root).write_rows("01", self.rows)

    def check(self, **options: Any) -> dict[str, Any]:
        return replaying.replay_runs(self.root, self.chosen, "book", commit="a commit", **options)

    def keys(self, like: Run) -> set[str]:
        """Return the keys of all seeds of a run's configuration."""
        return {run.key() for run in TOYS if run.hash_configuration() == like.hash_configuration()}


def ask(root: Path, name: str, rows: list[Row]) -> None:
    """Leave the list of runs that a chapter asks for."""
    lines = [json.dumps({"key": row["key"], "run": row["run"], "own": {}}) for row in rows]
    write_whole(asked.path_of(root, "book", name), "\n".join(lines))


@pytest.fixture
def toy(tmp_path, monkeypatch) -> Toy:
    made = Toy(make_book(tmp_path, c01_toy="# %%\n"))
    made.write()
    ask(made.root, "01_toy", made.rows)

    def here(tasks: list[tuple]) -> list[Replay]:  # new processes would import torch first
        made.performed.append(tasks)
        return [replaying._run_replay(task) for task in tasks]

    monkeypatch.setattr(replaying, "_run_replays", here)
    return made


def test_a_record_replays_to_the_bit_and_so_does_a_thinned_curve():
    found = replay_run(TOY, from_row(recorded(TOY)))
    assert (found.difference, found.tolerance, found.agrees) == (0, 0, True)
    long = replace(TOY, train=replace(TOY.train, steps=225), probes=())
    row = recorded(long)
    assert row["every"] == 2 and row["trained"] % 2, "the last loss is alone"
    assert retrain_run(long, from_row(row)).difference == 0


def test_what_agreed_with_this_code_is_replayed_within_a_budget_drawn_by_the_commit(
    toy, monkeypatch
):
    monkeypatch.setattr(replaying, "BUDGET", 0.0)
    assert toy.check()["openings"] == 2, "nothing is known yet: all"
    assert (toy.root / replays.KNOWN).is_file()

    def draw(commit: str) -> str:
        (toy.root / ".labkit" / "replays-book.json").unlink()  # as in a fresh clone
        some = replaying.replay_runs(toy.root, toy.chosen, "book", commit=commit)
        assert (some["openings"], some["configurations"], some["wholes"]) == (1, 2, 0)
        return toy.performed[-1][0][1]["model"]["recipe"]

    drawn = {draw(commit) for commit in "abcdef"}
    assert drawn == {"pre", "post"}, "another commit draws another configuration"
    assert toy.check(every=True)["openings"] == 3
    toy.write(*map(nudged, toy.rows))
    assert not replays.is_known(toy.root) and toy.check()["stale"], "changed records: all, again"
    assert toy.check()["openings"] == 2, "what was refuted is never taken as known"


def test_other_code_makes_what_agreed_unknown(toy, monkeypatch):
    toy.check()
    assert replays.is_known(toy.root)
    monkeypatch.setattr(replays, "hash_closure", lambda module: "another")
    assert not replays.is_known(toy.root)


def test_a_probes_code_counts_for_runs_that_are_trained_in_full_and_measure_it(monkeypatch):
    row = {"run": {"probes": ["pace"]}}

    def hash_both():
        return replays.hash_replay("opening", row), replays.hash_replay("whole", row)

    before, code = hash_both(), replays.hash_closure

    def touch(changed):
        monkeypatch.setattr(
            replays, "hash_closure", lambda name: "touched" if name == changed else code(name)
        )

    touch("labkit.probes.weights")
    assert hash_both() == before
    touch("labkit.probes.timing")
    opening, whole = hash_both()
    assert opening == before[0] and whole != before[1]
    touch("labkit.experiments.replay")
    assert hash_both()[0] != before[0]


def test_what_agreed_is_not_replayed_again_until_its_record_or_the_code_changes(toy, monkeypatch):
    def performed(*chosen: Chapter) -> int:
        toy.performed.clear()
        replaying.replay_runs(toy.root, chosen or toy.chosen, "book", commit="the commit")
        return sum(map(len, toy.performed))

    monkeypatch.setattr(replays, "is_known", lambda root: False)
    (one,) = toy.chosen
    other = replace(one, name="02_toy")
    ask(toy.root, "02_toy", toy.rows[:2])
    assert performed() == 3, "two configurations begin, one run is trained in full"
    assert performed(other) == performed(one, other) == 0, "a choice of chapters is no reason"
    key = (toy.performed and None) or TOYS[0].key()
    toy.write(changed(recorded(TOYS[0]), at="2026-02-01T00:00:00+00:00"))
    assert performed() <= 2, f"{key} alone has another record"
    monkeypatch.setattr(replays, "hash_closure", lambda module: "another")
    assert performed(other) and "whole" in [kind for kind, *_ in toy.performed[-1]]
    assert performed(), "what those two did not ask for"
    toy.write(*map(nudged, toy.rows))
    assert performed() == performed() > 0, "what was refuted is never taken as known"


def test_a_book_replays_to_the_bit(toy):
    found = toy.check()
    assert (found["openings"], found["wholes"], found["stale"]) == (2, 1, {})
    assert toy.check(every=True)["openings"] == 3


def test_a_changed_loss_is_refuted_and_every_seed_of_its_configuration_is_stale(toy):
    toy.write(*(nudged(recorded(run)) for run in TOYS if run.key() in toy.keys(OTHER)))
    found = toy.check(every=True)
    assert set(found["stale"]) == toy.keys(OTHER) and len(found["stale"]) == 2
    assert "differs: " in next(iter(found["stale"].values()))
    kept = replays.read_stale(toy.root, "book")
    assert {key: one["why"] for key, one in kept.items()} == found["stale"]
    assert "RED: 2 recorded runs are stale" in replays.describe_verdict(found, [("01", 2)])


def test_a_replay_of_one_chapter_keeps_what_is_known_of_the_others(toy):
    (one,) = toy.chosen
    other = replace(one, name="02_toy")
    both, ours, theirs = [one, other], TOYS[:2], TOYS[2:4]
    toy.write(*(nudged(recorded(run)) for run in (*ours, *theirs)))
    rows = {row["key"]: row for row in toy.rows}
    ask(toy.root, "01_toy", [rows[run.key()] for run in ours])
    ask(toy.root, "02_toy", [rows[run.key()] for run in theirs])
    whole = replaying.replay_runs(toy.root, both, "book", commit="a commit")
    before = replays.read_stale(toy.root, "book")
    assert before.keys() == whole["stale"].keys() == {run.key() for run in (*ours, *theirs)}
    toy.write(*map(recorded, ours))
    assert replaying.replay_runs(toy.root, [one], "book", commit="a commit")["stale"] == {}
    after = replays.read_stale(toy.root, "book")
    assert after == {run.key(): before[run.key()] for run in theirs}, "when it was, too"
    assert replays.read_verdict(toy.root, [one], "book") is not None
    assert replays.read_verdict(toy.root, both, "book") is None, "its records have changed since"


@pytest.mark.parametrize("drawn", [0, 1])
def test_the_seed_that_is_drawn_speaks_for_the_others(toy, drawn, monkeypatch):
    seeds = [run.key() for run in TOYS if run.key() in toy.keys(OTHER)]
    monkeypatch.setattr(replaying, "_hash_key", lambda commit, key: str(key != seeds[drawn]))
    monkeypatch.setattr(replaying, "_choose_cheapest", lambda *asked: [])
    toy.write(nudged(recorded(TOYS[2])))
    assert len(toy.check()["stale"]) == (2 if drawn == 0 else 0)


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


def test_a_probes_changed_value_is_found_by_training_in_full(toy):
    row = recorded(TOY)
    value = row["probes"]["validation"]
    probes = {"validation": {**value, "loss": value["loss"] * 1.001}}
    toy.write(*(changed(recorded(run), probes=probes) for run in TOYS))
    assert replay_run(TOY, from_row(changed(row, probes=probes))).agrees, (
        "its first steps are right"
    )
    found = toy.check(every=True)
    assert set(found["stale"]) == {run.key() for run in TOYS}, "all of them have this probe"
    assert "validation by" in next(iter(found["stale"].values()))


def test_what_differs_later_is_blamed_on_what_no_agreeing_run_has(toy, monkeypatch):
    monkeypatch.setattr(replaying, "_choose_cheapest", lambda *asked: [TOYS[0].key()])
    begin = TrainConfig.lr_at
    monkeypatch.setattr(TrainConfig, "lr_at", lambda c, s: begin(c, s) * (0.5 if s > 12 else 1))
    found = toy.check(every=True)
    assert set(found["stale"]) == {run.key() for run in TOYS}, "all have its schedule and norm"
    assert all("differs: losses by" in why for why in found["stale"].values())


def test_a_run_that_agrees_clears_what_it_has():
    linear = replace(TOY, train=replace(TOY.train, schedule="linear"), probes=())
    bad = Replay(linear, "whole", 1.0, 0.0, "losses")
    assert set(replaying._blame_traits([bad])) == {"norm rms", "adamw", "linear"}
    good = Replay(replace(linear, train=TOY.train), "whole", 0.0, 0.0, "losses")
    assert set(replaying._blame_traits([bad, good])) == {"linear"}
    probe = Replay(TOY, "whole", 1.0, 0.0, "validation")
    assert set(replaying._blame_traits([probe])) == {"validation"}


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


def test_what_diverged_is_trained_in_full_only_where_nothing_else_has_its_probes(toy):
    rows = {run.key(): recorded(run) for run in TOYS[:2]}
    runs = {run.key(): run for run in TOYS[:2]}
    first, second = rows
    rows[first] = {**rows[first], "diverged_at": 2, "cpu_seconds": 0.0}
    assert replaying._choose_cheapest(runs, rows) == [second]
    assert replaying._choose_cheapest({first: runs[first]}, {first: rows[first]}) == [first]


def test_code_that_fails_at_a_run_refutes_it(toy, monkeypatch):
    build_model = ModelConfig.build

    def broken(config):
        if config.recipe == "post":
            raise RuntimeError("no such thing")
        return build_model(config)

    monkeypatch.setattr(ModelConfig, "build", broken)
    found = toy.check()
    assert set(found["stale"]) == toy.keys(OTHER)
    assert "RuntimeError: no such thing" in next(iter(found["stale"].values()))


@pytest.mark.parametrize("name", Records(ROOT).list_names())
def test_every_recorded_run_can_be_trained_anew_by_the_code_as_it_is(name):
    """What a probe or a recipe is called stands in the records: who renames it drops its runs."""
    for key, row in Records(ROOT).load_rows(name).items():
        run = Run.from_dict(row["run"])
        assert run.key() == key, f"{name}: the key of {key} is another by now"
        unknown = set(run.probes) | set(row["probes"])
        assert not unknown - PROBES.keys(), f"{name}: {key} asks for what no code measures"


def test_a_verdict_is_kept_until_code_or_records_change(toy, monkeypatch):
    def again() -> int:
        toy.performed.clear()
        assert build._check_replays(toy.root, "book", toy.chosen)
        return len(toy.performed)

    assert (again(), again()) == (1, 0)
    monkeypatch.setattr(replays, "hash_closure", lambda module: "another")
    assert (again(), again()) == (1, 0)
    toy.write(changed(recorded(TOY), at="2026-02-01T00:00:00+00:00"))
    assert (again(), again()) == (1, 0)
    ask(toy.root, "01_toy", toy.rows[:-1])
    assert (again(), again()) == (1, 0)


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
    """Return a row as this machine would write it: on another kind, digits differ anyway."""
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
    if compare is retrain_run:  # those that `labkit book replay` trains in full
        runs = {key: Run.from_dict(row["run"]) for key, row in rows.items()}
        keys = replaying._choose_cheapest(runs, rows)
    found = [rows[key] for key in keys if has(rows[key], fields) and rows[key]["trained"] > FIRST]
    found.sort(key=lambda row: row["cpu_seconds"])  # `here` may have to train them
    found = [here(row) for row in (found if compare is retrain_run else found[:2])]

    def list_noticed():
        return [not compare(Run.from_dict(row["run"]), from_row(row)).agrees for row in found]

    assert found and not any(list_noticed()), "without the change"
    plant(monkeypatch)
    # Of the runs that are trained in full one is enough: the rest has nothing to do with it.
    assert any(list_noticed()) if compare is retrain_run else all(list_noticed())
