"""Run one user's server as that user alone: limits, a root of its own, and an end for all of it.

    python -I -S confine.py PLAN COMMAND…

Run by path and as root, with nothing but the standard library. PLAN is JSON:

    name, uid, home    whose server it is
    groups             control groups to join, already limited; removed at the end
    processes          how many processes and threads the user may have
    root               an empty folder to build a new root on; null: keep the machine's files
    readable, writable what the new root shows of the machine, at the same paths
    scratch            bytes that /tmp and /dev/shm of the new root may hold, each

With a root the processes also have numbers of their own, and number 1 of them is a copy of this
program: when it ends, however it ends, the kernel ends every process of that user's server.
Without one, what the user left running is ended by number.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

# From the kernel's headers: sched.h, mount.h, prctl.h.
NEW_MOUNTS, NEW_IPC, NEW_PROCESSES = 0x00020000, 0x08000000, 0x20000000
READ_ONLY, NO_SUID, NO_DEVICES, NO_EXEC, REMOUNT = 1, 2, 4, 8, 32
BIND, RECURSIVE, PRIVATE, DETACH = 4096, 16384, 1 << 18, 2
DEATH_SIGNAL, NO_NEW_PRIVILEGES, SUBREAPER = 1, 38, 36
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# What a program needs of the system. Secrets in /etc are root's, and stay unreadable.
SYSTEM = ("usr", "etc", "bin", "sbin", "lib", "lib32", "lib64")
HEARD = {signal.SIGINT, signal.SIGTERM, signal.SIGCHLD}

libc = ctypes.CDLL(None, use_errno=True)


def call_libc(name: str, *arguments: object) -> None:
    """Call a function of the C library; raise OSError where it fails."""
    if getattr(libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}{arguments}: {os.strerror(code)}")


def mount_path(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount; all strings, empty where there is nothing to say."""
    call_libc(
        "mount", *(text.encode() or None for text in (source, target, kind)), flags, data.encode()
    )


def show_path(path: str, root: str, *, writable: bool = False) -> None:
    """Make a path of the machine appear in the new root, at the same place."""
    source, target = os.path.realpath(path), root + path
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        Path(target).touch()
    mount_path(source, target, flags=BIND | RECURSIVE)
    mount_path("", target, flags=BIND | REMOUNT | NO_SUID | (0 if writable else READ_ONLY))


def build_root(plan: dict) -> None:
    """Build the new root and move into it."""
    root, uid, name = plan["root"], plan["uid"], plan["name"]
    scratch = f"size={plan['scratch']}"
    os.umask(0o022)  # the user must get through the folders that are made here
    mount_path("", "/", flags=RECURSIVE | PRIVATE)
    mount_path("tmpfs", root, "tmpfs", NO_SUID | NO_DEVICES, "mode=755,size=16m")
    for folder in ("proc", "sys", "tmp", "run", "dev"):
        os.mkdir(f"{root}/{folder}")
    mount_path("/sys", f"{root}/sys", flags=BIND)
    mount_path("", f"{root}/sys", flags=BIND | REMOUNT | READ_ONLY | NO_SUID)
    mount_path("proc", f"{root}/proc", "proc", NO_SUID | NO_DEVICES | NO_EXEC)
    mount_path("tmpfs", f"{root}/tmp", "tmpfs", NO_SUID | NO_DEVICES, f"mode=1777,{scratch}")
    make_devices(root, scratch)
    for entry in SYSTEM:
        if os.path.islink(f"/{entry}"):
            os.symlink(os.readlink(f"/{entry}"), f"{root}/{entry}")
        elif os.path.exists(f"/{entry}"):
            show_path(f"/{entry}", root)
    # A link into /run on many systems: without it no name of another machine is found.
    names = os.path.realpath("/etc/resolv.conf")
    if names.startswith("/run/") and os.path.exists(names):
        show_path(names, root)
    for path in plan["readable"]:
        if not path.startswith("/usr/"):
            show_path(path, root)
    for path in plan["writable"]:
        show_path(path, root, writable=True)
    known = {
        "passwd": f"root:x:0:0::/:/bin/false\n{name}:x:{uid}:{uid}::{plan['home']}:/bin/bash\n",
        "group": f"root:x:0:\n{name}:x:{uid}:\n",
    }
    for file, text in known.items():
        own = Path(root) / f".{file}"
        own.write_text(text, encoding="utf-8")
        own.chmod(0o644)
        mount_path(str(own), f"{root}/etc/{file}", flags=BIND)
    os.chdir(root)
    # The old root ends up below the new one, at the same place, and is let go of.
    if libc.syscall(PIVOT_ROOT[os.uname().machine], b".", b".") != 0:
        raise OSError(ctypes.get_errno(), "pivot_root: the machine's root cannot be changed")
    call_libc("umount2", b".", DETACH)
    os.chdir("/")


