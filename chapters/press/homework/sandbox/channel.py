"""Communicate with a worker that may lie, flood, stall or vanish: every wait has a limit."""

import socket
import time
from collections.abc import Callable
from typing import Any, TypeVar

from press.homework.sandbox.inside import wire

LOOK_SECONDS = 0.05  # between two looks at the clock, and at what nobody reports

_CHUNK = 1 << 20  # bytes sent or read at once
T = TypeVar("T")


class Slow(Exception):
    """The deadline passed."""


class Closed(Exception):
    """The worker closed its end of the channel, most likely because it exited."""


def make_channel() -> tuple[socket.socket, socket.socket]:
    """Make both ends of a channel: the grader's, whose waits are short, and the worker's."""
    ours, theirs = socket.socketpair()
    ours.settimeout(LOOK_SECONDS)
    return ours, theirs


def exchange_messages(
    ours: socket.socket, message: bytes, deadline: float, cap: int, look: Callable[[], None]
) -> tuple[dict, Any]:
    """Send one message and read its reply; call `look` from time to time while waiting.

    Raises Slow, Closed or wire.Refused; on any of these the worker is of no more use.
    """

    def in_time(act: Callable[[], T]) -> T:
        while True:
            look()
            if time.monotonic() > deadline:
                raise Slow
            try:
                return act()
            except TimeoutError:
                continue
            except OSError as error:
                raise Closed from error

    def read(size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            most = min(size - len(got), _CHUNK)
            part = in_time(lambda most=most: ours.recv(most))
            if not part:
                raise Closed
            got += part
        return bytes(got)

    rest = memoryview(message)
    while rest:
        chunk = rest[:_CHUNK]
        rest = rest[in_time(lambda chunk=chunk: ours.send(chunk)) :]
    return wire.receive(read, cap)
