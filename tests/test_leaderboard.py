"""The leaderboard: its statistics, its budget, its entries, its command."""

import json
import re
from dataclasses import replace

import pytest

from labkit.experiments import ladder
from labkit.experiments.ladder.method import list_strict_seeds
from labkit.experiments.ladder.reading import read_results
from labkit.leaderboard import starter
from labkit.leaderboard.entries import entries, entry
from labkit.leaderboard.footprint import count_footprint
from labkit.leaderboard.letters import letters
from labkit.leaderboard.standings import Row, rank_ladder, rank_rows
from labkit.model import ModelConfig
from labkit.training import Record
from press import cli


# -- statistics -------------------------------------------------------------------------------
def test_letters_are_shared_where_nothing_differs():
    found = letters(list("ABCD"), {("A", "D"), ("B", "D")})
    assert found == {"A": "a", "B": "a", "C": "ab", "D": "b"}
    assert letters(["A"], set()) == {"A": "a"} and letters([], set()) == {}
    pairs = [("A", "a"), ("B", "b"), ("C", "c"), ("D", "d"), ("E", "e")]  # 2⁵ sets without a pair
    many = letters(list("AaBbCcDdEe"), pairs)
    assert len(set(many.values())) == 10 and "".join(many.values()).count("f1") == 5


def row(name, *values):
    return Row(name, values, 0.01, False, ladder.Left(), True, 10, 1.0, 0.0, 0, 0)


def test_ranks_letters_and_what_diverged():
    board = rank_rows(
        [row("worse", 2.0, 2.1, 1.95), row("lost", 1.0, None, 1.0), row("best", 1.0, 1.1, 0.9)]
    )
    said = board.format_summary()
    assert [r.name for r in board.rows] == ["best", "worse", "lost"]
    assert [r.group for r in board.rows] == ["a", "b", "–"]
    assert board.rows[1].behind[0] == pytest.approx(61 / 60)
    assert board.scatter.freedom == 4
    assert "diverged in 1 of 3" in str(board) and "not ranked: lost" in said
    assert "distinguishable from it. 1 of 1 pairs" in said
    assert "believe" not in said, "ten steps rank nothing"
    old = [replace(one, steps=2000) for one in board.rows]
    said = replace(board, rows=tuple(old)).format_summary()
    assert "Before you believe the first place (2000 steps per run): five other" in said
    alone = rank_rows([row("best", 1.0, 1.1)]).format_summary()
    assert "One entry, best: nothing is compared; name another, such as pre" in alone
    assert "another, such as qk" in rank_rows([row("pre", 1.0, 1.1)]).format_summary()
    assert rank_rows([row("lost", None, None)]).format_summary() == "Every entry diverged."
    level = rank_rows([row("a", 1.0, 1.2, 1.1), row("b", 1.1, 1.0, 1.2)])
    assert {r.group for r in level.rows} == {"a"}
    assert "Not distinguishable from it: " in (said := level.format_summary())
    assert "believe" not in said


def test_short_runs_are_said_first_to_rank_nothing():
    other = replace(row("b", 2.0, 2.2), steps=2000)
    for steps, young in ((10, True), (2000, False)):
        said = rank_rows([replace(row("a", 1.0, 1.1), steps=steps), other]).format_summary()
        first = "After 10 updates, too few to rank recipes (2,000 are needed), first is a. "
        assert said.startswith(first if young else "First: a. ")


def test_arms_of_the_ladder_are_ranked_by_the_seeds_that_report():
    """Tuning runs have lower losses here, but they only determine the learning rate."""

    def read(run):
        tuned, worse = run.seed == ladder.TUNING_SEED, run.model.recipe == "post"
        off = run.train.lr != (0.1 if worse else 0.01)  # the second is best at the grid's end
        loss = 1.0 + off + worse - 0.3 * tuned + 0.01 * (run.seed % 3) * (1 + worse)
        return Record([], 1, probes={kind: {"loss": loss} for kind in ("test", "validation")})

    found = read_results(["smoke"], ["pre", "post"], read)
    board = rank_ladder(found, {"Post-Norm": "post", "Pre-Norm": "pre"}, "smoke")
    assert [(one.name, one.rate, one.edge) for one in board.rows] == [
        ("Pre-Norm", 0.01, False),
        ("Post-Norm", 0.1, True),
    ]
    assert board.rows[0].values == pytest.approx((1.0, 1.01, 1.02, 1.0, 1.01))
    assert board.rows[0].steps == ladder.RUNGS["smoke"].steps


