"""An interrupted set-up leaves a consistent state; set-up announces what it downloads."""

import ast
import json
import sys
from importlib import metadata
from pathlib import Path

import pytest

from press.book import constraints, lab, setup

PROJECT = """
[build-system]
requires = ["hatchling"]
[project]
name = "toy"
[project.optional-dependencies]
book = ["torch==2.13.0", "numpy==2.4.6"]
dev = ["pip==26.3", "pyright[nodejs]==1.1.414"]
[tool.hatch.build.targets.wheel]
packages = ["toy"]
[tool.ruff]
line-length = 100
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(setup.CHOICE, raising=False)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


@pytest.fixture
def calls(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace venv and pip by stubs that only record their calls."""
    said: list[str] = []

    def run(python: str, *arguments: str) -> str:
        said.append(" ".join(arguments))
        if arguments[0] == "venv":
            (root / ".venv/bin").mkdir(exist_ok=True)
            (root / ".venv/bin/python").touch()
            (root / ".venv/pyvenv.cfg").write_text("version = {}.{}.1\n".format(*sys.version_info))
        return report("2.13.0+cpu") if "--report" in arguments else ""

    monkeypatch.setattr(setup, "run_module", run)
    return said


def report(version: str) -> str:
    return json.dumps({"install": [{"metadata": {"version": version}}]})


def test_versions_of_what_the_pins_bring_are_those_of_the_file(root, calls):
    assert "--constraint" not in set_up(root, calls)[-1]
    assert set_up(root, calls) == []
    path = root / setup.CONSTRAINTS
    path.parent.mkdir(parents=True)
    path.write_text("numpy==2.4.6\n")
    assert f"--constraint {path}" in set_up(root, calls)[-1]
    path.write_text("numpy==2.4.7\n")
    assert len(set_up(root, calls)) > 0, "another version is installed by the next set-up"


def test_the_constraints_are_what_is_installed(tmp_path, monkeypatch):
    found = constraints.list_installed()
    assert found["torch"] == metadata.version("torch").partition("+")[0]
    assert not [name for name in found if name.startswith(("nvidia", "norm-lab-book", "pip"))]
    monkeypatch.setattr(constraints, "list_installed", lambda: {"a": "1", "b": "2"})
    assert constraints.write_constraints(tmp_path) == ["a==1", "b==2"]
    path = tmp_path / constraints.FILE
    assert path.read_text().splitlines()[1:] == ["a==1", "b==2"]
    assert constraints.write_constraints(tmp_path, check=True) == []
    monkeypatch.setattr(constraints, "list_installed", lambda: {"a": "3", "c": "2"})
    assert constraints.write_constraints(tmp_path, check=True) == ["a==3", "c==2", "no b"]
    assert "a==1" in path.read_text(), "it only looked"
    path.write_text(path.read_text().replace("Python 3.", "Python 2."))
    assert constraints.write_constraints(tmp_path, check=True) == ["a==3"], "another Python"


def set_up(root: Path, calls: list[str], chosen: bool = False) -> list[str]:
    """Set up, and return the recorded calls."""
    calls.clear()
    setup.set_up(root, chosen)
    return list(calls)


def test_an_old_python_can_read_the_file_and_is_refused_in_words(root, monkeypatch, capsys):
    ast.parse(Path(setup.__file__).read_text(), feature_version=(3, 6))
    monkeypatch.setattr(sys, "version_info", (3, 9, 18))
    assert setup.main(root) == 1
    said = capsys.readouterr().err
    assert "3.11" in said and "3.9.18" in said and "make setup PYTHON=" in said


def test_set_up_makes_says_installs_and_a_changed_pin_installs_on_top(root, calls, capsys):
    venv, pip, asked, install = set_up(root, calls)
    assert venv.startswith("venv ") and pip.endswith("pip==26.3")
    assert asked.endswith("torch==2.13.0") and install.endswith(f"-e {root}[book,dev]")
    assert "--no-compile" in install
    assert "torch 2.13.0+cpu, without CUDA" in capsys.readouterr().out
    assert set_up(root, calls) == []
    (root / "pyproject.toml").write_text(PROJECT.replace("100", "88"))
    assert set_up(root, calls) == []
    (root / "pyproject.toml").write_text(PROJECT.replace("2.4.6", "2.4.7"))
    words = set_up(root, calls)
    assert words[-1].endswith("[book,dev]") and not words[0].startswith("venv")


