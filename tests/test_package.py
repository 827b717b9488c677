"""The package itself: light to import, and what it exports is what its modules define."""

import subprocess
import sys

import pytest

import labkit


def test_importing_labkit_and_its_plots_does_not_import_torch():
    program = "import sys, labkit, labkit.plots, press.cli; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_public_name_is_there():
    assert set(labkit._HOMES) == set(labkit.__all__)
    for name in labkit.__all__:
        assert getattr(labkit, name) is not None


def test_a_part_is_there_by_its_name_and_listed():
    program = (
        "import labkit; print(labkit.plots.__name__); assert set(labkit._PARTS) <= {*dir(labkit)}"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout == "labkit.plots\n"


def test_an_unknown_name_lists_the_known():
    with pytest.raises(AttributeError, match="labkit has no 'Trainer'; it has ModelConfig, NORMS"):
        _ = labkit.Trainer
