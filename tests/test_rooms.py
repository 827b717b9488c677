"""No room of the house grows unnoticed: its lines stay within the budget in pyproject.toml."""

import re

from rooms import (
    CODE,
    ROOT,
    count_code,
    count_rooms,
    format_table,
    list_long,
    list_uncounted,
    read_budgets,
)

BUDGETS = read_budgets()


def test_no_room_has_more_lines_than_its_budget():
    counts = count_rooms(ROOT, list(BUDGETS))
    over = {room: count for room, count in counts.items() if count > BUDGETS[room]}
    assert not over, (
        "each room has at most the lines that [tool.labkit.lines] of pyproject.toml allows, and "
        f"{over} have more; cut, or raise the row and say in the commit who uses what was added"
    )
    assert all(counts.values()), "a room that is gone has no row"


def test_every_file_is_counted_and_a_part_of_labkit_or_press_has_its_own_row():
    assert not list_uncounted(ROOT, list(BUDGETS))
    for home in ("labkit", "chapters/press"):
        folders = {path.parent for path in (ROOT / home).glob("*/*.py")}
        assert {path.relative_to(ROOT).as_posix() for path in folders} <= set(BUDGETS)


def test_no_file_and_no_function_of_labkit_is_too_long(tmp_path):
    assert not list_long(ROOT / "labkit", file=600, function=70)
    text = "class A:\n    async def f():\n        a = 1\n        return a\n\n\ndef g(): ...\n"
    (tmp_path / "a.py").write_text(text)
    assert list_long(tmp_path, file=6, function=2) == ["a.py", "a.py: f"]
    assert not list_long(tmp_path, file=7, function=3)


def test_a_line_too_many_is_seen_and_of_chapters_only_code_counts(tmp_path):
    room = tmp_path / "labkit" / "norms"
    room.mkdir(parents=True)
    (room / "a.py").write_text("x = 1\n\n# why\n")
    (tmp_path / "labkit" / "b.py").write_text("y = 1\n")
    (tmp_path / "chapters").mkdir()
    cells = '# %% [markdown]\nr"""\nText.\n"""\n\n# %%\nz = 1\n\n# a comment\n\n# %%\nz\n'
    (tmp_path / "chapters" / "00_a.py").write_text(cells)
    assert count_code(cells) == 2
    budgets = {"labkit": 1, "labkit/norms": 2, CODE: 2}
    counts = count_rooms(tmp_path, list(budgets))
    assert counts == {"labkit": 1, "labkit/norms": 3, CODE: 2}
    assert re.search(r"3 of +2  labkit/norms", format_table(counts, budgets))
    assert list_uncounted(tmp_path, ["labkit/norms"]) == ["labkit/b.py"]
