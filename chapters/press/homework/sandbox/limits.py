"""How much a worker may use."""

from dataclasses import dataclass

from labkit.units import parse_bytes


@dataclass(frozen=True)
class Limits:
    """What one worker may use; sizes are bytes, or text such as "64M" or "1G".

    `seconds` is per call, and for the definitions to run; `memory` is the worker's own, beyond
    what it shares with the zygote; `output` is how much of what it prints is kept; `processes`
    counts its threads (it may start no process); `file` caps its temporary folder and each file
    in it; `reply` caps one answer on the wire.
    """

    seconds: float = 5.0
    memory: int | str = "1G"
    output: int | str = 65536
    processes: int = 32
    file: int | str = "64M"
    reply: int | str = "64M"

    def __post_init__(self):
        if not self.seconds > 0:
            raise ValueError(f"seconds must be greater than 0, got {self.seconds!r}")
        if self.processes < 1:
            raise ValueError(f"processes must be 1 or more, got {self.processes!r}")
        for name in ("memory", "output", "file", "reply"):
            bytes_of(name, getattr(self, name))

    def bytes(self, name: str) -> int:
        """Return one of the sizes as a number of bytes."""
        return bytes_of(name, getattr(self, name))


def bytes_of(name: str, size: int | str) -> int:
    """Read a size: 65536 or "64K" -> 65536."""
    try:
        return parse_bytes(str(size))
    except ValueError:
        raise ValueError(
            f'{name} must be a number of bytes or text such as "64M", got {size!r}'
        ) from None
