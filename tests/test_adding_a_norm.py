"""A new norm is one file, one row with its import, one row of tests: done here in a copy."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

FILE = '''"""Mean absolute norm: divide each token by its mean absolute value.

    y = weight · x / (mean(|x|) + eps)      mean over the last axis
"""

import torch
from torch import Tensor, nn

from labkit.norms._common import LastAxis, affine, at_least_float32, check_input, check_parameter


def mean_abs_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """Scale each vector on the last axis to mean absolute value 1 (up to eps)."""
    check_input("mean_abs_norm", x, eps)
    check_parameter("mean_abs_norm", "weight", weight, x.shape[-1])
    wide = at_least_float32(x)
    size = wide.abs().mean(dim=-1, keepdim=True)
    return affine(wide / (size + eps), weight, None).to(x.dtype)


class MeanAbsNorm(LastAxis):
    """Own the gain of `mean_abs_norm`."""

    equation = "y = weight · x / (mean(|x|) + eps)"
    source = "own: made up for a test"
    function = staticmethod(mean_abs_norm)

    def __init__(self, dim: int, eps: float = 1e-6, *, device=None, dtype=None):
        super().__init__(dim, eps)
        self.weight = nn.Parameter(torch.ones(dim, device=device, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        self.check_width(x)
        return mean_abs_norm(x, self.weight, self.eps)
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


def put_before(path: Path, anchor: str, text: str) -> None:
    before = path.read_text()
    assert before.count(anchor) == 1, f"{path.name} has changed: say anew where a row goes"
    path.write_text(before.replace(anchor, text + anchor))


@pytest.fixture
def copy(tmp_path):
    """A copy of the project with the file and the row of a new norm, but no row of tests."""
    shutil.copytree(ROOT / "labkit", tmp_path / "labkit", ignore=_caches)
    (tmp_path / "tests").mkdir()
    for name in ("cases.py", "each.py", "norm_formulas.py", "conftest.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")
    for pattern in ("test_norms*.py", "*peers*.py"):
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


def test_a_new_norm_is_tested_by_its_row_alone(copy):
    anchor = '        Case(\n            "none",\n'
    put_before(copy / "tests" / "cases.py", anchor, CASE)
    # forward in four dtypes, eps, offsets, views, gradients, properties; make_norm, refusals
    whole = "every_norm_has_a_case or two_peers or norms_make or norms_input"
    code, printed = run_tests(copy, f"mean-abs or {whole}")
    assert code == 0, printed
    passed = int(printed.rsplit(" passed", 1)[0].split()[-1])
    assert passed > 40, printed


@pytest.mark.slow
def test_a_new_norm_with_another_formula_than_its_row_is_red(copy):
    anchor = '        Case(\n            "none",\n'
    put_before(copy / "tests" / "cases.py", anchor, CASE.replace("+ eps", "- eps"))
    code, printed = run_tests(copy, "mean-abs and eps_stands")
    assert code == 1 and "eps_stands" in printed, printed


def test_a_new_norm_without_its_row_is_red(copy):
    code, printed = run_tests(copy, "every_norm_has_a_case")
    assert code == 1 and "mean-abs" in printed, printed
