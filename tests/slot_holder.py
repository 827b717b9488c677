"""Hold one of the slots that processes share; a separate program that does not import PyTorch."""

import os
import time
from pathlib import Path

from labkit.system.pool import Pool


def hold(root: Path, log: Path, seconds: float, nice: int = 0) -> None:
    os.nice(nice)
    with Pool(root).slot():
        with log.open("a") as file:
            file.write("+")
        time.sleep(seconds)
        with log.open("a") as file:
            file.write("-")