def test_what_tuning_leaves_can_make_two_rows_equal():
    rows = [row("a", 1.0, 1.1, 1.05), row("b", 1.3, 1.4, 1.35)]
    assert [one.group for one in rank_rows(rows).rows] == ["a", "b"]
    unsure = [replace(rows[0], tuned=ladder.Left(0.0, 0.3)), rows[1]]
    assert [one.group for one in rank_rows(unsure).rows] == ["a", "a"]


# -- costs ------------------------------------------------------------------------------------
def test_a_footprint_is_the_same_twice_and_grows():
    small, large = (count_footprint(ModelConfig(dim=16, depth=n, context=8), 2, 8) for n in (1, 2))
    assert small == count_footprint(ModelConfig(dim=16, depth=1, context=8), 2, 8)
    assert small.kept < large.kept and small.operations < large.operations
    assert (small.norms, large.norms) == (3, 5)


# -- entries ----------------------------------------------------------------------------------
@pytest.mark.parametrize("text, runs", [("pre", 20), ("pre, drawn 0.02", 10), ("pre+layer", 20)])
def test_an_arm_of_the_book_is_evaluated_with_as_many_runs_as_there(text, runs):
    assert len(list_strict_seeds("S", entry(text).method)) == runs


def test_entries_are_recipes_norms_and_files():
    assert entry("post-norm").arm is ladder.ARMS["post"] and entry("ngpt").arm.warmup == 0.0
    assert entry("pre, xavier").arm is ladder.ARMS["pre, xavier"]
    assert entry("pre+layer").arm.fields == {"recipe": "pre", "norm": "layer"}
    mine = entry(f"post+{starter.__file__}")
    assert mine.name == "post+mean-abs" and mine.arm.fields["norm"].startswith("mean-abs@")
    assert entry(starter.__file__).name == "pre+mean-abs"


@pytest.mark.parametrize(
    "texts, said",
    [
        (["nope"], "unknown recipe 'nope'"),
        (["pre+nope"], "unknown norm 'nope'; did you mean 'none'.* a file with your norm"),
        (["dyt+rms"], "fixes 'dyt'"),
        (["pre+"], r"a norm must follow the \+, as in pre\+rms, but .pre\+. has none"),
        (["pre+nowhere.py"], "which is no file"),
        (["pre", "pre-norm"], "'pre' occurs twice"),
    ],
)
def test_an_entry_that_is_none_says_what_there_is(texts, said):
    with pytest.raises(ValueError, match=said):
        entries(texts)


# -- the whole --------------------------------------------------------------------------------
def test_the_command_ranks_a_readers_norm_and_trains_nothing_twice(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    file = tmp_path / "my_norm.py"
    assert cli.main(["leaderboard", "--starter", str(file)]) == 0
    assert cli.main(["leaderboard", "--starter", str(file)]) == 2
    assert "choose another" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    told = re.findall(r"^    (from labkit .*|print.*)$", file.read_text(), re.M)
    exec("\n".join(told))  # the file says how it is checked
    assert "10 of 10 laws hold" in capsys.readouterr().out
    options = ["--rung", "smoke"]
    assert cli.main(["leaderboard", "pre", f"pre+{file}", *options, "--list"]) == 0
    assert "5 of 5 runs" in (out := capsys.readouterr().out) and "are not stored" in out
    board = ["leaderboard", "pre", f"pre+{file}", *options, "--engine", "serial"]
    assert cli.main([*board, "--look"]) == 0
    assert "gives no order" in (out := capsys.readouterr().out) and "rank" not in out
    assert cli.main(board) == 0
    assert "pre+mean-abs" in (out := capsys.readouterr().out) and "tuning uncertainty" in out
    stored = sorted((tmp_path / ".labkit/runs").iterdir())
    assert cli.main([*board, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["name"] for row in found["rows"]} == {"pre", "pre+mean-abs"}
    assert all(len(row["values"]) == 5 and row["mean"] is not None for row in found["rows"])
    assert sorted((tmp_path / ".labkit/runs").iterdir()) == stored
    assert cli.main(["leaderboard", "pre", "--json", "--list"]) == 2
    assert "leave --json out" in capsys.readouterr().err
    assert cli.main(["leaderboard", "nope"]) == 2
    assert "unknown recipe 'nope'" in capsys.readouterr().err
    assert cli.main(["leaderboard", "--help"]) == 0
    assert "adjusted by Holm" in " ".join(capsys.readouterr().out.split())
