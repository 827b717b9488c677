"""Published tables: copied as printed, each with its source."""

import re
from pathlib import Path

import pytest

from labkit.experiments import published
from labkit.experiments.papers import FOLDER

TABLES = sorted(path.stem for path in FOLDER.glob("*.csv"))


def test_each_table_is_named_once_in_the_readme_and_no_other_is():
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `([\w.-]+)\.csv` \|", readme, re.M)) == TABLES


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_rows_and_no_column_twice(name):
    assert published(name)
    head = (FOLDER / f"{name}.csv").read_text(encoding="utf-8").splitlines()[0].split(",")
    assert len(head) == len(set(head)) and all(head)


def test_numbers_are_numbers_and_an_empty_cell_is_none(tmp_path):
    (tmp_path / "one.csv").write_text("method,loss,tokens\npost,nan,1.5e9\npre,,12\n")
    post, pre = published("one", tmp_path)
    assert post["method"] == "post" and post["loss"] != post["loss"] and post["tokens"] == 1.5e9
    assert pre == {"method": "pre", "loss": None, "tokens": 12.0}


def test_what_is_missing_is_named(tmp_path):
    (tmp_path / "short.csv").write_text("a,b\n1\n")
    with pytest.raises(ValueError, match=r"row 2 has 1: complete it"):
        published("short", tmp_path)
    with pytest.raises(ValueError, match="no table 'none'; choose one of short"):
        published("none", Path(tmp_path))
