"""Make the course's material: a git repository of chapters, copied for every user.

It holds pyproject.toml (Jupytext's settings, and the mark by which labkit finds its folder),
`data/` and the chapters asked for; what else students shall get is named. Nothing else of the clone
is taken, so that no solution leaves it by accident.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from press.book.chapters import choose_chapters, find_chapters

BRANCH = "main"
_WHO = ("-c", "user.name=labkit course", "-c", "user.email=course@localhost")


def commit_material(
    root: Path, into: Path, chapters: Sequence[str] = (), also: Sequence[Path] = ()
) -> str:
    """Write the material again and commit it; return the commit's hash.

    `chapters` are stems such as `03_rmsnorm` or numbers such as `03`; none means all of them. What
    users changed in their copies stays: git merges in favour of them. Raises ValueError for what
    is not there, before anything is written.
    """
    chosen = _list_files(root, chapters)
    if missing := [path for path in also if not path.exists()]:
        raise ValueError(f"--also must name existing files or folders; there is no {missing[0]}")
    if into.exists() and any(into.iterdir()) and not (into / ".git").is_dir():
        raise ValueError(
            f"{into} must be empty or a git repository, but is neither; choose another folder"
        )
    into.mkdir(parents=True, exist_ok=True)
    if not (into / ".git").is_dir():
        _run_git(into, "init", "--quiet", f"--initial-branch={BRANCH}")
    for old in into.iterdir():
        if old.name != ".git":
            shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    (into / "chapters").mkdir()
    for path in chosen:
        shutil.copy(path, into / "chapters")
    for path in (root / "pyproject.toml", root / "data", *also):
        if path.is_dir():
            shutil.copytree(path, into / path.name, ignore=shutil.ignore_patterns(".*"))
        else:
            shutil.copy(path, into)
    (into / ".gitignore").write_text(".labkit/\n.ipynb_checkpoints/\n", encoding="utf-8")
    _run_git(into, "add", "--all")
    if _run_git(into, "status", "--porcelain"):
        _run_git(into, *_WHO, "commit", "--quiet", "--message", "Course material")
    open_up(into)
    return _run_git(into, "rev-parse", "HEAD").strip()


def open_up(folder: Path) -> None:
    """Make everything readable for all users: folders and programs get r-x, files r--."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode & 0o777
            path.chmod(mode | (0o055 if path.is_dir() or mode & 0o100 else 0o044))


def find_unreadable(folder: Path) -> Path | None:
    """Return a file or folder that other users cannot read, if there is one."""
    for path in (folder, *sorted(folder.rglob("*"))):
        need = 0o005 if path.is_dir() else 0o004
        if not path.is_symlink() and path.stat().st_mode & need != need:
            return path
    return None


def _list_files(root: Path, chapters: Sequence[str]) -> list[Path]:
    there = find_chapters(root)
    if not there:
        raise ValueError(
            f"the chapters come from the book's clone, but {root} has none; run this command in "
            "the clone"
        )
    taken = choose_chapters(there, chapters)
    twins = [chapter.twin for chapter in taken if chapter.twin.exists()]
    return [*(chapter.source for chapter in taken), *twins]


def _run_git(folder: Path, *words: str) -> str:
    # The repository may belong to somebody else than root, who calls this.
    safe = ("-c", f"safe.directory={folder}")
    told = subprocess.run(
        ["git", *safe, "-C", str(folder), *words],
        capture_output=True,
        text=True,
        env=os.environ | {"LANG": "C"},
    )
    if told.returncode:
        raise ValueError(
            f"`git {words[0]}` must succeed in {folder}, but failed: {told.stderr.strip()}"
        )
    return told.stdout
