"""Switch to an unprivileged user, then run a program.

    python launch.py FOLDER COMMAND...

Root only. Python and FOLDER stay where they are and become readable to other users, in a mount
namespace of this process's own.
"""

import ctypes
import os
import sys
import tempfile

libc = ctypes.CDLL(None, use_errno=True)
NEW_MOUNTS, BIND, RECURSIVE, PRIVATE = 0x20000, 1 << 12, 1 << 14, 1 << 18
NOBODY = 65534


def call(name, *arguments):
    if getattr(libc, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)


def mount(source, target, kind, flags, options=None):
    call("mount", source, target.encode(), kind, ctypes.c_ulong(flags), options)


def open_to_others(paths):
    """Mount each path inside a closed folder at the same path, and nothing else of that folder."""
    call("unshare", NEW_MOUNTS)
    mount(b"none", "/", None, RECURSIVE | PRIVATE)
    closed = {}
    for path in paths:
        parts = path.split("/")
        above = ["/".join(parts[:n]) or "/" for n in range(1, len(parts))]
        shut = next((each for each in above if not os.stat(each).st_mode & 1), None)
        if shut:
            closed.setdefault(shut, []).append(path)
    for shut, inside in closed.items():
        kept = []
        for path in inside:
            kept.append(tempfile.mkdtemp(dir="/run"))
            mount(path.encode(), kept[-1], None, BIND)
        mount(b"none", shut, b"tmpfs", 0, b"mode=755")
        for path, place in zip(inside, kept, strict=True):
            os.makedirs(path, exist_ok=True)
            mount(place.encode(), path, None, BIND)
            call("umount2", place.encode(), 2)
            os.rmdir(place)


def main(folder, *command):
    paths = {os.path.realpath(each) for each in (sys.base_prefix, sys.prefix, folder)}
    open_to_others(sorted(paths))
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    os.execv(command[0], command)


main(*sys.argv[1:])
