"""Does a node see the driver's store? A file beside the records tells, by what it says.

A folder of the same name is not enough: another machine may have one, too.
"""

import contextlib
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from labkit.experiments.engines.locks import locked

SIGN = ".ray-"  # how the name of such a file begins


@contextlib.contextmanager
def sign(folder: Path) -> Iterator[Path]:
    """Have such a file for the length of a block, locked, so that nobody takes it for debris."""
    path = folder / f"{SIGN}{uuid.uuid4().hex}"
    with locked(path):
        path.write_text(f"{path} {time.time_ns()}")
        yield path


def sees(sign: str, says: str) -> bool:
    """Tell whether a file can be read here, and says what it says where it was written."""
    try:
        return Path(sign).read_text() == says
    except OSError:
        return False
