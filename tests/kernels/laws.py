"""What every kernel must do, as functions `law(case, ...)` that use only the kernel's row.

The laws stand in the files imported here; `checks()` is the list of everything there is to run,
the special checks of single kernels included.
"""

import importlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from . import laws_bits, laws_formula, laws_gpu, laws_memory, laws_torch
from .cases import CASES
from .law import LAWS, Check, law
from .measure import DEVICE, Skip

__all__ = ["DEVICE", "LAWS", "Check", "Skip", "checks", "law"]
_FILES = (laws_formula, laws_bits, laws_memory, laws_torch, laws_gpu)


def checks() -> Iterator[Check]:
    """Yield every law under every setting, case by case; then the special checks of one kernel."""
    for case in CASES:
        for one in LAWS.values():
            for given in one.settings(case):
                about = ", ".join([case.name, *map(str, given)])
                yield Check(
                    one.name,
                    f"{one.name}[{about}]",
                    partial(one.check, case, *given),
                    not one.quick(case, *given),
                    one.gpu,
                )
    yield from special()


def special() -> Iterator[Check]:
    """Yield the checks without a case: functions check_… of the laws' files and special_*.py.

    `check.slow = True` keeps one out of `make test`, `check.gpu = True` leaves one to GPUs.
    """
    files = sorted(Path(__file__).parent.glob("special_*.py"))
    modules = [importlib.import_module(f".{file.stem}", __package__) for file in files]
    for module in (*_FILES, *modules):
        for name, check in vars(module).items():
            if name.startswith("check_") and check.__module__ == module.__name__:
                law = name.removeprefix("check_")
                slow, gpu = getattr(check, "slow", False), getattr(check, "gpu", False)
                yield Check(law, f"{law}[{module.__name__.rpartition('.')[2]}]", check, slow, gpu)
