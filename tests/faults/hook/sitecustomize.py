"""Misbehaviour for labkit's processes: Python reads this file when it starts, if it is on its path.

FAKE_WORKER  a program that a worker process is instead of labkit's
FAULT_LOG    a file that learns what begins, what is stored and which faults are injected
FAULTS       {"seed of a run": [kind of fault, how often]}, as JSON
FAULT_PACE   seconds that each training step sleeps
FAULT_CLOCK  makes time.time jump, an hour to and fro

While `<FAULT_LOG>.full` exists the disk is full: it names where a write finds out.
"""

import errno
import itertools
import json
import os
import signal
import sys
import time

WORKER = "labkit.experiments.engines.worker"


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


def disturb():
    import tempfile

    import torch

    from labkit.experiments import run, store

    train, put, open_part, sync = (
        run.train,
        store.Store.put,
        tempfile.NamedTemporaryFile,
        os.fsync,
    )
    pace = float(os.environ.get("FAULT_PACE", "0"))

    def disturbed(batches, seed):
        for step, batch in enumerate(batches):
            if step == 1:
                misbehave(seed)
            time.sleep(pace)
            yield batch

    def train_disturbed(model, batches, *words, **options):
        seed = torch.initial_seed()
        note("begins", seed)
        return train(model, disturbed(batches, seed), *words, **options)

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

    def open_full(*words, **options):
        full("open")
        part = open_part(*words, **options)
        write = part.write

        def write_half(text):
            try:
                full("write")
            except OSError:
                write(text[: len(text) // 2])
                part.flush()
                raise
            return write(text)

        part.write = write_half
        return part

    def sync_full(file):
        full("sync")
        sync(file)

    run.train, store.Store.put = train_disturbed, put_noted
    tempfile.NamedTemporaryFile, os.fsync = open_full, sync_full


if os.environ.get("FAULT_CLOCK"):
    jumps, clock = itertools.cycle((0, 3600, -3600, 1e6, -1e9)), time.time
    time.time = lambda: clock() + next(jumps)
if WORKER in sys.orig_argv and os.environ.get("FAKE_WORKER"):
    exec(os.environ["FAKE_WORKER"])
    os._exit(0)
if os.environ.get("FAULT_LOG"):
    disturb()
