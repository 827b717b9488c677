"""The system calls that Python's standard library does not offer, through ctypes.

PyPI's packages for Landlock are pre-releases or a few months old; and a worker can read nothing
but Python and a homework's packages when it confines itself.
"""

import ctypes
import os
import struct
from collections.abc import Iterable

_SET_PARENT_DEATH, _SET_DUMPABLE, _SET_SECCOMP = 1, 4, 22
_FILTER_MODE = 2
# Landlock's calls have the same numbers on every architecture.
_RULESET, _ADD_RULE, _RESTRICT = 444, 445, 446

_libc = ctypes.CDLL(None, use_errno=True)


def _call_libc(name: str, *arguments: object) -> int:
    result = getattr(_libc, name)(*arguments)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def _call_prctl(option: int, argument: int, pointer: bytes | None = None) -> None:
    zero = ctypes.c_ulong(0)
    _call_libc("prctl", option, ctypes.c_ulong(argument), ctypes.c_char_p(pointer), zero, zero)


def die_with_parent(signal: int) -> None:
    """Make the kernel send this process a signal when its parent ends."""
    _call_prctl(_SET_PARENT_DEATH, signal)


def hide_memory() -> None:
    """Keep other processes of the same user from reading this one's memory."""
    _call_prctl(_SET_DUMPABLE, 0)


def install_filter(program: bytes) -> None:
    """Install a compiled seccomp filter: struct sock_filter entries of 8 bytes."""
    code = ctypes.create_string_buffer(program, len(program))
    block = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    _call_prctl(_SET_SECCOMP, _FILTER_MODE, block)


# Landlock: rights on files by the kernel's interface version (ABI).
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_MAKE_LINK, _REFER, _TRUNCATE = 1 << 12, 1 << 13, 1 << 14
READ = READ_FILE | READ_DIR
CHANGE = (
    READ
    | WRITE_FILE
    | _REMOVE_DIR
    | _REMOVE_FILE
    | _MAKE_DIR
    | _MAKE_FILE
    | _MAKE_LINK
    | _REFER
    | _TRUNCATE
)
_ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}  # how many rights each version knows
_NET, _SCOPES = 0b11, 0b11  # bind and connect; abstract sockets and signals


def read_landlock_version() -> int:
    """Return the kernel's Landlock version, 0 if it has none."""
    try:
        return _call_libc("syscall", ctypes.c_long(_RULESET), None, ctypes.c_size_t(0), 1)
    except OSError:
        return 0


def restrict_files(rules: Iterable[tuple[int, int]]) -> None:
    """Deny all files, TCP and signals to others, except the rights given on open descriptors."""
    version = read_landlock_version()
    known = (1 << max(n for at, n in _FILE_RIGHTS.items() if at <= version)) - 1
    fields = [known, _NET if version >= 4 else None, _SCOPES if version >= 6 else None]
    block = b"".join(struct.pack("=Q", field) for field in fields if field is not None)
    ruleset = _call_libc("syscall", ctypes.c_long(_RULESET), block, ctypes.c_size_t(len(block)), 0)
    try:
        for descriptor, rights in rules:
            rule = struct.pack("=Qi", rights & known, descriptor)
            _call_libc("syscall", ctypes.c_long(_ADD_RULE), ruleset, 1, rule, 0)
        _call_libc("syscall", ctypes.c_long(_RESTRICT), ruleset, 0)
    finally:
        os.close(ruleset)


def open_rule(path: str, rights: int) -> tuple[int, int]:
    """Open a path for a Landlock rule; a file takes only the rights that apply to files."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    return descriptor, rights if os.path.isdir(path) else rights & _ON_FILES
