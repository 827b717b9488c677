"""User numbers and homes: numbers are assigned once and never reused."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from labkit.system.files import hold_lock, write_whole
from press.book.files import read_json
from press.course.passwords import check_name


@dataclass(frozen=True)
class Person:
    """A user of the course; `uid` is also the number of their group."""

    name: str
    uid: int
    home: Path
    run: Path  # sockets of their kernels; a short path, since a socket's has at most 107 bytes


class People:
    """The user numbers, stored in `<state>/people.json`; homes are in `<state>/homes`."""

    def __init__(self, state: Path, first_uid: int):
        self.state, self.first_uid = state, first_uid
        self.file = state / "people.json"

    def read_numbers(self) -> dict[str, int]:
        """Read the assigned user numbers."""
        return read_json(self.file, "restore it from a backup") if self.file.exists() else {}

    def find_person(self, name: str) -> Person:
        """Find a user; assign a new number to an unknown one."""
        check_name(name)
        with hold_lock(self.file.with_suffix(".lock")):
            numbers = self.read_numbers()
            if name not in numbers:
                # Above every number ever given: the files of one who left stay theirs.
                numbers[name] = max([self.first_uid - 1, *numbers.values()]) + 1
                # Who takes the course is nobody else's business.
                write_whole(self.file, json.dumps(numbers, indent=1), mode=0o600)
        uid = numbers[name]
        return Person(name, uid, self.state / "homes" / name, self.state / "run" / str(uid))

    def make_folders(self, person: Person) -> None:
        """Make the user's private folders; refuse one that belongs to somebody else (needs root).

        Raises ValueError when a home has another owner: it may hold another person's work.
        """
        for folder in (person.home, person.run):
            # Passed through by everybody, listed by nobody.
            folder.parent.mkdir(mode=0o711, exist_ok=True)
            folder.parent.chmod(0o711)
            if not folder.exists():
                folder.mkdir(mode=0o700)
                os.chown(folder, person.uid, person.uid)
            # Judged without following a link, which a user could have put there.
            if (owner := folder.lstat().st_uid) != person.uid or folder.is_symlink():
                raise ValueError(
                    f"{folder} must be a folder of user ID {person.uid} ({person.name}), but its "
                    f"owner is {owner}; move it away, or change its owner: chown -R "
                    f"{person.uid}:{person.uid} {folder}"
                )
            folder.chmod(0o700)
