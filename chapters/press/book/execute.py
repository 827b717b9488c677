"""Execute a chapter's notebook with papermill, in a fresh kernel that ends with this process."""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from jupyter_core.utils import ensure_event_loop
from papermill import execute_notebook
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import Engine, papermill_engines

from labkit.system.threads import build_one_thread_environment
from press.book.chapters import CODE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_client.manager import AsyncKernelManager
    from nbformat import NotebookNode

# A socket's path has room for about 100 bytes; "/kernel-5" is added to its folder.
LONGEST_SOCKET_FOLDER = 80
KERNEL = {
    "argv": [sys.executable, "-m", "press.book.kernel", "-f", "{connection_file}"],
    "display_name": "Python 3 (ipykernel)",
    "language": "python",
}


def build_environment(root: Path) -> dict[str, str]:
    """Build a kernel's environment: this labkit, one thread, inline figures, nothing personal."""
    personal = root / ".labkit" / "ipython"
    personal.mkdir(parents=True, exist_ok=True)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(CODE), os.environ.get("PYTHONPATH")])),
        "LABKIT_ROOT": str(root),
        "LABKIT_POOL": "1",  # the kernel counts as one of the pool while it computes
        **build_one_thread_environment(),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "SOURCE_DATE_EPOCH": "0",
        "PYTHONHASHSEED": "0",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "JUPYTER_NO_CONFIG": "1",
        "IPYTHONDIR": str(personal),
    }


@contextmanager
def manage_kernel() -> "Iterator[AsyncKernelManager]":
    """Make a manager that finds our kernel, and no other with the same name.

    It talks to it through files: two kernels that start together never want the same port, and
    nothing listens on the network.
    """
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    with tempfile.TemporaryDirectory(prefix="labkit-") as folder:
        path = Path(folder) / "kernels" / "python3" / "kernel.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(KERNEL))
        short = len(folder) < LONGEST_SOCKET_FOLDER
        yield AsyncKernelManager(
            kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(path.parents[1])]),
            connection_file=f"{folder}/connection.json",
            **{"transport": "ipc", "ip": f"{folder}/kernel"} if short else {},
        )


class OwnKernel(Engine):
    """Papermill's engine: executes in the kernel of `manager`, started as `around` says."""

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: Any,
        kernel_name: str,
        *,
        manager: "AsyncKernelManager",
        around: Mapping[str, Any],
        announce: Callable[..., None],
        reached: Path,
        **kwargs: Any,
    ) -> None:
        """Execute the notebook that papermill passes; end the kernel in any case.

        Where the kernel fails, and not a cell, `reached` holds how far the notebook came.
        """
        client = PapermillNotebookClient(
            nb_man, km=manager, coalesce_streams=True, on_cell_start=announce
        )
        with closing(ensure_event_loop()):  # of this thread, which may execute other chapters
            try:
                client.execute(cleanup_kc=True, **around)
            except BaseException:
                nb_man.output_path = str(reached)
                nb_man.save()
                raise


papermill_engines.register("own-kernel", OwnKernel)


def run_notebook(
    notebook: "NotebookNode",
    parameters: Mapping[str, Any],
    manager: "AsyncKernelManager",
    folder: Path,
    environment: Mapping[str, str],
    log: TextIO,
    reached: Path,
    announce_cell: Callable[[int, int], None],
) -> "NotebookNode":
    """Execute a notebook in `folder`; errors are raised, and `reached` holds the cells executed.

    `log` takes what the kernel and its libraries say beside their cells.
    """
    code = [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]

    def announce(cell: object, cell_index: int) -> None:
        announce_cell(sum(i < cell_index for i in code), len(code))

    return execute_notebook(
        notebook,
        reached,
        parameters=dict(parameters),
        engine_name="own-kernel",
        progress_bar=False,
        request_save_on_cell_execute=False,  # megabytes, twice a cell
        manager=manager,
        around={"cwd": str(folder), "env": dict(environment), "stdout": log, "stderr": log},
        announce=announce,
        reached=reached,
    )