@pytest.mark.parametrize("moment", [0, 1, pytest.param(2, marks=pytest.mark.slow), 3])
def test_a_set_up_that_is_stopped_is_finished_by_the_next(root, calls, monkeypatch, moment):
    run = setup.run_module

    def stopping(python: str, *arguments: str) -> str:
        if len(calls) == moment:
            raise KeyboardInterrupt
        return run(python, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(setup, "run_module", stopping)
        with pytest.raises(KeyboardInterrupt):
            set_up(root, calls)
    words = set_up(root, calls)
    assert words[0].startswith("venv ") and words[-1].endswith("[book,dev]")
    assert set_up(root, calls) == []


def test_another_chosen_python_makes_it_anew_and_a_moved_folder_deletes_nothing(root, calls):
    set_up(root, calls)
    config = root / ".venv/pyvenv.cfg"
    config.write_text("version = 3.99.0\n")
    assert set_up(root, calls) == []
    assert set_up(root, calls, chosen=True)[0].startswith("venv ")
    (root / ".venv").rename(root / "elsewhere")
    (root / ".venv").symlink_to(root / "elsewhere")
    stamp = setup.read_stamp(root / ".venv")
    (root / "elsewhere" / setup.STAMP).write_text(json.dumps(stamp | {"root": "/elsewhere"}))
    with pytest.raises(setup.SetupError, match=r"/elsewhere, but the clone is now at"):
        set_up(root, calls)
    assert (root / "elsewhere/pyvenv.cfg").exists() and (root / ".venv").is_symlink()


def test_an_environment_of_someone_else_is_left_alone(root, calls):
    (root / ".venv").mkdir()
    (root / ".venv/mine").touch()
    with pytest.raises(setup.SetupError, match="move it"):
        set_up(root, calls)
    assert (root / ".venv/mine").exists()


def test_the_variable_set_later_makes_it_anew_and_unset_changes_nothing(root, calls, monkeypatch):
    set_up(root, calls)
    monkeypatch.setenv(setup.CHOICE, "https://user:secret@index.example/cpu")
    assert set_up(root, calls)[0].startswith("venv ")
    assert "secret" not in (root / ".venv" / setup.STAMP).read_text()
    monkeypatch.delenv(setup.CHOICE)
    assert set_up(root, calls) == []


@pytest.mark.parametrize("gpu", [None, "/usr/bin/nvidia-smi"])
def test_cuda_is_said_and_loudly_where_no_gpu_is_with_the_way_out(monkeypatch, capsys, gpu):
    monkeypatch.setattr(setup, "run_module", lambda *arguments: report("2.13.0"))
    monkeypatch.setattr(setup.shutil, "which", lambda name: gpu)
    monkeypatch.setattr(sys, "platform", "linux")
    setup.announce_torch("python", "torch==2.13.0")
    said = capsys.readouterr().out
    assert "torch 2.13.0 with NVIDIA's CUDA libraries" in said
    assert ("!!" in said and setup.CHOICE in said) is (gpu is None)


def test_a_failed_pip_says_what_to_do():
    with pytest.raises(setup.SetupError, match="run make again"):
        setup.run_module(sys.executable, "pip", "--no-such-option")


# --- JupyterLab ---


def test_the_lab_listens_on_this_machine_only_and_keeps_its_token(tmp_path: Path):
    settings = lab.write_settings(tmp_path)
    command = " ".join(lab.build_command(tmp_path, settings))
    assert "--ServerApp.ip=127.0.0.1" in command and "/chapters/START.ipynb" in command
    assert "token" not in command and "password" not in command
    assert '"python": "Jupytext Notebook"' in (settings / "overrides.json").read_text()
    assert "max-width" in (settings / "custom" / "custom.css").read_text()
    assert "--ext=press.book.helping" in (settings / "kernels/python3/kernel.json").read_text()


def test_a_clone_that_may_not_be_written_gets_one_sentence(tmp_path: Path, monkeypatch, capsys):
    def refuse(*_):
        raise PermissionError(13, "Permission denied", str(tmp_path / ".venv"))

    (tmp_path / "chapters").mkdir()
    monkeypatch.setattr(lab, "write_settings", refuse)
    monkeypatch.setattr(sys, "argv", ["lab", "--root", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"\.venv is not \(Permission denied\); work in"):
        lab.main()
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(setup, "set_up", refuse)
    monkeypatch.setattr(sys, "argv", ["setup"])
    assert setup.main(tmp_path) == 1
    assert "must be writable (Permission denied)" in capsys.readouterr().err
