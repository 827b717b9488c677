"""The zygote: import the packages once, then fork a confined worker for each question.

It is started by the grader with one socket. First comes the plan, then orders, each answered:

    {"do": "fork", "tmp", "limits"} + (socket)       ->  {"pid"} + (pidfd), or {"failed"}
    {"do": "reap", "pid"}                            ->  {"status"}

It ends when the grader does: the socket then reads as closed.
"""

import importlib
import json
import os
import socket
import sys
import traceback
from typing import Any

from . import confine, imports, serve, wire

_LONGEST = 1 << 20  # bytes of one order


def main(descriptor: int) -> None:
    """Serve one grader until it exits."""
    grader = socket.socket(fileno=descriptor)
    plan = json.loads(grader.recv(_LONGEST))
    statm = os.open("/proc/self/statm", os.O_RDONLY)
    sys.path[:] = [*plan["stdlib"], *plan["sites"]]
    imports.install_finder(plan["found"])
    for name in plan["imported"]:
        importlib.import_module(name)
    serve.warm_up()
    zygote = Zygote(grader, plan, statm)
    grader.send(json.dumps({"ready": True}).encode())
    zygote.run()


def _reap_worker(pid: int) -> int | None:
    """Read the exit status of an ended worker, unless another zygote forked it."""
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return None


class Zygote:
    """Fork and reap workers at the grader's orders."""

    def __init__(self, grader: socket.socket, plan: dict[str, Any], statm: int):
        self.grader, self.plan = grader, plan
        self.statm = statm
        self.rules = confine.open_rules(plan)

    def run(self) -> None:
        """Follow orders until the grader is gone."""
        while True:
            text, descriptors, _, _ = socket.recv_fds(self.grader, _LONGEST, 1)
            if not text:
                os._exit(0)
            order = json.loads(text)
            if order["do"] == "fork":
                try:
                    self.fork(order, *descriptors)
                except OSError as error:  # no room for a process or a namespace
                    self.answer({"failed": str(error)})
                for descriptor in descriptors:
                    os.close(descriptor)
            else:
                self.answer({"status": _reap_worker(order["pid"])})

    def answer(self, message: dict[str, Any], *descriptors: int) -> None:
        """Send one message, with open descriptors."""
        socket.send_fds(self.grader, [json.dumps(message).encode()], list(descriptors))

    def fork(self, order: dict[str, Any], channel: int) -> None:
        """Fork one worker."""
        memory = confine.measure_address_space(self.statm)
        pid = os.fork()
        if not pid:
            try:
                self.work(order, channel, memory)
            finally:
                os._exit(70)
        pidfd = os.pidfd_open(pid)
        self.answer({"pid": pid}, pidfd)
        os.close(pidfd)

    def work(self, order: dict[str, Any], channel: int, memory: int) -> None:
        """Become the worker: close everything, confine the process, then read the submission."""
        null = os.open("/dev/null", os.O_RDWR)  # nobody reads what a submission prints
        kept = {null: 0, os.dup(null): 1, os.dup(null): 2, channel: serve.CHANNEL}
        said = os.dup(channel)
        try:
            confine.confine_worker(self.plan, order, self.rules, kept, memory)
        except BaseException:
            os.write(said, wire.write_frame({"unconfined": traceback.format_exc(limit=3)[-2000:]}))
            os._exit(70)
        allowed = self.plan["allowed"]
        self.grader.detach()
        self.__dict__.clear()
        serve.serve_calls(allowed, order["limits"])
