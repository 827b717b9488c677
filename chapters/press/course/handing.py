"""Copy files to students' homes and collect them again, without trusting the contents.

Whatever happens in a home happens under its owner's number: a link that leads elsewhere then leads
only where that student could go anyway.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from press.course.people import People, Person
from press.course.settings import Settings

FOLDER = "homework"  # in a home
LARGEST = 20 * 2**20  # bytes of a file that is gathered


def hand_out(course: Settings, folder: Path, names: list[str]) -> dict[str, list[str]]:
    """Copy files into every user's `homework`; return the new files, by user name.

    `folder` holds one folder a student, `folder/ID/…`, or files that are the same for all. A file
    that a student has is left alone. Raises ValueError when there is nothing for somebody.
    """
    files = {name: _list_files(folder, name) for name in names}
    people = People(course.state, course.first_uid)
    new = {}
    for name, paths in files.items():
        person = people.find_person(name)
        people.make_folders(person)
        texts = {path.name: path.read_bytes() for path in paths}
        told = as_user(
            person, lambda person=person, texts=texts: _write_missing(person.home, texts)
        )
        new[name] = told.decode().split("\n") if told else []
    return new


def gather_files(course: Settings, file: str, out: Path) -> dict[str, str]:
    """Copy `homework/FILE` of every home to `out/ID/FILE`; return the problems, by name.

    An empty text stands for a copy. A second call copies again: what is there last counts.
    """
    people = People(course.state, course.first_uid)
    wrong = {}
    for name in people.read_numbers():
        person = people.find_person(name)
        if not person.home.exists():
            continue
        try:
            text = as_user(person, lambda person=person: _read_plain(person.home / FOLDER / file))
        except ValueError as error:
            wrong[name] = str(error)
            continue
        target = out / name / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text)
        wrong[name] = ""
    return wrong


def as_user(person: Person, act: Callable[[], bytes]) -> bytes:
    """Run a function in a process with the user's number; return its bytes (needs root).

    Raises ValueError with the message of what it raised.
    """
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        code, told = 1, b""
        try:
            os.setgroups([])
            os.setgid(person.uid)
            os.setuid(person.uid)
            os.umask(0o077)
            code, told = 0, act()
        except BaseException as error:
            told = str(error).encode()
        finally:
            with open(send, "wb") as pipe:
                pipe.write(told)
            os._exit(code)
    os.close(send)
    with open(receive, "rb") as pipe:
        told = pipe.read(LARGEST + 1)
    if os.waitpid(child, 0)[1] != 0:
        raise ValueError(told.decode(errors="replace") or "copying failed without a message")
    return told


def _list_files(folder: Path, name: str) -> list[Path]:
    """List the files for one student."""
    own = folder / name
    found = sorted(path for path in (own if own.is_dir() else folder).iterdir() if path.is_file())
    if not found:
        raise ValueError(
            f"{folder} must contain files to hand out to {name}, directly or in a folder "
            f"{own.name}, but has none"
        )
    return found


def _write_missing(home: Path, texts: dict[str, bytes]) -> bytes:
    """Write the files that do not exist yet; return their names."""
    folder = home / FOLDER
    folder.mkdir(exist_ok=True)
    new = []
    for name, text in texts.items():
        try:
            with open(folder / name, "xb") as file:
                file.write(text)
        except FileExistsError:
            continue
        new.append(name)
    return "\n".join(new).encode()


def _read_plain(path: Path) -> bytes:
    """Read a regular file of reasonable size; never block on pipes and the like."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise ValueError(
            f"a submission must be {FOLDER}/{path.name}, but this file does not exist"
        ) from None
    with open(number, "rb") as file:
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST:
            raise ValueError(f"{path.name} must be a regular file of at most {LARGEST >> 20} MiB")
        return file.read(LARGEST)
