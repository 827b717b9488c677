"""A worker's folder: measure its contents, and remove it.

What a submission makes there is any tree at all: too deep to recurse into, closed to its owner.
"""

import os
import secrets
import stat
from collections import deque

MOST_FILES = 4096
_DEEPEST = 64


def is_too_large(home: str, cap: int) -> bool:
    """Return whether the folder exceeds its limits of bytes, files or levels."""
    left, files = cap, 0
    folders = deque([(home, 0)])
    while folders:
        folder, depth = folders.popleft()
        for entry in _list_entries(folder):
            files += 1
            left -= _measure_entry(entry)
            if left < 0 or files > MOST_FILES or depth > _DEEPEST:
                return True
            if entry.is_dir(follow_symlinks=False):
                folders.append((entry.path, depth + 1))
    return False


def remove_folder(home: str) -> None:
    """Remove the folder once its worker has ended: level by level, without following links."""
    while entries := _list_entries(home):
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _flatten_folder(entry.path, home)
            else:
                os.unlink(entry.path)
    os.rmdir(home)


def _flatten_folder(folder: str, home: str) -> None:
    """Remove one folder, after moving its subfolders up to `home`."""
    os.chmod(folder, stat.S_IRWXU)
    for inner in _list_entries(folder):
        if inner.is_dir(follow_symlinks=False):
            os.chmod(inner.path, stat.S_IRWXU)
            os.rename(inner.path, os.path.join(home, secrets.token_hex(8)))
        else:
            os.unlink(inner.path)
    if not _list_entries(folder):
        os.rmdir(folder)


def _list_entries(folder: str) -> list[os.DirEntry]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry, _ in zip(entries, range(2 * MOST_FILES), strict=False)]
    except OSError:  # closed by its owner, or gone meanwhile
        return []


def _measure_entry(entry: os.DirEntry) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
