"""Gradescope's container, emulated: the zip unpacked, and a root without CAP_SYS_ADMIN."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from press.homework.grading import gradescope, on_gradescope, pool
from tests.homework.grading_case import CELLS, NAME, in_process, notebook, private
from tests.homework.test_exports import check_gradescope

ROOT = Path(__file__).resolve().parents[2]
NEEDS = ("unshare", "setpriv")
# Runs in a mount namespace of its own: Python lies where others may read it, as in the container,
# and the autograder lies in a folder that nobody else has.
CONTAINER = """
set -euo pipefail
zip="$1" work="$2" venv="$3" base="$4" closed="$5"
if [ -n "$closed" ]; then
  mkdir -p "$work/base"
  mount --bind "$base" "$work/base"
  mount -t tmpfs -o mode=755 none "$closed"
  mkdir -p "$base"
  mount --bind "$work/base" "$base"
fi
mount -t tmpfs -o mode=755 none /mnt
root=/mnt/autograder
mkdir -p "$root/source" "$root/results" "$root/submission"
(cd "$root/source" && "$venv/bin/python" -m zipfile -e "$zip" .)
cp "$root/source/run_autograder" "$root/"
chmod +x "$root/run_autograder"
ln -s "$venv" "$root/venv"
for one in "$work"/submissions/*; do
  rm -rf "$root"/submission/* "$root"/results/*
  cp -r "$one"/submission/. "$root/submission"
  cp "$one/submission_metadata.json" "$root/"
  setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$root/run_autograder" \\
    > "$one/stdout" 2> "$one/stderr" && echo 0 > "$one/rc" || echo "$?" > "$one/rc"
  cp "$root"/results/* "$one"/ 2> /dev/null || true
done
"""
SPY = """
import os
def rms_norm(x, eps=0):
    seen = []
    for folder, _, files in os.walk("/mnt/autograder"):
        for name in files:
            try:
                seen.append(open(os.path.join(folder, name)).read())
            except OSError:
                pass
    text = "".join(seen)
    raise ValueError(f"labkit {'Grade one submission' in text} tests {'def test_q1' in text}")
"""


def closed_folder() -> str:
    """The first folder on the way to Python that is closed to others; "" when there is none."""
    parents = Path(os.path.realpath(sys.base_prefix)).parents
    return next((str(p) for p in reversed(parents) if not p.stat().st_mode & 0o001), "")


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="a container's root and mounts need root")
@pytest.mark.skipif(
    not all(map(shutil.which, NEEDS)), reason=f"the container is made with {' and '.join(NEEDS)}"
)
def test_the_zip_grades_in_a_container_without_cap_sys_admin(tmp_path):
    homework = private(packages=("torch", "math", "os"), students=("ann", "bob@x.org"))
    path = tmp_path / f"{NAME}.json"
    path.write_text(homework.to_json(), encoding="utf-8")
    zip_path = gradescope.build(path, tmp_path / "grader.zip", "after_published")
    cases = {
        "right": ({f"{NAME}.ipynb": notebook()}, {"sid": "ann"}),
        "spies": ({"any.ipynb": notebook([*CELLS, SPY])}, {"sid": "", "email": "bob@x.org"}),
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
    base = os.path.realpath(sys.base_prefix)
    arguments = [zip_path, tmp_path, ROOT / ".venv", base, closed_folder()]
    ran = subprocess.run(
        ["unshare", "--mount", "bash", "-c", CONTAINER, "container", *map(str, arguments)],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    found = {}
    for name in cases:
        folder = tmp_path / "submissions" / name
        rc = (folder / "rc").read_text().strip()
        assert rc == "0", (name, (folder / "stderr").read_text())
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
    monkeypatch.setattr(pool, "run", in_process)
    assert on_gradescope.main(tmp_path) == 1
    assert "not graded: q2: the private test of q2, line 2" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()
