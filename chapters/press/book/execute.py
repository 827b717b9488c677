"""Execute one chapter in a fresh kernel, which ends when the builder does.

Writes the executed notebook under build/book; a failure leaves the last good one alone and
writes another beside it, to open.
"""

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.files import write_whole
from press.book import chapters, state
from press.book.chapters import CODE, Chapter

if TYPE_CHECKING:
    from jupyter_client.manager import AsyncKernelManager
    from nbformat import NotebookNode

# A socket's path has room for about 100 bytes; "/kernel-5" is added to its folder.
LONGEST_SOCKET_FOLDER = 80
WIDGET = "application/vnd.jupyter.widget-view+json"


class Failed(Exception):
    """A chapter that did not run to its end; its text says why, and what to open."""


def build_environment(root: Path) -> dict[str, str]:
    """Set what a kernel sees: one thread, inline figures, a fixed date, nothing personal."""
    paths = [str(CODE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
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


@contextmanager
def prepare_kernel() -> Iterator["AsyncKernelManager"]:
    """Prepare a kernel of our own kind, with which we talk through files."""
    from jupyter_client.manager import AsyncKernelManager

    from press.book.kernel import OwnKernel

    with tempfile.TemporaryDirectory(prefix="labkit-") as folder:
        manager = AsyncKernelManager(
            kernel_spec_manager=OwnKernel(), connection_file=f"{folder}/connection.json"
        )
        # With files instead of ports, two kernels that start together never want the same port,
        # and nothing listens on the network.
        if len(folder) < LONGEST_SOCKET_FOLDER:
            manager.transport, manager.ip = "ipc", f"{folder}/kernel"
        yield manager


def execute_chapter(
    chapter: Chapter,
    root: Path,
    size: str,
    seed: int,
    manager: "AsyncKernelManager",
    asked: dict[str, str],
    on_cell: Callable[[int, int], object],
) -> None:
    """Execute a chapter and write its notebook. Raise Failed where a cell or the kernel fails.

    `on_cell` is told, before each cell, which of how many code cells it is.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    notebook = chapters.read_chapter(chapter)
    chapters.check_parameters(notebook, chapter.source)
    _inject_parameters(notebook, {"size": size, "seed": seed})
    code = [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]

    def announce_cell(cell: "NotebookNode", cell_index: int) -> None:
        on_cell(sum(i < cell_index for i in code), len(code))

    client = NotebookClient(
        notebook,
        km=manager,
        timeout=None,
        coalesce_streams=True,
        record_timing=False,
        raise_on_iopub_timeout=True,
        store_widget_state=False,
        on_cell_start=lambda cell, cell_index: on_cell(
            sum(i < cell_index for i in code), len(code)
        ),
    )
    done = state.notebook_path(root, size, chapter.name)
    failed = done.with_suffix(".failed.ipynb")
    log = root / ".labkit" / "log" / f"{size}-{chapter.name}.txt"
    for folder in (log.parent, root / ".labkit" / "ipython"):
        folder.mkdir(parents=True, exist_ok=True)
    with log.open("w") as file:  # what kernels and libraries say beside their outputs
        try:
            asyncio.run(
                client.async_execute(
                    cleanup_kc=True,
                    cwd=str(chapter.source.parent),
                    env=build_environment(root) | asked,
                    stdout=file,
                    stderr=file,
                )
            )
        except Exception as error:
            write_whole(failed, nbformat.writes(_without_widgets(notebook)) + "\n")
            said = str(error).strip()
            if not isinstance(error, CellExecutionError):
                tail = log.read_text(errors="replace").splitlines()[-20:]
                said = "\n".join([f"{type(error).__name__}: {said}", *tail])
            raise Failed(f"{said}\nopen it: {failed.relative_to(root)}") from error
    failed.unlink(missing_ok=True)
    write_whole(done, nbformat.writes(_without_widgets(notebook)) + "\n")


def _inject_parameters(notebook: "NotebookNode", parameters: Mapping[str, Any]) -> None:
    """Insert the build's parameters below the chapter's own."""
    from nbformat.v4 import new_code_cell

    source = "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
    cell = new_code_cell(source, id="injected", metadata={"tags": ["injected-parameters"]})
    tags = [cell.metadata.get("tags", []) for cell in notebook.cells]
    notebook.cells.insert(1 + next(i for i, own in enumerate(tags) if "parameters" in own), cell)


def _without_widgets(notebook: "NotebookNode") -> "NotebookNode":
    """Drop progress bars, which are no result."""
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [out for out in cell.outputs if WIDGET not in out.get("data", {})]
    return notebook
