"""Passwords: made for a roster, stored as scrypt hashes in a file that only its owner can read.

    hash = scrypt(password, salt, n = 2¹⁴, r = 8, p = 1)

The numbers are those of the usual interactive login: 16 MiB and a few hundredths of a second.
"""

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

from labkit.system.files import hold_lock, write_whole
from press.book.files import read_json

NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")
_COST = {"n": 2**14, "r": 8, "p": 1}
# Without letters and digits that are taken for one another.
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"


def draw_password() -> str:
    """Draw a password: sixteen letters and digits in groups, about 79 bits."""
    groups = ("".join(secrets.choice(_LETTERS) for _ in range(4)) for _ in range(4))
    return "-".join(groups)


def hash_password(password: str) -> dict[str, str]:
    """Hash a password with a new salt."""
    salt = secrets.token_bytes(16)
    return {"salt": salt.hex(), "hash": _run_scrypt(password, salt).hex()}


def verify_password(password: str, entry: dict[str, str] | None) -> bool:
    """Compare in constant time; an unknown user (None) costs as much as a known one."""
    known = entry or {"salt": "00" * 16, "hash": "00" * 64}
    found = _run_scrypt(password, bytes.fromhex(known["salt"]))
    return hmac.compare_digest(found, bytes.fromhex(known["hash"])) and entry is not None


def load_hashes(path: Path) -> dict[str, dict[str, str]]:
    """Read the hashes by user name; no file means no users. Refuse a file that others can read."""
    if not path.exists():
        return {}
    if path.stat().st_mode & 0o077:
        raise ValueError(
            f"{path} contains password hashes, so only its owner may be able to read it; run: "
            f"chmod 600 {path}"
        )
    return read_json(path, "make it again with `labkit course passwords`")


def give_passwords(
    path: Path, names: Iterable[str], *, again: Iterable[str] = ()
) -> dict[str, str]:
    """Make a password for every name without one, and for those in `again`; return the new ones.

    Raise ValueError, and change nothing, where a name cannot be a user's or is not in the roster.
    """
    names, again = list(names), list(again)
    for name in names:
        check_name(name)
    if strange := [name for name in again if name not in names]:
        raise ValueError(
            f"--again must name students of the roster, but {strange[0]!r} is not in it"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(path.with_suffix(".lock")):
        kept = load_hashes(path)
        new = {name: draw_password() for name in names if name not in kept or name in again}
        kept |= {name: hash_password(password) for name, password in new.items()}
        write_whole(path, json.dumps(dict(sorted(kept.items())), indent=1), mode=0o600)
    return new


def remove_users(path: Path, names: Iterable[str]) -> None:
    """Remove users: they can no longer log in, but their files stay."""
    with hold_lock(path.with_suffix(".lock")):
        kept = load_hashes(path)
        for name in names:
            kept.pop(name, None)
        write_whole(path, json.dumps(kept, indent=1), mode=0o600)


def check_name(name: str) -> str:
    """Return a user's name, or report which names are valid."""
    if not NAME.fullmatch(name):
        raise ValueError(
            "a user's name must consist of at most 31 lowercase letters, digits, - and _, and "
            f"begin with a letter; got {name!r}"
        )
    return name


def _run_scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, dklen=64, **_COST)
