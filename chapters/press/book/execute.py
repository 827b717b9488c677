"""Execute one chapter in a fresh kernel: a program of its own, so that killing it is clean.

    python -m press.book.execute NAME --root ROOT --size book --seed 0 --parent PID

Writes the executed notebook under build/book; a failure leaves the last good one alone and
writes another beside it, to open.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from labkit.files import write_whole
from press.book import chapters, state
from press.book.kernel import build_specification, end_with

if TYPE_CHECKING:
    from nbformat import NotebookNode
    from traitlets.config import Config

# A socket's path has room for about 100 bytes; "/kernel-5" is added to its folder.
LONGEST_SOCKET_FOLDER = 80
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


def build_environment(root: Path) -> dict[str, str]:
    """Set what a kernel sees: one thread, inline figures, a fixed date, nothing personal."""
    return {
        **os.environ,
        "LABKIT_ROOT": str(root),
        "LABKIT_POOL": "1",  # the kernel counts as one of the pool while it computes
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "SOURCE_DATE_EPOCH": "0",
        "PYTHONHASHSEED": "0",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "JUPYTER_NO_CONFIG": "1",
        "IPYTHONDIR": str(root / ".labkit" / "ipython"),
    }


def run_notebook(
    notebook: "NotebookNode", folder: Path, parameters: dict[str, Any], voice: TextIO
) -> "NotebookNode":
    """Execute a notebook in `folder`; on failure raise, with the notebook as far as it came."""
    import nbformat
    from papermill import execute_notebook
    from papermill.iorw import papermill_io

    memory = Memory()
    papermill_io.register("memory://", memory)
    code = [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]

    def announce_cell(cell: Any, cell_index: int) -> None:
        print(f"cell {sum(i < cell_index for i in code)} of {len(code)}", file=voice)

    with tempfile.TemporaryDirectory(prefix="labkit-") as folder_of_kernel:
        try:
            execute_notebook(
                notebook,
                "memory://chapter.ipynb",
                parameters=parameters,
                kernel_name="python3",
                progress_bar=False,
                cwd=folder,
                config=kernel_config(Path(folder_of_kernel)),
                coalesce_streams=True,
                on_cell_start=announce_cell,
            )
        except Exception as error:
            # The exception is the verdict: the notebook's own metadata may say "completed".
            reached = nbformat.reads(memory.text or nbformat.writes(notebook), 4)
            raise Failed(without_widgets(reached)) from error
    return without_widgets(nbformat.reads(memory.text, 4))


def kernel_config(folder: Path) -> "Config":
    """Let Jupyter find our kernel, and no other of that name, and talk to it through files."""
    from traitlets.config import Config

    path = folder / "kernels" / "python3" / "kernel.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(build_specification(sys.executable)))
    os.environ.update(JUPYTER_PATH=str(folder), JUPYTER_RUNTIME_DIR=str(folder))
    config = Config()
    # With files instead of ports, two kernels that start together never want the same port, and
    # nothing listens on the network.
    if len(str(folder)) < LONGEST_SOCKET_FOLDER:
        config.KernelManager.transport = "ipc"
        config.KernelManager.ip = f"{folder}/kernel"
    return config


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
    parser = argparse.ArgumentParser(prog="python -m press.book.execute")
    parser.add_argument("name")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--size", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    args = parser.parse_args(argv)
    end_with(args.parent)
    (args.root / ".labkit" / "ipython").mkdir(parents=True, exist_ok=True)
    log = args.root / ".labkit" / "log" / f"{args.size}-{args.name}.txt"
    voice = keep_voice(log)
    import nbformat

    done = state.notebook_path(args.root, args.size, args.name)
    failed = done.with_suffix(".failed.ipynb")
    (chapter,) = chapters.choose_chapters(chapters.find_chapters(args.root), [args.name])
    os.environ.update(build_environment(args.root))
    try:
        notebook = chapters.read_chapter(chapter)
        chapters.check_parameters(notebook, chapter.source)
        executed = run_notebook(
            notebook, chapter.source.parent, {"size": args.size, "seed": args.seed}, voice
        )
    except Failed as error:
        from papermill.exceptions import PapermillExecutionError

        write_whole(failed, nbformat.writes(error.args[0]) + "\n")
        print(str(error.__cause__).strip(), file=voice)
        if not isinstance(error.__cause__, PapermillExecutionError):
            print(*log.read_text(errors="replace").splitlines()[-20:], sep="\n", file=voice)
        print(f"open it: {failed.relative_to(args.root)}", file=voice)
        return 1
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=voice)
        return 1
    failed.unlink(missing_ok=True)
    write_whole(done, nbformat.writes(executed) + "\n")
    return 0


def keep_voice(log: Path) -> TextIO:
    """Return our standard output, and send what kernels and libraries say to a log instead.

    A worker that outlives its kernel then never holds the pipe on which the builder listens.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    voice = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    return voice


if __name__ == "__main__":
    sys.exit(main())
