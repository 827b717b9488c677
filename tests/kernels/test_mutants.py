"""The laws can fail: each bug planted in a copy of the kernels is found by its law."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .mutants import MUTANTS

ROOT = Path(__file__).parents[2]


def test_every_mutant_fits_the_kernels_as_they_are():
    for mutant in MUTANTS:
        text = (ROOT / "kernels/normkernels" / mutant.file).read_text()
        assert mutant.old in text, f"{mutant.name}: {mutant.file} has no {mutant.old!r} any more"
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_every_mutant_is_found():
    """In a separate process, because pytest's process may not fork."""
    program = [sys.executable, "tests/kernels/mutants.py"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True)
    survivors = [line for line in done.stdout.splitlines() if not line.startswith("found")]
    assert not survivors and not done.returncode, "\n".join(survivors) + done.stderr[-1000:]
    assert done.stdout.count("found  ") == len(MUTANTS)
