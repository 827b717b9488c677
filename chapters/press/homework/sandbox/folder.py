"""A worker's own folder: count what is in it, and remove it.

What a submission makes there is any tree at all: too deep to recurse into, closed to its owner.
"""

import os
import secrets
import stat
from collections import deque

MOST_FILES = 4096
_DEEPEST = 64


def too_large(home: str, cap: int) -> bool:
    """Whether the folder holds more bytes, files or levels than it may."""
    left, files = cap, 0
    folders = deque([(home, 0)])
    while folders:
        folder, depth = folders.popleft()
        for entry in _listed(folder):
            files += 1
            left -= _size(entry)
            if left < 0 or files > MOST_FILES or depth > _DEEPEST:
                return True
            if entry.is_dir(follow_symlinks=False):
                folders.append((entry.path, depth + 1))
    return False


def remove(home: str) -> None:
    """Remove the folder once its worker is gone: level by level, and following no link."""
    while entries := _listed(home):
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _lift(entry.path, home)
            else:
                os.unlink(entry.path)
    os.rmdir(home)


def _lift(folder: str, home: str) -> None:
    """Remove one folder, after moving those inside it up to `home`."""
    os.chmod(folder, stat.S_IRWXU)
    for inner in _listed(folder):
        if inner.is_dir(follow_symlinks=False):
            os.chmod(inner.path, stat.S_IRWXU)
            os.rename(inner.path, os.path.join(home, secrets.token_hex(8)))
        else:
            os.unlink(inner.path)
    if not _listed(folder):
        os.rmdir(folder)


def _listed(folder: str) -> list[os.DirEntry]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry, _ in zip(entries, range(2 * MOST_FILES), strict=False)]
    except OSError:  # closed by its owner, or gone meanwhile
        return []


def _size(entry: os.DirEntry) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