def make_devices(root: str, scratch: str) -> None:
    """Give the new root its own /dev: what every program has, terminals, shared memory, GPUs."""
    mount_path("tmpfs", f"{root}/dev", "tmpfs", NO_SUID | NO_EXEC, "mode=755,size=64k")
    gpus = sorted(str(path) for path in Path("/dev").glob("nvidia*"))
    for path in [*(f"/dev/{name}" for name in DEVICES), *gpus]:
        if os.path.isdir(path):
            os.makedirs(root + path)
        else:
            Path(root + path).touch()
        mount_path(path, root + path, flags=BIND)
    for folder in ("shm", "pts"):
        os.mkdir(f"{root}/dev/{folder}")
    mount_path("tmpfs", f"{root}/dev/shm", "tmpfs", NO_SUID | NO_DEVICES, f"mode=1777,{scratch}")
    mount_path(
        "devpts", f"{root}/dev/pts", "devpts", NO_SUID | NO_EXEC, "newinstance,ptmxmode=0666"
    )
    os.symlink("pts/ptmx", f"{root}/dev/ptmx")
    os.symlink("/proc/self/fd", f"{root}/dev/fd")


def become_user(plan: dict) -> None:
    """Be the user from here on, for good."""
    os.setgroups([])
    os.setgid(plan["uid"])
    os.setuid(plan["uid"])
    call_libc("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    call_libc("prctl", DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)  # forgotten when the user changes
    os.umask(0o077)


def exec_server(plan: dict, command: list[str]) -> NoReturn:
    """Become the user's server."""
    limit = plan["processes"]
    become_user(plan)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(plan["home"])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
    os.execvp(command[0], command)


def run_inside(plan: dict, command: list[str]) -> int:
    """Be process number 1 of the new root: build it, start the server, stay until it ends."""
    call_libc("prctl", DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    # Here and not before the fork: the parent keeps the machine's root, and removes the groups.
    call_libc("unshare", NEW_MOUNTS | NEW_IPC)
    build_root(plan)
    child = os.fork()
    if child == 0:
        exec_server(plan, command)
    become_user(plan)
    return watch_child(child)


def join_groups(groups: list[str]) -> None:
    """Move this process, and so all that it starts, into its control groups."""
    for group in groups:
        Path(group, "cgroup.procs").write_text("0")


def remove_groups(groups: list[str]) -> None:
    """Remove the groups; the last process may need a moment to be gone from them."""
    for group in groups:
        for _ in range(50):
            with contextlib.suppress(OSError):
                os.rmdir(group)
                break
            time.sleep(0.02)


@contextlib.contextmanager
def exit_on_error():
    """Let no error of a fork unwind into the code that forked."""
    try:
        yield
    except BaseException as error:
        print(f"labkit course: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


def watch_child(child: int) -> int:
    """Hand signals on to the child, bury the dead, and return how the child ended."""
    while True:
        heard = signal.sigwait(HEARD)
        if heard != signal.SIGCHLD:
            os.kill(child, heard)
            continue
        while True:
            dead, status = os.waitpid(-1, os.WNOHANG)
            if dead == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            if dead == 0:
                break


def end_processes(uid: int) -> None:
    """End everything that runs under a user's number."""
    if sweeper := os.fork():
        os.waitpid(sweeper, 0)
        return
    with exit_on_error():
        os.setuid(uid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)  # all that this user may signal: their own
        os._exit(0)


def main() -> int:
    """Start the server of the plan and outlive it."""
    plan, command = json.loads(sys.argv[1]), sys.argv[2:]
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    call_libc("prctl", SUBREAPER, 1, 0, 0, 0)
    if plan["root"]:
        call_libc("unshare", NEW_PROCESSES)  # from the next fork on
    child = os.fork()
    if child == 0:
        with exit_on_error():
            join_groups(plan["groups"])
            if plan["root"]:
                os._exit(run_inside(plan, command))
            exec_server(plan, command)
    code = watch_child(child)
    if not plan["root"]:
        end_processes(plan["uid"])
    remove_groups(plan["groups"])
    return code


if __name__ == "__main__":
    sys.exit(main())
