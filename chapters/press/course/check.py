"""List what this machine lacks for the course, before anything starts.

Each need is a function that returns an empty text, or what is wrong and the way out. What the
settings do not ask for is not needed.
"""

import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator

from press import bubblewrap, control_groups
from press.course import material, passwords, proxy, readable_paths
from press.course.settings import Settings

PACKAGES = ("jupyterhub", "jupyterhub_idle_culler", "nbgitpuller", "jupyterlab", "jupytext")


def _check_root(course: Settings) -> str:
    if os.geteuid() == 0:
        return ""
    return "each user's server must run under its own user ID, which only root can set; use sudo"


def _check_packages(course: Settings) -> str:
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if not missing:
        return ""
    return f"missing {', '.join(missing)}; install the extra: pip install 'norm-lab-book[course]'"


def _check_proxy(course: Settings) -> str:
    try:
        command = proxy.find_proxy()
        told = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60)
    except (ValueError, OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if told.returncode == 0:
        return ""
    lines = told.stderr.strip().splitlines() or ["it said nothing"]
    return f"{' '.join(command)} does not run: {lines[-1]}; it needs Node 20 or newer"


def _check_git(course: Settings) -> str:
    return "" if shutil.which("git") else "git is needed to pull the material; install it"


def _check_material(course: Settings) -> str:
    folder = course.material
    make = f"make one: labkit course material {folder}"
    if not (folder / ".git").is_dir() and not (folder / "HEAD").is_file():
        return f"{folder} must be a git repository; {make}"
    if closed := readable_paths.find_closed(folder):
        return f"users must be able to enter {closed}; run: chmod o+x {closed}"
    if shut := material.find_unreadable(folder):
        return f"users must be able to read {shut}; run: chmod -R o+rX {folder}"
    if not course.open or not (folder / ".git").is_dir() or (folder / course.open).exists():
        return ""
    return f"open must name a file of the material, but {folder} has no {course.open!r}"


def _check_passwords(course: Settings) -> str:
    try:
        known = passwords.load_hashes(course.passwords)
    except PermissionError:
        return f"{course.passwords} can be read only by root; use sudo"
    except ValueError as error:
        return str(error)
    if not known:
        return "no user has a password; make some: labkit course passwords roster.csv"
    if strange := sorted(set(course.admins) - set(known)):
        return (
            f"every admin must have a password, but {strange[0]!r} has none; add them to a roster"
        )
    return ""


def _check_ports(course: Settings) -> str:
    for port in range(course.port, course.port + 3):
        with socket.socket() as probe:
            # As the hub does: a port that was used a moment ago is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                return f"port {port} of 127.0.0.1 must be free: {error}; change port or free it"
    return ""


def _check_memory(course: Settings) -> str:
    if not course.memory or not (wrong := control_groups.find_problem()):
        return ""
    return f"{wrong}; set memory = 0 to serve without a limit, where one user can take it all"


def _check_isolation(course: Settings) -> str:
    if gone := [path for path in course.visible if not path.exists()]:
        return f"visible must name existing folders, but {gone[0]} does not exist"
    if course.isolation == "namespaces":
        if wrong := bubblewrap.find_problem("--unshare-pid", "--unshare-ipc", "--dev", "/dev"):
            return f"{wrong}; set isolation = 'users' to rely only on user IDs and permissions"
        return ""
    for path in readable_paths.list_readable(course):
        if path.exists() and (closed := readable_paths.find_closed(path)):
            return (
                f"users must be able to enter {closed}, which is on the path to {path}; run: "
                f"chmod o+x {closed}, or set isolation = 'namespaces'"
            )
    return ""


def _check_gpus(course: Settings) -> str:
    if not course.gpus:
        return ""
    program = shutil.which("nvidia-smi")
    if program is None:
        return "gpus needs nvidia-smi to find the GPUs, but it is not installed; set gpus = []"
    told = subprocess.run([program, "-L"], capture_output=True, text=True)
    if told.returncode:
        return f"gpus names GPUs, but nvidia-smi finds none: {told.stdout.strip()[:200]}"
    lines = told.stdout
    for device in course.gpus:
        if f"GPU {device}:" not in lines and f"UUID: {device})" not in lines:
            return f"gpus names {device!r}, but `nvidia-smi -L` lists only:\n{lines.strip()}"
    return ""


# In the order in which they build on each other.
_NEEDS: dict[str, Callable[[Settings], str]] = {
    "root": _check_root,
    "packages": _check_packages,
    "proxy": _check_proxy,
    "git": _check_git,
    "material": _check_material,
    "passwords": _check_passwords,
    "ports": _check_ports,
    "memory limit": _check_memory,
    "isolation": _check_isolation,
    "GPUs": _check_gpus,
}


def check_needs(course: Settings) -> Iterator[tuple[str, str]]:
    """Check each requirement in turn: its name, and the problem ("" if there is none)."""
    for name, need in _NEEDS.items():
        yield name, need(course)
