"""Say what computes here: the facts that decide the last digits of a result."""

import platform
from functools import cache
from importlib.metadata import version

from labkit.processor import name_processor


@cache
def read_provenance(size: str = "book") -> dict[str, str]:
    """Name the device, the CPU model and the versions that a ledger's values came from."""
    return {
        "device": name_device(size),
        "cpu": name_processor(),
        "python": platform.python_version(),
        "torch": version("torch").partition("+")[0],  # its CPU and CUDA builds count as one
    }


def name_device(size: str) -> str:
    """Name the class of devices on which a size's runs train."""
    if size != "gpu":
        return "cpu"
    from labkit.experiments.lab import device_of  # needs torch

    return device_of(size)
