"""List the paths that a user's server must be able to read: Python, our packages, the material."""

import importlib.util
import sys
from pathlib import Path

from press.course.settings import Settings


def list_readable(course: Settings) -> list[Path]:
    """List folders to mount, shortest first; the packages only, never the clone around them.

    The clone holds what students must not see, the solutions of the homework among it.
    """
    wanted = [Path(sys.prefix), Path(sys.base_prefix), *find_packages(), course.material]
    wanted += [course.state / "public", *course.visible]
    # By the path that is used, and by where it leads: a virtual environment may be a link.
    both = {path for one in wanted for path in (one, one.resolve())}
    return sorted(both, key=lambda path: (len(path.parts), str(path)))


def find_packages() -> list[Path]:
    """Find labkit, the press and, if they are installed, the kernels."""
    found = [importlib.util.find_spec(name) for name in ("labkit", "press", "normkernels")]
    return [Path(spec.origin).parent for spec in found if spec and spec.origin]


def find_closed(path: Path) -> Path | None:
    """Find the first folder of a path that other users may not enter."""
    for folder in (*reversed(path.resolve().parents), path.resolve()):
        if not folder.stat().st_mode & 0o001:
            return folder
    return None
