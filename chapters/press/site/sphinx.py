"""Build the web site from the executed chapters, with Sphinx.

Sphinx starts only when a staged file changed, and then reads again only what did.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from labkit.system.files import hold_lock
from labkit.system.threads import build_one_thread_environment
from press.book.files import Red
from press.site import pyodide
from press.site.sphinx_sources import staged_files, write_files


def build_site(root: Path, size: str = "book") -> Path:
    """Build build/site from the executed notebooks and return it."""
    site, source = root / "build" / "site", root / "build" / "site-src"
    with hold_lock(root / "build" / "site.lock"):
        files = staged_files(root, size)
        if not pyodide.is_there():
            print(f"site: pages check no code without Python for them; fetch it: {pyodide.COMMAND}")
        pages = [name for name in files if name.endswith((".md", ".ipynb"))]
        pages = [Path(name).with_suffix(".html") for name in pages if "notebooks/" not in name]
        finished = source / ".finished"
        done = finished.is_file()
        finished.unlink(missing_ok=True)
        changed, removed = write_files(source, files)
        if done and not changed and not removed and all((site / page).is_file() for page in pages):
            finished.touch()
            print("site: nothing changed")
            return site
        # Sphinx never deletes a page, and does not see that its hooks or a theme changed. It
        # warns about a page only when it reads it: after a build that did not finish, every
        # page must be read again.
        if removed or not site.is_dir() or {"conf.py", "versions.json"} & set(changed):
            shutil.rmtree(site, ignore_errors=True)
            done = False
        if not done:
            shutil.rmtree(source / ".doctrees", ignore_errors=True)
        print(f"site: {len(changed)} of {len(files)} sources changed; building pages", flush=True)
        run_sphinx(source, site)
        finished.touch()
        return site


def run_sphinx(source: Path, site: Path) -> None:
    """Run Sphinx in its own process; any warning is an error."""
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q"]
    command += ["-j", "auto", "-d", str(source / ".doctrees"), str(source), str(site)]
    environment = os.environ | build_one_thread_environment() | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise Red(
            "the site must build without warnings, but Sphinx "
            f"reported:\n{(done.stdout + done.stderr).strip()}\n(pages are staged in {source}; "
            "correct the chapter or docstring and run `make site`)"
        )
