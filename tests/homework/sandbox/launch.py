"""Become another kind of process, then run a program: a plain user, or root as in a container.

    python launch.py plain|container FOLDER COMMAND...

Root only. Python and FOLDER stay where they are and become readable to other users, in a mount
namespace of this process's own.
"""

import ctypes
import os
import sys
import tempfile

libc = ctypes.CDLL(None, use_errno=True)
NEW_MOUNTS, BIND, RECURSIVE, PRIVATE = 0x20000, 1 << 12, 1 << 14, 1 << 18
# What a container's root usually has: chown … setpcap, net_bind_service, net_raw, chroot, mknod …
CONTAINER = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}
NOBODY = 65534


def call(name, *arguments):
    if getattr(libc, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)


def mount(source, target, kind, flags, options=None):
    call("mount", source, target.encode(), kind, ctypes.c_ulong(flags), options)


def open_to_others(paths):
    """Show each path below a closed folder at its own place, and nothing else of that folder."""
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


def main(kind, folder, *command):
    paths = {os.path.realpath(each) for each in (sys.base_prefix, sys.prefix, folder)}
    open_to_others(sorted(paths))
    if kind == "plain":
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    else:
        for capability in set(range(41)) - CONTAINER:
            call("prctl", 24, ctypes.c_ulong(capability), 0, 0, 0)
    os.execv(command[0], command)


main(*sys.argv[1:])
