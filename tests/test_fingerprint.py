from pathlib import Path

import pytest

from labkit.fingerprint import closure, digest, fingerprint, fingerprint_of, imported

TREE = {
    "labkit/__init__.py": "from labkit.model import Model\nfrom .plots import draw\nEDITION = 1\n",
    "labkit/model.py": "from labkit.norms import rms_norm\nimport math\nclass Model: pass\n",
    "labkit/plots.py": "import labkit.palette as palette\ndef draw(): pass\n",
    "labkit/palette.py": "BLUE = 1\n",
    "labkit/norms/__init__.py": (
        "from labkit.norms.rms import rms_norm\nfrom .table import *\nNORMS = {}\n"
    ),
    "labkit/norms/rms.py": (
        '"""Say it."""\ndef rms_norm(x):\n    """Scale x."""\n    return x  # well\n'
    ),
    "labkit/norms/table.py": "def f():\n    from labkit import model\n",
    "kernels/normkernels/__init__.py": "from normkernels.rms import rms_norm\n",
    "kernels/normkernels/rms.py": "def rms_norm(x): pass\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def reached(root: Path, code: str) -> set[str]:
    return set(closure(imported(digest(code.encode()), root), root))


@pytest.mark.parametrize(
    ("code", "modules"),
    [
        ("import math, torch", set()),
        ("from labkit import Model", {"labkit.model", "labkit.norms.rms"}),
        ("from labkit import draw", {"labkit.plots", "labkit.palette"}),
        ("from labkit import norms as n", {"labkit.norms", "labkit.norms.table"}),
        ("from labkit.norms import rms_norm", {"labkit.norms.rms"}),
        ("from labkit.norms import NORMS", {"labkit.norms", "labkit.norms.rms"}),
        ("from labkit import EDITION", {"labkit", "labkit.plots"}),
        ("import labkit", {"labkit", "labkit.model", "labkit.palette"}),
        ("def f():\n    import labkit.palette", {"labkit.palette"}),
        ("from normkernels import rms_norm", {"normkernels.rms"}),
        ("from labkit import no_such_name", {"labkit", "labkit.model"}),
    ],
)
def test_an_import_reaches_the_modules_that_it_runs(root, code, modules):
    assert modules <= reached(root, code)


def test_a_name_passed_on_by_a_package_does_not_pull_in_the_package(root):
    assert reached(root, "from labkit import Model") == {"labkit.model", "labkit.norms.rms"}
    assert "labkit" not in reached(root, "from labkit.norms import rms_norm")


def test_comments_docstrings_and_layout_are_no_change_but_code_is(root):
    before = fingerprint(closure(["labkit.model"], root))
    rms = root / "labkit/norms/rms.py"
    rms.write_text('"""Other."""\n\n\ndef rms_norm(x):\n    "More."\n    return (x)\n')
    assert fingerprint(closure(["labkit.model"], root)) == before
    rms.write_text("def rms_norm(x):\n    return -x\n")
    assert fingerprint(closure(["labkit.model"], root)) != before


def test_an_edit_of_a_plot_does_not_touch_the_model(root):
    before = fingerprint(closure(["labkit.model"], root))
    (root / "labkit/plots.py").write_text("def draw(): return 1\n")
    assert fingerprint(closure(["labkit.model"], root)) == before


def test_the_place_of_a_checkout_does_not_count(root, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (root / "labkit").rename(other / "labkit")
    moved = fingerprint(closure(["labkit.model"], other))
    (other / "labkit").rename(root / "labkit")
    assert fingerprint(closure(["labkit.model"], root)) == moved


def test_an_unknown_module_is_an_error():
    with pytest.raises(ValueError, match="no 'labkit\\.nothing'"):
        fingerprint_of("labkit.nothing")
    assert len(fingerprint_of("labkit.fingerprint")) == 64
