"""Pin the dependencies of pyproject.toml's pins: one file, written from what is installed.

Set-up hands it to pip as constraints, so that two machines have the same versions, with PyTorch's
CPU build or its CUDA build: NVIDIA's libraries, which torch itself pins, are left out.
To move a pin, change it in pyproject.toml, delete the file, and call `make setup` and
`labkit book constraints`.
"""

import re
import sys
from importlib.metadata import distributions
from pathlib import Path

from labkit.system.files import write_whole

FILE = Path("chapters") / "press" / "constraints.txt"
# Ourselves; what venv or torch's CUDA build brings, which no reader of the book imports.
LEFT_OUT = re.compile(r"norm-lab-book|pip|setuptools|wheel|(nvidia|cuda)-.*")
HEAD = "# Versions of everything that is installed; `labkit book constraints` writes them. Python "


def write_constraints(root: Path, *, check: bool = False) -> list[str]:
    """Update the file and list the rows that differed; with `check`, write nothing.

    Another Python or system may need other packages: there only other versions are told.
    """
    path, now = root / FILE, list_installed()
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    known = dict(re.findall(r"(?m)^([\w.-]+)==(\S+)$", text))
    python = "{}.{}, {}".format(*sys.version_info[:2], sys.platform)
    differ = [f"{name}=={version}" for name, version in now.items() if known.get(name) != version]
    if text and not text.startswith(f"{HEAD}{python}\n"):
        differ = [line for line in differ if line.partition("==")[0] in known]
    else:
        differ += [f"no {name}" for name in known if name not in now]
    lines = "".join(f"{name}=={version}\n" for name, version in now.items())
    if not check and text != (fresh := f"{HEAD}{python}\n{lines}"):
        write_whole(path, fresh)
    return differ


def list_installed() -> dict[str, str]:
    """List the installed packages: normalized names, versions without the local build label."""
    found = {
        re.sub(r"[-_.]+", "-", each.name).lower(): each.version.partition("+")[0]
        for each in distributions()
    }
    return {name: found[name] for name in sorted(found) if not LEFT_OUT.fullmatch(name)}
