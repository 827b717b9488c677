"""The page about the homeworks agrees with their sources, and reveals no solution."""

import re
from pathlib import Path

import pytest

from press.homework import leaks, source

FOLDER = Path(__file__).parents[2] / "chapters" / "homework"
PAGE = (FOLDER / "index.md").read_text(encoding="utf-8")
SOURCES = sorted(FOLDER.glob("hw*.py"))
ROW = re.compile(r"\| \[(\d) · (.+?)\]\(#(.+?)\) \| .+? \| (\d+) \| (\d+) \| (\d+) \|")


def test_the_table_has_a_row_for_each_homework_with_its_numbers():
    told = {(f"hw{n}", title, int(q), int(p), int(m)) for n, title, _, q, p, m in ROW.findall(PAGE)}
    homeworks = [source.read_homework(path) for path in SOURCES]
    assert told == {
        (
            each.name.partition("_")[0],
            each.title,
            len(each.questions),
            sum(question.points for question in each.questions),
            each.minutes,
        )
        for each in homeworks
    }


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_line_of_a_solution_stands_on_the_page(path):
    cells = source.read_homework(path).cells
    secrets = leaks.list_secrets(cells)
    assert len(secrets) > 20
    assert leaks.find_leaks(secrets, {"index.md": PAGE.encode()}, ()) == []
