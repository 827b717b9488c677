"""Laws that only a GPU can violate: races, graphs, devices, and compiled variants."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from normkernels import launch
from torch import Tensor

from .cases import Case
from .law import law, nearest, paths
from .laws_bits import identical_runs
from .measure import (
    DEVICE,
    HALF,
    Run,
    Setting,
    Skip,
    as_tuple,
    draw,
    fused,
    learned,
    leaves,
    normal_like,
)


def needs_cuda() -> None:
    """Skip if kernels are interpreted."""
    if DEVICE.type != "cuda":
        raise Skip("needs a GPU")


@law(paths, gpu=True)
def races(case: Case, setting: Setting) -> None:
    """Two hundred runs, concurrent with work on another stream, give the same bits."""
    needs_cuda()
    setting = Setting(4097, setting.n, setting.dtype)
    inputs = draw(case, setting)
    before = fused(case, inputs)
    noise, other = torch.randn(2048, 2048, device=DEVICE), torch.cuda.Stream()
    for i in range(200):
        if i % 3 == 0:
            with torch.cuda.stream(other):
                noise @ noise
        identical_runs(fused(case, inputs, dys=before.dys), before)


@law(paths, gpu=True)
def graph(case: Case, setting: Setting) -> None:
    """A CUDA graph captures forward and backward, and replays them with other numbers."""
    needs_cuda()
    inputs, others = draw(case, setting), draw(case, setting, seed=5)
    own = {n: v.clone() if isinstance(v, Tensor) else v for n, v in inputs.items()}
    given, names = leaves(case, own), learned(case, inputs)
    others = inputs | {name: others[name] for name in names}

    def step() -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        outputs = as_tuple(case.function(**given, **case.options))
        return outputs, torch.autograd.grad(outputs, [given[n] for n in names], dys)

    dys = normal_like(as_tuple(case.function(**inputs, **case.options)))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        outputs, grads = step()
    for numbers in (inputs, others, inputs):
        with torch.no_grad():
            for name in names:
                given[name].copy_(numbers[name])
        captured.replay()
        actual = Run(tuple(y.detach() for y in outputs), dys, dict(zip(names, grads, strict=True)))
        identical_runs(actual, fused(case, numbers, dys=dys))


@law(gpu=True)
def second_device(case: Case) -> None:
    """A kernel runs where its tensors are, not on the current device, and refuses to mix them."""
    needs_cuda()
    if torch.cuda.device_count() < 2:
        raise Skip("needs a second GPU")
    inputs = draw(case, Setting(7, nearest(case, 41)))
    here = fused(case, inputs)
    there = {n: v.to("cuda:1") if isinstance(v, Tensor) else v for n, v in inputs.items()}
    actual = fused(case, there, dys=tuple(dy.to("cuda:1") for dy in here.dys))
    back = {n: None if g is None else g.to(DEVICE) for n, g in actual.grads.items()}
    assert torch.cuda.current_device() == 0
    identical_runs(Run(tuple(y.to(DEVICE) for y in actual.outputs), here.dys, back), here)


@law(gpu=True)
def variants(case: Case) -> None:
    """Many row counts share few compiled kernels: none is compiled for each M."""
    needs_cuda()
    n = nearest(case, 129)

    def compiled(*row_counts: int) -> int:
        for m in row_counts:
            fused(case, draw(case, Setting(m, n, HALF)))
        return len(launch._compiled)

    # Triton tells 1 from other numbers, and multiples of 16, of rows and of programs.
    before = compiled(1, 2, 3, 16, 17, 48, 333, 4096, 4099)
    assert compiled(5, 7, 64, 80, 100, 1000, 4112, 5000, 8192) == before, "one for each row count"


def check_sanitizer() -> None:
    """compute-sanitizer finds no out-of-bounds access and no race in shared memory."""
    needs_cuda()
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        raise Skip("compute-sanitizer is not installed")
    root = Path(__file__).parents[2]
    only = ["--only", "strides[", " 17x", "--fresh", "--minutes", "3"]  # short rows of each kernel
    environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    for check in ("memcheck", "racecheck"):
        state = root / f"build/gpu-test/sanitizer-{check}.json"
        done = subprocess.run(
            [tool, "--tool", check, "--error-exitcode", "9", sys.executable,
             str(Path(__file__).parent), *only, "--state", str(state)],
            env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode in (0, 2), done.stdout[-2000:] + done.stderr[-500:]


check_sanitizer.gpu = True  # type: ignore[attr-defined]
