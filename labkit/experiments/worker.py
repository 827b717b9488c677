"""A worker process: reads runs as JSON lines, trains each in a slot of the pool, stores it.

It ends when its input does, that is when the process that started it is gone; the run in hand is
finished and stored first.
"""

import contextlib
import json
import sys
import traceback
from pathlib import Path

import torch

from labkit.experiments.run import CPU, Run, execute
from labkit.experiments.store import Store
from labkit.pool import Pool


def main(root: Path, device: str = CPU) -> None:
    """Answer each line with {"ok": true} or {"error": traceback}."""
    torch.set_num_threads(1)
    store, pool = Store(root, device), Pool(root)
    answers = sys.stdout
    for line in sys.stdin:
        try:
            # What training prints must not be taken for an answer.
            with contextlib.redirect_stdout(sys.stderr), pool.slot():
                run = Run.from_dict(json.loads(line))
                if store.get(run) is None:
                    store.put(run, execute(run, device=device))
            answer = {"ok": True}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
