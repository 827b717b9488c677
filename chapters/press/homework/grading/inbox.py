"""Search a download from a learning platform: a folder or zip, without links or zip bombs.

Nothing is unpacked to disk: a member is read into memory, up to a limit, and only when its name
ends as a submission's does. So a name such as ../../x leads nowhere; it is refused all the same.
"""

import io
import lzma
import stat
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from press.homework.grading.submission import ENDINGS, MOST_BYTES

MOST_MEMBERS = 20_000
MOST_ZIP = 2_000_000_000
# A zip inside a zip (a student's inside the download) is held in memory.
MOST_INNER_ZIP = 60_000_000
# All submissions out of one student's zip together.
MOST_TOGETHER = 100_000_000
# A student's zip inside the download's is opened, and none inside that.
DEPTH = 1
SYSTEM = ("__MACOSX", ".ipynb_checkpoints")
BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    OSError,
    ValueError,
)


@dataclass(frozen=True)
class Found:
    """A file that may be a submission: its path, time of change and content."""

    parts: tuple[str, ...]
    changed: float
    content: bytes

    @property
    def label(self) -> str:
        """The path as shown in a report."""
        return show_path(self.parts)


@dataclass(frozen=True)
class Refused:
    """A file that was not taken, and why."""

    label: str
    why: str


def show_path(parts: tuple[str, ...]) -> str:
    """Format a path on one line: control characters are shown as escapes."""
    text = "/".join(parts)
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)[-200:]


def list_files(inbox: Path) -> Iterator[Found | Refused]:
    """List the submission files of a folder or zip by name, or say why one was refused."""
    if inbox.is_dir():
        yield from _list_folder(inbox, ())
    elif inbox.is_file() and zipfile.is_zipfile(inbox):
        if inbox.stat().st_size > MOST_ZIP:
            raise ValueError(
                f"a zip file may have at most {MOST_ZIP // 10**9} GB, but {inbox} is larger; unzip "
                "it, and name the folder"
            )
        yield from _list_zip(inbox, (), DEPTH, MOST_ZIP)
    else:
        raise ValueError(f"{inbox} must be a folder or a zip file of submissions, but is neither")


def _list_folder(folder: Path, parts: tuple[str, ...]) -> Iterator[Found | Refused]:
    for path in sorted(folder.iterdir()):
        here = (*parts, path.name)
        if path.name in SYSTEM or path.name.startswith("."):
            continue
        if path.is_symlink():
            yield Refused(show_path(here), "it is a link, which could show another student's file")
        elif path.is_dir():
            yield from _list_folder(path, here)
        elif not path.is_file():
            yield Refused(show_path(here), "it is not a regular file")
        elif path.suffix.lower() == ".zip":
            if path.stat().st_size > MOST_INNER_ZIP:
                yield Refused(show_path(here), _say_too_big(MOST_INNER_ZIP))
            else:
                yield from _list_zip(path, here, DEPTH - 1, MOST_TOGETHER)
        elif path.suffix.lower() not in ENDINGS:
            yield Refused(show_path(here), f"its name does not end in {' or '.join(ENDINGS)}")
        elif path.stat().st_size > MOST_BYTES:
            yield Refused(show_path(here), _say_too_big(MOST_BYTES))
        else:
            yield Found(here, path.stat().st_mtime, path.read_bytes())


def _list_zip(
    file: Path | io.BytesIO, parts: tuple[str, ...], depth: int, most: int
) -> Iterator[Found | Refused]:
    try:
        archive = zipfile.ZipFile(file)
    except BROKEN as error:
        yield Refused(show_path(parts), f"the zip is damaged ({type(error).__name__})")
        return
    with archive:
        members = [each for each in archive.infolist() if not each.is_dir()]
        if len(members) > MOST_MEMBERS:
            yield Refused(show_path(parts), f"the zip has more than {MOST_MEMBERS} members")
            return
        left = most
        for member in sorted(members, key=lambda each: each.filename):
            for each in _read_member(archive, member, parts, depth, left):
                left -= len(each.content) if isinstance(each, Found) else 0
                yield each


def _read_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, parts: tuple[str, ...], depth: int, left: int
) -> Iterator[Found | Refused]:
    path = PurePosixPath(member.filename)
    here = (*parts, *path.parts)
    ending = path.suffix.lower()
    most = min(left, MOST_INNER_ZIP if ending == ".zip" else MOST_BYTES)
    if path.is_absolute() or ".." in path.parts or "\\" in member.filename:
        yield Refused(show_path(here), "its name leads out of the zip")
    elif any(part in SYSTEM or part.startswith(".") for part in path.parts):
        return
    elif stat.S_ISLNK(member.external_attr >> 16):
        yield Refused(show_path(here), "it is a link, which could show another student's file")
    elif ending not in (*ENDINGS, ".zip"):
        yield Refused(show_path(here), f"its name does not end in {' or '.join(ENDINGS)}")
    elif ending == ".zip" and depth < 1:
        yield Refused(show_path(here), "it is a zip inside a submission's zip")
    elif member.file_size > most:
        yield Refused(show_path(here), _say_too_big(most))
    else:
        try:
            with archive.open(member) as opened:
                content = opened.read(most + 1)  # whatever the member says of its size
        except BROKEN as error:
            yield Refused(show_path(here), f"it cannot be unpacked ({type(error).__name__})")
            return
        if len(content) > most:
            yield Refused(show_path(here), _say_too_big(most))
        elif ending == ".zip":
            yield from _list_zip(io.BytesIO(content), here, depth - 1, MOST_TOGETHER)
        else:
            yield Found(here, _read_time(member), content)


def _read_time(member: zipfile.ZipInfo) -> float:
    try:
        return time.mktime((*member.date_time, 0, 0, -1))
    except (ValueError, OverflowError):
        return 0.0


def _say_too_big(most: int) -> str:
    return f"it has more than {most / 10**6:.0f} MB"
