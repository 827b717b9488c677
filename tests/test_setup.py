"""Set-up ends whole whatever stops it, and says what it is about to download."""

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "labkit" / "book"


def by_path(name: str):
    """Import a file of the set-up as make runs it: by its path, not as a part of labkit."""
    spec = importlib.util.spec_from_file_location(name, BOOK / f"{name}.py")
    assert spec and spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


setup_torch = by_path("setup_torch")
setup_pip = by_path("setup_pip")
setup_venv = by_path("setup_venv")
setup = by_path("setup")
lab = by_path("lab")


# --- Python ---


def test_an_old_python_can_read_the_entry_and_is_refused_in_words():
    ast.parse((BOOK / "setup.py").read_text(), feature_version=(3, 6))
    said = setup.refusal((3, 9, 18), "python3")
    assert "3.11" in said and "3.9.18" in said and "make setup PYTHON=" in said


# --- the environment: a folder with a Python of its own ---

PROJECT = """
[build-system]
requires = ["hatchling"]
[project]
name = "toy"
[project.optional-dependencies]
book = ["torch==2.13.0", "numpy==2.4.6"]
dev = ["pytest==9.2.0", "pyright[nodejs]==1.1.414"]
[tool.hatch.build.targets.wheel]
packages = ["toy"]
[tool.ruff]
line-length = 100
"""
HERE = ".".join(map(str, sys.version_info[:2]))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(setup_torch.CHOICE, raising=False)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


