"""A class in one batch: hostile submissions, resuming, corrected tests, and the pool."""

import json
import os
import tempfile

import pytest

from press import cli
from press.book.files import Red
from press.homework.grading import batch, pool, results
from press.homework.private import find_private_file
from press.homework.sandbox import needs
from tests.homework.grading_case import CELLS, NAME, TEST_2, notebook, points, released, says, write
from tests.homework.odd_examiner import odd

PROBLEM = needs.find_problem()
HOSTILE = {
    "loops": "def rms_norm(x, eps=0):\n    while True: pass\n",
    "exits": "import os\ndef rms_norm(x, eps=0):\n    os._exit(0)\n",
    "stops": "def rms_norm(x, eps=0):\n    raise SystemExit(0)\n",
    "patches": "import torch\ndef rms_norm(x, eps=0):\n    torch.allclose = lambda *a, **k: True\n"
    "    torch.isfinite = torch.ones_like\n    return x * 0\n",
    "always": "class Same:\n    def __eq__(self, other):\n        return True\n"
    "def rms_norm(x, eps=0):\n    return Same()\n",
    "prints": "def rms_norm(x, eps=0):\n    while True: print('x' * 10**6)\n",
}
# Sets, addresses and random numbers differ from process to process, if nobody takes care.
VARIES = """def shares(counts):
    raise ValueError(f"{set('abcdefgh')} {torch.rand(2)} {object()} {id(counts) * 0}")
"""
FILES = {
    "corrupt": notebook().encode()[:-9],
    "empty": b"",
    "binary": bytes(range(256)) * 999,
    "nested": b"[" * 1_000_000,
}


@pytest.mark.skipif(bool(PROBLEM), reason=PROBLEM)
@pytest.mark.slow
def test_a_hundred_with_ten_hostile_ones_finish_and_only_those_lose_points(
    tmp_path, capsys, monkeypatch
):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    folder = tmp_path / "in" / NAME
    for number in range(70):
        write(folder, f"s{number}")
    for number in range(20):
        write(folder, f"same{number}", [*CELLS, VARIES])
    for name, hostile in HOSTILE.items():
        write(folder, name, [*CELLS, hostile])
    for name, content in FILES.items():
        (folder / f"{name}.ipynb").write_bytes(content)
    path = released(tmp_path)
    files = batch.find_submissions([tmp_path / "in"], NAME)
    done = batch.grade_class(files, path, tmp_path / "out", seconds=4)
    assert len(done.graded) == 100 and not done.changes
    assert not list((tmp_path / "tmp").iterdir()), "examiners leave nothing"
    found = {each["student"]: each for each in results.load_results([done.folder])}
    assert not any(map(results.list_open_questions, found.values()))
    honest = [found[f"s{number}"] for number in range(70)]
    # The clock of a busy machine is no student's fault; the loops end by it and nothing else does.
    assert {each["total"] for each in honest} == {5}
    # Twenty gradings of one submission, by two examiners and forty workers.
    twenty = [found[f"same{number}"]["questions"] for number in range(20)]
    assert {json.dumps(each) for each in twenty} == {json.dumps(twenty[0])}
    assert "ValueError: {'" in twenty[0][1]["parts"][0]["says"]
    for name in HOSTILE:
        assert points(found[name]) == {"q1": 0, "q2": 2}, name
    for name in FILES:
        assert found[name]["total"] == 0 and "file" in says(found[name])
    failures = {name: found[name]["questions"][0]["failure"] for name in HOSTILE}
    assert failures["loops"] == failures["prints"] == "slow"
    assert failures["exits"] in ("ended", "forbidden")
    assert failures["patches"] == "" and failures["always"] == "refused"

    # Again: nothing is made twice, and no examiner starts.
    before = {file.name: file.stat().st_mtime_ns for file in done.folder.iterdir()}
    again = batch.grade_class(files, path, tmp_path / "out", seconds=4)
    assert (again.graded, len(again.kept)) == ((), 100)
    assert {file.name: file.stat().st_mtime_ns for file in done.folder.iterdir()} == before

    # A mended test and a faulty one: the command says what changed for whom, names the fault, and
    # nobody has fewer points by it.
    released(
        tmp_path,
        test_q1="def test_q1(student, draw, given):\n    1 / 0",
        test_q2=TEST_2.replace("abs(sum(v) - 1) < 1e-6", "sum(v) > 2"),
    )
    places = f"{tmp_path}/in --release {tmp_path}/release --out {tmp_path}/out"
    command = f"homework grade {places} --seconds 4 --jobs 1".split()
    only = [word for student in ("always", "s1", "empty") for word in ("--only", student)]
    capsys.readouterr()
    assert cli.main([*command, *only]) == 1
    told = capsys.readouterr()
    assert told.out.splitlines()[:4] == [
        "always: q1 0/3 -> not graded (the test changed)",
        "always: q2 2/2 -> 1/2 (the test changed)",
        "s1: q1 3/3 -> not graded (the test changed)",
        "s1: q2 2/2 -> 1/2 (the test changed)",
    ]
    assert "q1 is not graded for always, s1: the private test of q1 must not raise" in told.err
    new = results.load_result(done.folder / "s1.json")
    assert new and new["total"] is None and points(new) == {"q1": None, "q2": 1}


