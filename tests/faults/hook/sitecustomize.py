"""Misbehaviour for labkit's processes: Python reads this file when it starts, if it is on its path.

FAULT_LOG    a file that learns what begins, what is stored and which faults are injected
FAULTS       {"seed of a run": [kind of fault, how often]}, as JSON
FAULT_PACE   seconds that each training step sleeps
FAULT_GATE   the first seed whose runs wait, in the middle, for the file `<FAULT_LOG>.go`
FAULT_CLOCK  makes the clock of the day jump, to and fro

While `<FAULT_LOG>.full` exists the disk is full: it names where a write finds out.
"""

import errno
import itertools
import json
import os
import signal
import sys
import time


def note(*words):
    file = os.open(os.environ["FAULT_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, " ".join(map(str, [*words, os.getpid()])).encode() + b"\n")
    os.close(file)


def injected(kind, seed):
    with open(os.environ["FAULT_LOG"]) as file:
        return sum(line.startswith(f"fault {kind} {seed} ") for line in file)


def misbehave(seed):
    kind, times = json.loads(os.environ.get("FAULTS", "{}")).get(str(seed), ("", 0))
    if injected(kind, seed) >= times:
        return
    note("fault", kind, seed)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "exit":
        os._exit(3)
    elif kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif kind == "hang":
        time.sleep(1e6)
    elif kind == "leak":
        held = []
        while True:
            held.append(bytearray(os.urandom(2**20)) * 16)
            time.sleep(0.01)
    elif kind == "noise":
        os.write(1, b'{"task": 1, "ok": true}\n{"ready": true}\n\xff\xfe' + b"[" * 100_000)
    else:
        raise ValueError(kind)


def disturb_training():
    import torch

    from labkit.experiments import run

    train = run.train
    pace = float(os.environ.get("FAULT_PACE", "0"))
    gate = int(os.environ.get("FAULT_GATE", "1000"))

    def disturbed(batches, seed):
        for step, batch in enumerate(batches):
            if step == 1:
                misbehave(seed)
                while seed >= gate and not os.path.exists(os.environ["FAULT_LOG"] + ".go"):
                    time.sleep(0.02)
            time.sleep(pace)
            yield batch

    def train_disturbed(model, batches, *words, **options):
        seed = torch.initial_seed()
        note("begins", seed)
        return train(model, disturbed(batches, seed), *words, **options)

    run.train = train_disturbed


def disturb_store(patch=setattr):
    import pathlib

    from labkit.experiments import store

    put, open_any, sync = store.Store.write_record, pathlib.Path.open, os.fsync

    def put_noted(self, run, record, **made):
        put(self, run, record, **made)
        note("stored", run.seed)

    def full(where):
        try:
            with open(os.environ["FAULT_LOG"] + ".full") as file:
                if file.read() != where:
                    return
        except FileNotFoundError:
            return
        note("fault", "full", where)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open_full(path, *words, **options):
        if not path.name.startswith(store.WRITING):
            return open_any(path, *words, **options)
        full("open")
        part = open_any(path, *words, **options)
        write = part.write

        def write_half(content):
            try:
                full("write")
            except OSError:
                write(content[: len(content) // 2])
                part.flush()
                raise
            return write(content)

        part.write = write_half
        return part

    def sync_full(file):
        full("sync")
        sync(file)

    class Jumping(store.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(clock() + next(days), tz)

    if os.environ.get("FAULT_CLOCK"):
        patch(store, "datetime", Jumping)
    patch(store.Store, "write_record", put_noted)
    patch(pathlib.Path, "open", open_full)
    patch(os, "fsync", sync_full)


def serves_ray():
    """Tell a process of Ray's own from one that trains: its workers are default_worker.py."""
    script = next((word for word in sys.orig_argv if word.endswith(".py")), "")
    return f"{os.sep}ray{os.sep}" in script and not script.endswith("default_worker.py")


def tracks():
    """Tell a process that tidies up after others: it needs no torch."""
    return any("resource_tracker" in word for word in sys.orig_argv)


clock, days = time.time, itertools.cycle((1e6, -1e9))
if os.environ.get("FAULT_CLOCK"):
    jumps = itertools.cycle((0, 3600, -3600, 1e6, -1e9))
    time.time = lambda: clock() + next(jumps)
    time.time_ns = lambda: int(1e9 * time.time())
if os.environ.get("FAULT_LOG") and not serves_ray() and not tracks():
    disturb_training()
    disturb_store()
