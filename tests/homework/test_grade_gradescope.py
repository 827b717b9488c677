"""Gradescope's container, emulated: the zip unpacked, and a root without CAP_SYS_ADMIN."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from press.homework.grading import gradescope, on_gradescope, pool
from tests.homework.grading_case import CELLS, NAME, in_process, notebook, private
from tests.homework.test_exports import check_gradescope

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = ROOT / "tests/homework/sandbox/launch.py"
CONTAINER = """
set -euo pipefail
zip="$1" work="$2" venv="$3" root="$2/autograder"
mkdir -p "$root/source" "$root/results" "$root/submission"
(cd "$root/source" && "$venv/bin/python" -m zipfile -e "$zip" .)
cp "$root/source/run_autograder" "$root/"
chmod +x "$root/run_autograder"
ln -s "$venv" "$root/venv"
for one in "$work"/submissions/*; do
  rm -rf "$root"/submission/* "$root"/results/*
  cp -r "$one"/submission/. "$root/submission"
  cp "$one/submission_metadata.json" "$root/"
  "$root/run_autograder" > "$one/said" 2>&1 && echo 0 > "$one/rc" || echo "$?" > "$one/rc"
  cp "$root"/results/* "$one"/ 2> /dev/null || true
done
"""
SPY = """
import os
def rms_norm(x, eps=0):
    seen = []
    for folder, _, files in os.walk("AUTOGRADER"):
        for name in files:
            try:
                seen.append(open(os.path.join(folder, name)).read())
            except OSError:
                pass
    text = "".join(seen)
    raise ValueError(f"labkit {'Grade one submission' in text} tests {'def test_q1' in text}")
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="a container's root and mounts need root")
def test_the_zip_grades_in_a_container_without_cap_sys_admin(tmp_path):
    homework = private(packages=("torch", "math", "os"), students=("ann", "bob@x.org"))
    path = tmp_path / f"{NAME}.json"
    path.write_text(homework.to_json(), encoding="utf-8")
    zip_path = gradescope.build_autograder(path, tmp_path / "grader.zip", "after_published")
    tmp_path.chmod(0o711)
    spy = SPY.replace("AUTOGRADER", str(tmp_path / "autograder"))
    cases = {
        "right": ({f"{NAME}.ipynb": notebook()}, {"sid": "ann"}),
        "spies": (
            {"any.ipynb": notebook([*CELLS, spy])},
            {"sid": "", "email": "bob@x.org"},
        ),
        "nothing": ({"notes.txt": "no notebook"}, {"sid": "ann"}),
        "stranger": ({f"{NAME}.ipynb": notebook()}, {"sid": "eve"}),
    }
    for name, (files, user) in cases.items():
        folder = tmp_path / "submissions" / name
        (folder / "submission").mkdir(parents=True)
        for file, text in files.items():
            (folder / "submission" / file).write_text(text, encoding="utf-8")
        told = {"id": 1, "users": [{"id": 5, "name": "A", **user}]}
        (folder / "submission_metadata.json").write_text(json.dumps(told), encoding="utf-8")
    script = ["/bin/bash", "-c", CONTAINER, "container", str(zip_path), str(tmp_path)]
    ran = subprocess.run(
        [sys.executable, str(LAUNCH), "container", str(tmp_path), *script, sys.prefix],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = {}
    for name in cases:
        folder = tmp_path / "submissions" / name
        rc = (folder / "rc").read_text().strip()
        assert rc == "0", (name, (folder / "said").read_text())
        found[name] = json.loads((folder / "results.json").read_text())
        check_gradescope(found[name])
    assert found["right"]["score"] == 5 and found["right"]["visibility"] == "after_published"
    assert [test["number"] for test in found["right"]["tests"]] == ["1.1", "1.2", "2.1", "2.2"]
    # labkit is no package of this homework, and the tests are nobody's.
    assert found["spies"]["score"] == 2
    assert "labkit False tests False" in found["spies"]["tests"][0]["output"]
    assert found["nothing"]["score"] == 0 and f"{NAME}.ipynb" in found["nothing"]["output"]
    assert found["stranger"]["score"] == 0 and "roster" in found["stranger"]["output"]


def test_a_faulty_test_leaves_no_results_and_names_itself(tmp_path, monkeypatch, capsys):
    homework = private(test_q2="def test_q2(student, draw, given):\n    1 / 0")
    (tmp_path / "source/private").mkdir(parents=True)
    (tmp_path / f"source/private/{NAME}.json").write_text(homework.to_json(), encoding="utf-8")
    (tmp_path / "submission").mkdir()
    (tmp_path / f"submission/{NAME}.ipynb").write_text(notebook(), encoding="utf-8")
    monkeypatch.setattr(pool, "run_examiners", in_process)
    assert on_gradescope.main(tmp_path) == 1
    assert "not graded: q2: the private test of q2, line 2" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()
