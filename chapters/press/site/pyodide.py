"""Pyodide, CPython for the browser: fetched once from npm, and served by the site itself.

Pyodide is under the Mozilla Public License 2.0; the CPython in it under the PSF License 2. What
npm delivers is kept with its own package.json, beside a note of both licences.
"""

import base64
import hashlib
import sys
import tarfile
import tempfile
from pathlib import Path

from press.npm import run_npm

VERSION = "314.0.7"
INTEGRITY = (
    "sha512-0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R"
    "1A=="
)
FILES = (
    "pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json",
    "package.json",
)  # fmt: skip
NOTICE = f"""Pyodide {VERSION}, unchanged, as the npm package pyodide delivers it.

Pyodide: Mozilla Public License 2.0, https://www.mozilla.org/MPL/2.0/
Its source: https://github.com/pyodide/pyodide/tree/{VERSION}
CPython and its standard library, which it contains: PSF License Agreement 2,
https://docs.python.org/3/license.html
"""
SERVED = "_static/pyodide"
COMMAND = "labkit fetch pyodide"


def find_folder(prefix: Path = Path(sys.prefix)) -> Path:
    """Return the folder in which Pyodide is kept, next to this Python."""
    return prefix / "share" / "pyodide" / VERSION


def fetch_pyodide(prefix: Path = Path(sys.prefix)) -> Path:
    """Fetch the pinned version and keep what pages need; return the folder.

    Raises ValueError where npm cannot, and where what came is not what was pinned.
    """
    folder = find_folder(prefix)
    if is_there(prefix):
        return folder
    with tempfile.TemporaryDirectory() as scratch:
        run_npm("pyodide", "pack", f"pyodide@{VERSION}", "--silent", "--pack-destination", scratch)
        archive = next(Path(scratch).glob("*.tgz"))
        came = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if came != INTEGRITY:
            raise ValueError(
                f"the checksum of pyodide {VERSION} must be {INTEGRITY}, got {came}; download it "
                "again"
            )
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as packed:
            for name in FILES:
                member = packed.extractfile(f"package/{name}")
                if member is None:
                    raise ValueError(
                        f"the site needs the file {name} of pyodide, but version {VERSION} has "
                        "none; see its releases"
                    )
                (folder / name).write_bytes(member.read())
    (folder / "NOTICE.txt").write_text(NOTICE, encoding="utf-8")
    return folder


def is_there(prefix: Path = Path(sys.prefix)) -> bool:
    """Return whether it was fetched completely; the marker file is written last."""
    return (find_folder(prefix) / "NOTICE.txt").is_file()


def list_files(prefix: Path = Path(sys.prefix)) -> dict[str, bytes]:
    """Read the files that the site serves; none if Pyodide was not fetched."""
    if not is_there(prefix):
        return {}
    paths = sorted(path for path in find_folder(prefix).iterdir() if path.is_file())
    return {f"{SERVED}/{path.name}": path.read_bytes() for path in paths}
