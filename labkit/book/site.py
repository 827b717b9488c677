"""Build the web site out of the executed chapters, with Sphinx.

A key over everything that the site is made of makes an unchanged site cost nothing: Sphinx is
not even imported.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from labkit.book.stage import (
    SITE_SOURCES,
    SiteError,
    chapter_names,
    executed_notebooks,
    files_below,
    staged_files,
    write_files,
)

__all__ = ["SiteError", "build_site"]

TOOLS = (
    "myst-nb",
    "myst-parser",
    "sphinx",
    "sphinx-book-theme",
    "sphinx-copybutton",
    "sphinx-design",
    "sphinx-mathjax-offline",
    "sphinx-togglebutton",
    "sphinxcontrib-bibtex",
)


def build_site(root: Path, profile: str = "cpu") -> Path:
    """Build build/site from the executed notebooks and return it; SiteError says what is wrong."""
    root = Path(root)
    site, source = root / "build" / "site", root / "build" / "site-src"
    with one_at_a_time(root / "build" / "site.lock"):
        key = content_key(root, profile)
        key_file = source / ".key"
        done = key_file.is_file()
        if done and key_file.read_text() == key and is_whole(root, site):
            print("site: nothing changed")
            return site
        # Sphinx warns about a page only when it reads it: after a build that did not finish,
        # every page must be read again.
        if not done:
            shutil.rmtree(source / ".doctrees", ignore_errors=True)
        files = staged_files(root, profile)
        key_file.unlink(missing_ok=True)
        changed, removed = write_files(source, files)
        if removed or not site.is_dir():  # Sphinx never deletes a page
            shutil.rmtree(site, ignore_errors=True)
            shutil.rmtree(source / ".doctrees", ignore_errors=True)
        print(f"site: {len(changed)} of {len(files)} sources changed; building pages", flush=True)
        run_sphinx(source, site)
        key_file.write_text(key)
        return site


def content_key(root: Path, profile: str) -> str:
    """Hash everything that the site is made of."""
    chapters, ledger = root / "chapters", root / "data" / "ledger"
    paths = [
        *executed_notebooks(root, profile).values(),
        *(chapters / f"{name}.ipynb" for name in chapter_names(root)),
        *(chapters / name for name in SITE_SOURCES),
        *files_below(chapters / "_static"),
        root / "build" / "claims" / f"{profile}.json",
        *sorted(ledger.glob("*.json")),
        *(path for path in files_below(root / "labkit") if path.suffix == ".py"),
    ]
    digest = hashlib.sha256(profile.encode())
    digest.update(" ".join(f"{tool} {version(tool)}" for tool in TOOLS).encode())
    for path in paths:
        content = path.read_bytes() if path.is_file() else b""
        digest.update(f"\n{path.relative_to(root)} {hashlib.sha256(content).hexdigest()}".encode())
    return digest.hexdigest()


def is_whole(root: Path, site: Path) -> bool:
    """Tell whether the pages of the last build are still there."""
    names = ["index", "scoreboard", "search", *chapter_names(root)]
    return all((site / f"{name}.html").is_file() for name in names)


def run_sphinx(source: Path, site: Path) -> None:
    """Run Sphinx in its own process; any warning is an error."""
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q"]
    command += ["-d", str(source / ".doctrees"), str(source), str(site)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SiteError(
            f"a site has no warnings; Sphinx said:\n{(done.stdout + done.stderr).strip()}\n"
            f"(pages are staged in {source}; mend the chapter or docstring and run `make site`)"
        )


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Let a second build of the site wait for the first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            import fcntl  # absent on Windows, where two builds at once are not supported
        except ImportError:
            yield
            return
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
