"""Compile kernels for a GPU that is not here, and read what the machine code needs.

A program of its own, because interpreted and compiled Triton cannot share a process:

    python -m normkernels.machine_code 90 rms_norm/4096/bf16 …      a JSON object a kernel
    python -m normkernels.machine_code 90 rms_norm/4096/bf16/2 …    forward only, with 2 warps a row

It calls the public functions on CPU tensors that nobody fills, under a driver that names the GPU
asked for. Each launch compiles exactly what would run there, and nothing runs. NVIDIA only.
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

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
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", re.M)


class Driver:
    """Answer what Triton's compiler asks a driver, for one compute capability."""

    def __init__(self, capability: int):
        self.capability = capability

    def get_current_target(self) -> Any:
        """Name the GPU that is asked for."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        """There is one device, number 0."""
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        """There is one stream, number 0."""
        return 0

    def get_active_torch_device(self) -> Any:
        """Tensors lie on the CPU."""
        import torch

        return torch.device("cpu")


def pretend(capability: int) -> list[dict[str, Any]]:
    """Make every launch compile for the capability; its needs join the list that comes back."""
    from triton.runtime import driver

    driver.set_active(Driver(capability))  # type: ignore[arg-type]
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
                **needs_of(compiled.asm["cubin"]),
            }
        )

    starting.DEVICE_TYPES.add("cpu")
    replaced = {"launch": compile_only, "processors": lambda device: PROCESSORS}
    for name, module in list(sys.modules.items()):
        for function, instead in replaced.items():
            if name.startswith("normkernels.") and callable(vars(module).get(function)):
                setattr(module, function, instead)
    return seen


def needs_of(cubin: bytes) -> dict[str, Any]:
    """Read registers, stack and instructions of each kind off the machine code."""
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
            "opcodes": dict(Counter(_INSTRUCTION.findall(text))),
        }
    return _READ[key]


_READ: dict[str, dict[str, Any]] = {}


def compile_one(kernel: str, n: int, dtype: str, warps: int | None = None) -> None:
    """Call a kernel forward and backward on tensors of many rows, whose pages nobody touches.

    With `warps` only forward, and a row to so many warps instead of as many as were chosen.
    """
    import torch

    import normkernels
    from normkernels.bench.operations import OPERATIONS
    from normkernels.bench.plan import Case

    operation = OPERATIONS[kernel]
    few = operation.draw(Case(kernel, 1, n, dtype), torch.device("cpu"))
    given = {
        name: torch.empty(ROWS, n, dtype=t.dtype, requires_grad=True)
        if name in operation.rows
        else t
        for name, t in few.items()
    }
    function = getattr(normkernels, kernel)
    if warps is not None:
        module: Any = sys.modules[f"normkernels.{kernel}"]
        chosen = module.forward_tile
        module.forward_tile = lambda n: replace(chosen(n), rows=1, warps=warps)
        with torch.no_grad():
            function(**given, **operation.options)
        module.forward_tile = chosen
        return
    output = function(**given, **operation.options)
    outputs = output if isinstance(output, tuple) else (output,)
    torch.autograd.grad(outputs, list(given.values()), [torch.empty_like(y) for y in outputs])


def main(capability: str, *settings: str) -> Iterator[dict[str, Any]]:
    """Yield the needs of every kernel of every setting, NAME/N/DTYPE or NAME/N/DTYPE/WARPS."""
    import normkernels  # noqa: F401  # before `pretend`, which changes its modules

    seen = pretend(int(capability))
    for setting in settings:
        kernel, n, dtype, *warps = setting.split("/")
        seen.clear()
        compile_one(kernel, int(n), dtype, *map(int, warps))
        for one in seen:
            yield {"case": kernel, "n": int(n), "dtype": dtype, "forced": bool(warps), **one}


if __name__ == "__main__":
    for line in main(*sys.argv[1:]):
        print(json.dumps(line), flush=True)
