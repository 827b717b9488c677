"""The package itself: light to import, and what it exports is what its modules define."""

import subprocess
import sys

import pytest

import labkit

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
