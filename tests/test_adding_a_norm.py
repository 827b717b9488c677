"""A new norm is one file, one row with its import, and one row of tests: tried in a copy.

Nothing else is touched, and it is drawn, checked, converted, attended with and trained in
replicates as any other: its class declares what they need to know (`labkit.norms.Facts`).
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rooms import count_rooms, read_budgets

ROOT = Path(__file__).resolve().parents[1]

FILE = '''"""Mean absolute norm: divide each token by its mean absolute value.

    y = weight · x / (mean(|x|) + eps)^gamma      mean over the last axis
"""

import torch
from torch import Tensor, nn

from labkit.norms._common import LastAxis, affine, at_least_float32, check_input, check_parameter


def mean_abs_norm(
    x: Tensor, weight: Tensor | None = None, eps: float = 1e-6, gamma: float = 1.0
) -> Tensor:
    """Scale each vector on the last axis to mean absolute value 1 (up to eps, for gamma 1)."""
    check_input("mean_abs_norm", x, eps)
    check_parameter("mean_abs_norm", "weight", weight, x.shape[-1])
    wide = at_least_float32(x)
    size = wide.abs().mean(dim=-1, keepdim=True)
    return affine(wide / (size + eps) ** gamma, weight, None).to(x.dtype)


class MeanAbsNorm(LastAxis):
    """Own the gain of `mean_abs_norm`."""

    equation = "y = weight · x / (mean(|x|) + eps)^gamma"
    source = "own: made up for a test"
    function = staticmethod(mean_abs_norm)
    eps_place = "added to the mean"

    def __init__(
        self, dim: int, eps: float = 1e-6, gamma: float = 1.0, *, device=None, dtype=None
    ):
        super().__init__(dim, eps)
        self.gamma = gamma
        self.weight = nn.Parameter(torch.ones(dim, device=device, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        self.check_width(x)
        return mean_abs_norm(x, self.weight, self.eps, self.gamma)
'''
IMPORT = "from labkit.norms.mean_abs_norm import MeanAbsNorm, mean_abs_norm\n"
ROW = '    "mean-abs": MeanAbsNorm,\n'
CASE = """        Case(
            "mean-abs",
            lambda x, p, eps: formulas.gained(x / (x.abs().mean(-1, keepdim=True) + eps), p),
            WEIGHT,
            slope=lambda eps: 1 / eps,
        ),
"""


# The tests with a case for each norm, and what they import.
TESTS = (
    "cases.py", "each.py", "norm_formulas.py", "conftest.py", "convert_models.py", "*peers*.py",
    "test_norms*.py", "test_own_norm.py", "test_convert.py", "test_convert_contents.py",
    "test_model.py", "variants*.py",
)  # fmt: skip


def put_before(path: Path, anchor: str, text: str) -> None:
    before = path.read_text()
    assert before.count(anchor) == 1, f"{path.name} has changed: say anew where a row goes"
    path.write_text(before.replace(anchor, text + anchor))


@pytest.fixture
def copy(tmp_path):
    """Copy the project with the file and the row of a new norm, but without a row of tests."""
    shutil.copytree(ROOT / "labkit", tmp_path / "labkit", ignore=_caches)
    (tmp_path / "tests").mkdir()
    for pattern in TESTS:
        for path in (ROOT / "tests").glob(pattern):
            shutil.copy(path, tmp_path / "tests")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    norms = tmp_path / "labkit" / "norms"
    (norms / "mean_abs_norm.py").write_text(FILE)
    put_before(norms / "__init__.py", "from labkit.norms.partial_rms_norm import", IMPORT)
    put_before(norms / "__init__.py", '    "none": nn.Identity,\n', ROW)
    return tmp_path


_caches = shutil.ignore_patterns("__pycache__")


def run_tests(root: Path, only: str) -> tuple[int, str]:
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", only, "tests"]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_a_new_norm_is_tested_by_its_row_alone(copy):
    code, printed = run_tests(copy, "every_norm_has_a_case")
    assert code == 1 and "mean-abs" in printed, "without the row it is red"
    put_before(copy / "tests" / "cases.py", '        Case(\n            "none",\n', CASE)
    whole = "every_norm_has_a_case or beside_a_peer or norms_make or norms_input"
    code, printed = run_tests(copy, f"mean-abs or {whole}")
    assert code == 0, printed
    # forward in four dtypes, eps, offsets, views, gradients, make_norm, refusals;
    # what it declares, look, map, replicates, check.any_norm, conversions, models
    passed = int(printed.rsplit(" passed", 1)[0].split()[-1])
    assert passed > 40, printed


def test_a_new_norm_adds_lines_to_the_rooms_that_running_md_names(copy):
    rooms = list(read_budgets())
    before = count_rooms(ROOT, rooms) | {"tests": count_rooms(copy, rooms)["tests"]}
    put_before(copy / "tests" / "cases.py", '        Case(\n            "none",\n', CASE)
    after = count_rooms(copy, rooms)
    assert [room for room in rooms if after[room] > before[room]] == ["labkit/norms", "tests"]
    page = (ROOT / "chapters" / "running.md").read_text()
    assert 'raise the rows `"labkit/norms"` and `"tests"`' in page


def test_a_new_norm_makes_no_record_stale(copy):
    code = f"""
from pathlib import Path
from labkit.experiments import Run
from labkit.experiments.records import Records
from labkit.norms import NORMS
rows = Records(Path({str(ROOT)!r})).load_rows("07")
assert "mean-abs" in NORMS and len(rows) > 50
assert all(Run.from_dict(row["run"]).key() == key for key, row in rows.items())
"""
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    subprocess.run([sys.executable, "-c", code], cwd=copy, env=environment, check=True)


@pytest.mark.slow
def test_a_new_norm_that_declares_what_is_not_so_is_red(copy):
    put_before(copy / "tests" / "cases.py", '        Case(\n            "none",\n', CASE)
    false = 'scope = "batch"\n    first_values = ("gamma",)'
    text = FILE.replace('eps_place = "added to the mean"', false)
    (copy / "labkit" / "norms" / "mean_abs_norm.py").write_text(text)
    code, printed = run_tests(copy, "mean-abs and (scope or first_values or eps_stands)")
    for test in ("the_scope_is", "first_values_are", "an_eps_stands_where"):
        assert code == 1 and f"FAILED tests/test_norms_declared.py::test_{test}" in printed, printed
