"""Compile the kernels of `cases` for an absent GPU, and read the requirements of the machine code.

A program of its own, because interpreted and compiled Triton cannot share a process:

    python tests/kernels/compiled.py 90 rms_norm/4096/bfloat16 ...          a JSON object a kernel
    python tests/kernels/compiled.py 90 rms_norm/4096/bfloat16/float32 ...  parameters in float32
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Job = tuple[int, list[str]]  # a compute capability, and settings


def main(capability: str, *settings: str) -> Iterator[dict[str, Any]]:
    """Call kernels forward and backward on tensors of many rows without touching their memory."""
    sys.path[:0] = [str(ROOT), str(ROOT / "kernels")]
    import torch
    from normkernels.machine_code import ROWS, pretend, read

    from tests.kernels.cases import NAMED, QUANTIZED
    from tests.kernels.measure import Setting, as_tuple, draw, learned

    seen, rows = pretend(int(capability)), []
    for setting in settings:
        name, n, *dtypes = setting.split("/")
        dtype, *parameters = (getattr(torch, text) for text in dtypes)
        case = NAMED[name]
        given = draw(case, Setting(1, int(n), dtype, *parameters))
        for row in case.rows:
            given[row] = torch.empty(ROWS, *given[row].shape[1:], dtype=dtype)
        seen.clear()
        if case in QUANTIZED:
            case.function(**given, **case.options)
        else:
            learning = [given[one].requires_grad_() for one in learned(case, given)]
            outputs = as_tuple(case.function(**given, **case.options))
            torch.autograd.grad(outputs, learning, [torch.empty_like(y) for y in outputs])
        about = {"case": name, "n": int(n), "dtypes": "/".join(dtypes)}
        rows += [{"capability": int(capability), **about, **one} for one in seen]
    yield from read(rows, int(capability))


def needs(jobs: Iterable[Job]) -> list[dict[str, Any]]:
    """Run this program for each job, two in parallel, without Triton's interpreter."""
    kept = {name: text for name, text in os.environ.items() if name != "TRITON_INTERPRET"}

    def run(job: Job) -> list[dict[str, Any]]:
        command = [sys.executable, __file__, str(job[0]), *job[1]]
        done = subprocess.run(command, env=kept, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[-3000:])
        return [json.loads(line) for line in done.stdout.splitlines()]

    with ThreadPoolExecutor(2) as pool:
        return [one for rows in pool.map(run, jobs) for one in rows]


if __name__ == "__main__":
    for line in main(*sys.argv[1:]):
        print(json.dumps(line), flush=True)
