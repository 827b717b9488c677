"""Compile the kernels for GPUs that are not here, and read what the machine code needs.

A program of its own, because interpreted and compiled Triton cannot share a process:

    python tests/kernels/compiled.py 90 rms_norm/4096/bfloat16 ...      a JSON object a kernel

It calls the public functions on CPU tensors that nobody fills, under a driver that names the GPU
asked for. Each launch compiles exactly what would run there, and nothing runs.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def compile_one(case: Any, n: int, dtype: Any, parameters: Any) -> None:
    """Call a kernel forward and backward on tensors of many rows, whose pages nobody touches."""
    import torch
    from normkernels.machine_code import ROWS

    from tests.kernels.measure import Setting, as_tuple, draw, learned

    few = draw(case, Setting(1, n, dtype, parameters))
    given = {
        name: torch.empty(ROWS, *v.shape[1:], dtype=v.dtype) if name in case.rows else v
        for name, v in few.items()
    }
    for name in learned(case, few):
        given[name].requires_grad_()
    outputs = as_tuple(case.function(**given, **case.options))
    torch.autograd.grad(
        outputs, [given[n] for n in learned(case, few)], [torch.empty_like(y) for y in outputs]
    )


def main(capability: str, *settings: str) -> Iterator[dict[str, Any]]:
    """Give the needs of every kernel of every setting, CASE/N/DTYPE or CASE/N/DTYPE/PARAMETERS."""
    sys.path[:0] = [str(ROOT), str(ROOT / "kernels")]
    import normkernels  # noqa: F401  # before `pretend`, which changes its modules
    import torch
    from normkernels.machine_code import pretend

    seen = pretend(int(capability))
    from tests.kernels.cases import CASES

    table = {case.name: case for case in CASES}
    for setting in settings:
        name, n, dtype, *parameters = setting.split("/")
        wanted = [getattr(torch, text) for text in (dtype, *(parameters or [dtype]))]
        seen.clear()
        compile_one(table[name], int(n), *wanted)
        for one in seen:
            del one["opcodes"]
            yield {"case": name, "n": int(n), "dtypes": "/".join([dtype, *parameters]), **one}


def environment() -> dict[str, str]:
    """Give the environment in which Triton compiles."""
    return {name: text for name, text in os.environ.items() if name != "TRITON_INTERPRET"}


def needs(capability: int, settings: list[str]) -> list[dict[str, Any]]:
    """Run this program."""
    command = [sys.executable, str(Path(__file__)), str(capability), *settings]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    for line in main(*sys.argv[1:]):
        print(json.dumps(line), flush=True)
