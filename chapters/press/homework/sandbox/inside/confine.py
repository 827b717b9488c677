"""The walls around a worker, mode by mode. What is forked is confined before it reads anything.

`plan` is what the grader worked out before (press.homework.sandbox.plan): the mode, the paths to
read, the compiled seccomp filter, the limits.
"""

import contextlib
import os
import resource
import shutil
import signal
from typing import Any

from . import kernel

HOME = "/worker"  # in full mode: what is shown may lie below /tmp, so nothing is mounted there
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def enclose(plan: dict[str, Any]) -> None:
    """Full mode, once, in the zygote: a network of nothing, and a root of what is needed."""
    kernel.unshare(kernel.NEW_MOUNTS | kernel.NEW_NET | kernel.NEW_IPC | kernel.NEW_NAME)
    kernel.mount("none", "/", None, kernel.RECURSIVE | kernel.PRIVATE)
    root = plan["root"]
    kernel.mount("none", root, "tmpfs", kernel.NO_SUID | kernel.NO_DEV, "mode=755,size=16m")
    for path in plan["system"]:
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copyfile(path, root + path)
    # Parents come before what lies in them, so that nothing is mounted over.
    shown = {*plan["stdlib"], *plan["whole"]}
    for path in sorted({*shown, *plan["masked"]}, key=lambda path: path.count("/")):
        if path in shown:
            _show(path, root + path, kernel.NO_DEV)
        else:
            _mask(root + path)
    for path in _DEVICES:
        _show(path, root + path, 0)
    # For imports that want a home; a worker mounts its own in its place.
    os.makedirs(root + HOME, exist_ok=True)
    kernel.mount("none", root + HOME, "tmpfs", kernel.NO_SUID | kernel.NO_DEV, "size=16m")
    for path in [*(root + path for path in plan["masked"]), root]:
        kernel.mount(
            "none", path, None,
            kernel.REMOUNT | kernel.READ_ONLY | kernel.NO_SUID | kernel.NO_DEV,
        )  # fmt: skip
    kernel.pivot(root)


def _show(source: str, target: str, flags: int) -> None:
    """Let a file or folder be read at its own place."""
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w"):
            pass
    kernel.mount(source, target, None, kernel.BIND)
    kernel.mount(
        "none", target, None,
        kernel.REMOUNT | kernel.BIND | kernel.READ_ONLY | kernel.NO_SUID | flags,
    )  # fmt: skip


def _mask(target: str) -> None:
    """Put an empty folder over what a folder holds; packages are shown inside it."""
    os.makedirs(target, exist_ok=True)
    kernel.mount("none", target, "tmpfs", kernel.NO_SUID | kernel.NO_DEV, "mode=755,size=16m")


def rules_of(plan: dict[str, Any]) -> list[tuple[int, int]]:
    """Open, once in the zygote, what Landlock shall let a worker read."""
    if not plan["landlock"]:
        return []
    if plan["mode"] == "full":
        shown = [("/", kernel.READ)]
    else:
        shown = [(path, kernel.READ) for path in [*plan["whole"], *plan["files"], *plan["system"]]]
        shown += [(path, kernel.READ_DIR) for path in plan["listed"]]
    shown += [(path, kernel.READ_FILE | kernel.WRITE_FILE) for path in _DEVICES]
    return [kernel.opened(path, rights) for path, rights in shown if os.path.exists(path)]


def confine(
    plan: dict[str, Any], order: dict[str, Any], rules: list, kept: dict[int, int], memory: int
) -> None:
    """Give up, in the worker, everything that a submission must not have.

    Of all open descriptors those in `kept` remain, {old: new}; `memory` is the address space that
    the worker starts with.
    """
    home, uid, limits = order["tmp"], order["uid"], order["limits"]
    if plan["mode"] == "full":
        kernel.unshare(kernel.NEW_MOUNTS | kernel.NEW_IPC)
        options = f"mode=700,uid={uid},gid={uid},nr_inodes=4096,size={limits['file']}"
        flags = kernel.NO_SUID | kernel.NO_DEV | kernel.NO_EXEC
        kernel.mount("none", home, "tmpfs", flags, options)
    kernel.forgo_privileges()
    if os.geteuid() == 0:
        kernel.drop_bounding()
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    kernel.drop_capabilities()
    kernel.die_with_parent(signal.SIGKILL)
    kernel.hide_memory()
    os.chdir(home)
    os.umask(0o077)
    if plan["landlock"]:
        kernel.landlock([*rules, kernel.opened(home, kernel.CHANGE)])
    _close_all_but(kept)
    _limit(plan["mode"], limits, memory)
    os.environ.update(HOME=home, TMPDIR=home, TRITON_CACHE_DIR=f"{home}/triton")
    kernel.install(bytes.fromhex(plan["filter"]))


def _limit(mode: str, most: dict[str, int], memory: int) -> None:
    limits = {
        resource.RLIMIT_AS: memory + most["memory"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: most["file"],
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_NOFILE: 64,
    }
    if mode != "plain":  # it counts by user, and a plain user has other processes
        limits[resource.RLIMIT_NPROC] = most["processes"]
    for limit, value in limits.items():
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def _close_all_but(kept: dict[int, int]) -> None:
    """Move the descriptors {old: new} to their places, with new below 10, and close the rest."""
    moved = {}
    for old in kept:
        moved[old] = old
        while moved[old] < 10:
            moved[old] = os.dup(moved[old])
    for old, new in kept.items():
        os.dup2(moved[old], new)
    os.closerange(max(kept.values()) + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def address_space(statm: int) -> int:
    """How many bytes of address space this process's parent has, read from its open statm."""
    with contextlib.suppress(OSError):
        return int(os.pread(statm, 100, 0).split()[0]) * _PAGE
    return 0
