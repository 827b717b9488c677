"""Compile the kernels for GPUs that are not here, and read what the machine code needs.

A program of its own, because interpreted and compiled Triton cannot share a process:

    python tests/kernels/compiled.py 90 rms_norm/4096/bfloat16 ... 80 ...   a JSON object a kernel
    python tests/kernels/compiled.py --recorded 90 rms_norm/4096/bf16 ...   settings of kernel_view

It calls the public functions on CPU tensors that nobody fills, under a driver that names the GPU
asked for. Each launch compiles exactly what would run there, and nothing runs. Every number starts
a job; two jobs run side by side. A job disassembles all its kernels at once: a disassembler needs
longer to start than to read.
"""

import json
import multiprocessing
import os
import re
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Job = tuple[int, list[str]]  # a compute capability, and settings


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


def of_cases(capability: str, *settings: str) -> Iterator[dict[str, Any]]:
    """Yield every kernel of every setting, CASE/N/DTYPE or CASE/N/DTYPE/PARAMETERS."""
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
            yield {"case": name, "n": int(n), "dtypes": "/".join([dtype, *parameters]), **one}


def instructions(cubin: bytes) -> bytes:
    """Cut the instructions of its one kernel out of an ELF file."""
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, start + size * i) for i in range(count)]
    (found,) = (
        cubin[offset : offset + length]
        for name, _, _, _, offset, length in sections
        if cubin.startswith(b".text.", sections[names][4] + name)
    )
    return found


def disassembled(cubins: list[bytes], capability: int) -> list[str]:
    """Disassemble many kernels, one behind the other, with one start of the disassembler."""
    from triton import knobs

    codes = [instructions(cubin) for cubin in cubins]
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        Path(file.name).write_bytes(b"".join(codes))
        gpu = f"SM{capability}" + "a" * (capability >= 90)  # as Triton compiles
        tool = [knobs.nvidia.nvdisasm.path, "-b", gpu, file.name]
        text = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"^\s*/\*[0-9a-f]{4,}\*/.*\n", text, re.M)
    assert len(lines) * 16 == sum(map(len, codes)), "an instruction has 16 bytes"
    whole = iter(lines)
    return ["".join(next(whole) for _ in range(len(code) // 16)) for code in codes]


def usage(cubin: bytes) -> dict[str, int]:
    """Ask for the registers and the stack of a kernel, which takes no disassembler."""
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(cubin)
        tool = [knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        text = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", text)
    assert found, text
    return {"registers": int(found[1]), "stack": int(found[2])}


def read(rows: list[dict[str, Any]], capability: int) -> Iterator[dict[str, Any]]:
    """Put what the machine code needs in the place of it, as `machine_code.needs_of` would."""
    from normkernels.machine_code import _INSTRUCTION, PATTERNS

    cubins = list(dict.fromkeys(row["cubin"] for row in rows))
    needs = {
        cubin: usage(cubin)
        | {name: len(re.findall(pattern, text)) for name, pattern in PATTERNS.items()}
        | {"opcodes": dict(Counter(_INSTRUCTION.findall(text)))}
        for cubin, text in zip(cubins, disassembled(cubins, capability), strict=True)
    }
    for row in rows:
        yield row | needs[row.pop("cubin")]


def work(job: tuple[bool, int, list[str]]) -> list[dict[str, Any]]:
    """Compile and read, in a process of its own: it stays the GPU that it was told to be."""
    from normkernels import machine_code

    recorded, capability, settings = job
    machine_code.needs_of = lambda cubin: {"cubin": cubin}
    compile_all = machine_code.main if recorded else of_cases
    rows = list(compile_all(str(capability), *settings))
    return [{"capability": capability, **one} for one in read(rows, capability)]


def main(*words: str) -> Iterator[dict[str, Any]]:
    """Do the jobs, two at once; imports are done once."""
    sys.path[:0] = [str(ROOT), str(ROOT / "kernels")]
    import normkernels  # before `pretend`, which changes its modules
    import normkernels.machine_code  # noqa: F401

    import tests.kernels.measure  # noqa: F401

    jobs: list[tuple[bool, int, list[str]]] = []
    for word in words:
        if word.isdigit():
            jobs.append(("--recorded" in words, int(word), []))
        elif not word.startswith("--"):
            jobs[-1][2].append(word)
    with multiprocessing.get_context("fork").Pool(2, maxtasksperchild=1) as pool:
        for rows in pool.imap(work, jobs, chunksize=1):
            yield from rows


def environment() -> dict[str, str]:
    """Return the environment in which Triton compiles."""
    return {name: text for name, text in os.environ.items() if name != "TRITON_INTERPRET"}


def needs(jobs: Iterable[Job], *options: str) -> list[dict[str, Any]]:
    """Run this program."""
    words = [word for capability, settings in jobs for word in (str(capability), *settings)]
    command = [sys.executable, str(Path(__file__)), *options, *words]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    for line in main(*sys.argv[1:]):
        print(json.dumps(line), flush=True)
