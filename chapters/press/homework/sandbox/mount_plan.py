"""Find the files that a worker needs: Python, the packages and their dependencies, no more."""

import importlib.metadata
import importlib.util
import os
import re
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from press import bubblewrap

# Where two names of one thing differ, and no file of the installation says so.
OWN: dict[str, str] = dict.fromkeys(("labkit", "press", "normkernels"), "norm-lab-book")
SITE = ("site-packages", "dist-packages")
# What a package needs beside its own name before forks are cheap.
ALSO = {"labkit": ("labkit.check",), "triton": ("triton.language", "triton.runtime.interpreter")}
# Always there: the wire carries tensors.
WIRE = ("torch", "numpy")

# Small files of the system: nothing else beside them is seen.
SYSTEM = (
    "/etc/ld.so.cache",
    "/proc/cpuinfo",
    "/sys/devices/system/cpu/possible",
    "/sys/devices/system/cpu/present",
    "/sys/devices/system/cpu/online",
)


def list_standard() -> list[str]:
    """List the folders of the standard library."""
    extension = [path for path in sys.path if path.endswith("lib-dynload")]
    return list(dict.fromkeys([os.path.dirname(os.__file__), *extension]))


def list_libraries() -> list[str]:
    """List the system's folders of shared libraries, and Python's own library."""
    triple = sysconfig.get_config_var("MULTIARCH") or ""
    folders = [f"/{top}/{sub}" for top in ("lib", "usr/lib", "usr/local/lib") for sub in [triple]]
    folders += ["/lib64", "/usr/lib64"]
    found = [each for each in folders if triple or not each.endswith("/") if os.path.isdir(each)]
    # The name that the executable asks for; libpython3.x.so beside it is what compilers ask for.
    name = sysconfig.get_config_var("INSTSONAME") or ""
    own = os.path.join(sysconfig.get_config_var("LIBDIR") or "", name)
    return found + [each for each in [own] if ".so" in name and os.path.exists(own)]


def find_distributions(packages: tuple[str, ...]) -> list[importlib.metadata.Distribution]:
    """List the installed distributions that `packages` come from and depend on."""
    by_import: dict[str, list[str]] | None = None
    queue: list[str] = []
    for package in dict.fromkeys([*WIRE, *packages]):
        name = OWN.get(package, package)
        if not _find_installed(name) and package not in sys.stdlib_module_names:
            if by_import is None:
                by_import = dict(importlib.metadata.packages_distributions())
            queue += by_import.get(package, [])
        queue.append(name)
    found: dict[str, importlib.metadata.Distribution] = {}
    while queue:
        key = re.sub(r"[-_.]+", "-", queue.pop()).lower()
        distribution = None if key in found else _find_installed(key)
        if distribution is None:
            continue
        found[key] = distribution
        queue += list_needed(distribution)
    return list(found.values())


def list_needed(distribution: importlib.metadata.Distribution) -> list[str]:
    """List the required dependencies of a distribution, without its extras."""
    lines = (line for line in distribution.requires or () if "extra ==" not in line)
    return [re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in lines]


def _find_installed(name: str) -> importlib.metadata.Distribution | None:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def list_entries(distribution: importlib.metadata.Distribution) -> list[str]:
    """List the top-level files and folders of one distribution in its site folder."""
    site = str(distribution.locate_file(""))
    record = distribution.read_text("RECORD") or ""
    tops = {line.split("/", 1)[0].split(",", 1)[0] for line in record.splitlines()}
    tops -= {"", "..", "__pycache__", "bin", "tests", "docs", "test"}
    paths = (os.path.join(site, top) for top in sorted(tops) if not top.endswith(".pth"))
    return [path for path in paths if os.path.exists(path)]


def locate_packages(packages: tuple[str, ...]) -> dict[str, str]:
    """Find the packages outside any site folder: {name: folder or file}.

    ValueError names a package that is not installed.
    """
    found = {}
    for name in packages:
        if name in sys.stdlib_module_names:
            continue
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ValueError(
                f"a homework's packages must be installed where it is graded, but Python finds no "
                f"{name!r}; install it, or leave it out of `packages`"
            )
        place = Path(spec.origin)
        place = place.parent if place.name == "__init__.py" else place
        if not any(part in SITE for part in place.parts):
            found[name] = str(place)
    return found


@dataclass(frozen=True)
class View:
    """The files that a zygote and its workers see, and the packages that they import.

    `whole` are folders and files that are shown with all that is in them: packages, shared
    libraries; `stdlib` is the standard library, `sites` the folders that packages are installed
    in, `hidden` those of them and of the library's that are emptied before `whole` is shown;
    `system` are small files. `found` says where packages lie that are in no site folder; `imported`
    is what the zygote imports.
    """

    whole: list[str]
    stdlib: list[str]
    sites: list[str]
    hidden: list[str]
    system: list[str]
    found: dict[str, str]
    imported: list[str]

    def build_arguments(self, *more: str) -> list[str]:
        """Build bubblewrap's arguments for a root with these files, Python, and `more`.

        `more` are arguments of bubblewrap as well. Workers see less than that: Landlock lets them
        read nothing below /proc, and of `more` their own folder.
        """
        shown = {*self.stdlib, *self.whole, *self.system, os.path.realpath(sys.executable)}
        arguments = ["--proc", "/proc", "--dev", "/dev"]
        # Parents come before what lies in them, so that nothing is mounted over.
        for path in sorted({*shown, *self.hidden}, key=lambda path: path.count("/")):
            arguments += bubblewrap.show([path]) if path in shown else ["--tmpfs", path]
        arguments += more
        for path in [*self.hidden, "/"]:
            arguments += ["--remount-ro", path]
        return arguments


def plan_view(packages: tuple[str, ...]) -> View:
    """Find what a homework with these packages needs; ValueError if one is missing."""
    distributions = find_distributions(packages)
    found = locate_packages(packages)
    sites = sorted({str(each.locate_file("")).rstrip("/") for each in distributions})
    whole = [*list_libraries(), *(path for each in distributions for path in list_entries(each))]
    stdlib = list_standard()
    inside = [os.path.join(folder, site) for folder in stdlib for site in SITE]
    names = dict.fromkeys([*WIRE, *packages])
    return View(
        whole=sorted({*whole, *found.values()}),
        stdlib=stdlib,
        sites=sites,
        hidden=sorted({*sites, *(path for path in inside if os.path.isdir(path))}),
        system=[path for path in SYSTEM if os.path.exists(path)],
        found=found,
        imported=[each for name in names for each in (name, *ALSO.get(name, ()))],
    )
