"""Find configurable-http-proxy, a Node program that runs in front of the hub and all servers."""

import os
import shutil
import sys
from pathlib import Path

from press.npm import find_packaged, run_npm

NAME = "configurable-http-proxy"
VERSION = "5.3.0"


def find_proxy() -> list[str]:
    """Return the command, from LABKIT_PROXY, the PATH, `.venv/node_modules` or `node_modules`.

    Raises ValueError where there is none, with the command that installs it.
    """
    if named := os.environ.get("LABKIT_PROXY"):
        if not os.access(named, os.X_OK):
            raise ValueError(
                f"LABKIT_PROXY must name a program, but {named} cannot be executed; correct it, "
                "or unset it"
            )
        return [named]
    folders = [Path(sys.prefix), Path.cwd()]
    programs = [folder / "node_modules" / ".bin" / NAME for folder in folders]
    script = shutil.which(NAME) or next((str(p) for p in programs if p.exists()), None)
    if script is None:
        raise ValueError(
            f"the course server needs the program {NAME}, which was not found; install it with "
            "`labkit fetch proxy`, or name it: LABKIT_PROXY=…"
        )
    return [*find_packaged("bin/node"), script]


def install_proxy(prefix: Path = Path(sys.prefix)) -> None:
    """Install the proxy in `<prefix>/node_modules`; raise ValueError if npm fails."""
    run_npm("proxy", "install", "--prefix", str(prefix), f"{NAME}@{VERSION}")
