"""Compile kernels for a GPU that is absent, and read the machine code's requirements.

This is a separate program, because interpreted and compiled Triton cannot share a process:

    python -m normkernels.machine_code 90 rms_norm/4096/bf16 …      one JSON object per kernel
    python -m normkernels.machine_code 90 rms_norm/4096/bf16/2 …    forward only, 2 warps per row

It calls the public functions on uninitialized CPU tensors, with a driver that reports the given
GPU. Each launch compiles exactly the code for that GPU, and nothing runs. NVIDIA only. All kernels
are disassembled at once, because a disassembler takes longer to start than to read.
"""

import json
import re
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

PROCESSORS = 132  # of an H100 and an H200; not a power of 2
ROWS = 32768  # enough work for all of them

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
    """A driver for Triton's compiler that reports one compute capability."""

    def __init__(self, capability: int):
        self.capability = capability

    def get_current_target(self) -> Any:
        """Return the given GPU."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        """Return 0, the only device."""
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        """Return 0, the only stream."""
        return 0

    def get_active_torch_device(self) -> Any:
        """Return the CPU, where the tensors are."""
        import torch

        return torch.device("cpu")


def pretend(capability: int) -> list[dict[str, Any]]:
    """Make every launch compile for the capability and append its code to the returned list."""
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
                "cubin": compiled.asm["cubin"],
            }
        )

    starting.DEVICE_TYPES.add("cpu")
    replaced = {"launch": compile_only, "count_processors": lambda device: PROCESSORS}
    for name, module in list(sys.modules.items()):
        for function, instead in replaced.items():
            if name.startswith("normkernels.") and callable(vars(module).get(function)):
                setattr(module, function, instead)
    return seen


def cut_instructions(cubin: bytes) -> bytes:
    """Extract the instructions of an ELF file's only kernel."""
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, start + size * i) for i in range(count)]
    (found,) = (
        cubin[offset : offset + length]
        for name, _, _, _, offset, length in sections
        if cubin.startswith(b".text.", sections[names][4] + name)
    )
    return found


def run_on_file(content: bytes, *command: str) -> str:
    """Run one of Triton's bundled tools on a file with this content."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(content)
        done = subprocess.run([*command, file.name], capture_output=True, text=True, check=True)
    return done.stdout


def disassemble(cubins: list[bytes], capability: int) -> list[str]:
    """Return the instructions of each kernel as text."""
    from triton import knobs

    codes = [cut_instructions(cubin) for cubin in cubins]
    gpu = f"SM{capability}" + "a" * (capability >= 90)  # as in Triton's compiler
    text = run_on_file(b"".join(codes), knobs.nvidia.nvdisasm.path, "-b", gpu)
    lines = re.findall(r"^\s*/\*[0-9a-f]{4,}\*/.*\n", text, re.M)
    assert len(lines) * 16 == sum(map(len, codes)), "an instruction has 16 bytes"
    whole = iter(lines)
    return ["".join(next(whole) for _ in range(len(code) // 16)) for code in codes]


def read(rows: list[dict[str, Any]], capability: int) -> Iterator[dict[str, Any]]:
    """Replace the machine code by its registers, stack and instructions of each kind."""
    from triton import knobs

    needs = {}
    cubins = list(dict.fromkeys(row["cubin"] for row in rows))
    for cubin, text in zip(cubins, disassemble(cubins, capability), strict=True):
        usage = run_on_file(cubin, knobs.nvidia.cuobjdump.path, "-res-usage")
        needs[cubin] = {
            "registers": int(re.search(r"REG:(\d+)", usage)[1]),  # type: ignore[index]
            "stack": int(re.search(r"STACK:(\d+)", usage)[1]),  # type: ignore[index]
            **{name: len(re.findall(pattern, text)) for name, pattern in PATTERNS.items()},
            "opcodes": dict(Counter(_INSTRUCTION.findall(text))),
        }
    for row in rows:
        yield row | needs[row.pop("cubin")]


def compile_one(kernel: str, n: int, dtype: str, warps: int | None = None) -> None:
    """Call a kernel forward and backward on tensors of many rows, whose memory is never touched.

    With `warps` only forward, with this number of warps per row instead of the default.
    """
    import torch

    import normkernels
    from normkernels.bench.check import as_tuple
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
    outputs = as_tuple(function(**given, **operation.options))
    torch.autograd.grad(outputs, list(given.values()), [torch.empty_like(y) for y in outputs])


def main(capability: str, *settings: str) -> Iterator[dict[str, Any]]:
    """Yield the requirements of all kernels of each setting, NAME/N/DTYPE or NAME/N/DTYPE/WARPS."""
    import normkernels  # noqa: F401  # before `pretend`, which changes its modules

    seen, rows = pretend(int(capability)), []
    for setting in settings:
        kernel, n, dtype, *warps = setting.split("/")
        seen.clear()
        compile_one(kernel, int(n), dtype, *map(int, warps))
        about = {"case": kernel, "n": int(n), "dtype": dtype, "forced": bool(warps)}
        rows += [about | one for one in seen]
    yield from read(rows, int(capability))


if __name__ == "__main__":
    for line in main(*sys.argv[1:]):
        print(json.dumps(line), flush=True)
