"""Talk with a worker that may lie, flood, stall or vanish: every wait has an end."""

import contextlib
import fcntl
import os
import select
import socket
import time
from collections.abc import Callable
from typing import Any

from press.homework.sandbox.inside import wire

_CHUNK = 1 << 20  # bytes read at once; also what the pipe holds
_LOOK = 0.05  # seconds between two looks at what nobody reports


class Slow(Exception):
    """The deadline passed."""


class Closed(Exception):
    """The worker closed its end, most likely by ending."""


class Channel:
    """One socket for messages and one pipe for what is printed, of which `keep` bytes stay."""

    def __init__(self, keep: int):
        self.keep = keep
        self.printed = bytearray()
        self.socket, self.theirs = socket.socketpair()
        self.output, self.their_output = os.pipe()
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.output, fcntl.F_SETPIPE_SZ, _CHUNK)
        self.socket.setblocking(False)
        os.set_blocking(self.output, False)
        self._space = bytearray(_CHUNK)

    def given(self) -> None:
        """Close the worker's ends here, once it has them: only it holds them now."""
        self.theirs.close()
        if self.their_output >= 0:
            os.close(self.their_output)
        self.their_output = -1

    def close(self) -> None:
        """Close all ends."""
        self.given()
        self.socket.close()
        if self.output >= 0:
            os.close(self.output)
        self.output = -1

    def exchange(
        self, message: bytes, deadline: float, cap: int, look: Callable[[], None] = lambda: None
    ) -> tuple[dict, Any]:
        """Send one message and read the one that answers it; look in every now and then.

        Raises Slow, Closed or wire.Refused; on any of these the worker is of no more use.
        """
        rest, got, want = memoryview(message), bytearray(), wire.HEAD.size
        sizes: tuple[int, int] | None = None
        while sizes is None or len(got) < want:
            readable, writable = self._wait(bool(rest), deadline)
            look()
            if self.output in readable:
                self._drain(1)
            if writable:
                rest = rest[self._send(rest) :]
            if self.socket in readable:
                got += self._receive()
            if sizes is None and len(got) >= want:
                sizes = wire.sizes(bytes(got[:want]), cap)
                want += sum(sizes)
        self._drain(4)
        if rest or len(got) > want:
            raise wire.Refused("what came back is not a message")
        start = wire.HEAD.size + sizes[0]
        return wire.parse(bytes(got[wire.HEAD.size : start]), bytes(got[start:]))

    def _wait(self, sending: bool, deadline: float) -> tuple[list, list]:
        left = deadline - time.monotonic()
        if left <= 0:
            self._drain(4)
            raise Slow
        reading = [self.socket, *([self.output] if self.output >= 0 else [])]
        writing = [self.socket] if sending else []
        readable, writable, _ = select.select(reading, writing, [], min(left, _LOOK))
        return readable, writable

    def _send(self, rest: memoryview) -> int:
        try:
            return self.socket.send(rest[:_CHUNK])
        except BlockingIOError:
            return 0
        except OSError as error:
            raise Closed from error

    def _receive(self) -> bytes | memoryview:
        try:
            size = self.socket.recv_into(self._space)
        except BlockingIOError:
            return b""
        except OSError:
            size = 0
        if not size:
            self._drain(4)
            raise Closed
        return memoryview(self._space)[:size]

    def _drain(self, times: int) -> None:
        """Take what was printed, keep the first of it, and forget the rest."""
        for _ in range(times if self.output >= 0 else 0):
            try:
                size = os.readv(self.output, [self._space])
            except BlockingIOError:
                return
            if not size:
                os.close(self.output)
                self.output = -1
                return
            self.printed += self._space[: min(size, self.keep - len(self.printed))]
