"""How many students a server holds: the arithmetic, the table, the command."""

from contextlib import chdir, redirect_stdout
from dataclasses import replace
from io import StringIO

import pytest
from stored_runs import TINY, record
from toy_book import REPOSITORY, chapter_text, make_book

from labkit.experiments.records import Records, to_row
from press import cli
from press.book import state
from press.book.chapters import find_chapters
from press.site import guide
from press.site.outline import Outline
from press.site.sizing import (
    UNKNOWN,
    Need,
    Server,
    build_need,
    format_table,
    read_needs,
    recorded_seconds,
)

GIB = 2**30
SERVER = Server(cores=16, memory=64 * GIB, gpu_memory=140 * GIB)
NEED = Need("05", seconds=400.0, kernel=GIB, run=3 * GIB // 2, gpu=2 * GIB)
LAB = """# %%
lab = Lab("01_one", size=size,
          memory={"kernel": "1G", "run": "1.5G"})
"""


def test_the_arithmetic_is_that_of_the_docstring():
    assert NEED.count_bytes(2) == 4 * GIB and NEED.by_memory(SERVER) == 16
    assert NEED.by_cores(SERVER) == 16 * 90 * 60 // 400 == 216
    assert NEED.count_students(SERVER) == 16
    assert NEED.estimate_minutes(SERVER) == pytest.approx(400 / 2 / 60)
    assert NEED.of_a_gpu(2) == 6 * GIB and NEED.on_a_gpu(SERVER) == 140 // 6 == 23


def test_cores_can_be_the_bound():
    slow = Need("x", seconds=60_000.0, kernel=GIB, run=GIB)
    assert slow.by_cores(SERVER) == slow.count_students(SERVER) == 1 < slow.by_memory(SERVER) == 21
    single = Server(cores=1, memory=GIB, workers=4)
    assert slow.estimate_minutes(single) == pytest.approx(1000), "one core gains nothing by four"
    assert slow.by_memory(single) == 0 == slow.count_students(single)


def test_what_is_not_known_is_said_and_never_guessed():
    nothing = Need("x")
    row = format_table([nothing], SERVER).splitlines()[2]
    assert row.count(UNKNOWN) == 8
    assert NEED.on_a_gpu(Server(16, 64 * GIB)) is None


@pytest.mark.parametrize("wrong", [{"cores": 0}, {"memory": 0}, {"workers": -1}, {"minutes": 0}])
def test_a_server_of_nothing_is_refused(wrong):
    with pytest.raises(ValueError, match=f"the {next(iter(wrong))} of a server must be above 0"):
        Server(**({"cores": 2, "memory": GIB} | wrong))


def test_the_larger_of_declared_and_measured_counts():
    said = {"kernel": "1G", "run": "1G"}
    built = {
        "book": {"cpu_seconds": 350.0, "kernel_seconds": 20.0, "kernel_bytes": 3 * GIB},
        "gpu": {"gpu_bytes": 5 * GIB},
    }
    assert build_need("x", 300.0, said, {}) == Need("x", 300.0, GIB, GIB, 0)
    assert build_need("x", 300.0, said, built) == Need("x", 370.0, 3 * GIB, GIB, 5 * GIB)
    assert build_need("x", 0.0, {}, {}) == Need("x")


def test_needs_come_from_the_chapters_and_the_last_build(tmp_path):
    text = chapter_text("01_one", cells=LAB)
    root = make_book(tmp_path, c01_one=text, c02_two=chapter_text("02_two"))
    assert read_needs(root) == [Need("01_one", 0.0, GIB, 3 * GIB // 2), Need("02_two")]
    took = [record(cpu_seconds=seconds) for seconds in (150.0, 250.0)]
    rows = [to_row(replace(TINY, seed=seed), one, "") for seed, one in enumerate(took)]
    Records(root).write_rows("01", rows)
    assert read_needs(root) == [Need("01_one", 400.0, GIB, 3 * GIB // 2), Need("02_two")]
    notebook = state.notebook_path(root, "book", "01_one")
    notebook.parent.mkdir(parents=True)
    notebook.write_text("{}")
    measured = {"key": "", "ok": True, "cpu_seconds": 500.0, "kernel_seconds": 12.0}
    state.write_state(root, "book", "01_one", measured)
    assert read_needs(root, ["01"]) == [Need("01_one", 512.0, GIB, 3 * GIB // 2)]
    assert read_needs(root, ["01"], measured=False) == [Need("01_one", 400.0, GIB, 3 * GIB // 2)]


def said(*words: str) -> str:
    """Run the verb."""
    out = StringIO()
    with chdir(REPOSITORY), redirect_stdout(out):
        assert cli.main(["course", "sizing", *words]) == 0
    return out.getvalue()


def test_the_command_sizes_every_chapter_of_the_book():
    shown = said("--cores", "16", "--memory", "64G", "--gpu-memory", "141G", "--declared")
    lines = shown.replace(",", "").splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| ")][2:]
    assert len(rows) == len(find_chapters(REPOSITORY))
    for row in rows:
        if not recorded_seconds(REPOSITORY, row[0].removeprefix("| ")):
            continue  # it reads the ladder, and trains nothing of its own
        assert UNKNOWN not in row[:7] and int(row[6]) > 0
        assert int(row[6]) == min(int(row[4]), int(row[5]))
        assert row[7] == UNKNOWN, "no GPU has measured a chapter yet"
    assert "For a server of 16 cores, 64.0 GiB of memory and a GPU of 141.0 GiB" in shown


def test_more_workers_and_a_shorter_lesson_leave_room_for_fewer(capsys):
    assert cli.main(["course", "sizing", "--memory", "much"]) == 2
    assert "memory must be a number of bytes above 0" in capsys.readouterr().err

    def at_a_time(*words: str) -> int:
        shown = said("--cores", "8", "--memory", "32G", "--declared", "--only", "05", *words)
        return int(shown.splitlines()[2].split(" | ")[6])

    assert at_a_time("--workers", "8") < at_a_time() > at_a_time("--lesson", "2")


def test_a_page_shows_the_table_where_it_is_asked_for():
    declared = {"kernel": "1G", "run": "1.5G"}
    one = Outline("02_toy", "Toy", (), 9, (), (), "", seconds=400.0, memory=declared)
    page = guide.fill_page("Before\n\n<!-- sizing 16 64G -->\n\nafter", REPOSITORY, {"02": one})
    assert "| [Toy](02_toy.ipynb) | 4.0 GiB | 400 | 3.3 min | 16 | 216 | 16 |" in page
    assert "For a server of 16 cores, 64.0 GiB of memory;" in page and "<!--" not in page
