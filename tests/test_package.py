"""The package: its import is fast, and it exports what its modules define."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import labkit

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import sys, labkit
assert labkit.plots.__name__ == "labkit.plots" and set(labkit._PARTS) <= {*dir(labkit)}
import press.cli
assert "torch" not in sys.modules
"""


def test_a_part_is_there_by_its_name_and_listed_and_plots_do_not_import_torch():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


def test_every_public_name_is_there():
    assert set(labkit._HOMES) == set(labkit.__all__)
    for name in labkit.__all__:
        assert getattr(labkit, name) is not None


def test_an_unknown_name_lists_the_known():
    with pytest.raises(AttributeError, match="labkit has no 'Trainer'; it has ModelConfig, NORMS"):
        _ = labkit.Trainer


def test_what_only_the_book_needs_says_what_to_install_where_it_is_missing():
    hide = "import sys; sys.modules.update(dict.fromkeys(('typer', 'sklearn', 'sympy')))\n"
    for code, words in (
        (
            "import press.cli",
            "the command needs the package typer, which is not installed; run: pip",
        ),
        (
            "from labkit.corpora import Digits; Digits().load()",
            "pip install scikit-learn, or install everything",
        ),
    ):
        done = subprocess.run([sys.executable, "-c", hide + code], capture_output=True, text=True)
        assert done.returncode == 1 and words in done.stderr, code


def test_the_package_asks_for_nothing_that_labkit_does_not_import():
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names = [re.split(r"[>=]", row)[0] for row in tables["project"]["dependencies"]]
    code = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("labkit/**/*.py"))
    assert not [name for name in names if not re.search(rf"(?m)^ *(import|from) {name}\b", code)]
