"""The laws without pytest: processes share the checks, and one file stores the results."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_processes_share_the_checks_and_leave_one_file(tmp_path):
    state = tmp_path / "laws.json"
    words = [sys.executable, "-m", "tests.kernels", "--workers", "2", "--state", str(state)]
    words += ["--only", "formula[rms_norm,", "8 bfloat16]"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(state.read_text())["done"]
    assert len(found) >= 2 and all(name.startswith("formula[rms_norm,") for name in found)
    assert done.stdout.splitlines()[-1].startswith(f"interpreted: {len(found)} passed, 0 failed")
    assert [path.name for path in tmp_path.iterdir()] == ["laws.json"]
    again = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert again.stdout.count("passed") == 1, "what is done is not run again"
