"""How much a worker may use."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What one worker may use; sizes are bytes.

    `seconds` is per call, and for the definitions to run; `together` is for all calls of a worker,
    so that slow calls cannot add up; `memory` is the worker's own, beyond what it shares with the
    zygote; `processes` counts its threads (it may start no process); `file` caps its temporary
    folder and each file in it; `reply` caps one answer on the wire.
    """

    seconds: float = 5.0
    together: float = 60.0
    memory: int = 1 << 30
    processes: int = 32
    file: int = 64 << 20
    reply: int = 64 << 20
