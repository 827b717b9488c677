"""Open JupyterLab at the chapters: on this machine only, with a token, without the network.

Run by path with the Python of `.venv`. The server's root is the repository and not `chapters/`,
because Jupytext looks for its settings (pyproject.toml) nowhere above the root.
"""

import argparse
import json
import os
import sys
from pathlib import Path

FOLDER = "share/jupyter/lab/labkit-settings"
STYLE = Path(__file__).with_name("lab.css")
# The kernel of .venv, which also says what a cell lacks and checks exercises (helping.py).
KERNEL = {
    "argv": [
        "python", "-m", "ipykernel_launcher", "-f", "{connection_file}",
        "--ext=press.book.helping",
    ],
    "display_name": "Python 3 (ipykernel)",
    "language": "python",
    "metadata": {"debugger": True},
}  # fmt: skip
HERE = Path(__file__).resolve().parents[3]
SETTINGS = {
    # A double click on a chapter's .py opens the notebook; the text editor is in "Open With".
    "@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"python": "Jupytext Notebook"}},
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/extensionmanager-extension:plugin": {"enabled": False},
}


def write_settings(prefix: Path) -> Path:
    """Write the default settings to a separate folder in `.venv`, not in the reader's home."""
    folder = prefix / FOLDER
    for name, text in (
        ("overrides.json", json.dumps(SETTINGS, indent=1)),
        ("custom/custom.css", STYLE.read_text(encoding="utf-8")),
        ("kernels/python3/kernel.json", json.dumps(KERNEL, indent=1)),
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    return folder


def build_command(root: Path, settings: Path) -> list[str]:
    """Return the command that starts JupyterLab; these settings override the reader's own."""
    never = "jupyterlab.handlers.announcements.NeverCheckForUpdate"
    options = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.root_dir": str(root),
        "FileContentsManager.preferred_dir": str(root / "chapters"),
        "FileContentsManager.pre_save_hook": "press.book.saving.drop_volatile",
        "ServerApp.tornado_settings": str({"static_custom_path": [str(settings / "custom")]}),
        "LabApp.custom_css": "True",
        "LabApp.app_settings_dir": str(settings),
        "LabApp.default_url": "/lab/tree/chapters/START.ipynb",
        "LabApp.extension_manager": "readonly",
        "LabApp.check_for_updates_class": never,
        "LabApp.news_url": "None",
    }
    as_root = ["--allow-root"] if os.geteuid() == 0 else []  # in a container; the token stays on
    flags = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "jupyterlab", *flags, *as_root]


def main() -> None:
    """Become JupyterLab; unknown options, such as --no-browser, are passed to it."""
    parser = argparse.ArgumentParser(description="Open JupyterLab at the chapters.")
    parser.add_argument("--root", type=Path, default=HERE, help="a folder that holds chapters/")
    known, rest = parser.parse_known_args()
    root = known.root.resolve()
    if not (root / "chapters").is_dir():
        sys.exit(f"lab: the root must contain chapters/, but {root} does not; name another root")
    try:
        settings = write_settings(Path(sys.prefix))
    except OSError as error:
        sys.exit(
            "lab: the clone must be writable, because it stores settings and notebooks, but "
            f"{error.filename} is not ({error.strerror}); work in a clone that you may change"
        )
    os.chdir(root)
    searched = [str(settings), os.environ.get("JUPYTER_PATH", "")]
    os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, searched))
    os.execv(sys.executable, [*build_command(root, settings), *rest])


if __name__ == "__main__":
    main()