@pytest.fixture
def calls(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Put in place of venv and pip something that only leaves their traces."""
    said: list[str] = []

    def run(*command: str, cwd: Path) -> int:
        said.append(" ".join(command[command.index("-m") + 1 :]))
        if "venv" in command:
            fake_venv(cwd / ".venv")
        return 0

    monkeypatch.setattr(setup_pip, "run", run)
    monkeypatch.setattr(setup_venv, "announce", lambda venv, torch: said.append(f"says {torch}"))
    return said


def fake_venv(venv: Path, version: str = HERE) -> None:
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").symlink_to(sys.executable)
    (venv / "pyvenv.cfg").write_text(f"version = {version}.1\n")


def decision(root: Path, chosen: bool = False) -> str:
    return setup_venv.decide(root / ".venv", setup_venv.pins(root)[0], HERE, chosen)


def test_a_pin_decides_and_neither_a_tool_setting_nor_a_time_stamp_does(root: Path):
    key, named = setup_venv.pins(root)
    assert named["torch"] == "torch==2.13.0" and named["pyright"] == "pyright[nodejs]==1.1.414"
    (root / "pyproject.toml").write_text(PROJECT.replace("100", "88"))
    assert setup_venv.pins(root)[0] == key
    (root / "pyproject.toml").write_text(PROJECT.replace("2.4.6", "2.4.7"))
    assert setup_venv.pins(root)[0] != key


def test_set_up_makes_says_installs_and_then_does_nothing(root: Path, calls: list[str]):
    setup_venv.set_up(root, chosen=False)
    assert calls[0].startswith("venv ")
    assert calls[-2] == "says torch==2.13.0"  # before the large download
    assert calls[-1].endswith("-e .[book,dev]")
    calls.clear()
    setup_venv.set_up(root, chosen=False)
    assert calls == []


def test_a_changed_pin_installs_on_top(root: Path, calls: list[str]):
    setup_venv.set_up(root, chosen=False)
    calls.clear()
    (root / "pyproject.toml").write_text(PROJECT.replace("2.4.6", "2.4.7"))
    setup_venv.set_up(root, chosen=False)
    assert calls and not any(call.startswith("venv ") for call in calls)
    assert decision(root) == "keep"


@pytest.mark.parametrize("moment", range(4))
def test_a_set_up_that_is_killed_is_made_anew(
    root: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch, moment: int
):
    class Killed(BaseException):
        pass

    class Deadly(list):
        def append(self, call: str) -> None:
            if len(self) == moment:
                raise Killed
            super().append(call)

    run, deadly = setup_pip.run, Deadly()

    def dying(*command: str, cwd: Path) -> int:
        deadly.append("")
        return run(*command, cwd=cwd)

    with monkeypatch.context() as patch:
        patch.setattr(setup_pip, "run", dying)
        patch.setattr(setup_venv, "announce", lambda venv, torch: deadly.append(""))
        with pytest.raises(Killed):
            setup_venv.set_up(root, chosen=False)
    assert decision(root) == "make"
    setup_venv.set_up(root, chosen=False)
    assert decision(root) == "keep"


def test_a_failed_download_leaves_a_working_environment_in_place(
    root: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
):
    setup_venv.set_up(root, chosen=False)
    (root / "pyproject.toml").write_text(PROJECT.replace("2.4.6", "2.4.7"))
    with monkeypatch.context() as patch:
        patch.setattr(setup_pip, "run", lambda *command, cwd: 1)
        with pytest.raises(setup_venv.SetupError, match="check the network"):
            setup_venv.set_up(root, chosen=False)
    assert decision(root) == "install"


def test_a_moved_folder_and_another_chosen_python_make_it_anew(root: Path, calls: list[str]):
    setup_venv.set_up(root, chosen=False)
    moved = root / "moved"
    moved.mkdir()
    (moved / "pyproject.toml").write_text(PROJECT)
    (root / ".venv").rename(moved / ".venv")
    assert decision(moved) == "make"
    (moved / ".venv").rename(root / ".venv")
    (root / ".venv/pyvenv.cfg").write_text("version = 3.99.0\n")
    assert decision(root) == "keep"
    assert decision(root, chosen=True) == "make"


def test_an_environment_of_someone_else_is_used_but_never_removed(root: Path, calls: list[str]):
    fake_venv(root / ".venv")
    (root / ".venv/mine").touch()
    setup_venv.set_up(root, chosen=False)
    assert not any(call.startswith("venv ") for call in calls)
    (root / ".venv/bin/python").unlink()
    with pytest.raises(setup_venv.SetupError, match="move it away"):
        setup_venv.set_up(root, chosen=False)
    assert (root / ".venv/mine").exists()


@pytest.mark.parametrize(("taken", "asked"), [("2.13.0", True), ("2.13.0+cpu", False)])
def test_the_variable_set_later_makes_it_anew_only_if_it_selects_another_build(
    root: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch, taken: str, asked: bool
):
    setup_venv.set_up(root, chosen=False)
    venv = root / ".venv"
    monkeypatch.setattr(setup_venv, "installed_torch", lambda venv: "2.13.0+cpu")
    setup_venv.write_stamp(venv, "key", True)
    build = setup_torch.Build(taken, (), 1, 1)
    monkeypatch.setattr(setup_venv, "ask", lambda venv, torch: build)
    monkeypatch.setenv(setup_torch.CHOICE, "https://user:secret@index.example/cpu")
    assert setup_venv.other_build_is_chosen(venv, "torch==2.13.0") is asked
    assert "secret" not in (venv / setup_venv.STAMP).read_text()
    monkeypatch.delenv(setup_torch.CHOICE)
    assert not setup_venv.other_build_is_chosen(venv, "torch==2.13.0")


# --- which PyTorch ---


def report(tmp_path: Path, *packages: tuple[str, str, int]) -> dict:
    items = []
    for name, version, size in packages:
        wheel = tmp_path / f"{name}.whl"
        wheel.write_bytes(bytes(size))
        about = {"name": name, "version": version}
        items.append({"metadata": about, "download_info": {"url": wheel.as_uri()}})
    return {"install": items}


def test_the_report_of_pip_tells_the_build_and_its_size(tmp_path: Path):
    answer = report(tmp_path, ("torch", "2.13.0", 700), ("nvidia-cublas", "13.1", 300))
    assert setup_torch.read_report(answer) == ("2.13.0", ("nvidia-cublas",), 2, 1000)
    (tmp_path / "torch.whl").unlink()
    assert setup_torch.read_report(answer).size is None


def test_cuda_on_a_machine_without_nvidia_is_said_loudly_with_the_way_out():
    cuda = setup_torch.Build("2.13.0", ("nvidia-cublas",), 29, 2_740_000_000)
    said = setup_torch.describe(cuda, nvidia=False)
    assert "2.7 GB in 29 packages" in said and "!!" in said and setup_torch.CHOICE in said
    assert "!!" not in setup_torch.describe(cuda, nvidia=True)
    cpu = setup_torch.Build("2.13.0+cpu", (), 10, None)
    said = setup_torch.describe(cpu, nvidia=False)
    assert "2.13.0+cpu" in said and "size unknown" in said and "!!" not in said


@pytest.mark.parametrize("terminal", [True, False])
def test_there_is_time_to_stop_only_at_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool
):
    build = setup_torch.Build("2.13.0", ("nvidia-cublas",), 29, None)
    waited: list[float] = []
    monkeypatch.setattr(setup_venv, "ask", lambda venv, torch: build)
    monkeypatch.setattr(setup_venv, "has_nvidia", lambda: False)
    monkeypatch.setattr(
        setup_venv.sys, "stdin", type("In", (), {"isatty": lambda self: terminal})()
    )
    monkeypatch.setattr(setup_venv.time, "sleep", waited.append)
    setup_venv.announce(tmp_path, "torch==2.13.0")
    assert bool(waited) is terminal


# --- JupyterLab ---


def test_the_lab_listens_on_this_machine_only_and_keeps_its_token(tmp_path: Path):
    command = " ".join(lab.command(tmp_path))
    assert "--ServerApp.ip=127.0.0.1" in command and "/lab/tree/chapters" in command
    assert "token" not in command and "password" not in command
    settings = lab.write_settings(tmp_path).read_text()
    assert '"python": "Jupytext Notebook"' in settings
