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
from importlib.metadata import version
from pathlib import Path

from labkit.files import hold_lock
from press.book.files import Red, sha256_of
from press.site.sphinx_sources import (
    PACKAGES,
    SITE_SOURCES,
    chapter_names,
    executed_notebooks,
    files_below,
    staged_files,
    write_files,
)

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


def build_site(root: Path, size: str = "book") -> Path:
    """Build build/site from the executed notebooks and return it."""
    root = Path(root)
    site, source = root / "build" / "site", root / "build" / "site-src"
    with hold_lock(root / "build" / "site.lock"):
        key = content_key(root, size)
        key_file = source / ".key"
        done = key_file.is_file()
        if done and key_file.read_text() == key and is_whole(root, site):
            print("site: nothing changed")
            return site
        # Sphinx warns about a page only when it reads it: after a build that did not finish,
        # every page must be read again.
        if not done:
            shutil.rmtree(source / ".doctrees", ignore_errors=True)
        files = staged_files(root, size)
        files["tools.txt"] = list_tools().encode()
        key_file.unlink(missing_ok=True)
        changed, removed = write_files(source, files)
        # Sphinx never deletes a page, and does not see that its hooks or a theme changed.
        if removed or not site.is_dir() or {"conf.py", "tools.txt"} & set(changed):
            shutil.rmtree(site, ignore_errors=True)
            shutil.rmtree(source / ".doctrees", ignore_errors=True)
        print(f"site: {len(changed)} of {len(files)} sources changed; building pages", flush=True)
        run_sphinx(source, site)
        key_file.write_text(key)
        return site


def content_key(root: Path, size: str) -> str:
    """Hash everything that the site is made of."""
    chapters, ledger = root / "chapters", root / "data" / "ledger"
    paths = [
        *executed_notebooks(root, size).values(),
        *(chapters / f"{name}.ipynb" for name in chapter_names(root)),
        *(chapters / name for name in SITE_SOURCES),
        *files_below(chapters / "_static"),
        root / "build" / "claims" / f"{size}.json",
        *root.glob(f".labkit/replays-{size}.json"),
        *sorted(ledger.glob("*.json")),
        *sorted((root / "data").glob("*.csv")),
        *(p for package in PACKAGES for p in files_below(root / package) if p.suffix == ".py"),
    ]
    digest = hashlib.sha256(f"{size}\n{list_tools()}".encode())
    for path in paths:
        digest.update(f"\n{path.relative_to(root)} {sha256_of(path)}".encode())
    return digest.hexdigest()


def list_tools() -> str:
    """Name the versions that make the pages."""
    return "\n".join(f"{tool} {version(tool)}" for tool in TOOLS)


def is_whole(root: Path, site: Path) -> bool:
    """Return whether the pages of the last build are still there."""
    made = ("index", "scoreboard", "leaderboard", "search")
    names = [*made, *chapter_names(root)]
    return all((site / f"{name}.html").is_file() for name in names)


def run_sphinx(source: Path, site: Path) -> None:
    """Run Sphinx in its own process; any warning is an error."""
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q"]
    command += ["-j", "auto", "-d", str(source / ".doctrees"), str(source), str(site)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise Red(
            f"a site has no warnings; Sphinx said:\n{(done.stdout + done.stderr).strip()}\n"
            f"(pages are staged in {source}; mend the chapter or docstring and run `make site`)"
        )