def test_without_walls_nothing_is_graded(tmp_path, capsys, monkeypatch):
    released(tmp_path)
    write(tmp_path / "in", "ann")
    monkeypatch.setattr(needs, "find_problem", lambda: "there is no wall: build one")
    places = f"{tmp_path}/in --release {tmp_path}/release --out {tmp_path}/out"
    assert cli.main(f"homework grade {places}".split()) == 2
    assert capsys.readouterr().err == (
        "labkit: submissions run only in the sandbox, which cannot start: there is no wall: "
        "build one\n"
    )
    assert not (tmp_path / "out").exists()


def test_what_is_to_be_graded_must_be_clear(tmp_path):
    folder = tmp_path / "in"
    write(folder, "ann")
    assert list(batch.find_submissions([folder], NAME)) == ["ann"]
    assert list(batch.find_submissions([folder / "ann.ipynb"], NAME)) == ["ann"]
    (folder / "ann.py").write_text("x = 1", encoding="utf-8")
    with pytest.raises(ValueError, match="may have only one submission"):
        batch.find_submissions([folder], NAME)
    (folder / "ann.py").rename(folder / "-ann.py")
    with pytest.raises(ValueError, match="student's id, got"):
        batch.find_submissions([folder], NAME)
    with pytest.raises(ValueError, match="but does not exist"):
        batch.find_submissions([folder / "gone"], NAME)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="grading needs a folder"):
        batch.find_submissions([tmp_path / "empty"], NAME)
    with pytest.raises(ValueError, match="it has none"):
        find_private_file(tmp_path)
    with pytest.raises(ValueError, match="handed in nothing"):
        batch.grade_class({"ann": folder / "ann.ipynb"}, released(tmp_path), tmp_path, ["bob"])


# --- the pool of examiners


def test_a_pool_outlives_examiners_that_die_hang_or_raise():
    tasks = [{"do": word} for word in ("a", "die", "b", "raise", "hang", "c")]
    told = {
        task["do"]: (answer, why)
        for task, answer, why in pool.run_examiners(tasks, odd, {}, 1, 2.0)
    }
    assert [told[word][0]["did"] for word in "abc"] == ["a", "b", "c"]
    assert told["die"] == (None, "its examiner ended with an error or was killed")
    assert told["hang"] == (None, "its examiner did not end within 2 s")
    assert told["raise"][1] == "its examiner raised KeyError: 'odd'"
    pids = {word: told[word][0]["pid"] for word in "abc"}
    assert pids["a"] != pids["b"] != pids["c"]
    for pid in pids.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_pool_that_cannot_begin_says_so():
    with pytest.raises(pool.Lost, match="no sandbox"):
        list(pool.run_examiners([{"do": "a"}], odd, {"lost": 1}, 1, 5.0))


def test_a_batch_without_examiners_is_red_and_keeps_what_there_is(tmp_path, monkeypatch):
    def none(*_):
        raise pool.Lost("nobody came")
        yield

    monkeypatch.setattr(pool, "run_examiners", none)
    files = batch.find_submissions([write(tmp_path / "in", "ann")], NAME)
    with pytest.raises(Red, match="nobody came"):
        batch.grade_class(files, released(tmp_path), tmp_path / "out")


def test_an_examiner_lost_leaves_a_question_open_and_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(
        pool, "run_examiners", lambda tasks, *_: ((task, None, "gone") for task in tasks)
    )
    files = batch.find_submissions([write(tmp_path / "in", "ann")], NAME)
    for _ in range(2):
        path = released(tmp_path)
        done = batch.grade_class(files, path, tmp_path / "out")
        assert [q["reason"] for q in done.results[0]["questions"]] == ["gone", "gone"]
        assert done.graded == ("ann",)
    told = json.loads((done.folder / "ann.json").read_text())
    assert told["total"] is None and told["max"] == 5
