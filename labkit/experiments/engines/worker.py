"""A worker process: reads tasks as JSON lines, trains each in a slot of the pool, stores it.

It ends when its input does, that is when the process that started it is gone; the task in hand is
finished and stored first.
"""

import contextlib
import json
import sys
import traceback
from pathlib import Path

import torch

from labkit.experiments.engines.task import complete
from labkit.experiments.run import CPU, Run
from labkit.experiments.store import Store
from labkit.pool import Pool


def main(root: Path, device: str = CPU) -> None:
    """Answer each line, a list of runs, with {"ok": true} or {"error": traceback}."""
    torch.set_num_threads(1)
    store, pool = Store(root, device), Pool(root)
    answers = sys.stdout
    for line in sys.stdin:
        try:
            # What training prints must not be taken for an answer.
            with contextlib.redirect_stdout(sys.stderr), pool.slot():
                complete(tuple(map(Run.from_dict, json.loads(line))), store)
            answer = {"ok": True}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
