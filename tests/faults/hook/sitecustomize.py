"""Misbehaviour for labkit's processes: Python reads this file when it starts, if it is on its path.

FAULT_LOG    a file that learns what begins, what is stored and which workers are killed
FAULT_KILLS  {"seed of a run": how often its worker is killed}, as JSON
FAULT_PACE   seconds that each training step sleeps
FAULT_GATE   the first seed whose runs wait, in the middle, for the file `<FAULT_LOG>.go`
"""

import json
import os
import signal
import sys
import time


def note(*words):
    file = os.open(os.environ["FAULT_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, " ".join(map(str, [*words, os.getpid()])).encode() + b"\n")
    os.close(file)


def misbehave(seed):
    times = json.loads(os.environ.get("FAULT_KILLS", "{}")).get(str(seed), 0)
    with open(os.environ["FAULT_LOG"]) as file:
        if sum(line.startswith(f"killed {seed} ") for line in file) < times:
            note("killed", seed)
            os.kill(os.getpid(), signal.SIGKILL)


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
    from labkit.experiments import store

    write = store.Store.write_record

    def write_noted(self, run, record, **made):
        write(self, run, record, **made)
        note("stored", run.seed)

    patch(store.Store, "write_record", write_noted)


def serves_ray():
    """Tell a process of Ray's own from one that trains: its workers are default_worker.py."""
    script = next((word for word in sys.orig_argv if word.endswith(".py")), "")
    return f"{os.sep}ray{os.sep}" in script and not script.endswith("default_worker.py")


def tracks():
    """Tell a process that tidies up after others: it needs no torch."""
    return any("resource_tracker" in word for word in sys.orig_argv)


if os.environ.get("FAULT_LOG") and not serves_ray() and not tracks():
    disturb_training()
    disturb_store()
