"""Start one user's server as that user only: limits, a separate root, and a common end.

    isolation "namespaces"   bubblewrap shows the server a root with what it needs, and no processes
                             but its own
    isolation "users"        the machine's own root; the user's number and permissions are the wall

Either way setpriv makes root the user, for good. What a server left running is ended by the number
of its user, who has no other processes.
"""

import os
import resource
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from press import bubblewrap
from press.control_groups import Group

# What a program needs of the system. Secrets in /etc are root's, and stay unreadable.
SYSTEM = ("usr", "etc", "bin", "sbin", "lib", "lib32", "lib64")


@dataclass(frozen=True)
class Walls:
    """What one user's server may see and use."""

    name: str
    uid: int
    home: Path
    known: Path  # a folder of root's, for this user's own lists of users and groups
    readable: Sequence[Path] = ()
    writable: Sequence[Path] = ()
    processes: int = 512  # processes and threads that the user may have
    scratch: int = 2**30  # bytes that /tmp and /dev/shm may hold, each
    own_root: bool = True
    group: Group | None = None

    def build_command(self, server: Sequence[str]) -> list[str]:
        """Return the command that root runs for the server; run it after `limit`."""
        user = str(self.uid)
        become = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs"]
        # Not before bubblewrap, which makes folders that the user must get through.
        become += ["--inh-caps=-all", "--", "/bin/sh", "-c", 'umask 077; exec "$@"', "sh"]
        return [*(self._show() if self.own_root else []), *become, *server]

    def limit(self) -> Callable[[], None]:
        """Return the function that the new process calls before it runs the command."""

        def apply() -> None:
            if self.group:
                self.group.add(os.getpid())
            os.chdir(self.home)
            resource.setrlimit(resource.RLIMIT_NPROC, (self.processes, self.processes))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        return apply

    def end(self) -> None:
        """End all processes that the user left running, and remove the group."""
        for _ in range(20):  # one that forks faster than it is found needs more than one round
            running = [each for each in psutil.process_iter() if _belongs(each, self.uid)]
            if not running:
                break
            for process in running:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(running, timeout=0.5)
        if self.group:
            self.group.remove()

    def _show(self) -> list[str]:
        """Return bubblewrap's arguments for the root that the server sees."""
        arguments = [bubblewrap.find_program(), "--unshare-pid", "--unshare-ipc"]
        arguments += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        arguments += ["--proc", "/proc", "--ro-bind", "/sys", "/sys", "--dev", "/dev"]
        for path in sorted(str(path) for path in Path("/dev").glob("nvidia*")):
            arguments += ["--dev-bind", path, path]
        for folder in ("/tmp", "/dev/shm"):
            arguments += ["--perms", "1777", "--size", str(self.scratch), "--tmpfs", folder]
        for path in (Path("/", entry) for entry in SYSTEM):
            if path.is_symlink():
                arguments += ["--symlink", os.readlink(path), str(path)]
            elif path.exists():
                arguments += bubblewrap.show([str(path)])
        # A link into /run on many systems: without it no name of another machine is found.
        names = os.path.realpath("/etc/resolv.conf")
        arguments += ["--ro-bind-try", names, names] if names.startswith("/run/") else []
        shown = [path for path in self.readable if Path("/usr") not in path.parents]
        # Made here, because bubblewrap would make them its own user's alone.
        above = {folder for path in [*shown, *self.writable] for folder in path.parents}
        for folder in sorted(above):
            arguments += ["--perms", "0755", "--dir", str(folder)]
        arguments += bubblewrap.show(map(str, shown))
        arguments += bubblewrap.show(map(str, self.writable), writable=True)
        for path in self._name_users():
            arguments += ["--ro-bind", str(path), f"/etc/{path.name}"]
        return [*arguments, "--chdir", str(self.home), "--"]

    def _name_users(self) -> list[Path]:
        """Write passwd and group files that name no other member of the class."""
        user = f"{self.name}:x:{self.uid}"
        texts = {
            "passwd": f"root:x:0:0::/:/bin/false\n{user}:{self.uid}::{self.home}:/bin/bash\n",
            "group": f"root:x:0:\n{user}:\n",
        }
        self.known.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (self.known / name).write_text(text, encoding="utf-8")
            (self.known / name).chmod(0o644)
        return [self.known / name for name in texts]


def _belongs(process: psutil.Process, uid: int) -> bool:
    try:
        return process.uids().real == uid and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
