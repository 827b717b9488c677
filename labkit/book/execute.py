"""Execute one chapter in a fresh kernel: a program of its own, so that killing it is clean.

    python -m labkit.book.execute NAME --root ROOT --profile cpu --seed 0 --parent PID

Writes the executed notebook under build/book; a failure leaves the last good one alone and
writes another beside it, to open.
"""

import argparse
import os
import re
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.book import chapters, state
from labkit.book.files import write_whole

if TYPE_CHECKING:
    from nbformat import NotebookNode

# A socket's path has room for 107 bytes; "/kernel-<uuid>-ipc-5" needs about 55 of them.
LONGEST_SOCKET_FOLDER = 50
WIDGET = "application/vnd.jupyter.widget-view+json"


class Memory:
    """Keep what papermill saves: nothing half done reaches the disk."""

    def __init__(self):
        self.text = ""

    def write(self, text: str, path: str) -> None:
        """Take a save, whatever the path."""
        self.text = text

    def pretty_path(self, path: str) -> str:
        """Name the place in papermill's log."""
        return path


def environment(root: Path) -> dict[str, str]:
    """Set what a kernel sees: one thread, inline figures, a fixed date, nothing personal."""
    return {
        **os.environ,
        "LABKIT_ROOT": str(root),
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "SOURCE_DATE_EPOCH": "0",
        "PYTHONHASHSEED": "0",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "JUPYTER_PREFER_ENV_PATH": "1",
        "JUPYTER_NO_CONFIG": "1",
        "IPYTHONDIR": str(root / ".labkit" / "ipython"),
    }


def run(notebook: "NotebookNode", folder: Path, parameters: dict[str, Any]) -> "NotebookNode":
    """Execute a notebook in `folder`; on failure raise, with the notebook as far as it came."""
    import nbformat
    from papermill import execute_notebook
    from papermill.iorw import papermill_io
    from traitlets.config import Config

    memory = Memory()
    papermill_io.register("memory://", memory)
    code = [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]

    def announce(cell: Any, cell_index: int) -> None:
        print(f"cell {sum(i < cell_index for i in code)} of {len(code)}", flush=True)

    with tempfile.TemporaryDirectory(prefix="labkit-") as sockets:
        config = Config()
        # Kernels talk over files rather than ports, so that two that start together never want
        # the same port, and nothing listens on the network.
        if len(sockets) < LONGEST_SOCKET_FOLDER:
            os.environ["JUPYTER_RUNTIME_DIR"] = sockets
            config.KernelManager.transport = "ipc"
        try:
            execute_notebook(
                notebook,
                "memory://chapter.ipynb",
                parameters=parameters,
                kernel_name="python3",
                progress_bar=False,
                cwd=folder,
                config=config,
                coalesce_streams=True,
                on_cell_start=announce,
            )
        except Exception as error:
            # The exception is the verdict: the notebook's own metadata may say "completed".
            reached = nbformat.reads(memory.text or nbformat.writes(notebook), 4)
            raise Failed(without_widgets(reached)) from error
    return without_widgets(nbformat.reads(memory.text, 4))


def without_widgets(notebook: "NotebookNode") -> "NotebookNode":
    """Drop progress bars and papermill's copy of its input: neither is a result."""
    for entry in ("widgets", "papermill"):
        notebook.metadata.pop(entry, None)
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [out for out in cell.outputs if WIDGET not in out.get("data", {})]
    return notebook


class Failed(Exception):
    """A chapter that did not run to its end; the notebook as far as it came is its argument."""


def main(argv: list[str] | None = None) -> int:
    """Execute a chapter and write its notebook; print why when it fails."""
    parser = argparse.ArgumentParser(prog="python -m labkit.book.execute")
    parser.add_argument("name")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--profile", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    args = parser.parse_args(argv)
    threading.Thread(target=_end_with, args=(args.parent,), daemon=True).start()
    (args.root / ".labkit" / "ipython").mkdir(parents=True, exist_ok=True)
    import nbformat

    done = state.notebook_path(args.root, args.profile, args.name)
    failed = done.with_suffix(".failed.ipynb")
    (chapter,) = chapters.choose(chapters.find(args.root), [args.name])
    os.environ.update(environment(args.root))
    try:
        notebook = chapters.read(chapter)
        chapters.check_parameters(notebook, chapter.source)
        executed = run(
            notebook, chapter.source.parent, {"profile": args.profile, "seed": args.seed}
        )
    except Failed as error:
        write_whole(failed, nbformat.writes(error.args[0]) + "\n")
        print(readable(str(error.__cause__)))
        print(f"open it: {failed.relative_to(args.root)}")
        return 1
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        return 1
    failed.unlink(missing_ok=True)
    write_whole(done, nbformat.writes(executed) + "\n")
    return 0


def readable(text: str) -> str:
    """Drop the colour codes that only a terminal understands."""
    return text if sys.stdout.isatty() else re.sub(r"\x1b\[[0-9;]*m", "", text)


def _end_with(parent: int) -> None:
    # The kernel watches this process in the same way (ipykernel's parent poller), so killing the
    # builder ends everything within two seconds.
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
