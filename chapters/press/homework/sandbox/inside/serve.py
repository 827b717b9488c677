"""The worker: run the definitions of a submission, then answer calls with values.

All of this is in the submission's reach, and nothing in it is trusted: the grader reads the
channel as it would read a stranger's.
"""

import gc
import importlib
import os
import random
from typing import Any

from . import wire
from .program import Program

CHANNEL = 3  # the descriptor of the only socket that a worker has


def warm_up() -> None:
    """Do once, before any fork, what the first use of torch would do in each worker."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    x = torch.ones(2, 4)
    torch.nn.functional.layer_norm(x @ x.T, (2,)).std().item()
    torch.manual_seed(0)
    wire.write_frame({}, x)


def _read_bytes(size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        part = os.read(CHANNEL, size - len(got))
        if not part:
            os._exit(0)  # the grader is gone, or has what it wanted
        got += part
    return bytes(got)


def _send_message(message: bytes) -> None:
    rest = memoryview(message)
    while rest:
        rest = rest[os.write(CHANNEL, rest) :]


def serve_calls(allowed: list[str], limits: dict[str, int]) -> None:
    """Answer the grader until it closes the channel; never return."""
    seed_numbers()
    _send_message(wire.write_frame({"ready": True}))
    program = Program(allowed)
    while True:
        head, value = wire.receive(_read_bytes, limits["request"])
        try:
            reply = _answer_call(program, head, value, limits["reply"])
        except BaseException as error:
            reply = wire.write_frame({"id": head.get("id"), **program.describe_failure(error)})
        _send_message(reply)
        del head, value, reply


def seed_numbers() -> None:
    """Give every worker the same random numbers."""
    random.seed(0)
    importlib.import_module("numpy").random.seed(0)
    importlib.import_module("torch").manual_seed(0)


def _answer_call(program: Program, head: dict, value: Any, cap: int) -> bytes:
    number = {"id": head["id"]}
    if head["do"] == "load":
        program.load(head["program"], head["probes"])
        return wire.write_frame({**number, "failure": ""})
    arguments, named = value
    name = head["name"]
    function = program.find_probe(name) if head["do"] == "probe" else program.find(name)
    try:
        result = function(*arguments, **named)
    finally:
        del arguments, named
        gc.collect(0)
    try:
        return wire.write_frame({**number, "failure": ""}, result, cap)
    except wire.Refused as error:
        return wire.write_frame({**number, "failure": "refused", "detail": str(error)})
