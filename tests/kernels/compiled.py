"""Compile the kernels for GPUs that are not here, and read what the machine code needs.

A program of its own, because interpreted and compiled Triton cannot share a process:

    python tests/kernels/compiled.py 90 rms_norm/4096/bfloat16 ...      a JSON object a kernel

It calls the public functions on CPU tensors that nobody fills, under a driver that names the GPU
asked for. Each launch compiles exactly what would run there, and nothing runs.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROCESSORS = 132  # as an H100 and an H200 have; so many programs are no multiple of a power of 2
ROWS = 32768  # enough to give all of them work

# What to count in the machine code, by instruction.
PATTERNS = {
    "loads": r"\bLDG|\bLDGSTS",
    "wide loads": r"\bLDG\S*\.128|\bLDGSTS\S*\.128",
    "half loads": r"\bLDG\S*\.64|\bLDGSTS\S*\.64",
    "short loads": r"\bLDG\S*\.[US](8|16)\b",
    "stores": r"\bSTG",
    "wide stores": r"\bSTG\S*\.128",
    "half stores": r"\bSTG\S*\.64",
    "short stores": r"\bSTG\S*\.[US](8|16)\b",
    "local": r"\bLDL|\bSTL",
    "atomics": r"\bATOM|\bRED\b|\bREDG",
    "float64": r"\bD(ADD|MUL|FMA|SETP|MNMX)\b|\bMUFU\.\w*64|\b[FI]2[FI]\S*\.F64",
}


class Driver:
    """Answer what Triton's compiler asks a driver, for one compute capability."""

    def __init__(self, capability: int):
        self.capability = capability

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")


def pretend(capability: int) -> list[dict[str, Any]]:
    """Make every launch compile for the capability; its needs join the list that comes back."""
    from triton.runtime import driver

    driver.set_active(Driver(capability))
    from normkernels import launch as starting

    seen: list[dict[str, Any]] = []

    def compile_only(
        kernel: Any, grid: tuple, *args: Any, warps: int, registers: int | None = None, **rest: Any
    ) -> None:
        options = {"num_warps": warps, "maxnreg": registers}
        compiled = kernel.warmup(*args, **rest, grid=grid, **options)
        programs = grid[0] * (grid[1] if len(grid) > 1 else 1)
        seen.append(
            {
                "kernel": f"{kernel.fn.__module__.rpartition('.')[2]}.{kernel.fn.__name__}",
                "a processor": -(-programs // PROCESSORS),
                "warps": warps,
                "shared": compiled.metadata.shared,
                **_needs(compiled.asm["cubin"]),
            }
        )

    starting.DEVICE_TYPES.add("cpu")
    replaced = {"launch": compile_only, "processors": lambda device: PROCESSORS}
    for name, module in list(sys.modules.items()):
        for function, instead in replaced.items():
            if name.startswith("normkernels.") and callable(vars(module).get(function)):
                setattr(module, function, instead)
    return seen


def _needs(cubin: bytes) -> dict[str, int]:
    """Read registers, stack, memory instructions and float64 work off the machine code."""
    key = hashlib.sha256(cubin).hexdigest()
    if key not in _READ:
        from triton import knobs

        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            Path(file.name).write_bytes(cubin)
            tool = [knobs.nvidia.cuobjdump.path, "-res-usage", "-sass", file.name]
            text = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
        _READ[key] = {
            "registers": int(re.search(r"REG:(\d+)", text)[1]),  # type: ignore[index]
            "stack": int(re.search(r"STACK:(\d+)", text)[1]),  # type: ignore[index]
            **{name: len(re.findall(pattern, text)) for name, pattern in PATTERNS.items()},
        }
    return _READ[key]


_READ: dict[str, dict[str, int]] = {}


def compile_one(case: Any, n: int, dtype: Any, parameters: Any) -> None:
    """Call a kernel forward and backward on tensors of many rows, whose pages nobody touches."""
    import torch

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
    seen = pretend(int(capability))
    import torch

    from tests.kernels.cases import CASES

    table = {case.name: case for case in CASES}
    for setting in settings:
        name, n, dtype, *parameters = setting.split("/")
        wanted = [getattr(torch, text) for text in (dtype, *(parameters or [dtype]))]
        seen.clear()
        compile_one(table[name], int(n), *wanted)
        for one in seen:
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
