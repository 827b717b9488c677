"""A chapter's kernel, which ends when the process that started it ends.

ipykernel has a watch of its own, but one that misses a parent that died before it looked first.

Where LABKIT_USED names a file, the kernel writes there as it ends what the chapter used: the
modules of this project that it loaded, and what it opened below data/ or of normkernels' text. A
compiler's list of headers is the model: what is not on it cannot have changed the result.
"""

import atexit
import json
import os
import sys
from pathlib import Path

from labkit.system.files import folder_of, write_whole
from labkit.system.pool import end_with
from press.book.closure import PACKAGES


def watch_use(root: Path, path: Path) -> None:
    """Write to `path`, when this process ends, the modules and files of `root` that it used."""
    opened: set[str] = set()
    folders = (str(root / "data") + os.sep, str(folder_of("normkernels")) + os.sep)

    def note_file(event: str, args: tuple[object, ...]) -> None:
        if event == "open" and isinstance(args[0], str) and args[0].startswith(folders):
            opened.add(args[0])

    def write_use() -> None:
        modules = sorted(name for name in sys.modules if name.partition(".")[0] in PACKAGES)
        shown = sorted(getattr(sys.modules.get("labkit.source"), "shown", ()))
        files = sorted(opened)
        write_whole(path, json.dumps({"modules": modules, "shown": shown, "files": files}))

    sys.addaudithook(note_file)
    atexit.register(write_use)


if __name__ == "__main__":
    end_with(int(os.environ["JPY_PARENT_PID"]))
    if used := os.environ.get("LABKIT_USED"):
        watch_use(Path(os.environ["LABKIT_ROOT"]), Path(used))
    from ipykernel.kernelapp import launch_new_instance

    launch_new_instance()
