"""Time labkit beside plain PyTorch, in one process, turn about: `labkit bench [norms|train]`.

ratio = PyTorch's time / labkit's time      (above 1: labkit is faster; median over paired turns)

A norm that PyTorch does not have is held against its own formula, one operation after another.

Both sides of a pair run one after the other, in alternating order, so that a busy machine slows
both. These are programs to look at, not tests: no number here makes a build fail.
"""

import argparse
import copy
import gc
import inspect
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.model import ModelConfig, Transformer
from labkit.norms import NORMS, PowerNorm, facts, layer_norm, make_norm
from labkit.norms.power_norm import group_scaled
from labkit.training import TrainConfig, train

SIZES = ((64, 128), (4096, 1024))
LARGE = (16384, 4096)
# PyTorch's own module of the same norm, where it has one.
TORCH: dict[str, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm1d,
    "layer": nn.LayerNorm,
    "rms": nn.RMSNorm,
    "instance": nn.InstanceNorm1d,
    "group": lambda dim: nn.GroupNorm(8, dim),
    "none": nn.Identity,
}
POSITIONS = 16  # of each sample, where a norm averages over positions


def paired(
    ours: Callable[[], object], theirs: Callable[[], object], turns: int, inner: int = 1
) -> list[tuple[float, float]]:
    """Time both turn about, `inner` calls at a time: seconds per call, (ours, theirs)."""
    pairs = []
    for call in (ours, theirs):
        call()  # warm up: memory, kernels
    collecting = gc.isenabled()
    gc.disable()
    try:
        for turn in range(turns):
            seconds = {}
            for call in (ours, theirs) if turn % 2 else (theirs, ours):
                start = time.perf_counter()
                for _ in range(inner):
                    call()
                seconds[call] = (time.perf_counter() - start) / inner
            pairs.append((seconds[ours], seconds[theirs]))
    finally:
        if collecting:
            gc.enable()
    return pairs


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Give the lower quartile, the median and the upper quartile."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def row(
    name: str, pairs: list[tuple[float, float]], shown: Callable[[float], float], form: str
) -> str:
    """Write one line: median (quartiles) of both sides, and of the ratio pair by pair."""
    cells = []
    for side in (0, 1):
        low, middle, high = spread([shown(pair[side]) for pair in pairs])
        cells.append(f"{middle:{form}} ({low:{form}}–{high:{form}})")
    low, middle, high = spread([theirs / ours for ours, theirs in pairs])
    return f"{name:<28} {cells[0]:>24} {cells[1]:>24}   {middle:5.2f} ({low:.2f}–{high:.2f})"


def formula(name: str, norm: Any) -> Callable[[Tensor], Tensor]:
    """Give a module's formula as a function of its input, with the module's own parameters."""
    if name == "power":
        return lambda x: _power_steps(norm, x)
    if name == "prep-batch":
        layer, rep = norm.layer, formula("rep-batch", norm.rep)
        return lambda x: 0.5 * layer_norm(x, layer.weight, layer.bias) + 0.5 * rep(x)
    function = facts(name).function
    assert function is not None, f"{name} needs a function, or a line here"
    names = [key for key in inspect.signature(function).parameters if hasattr(norm, key)]
    return lambda x: function(x, **{key: getattr(norm, key) for key in names})


def _power_steps(norm: PowerNorm, x: Tensor) -> Tensor:
    """Take one warm-up call of PowerNorm, its own backward and running means included."""
    scaled = group_scaled(x, norm.groups, norm.eps)
    square = scaled.detach().square().mean(dim=0)
    z = scaled / (square + norm.eps).sqrt()

    def corrected(g: Tensor) -> Tensor:
        g = g - (1 - norm.backward_decay) * norm.error * z.detach()
        norm.error.add_((g * z.detach()).mean(dim=0))
        return g

    if z.requires_grad:
        z.register_hook(corrected)
    norm.calls += 1
    running = norm.running_square.lerp_(square, 1 / int(norm.calls))
    running.lerp_(square, 1 - norm.forward_decay)
    return norm.weight * z + norm.bias


def _forward_backward(
    call: Callable[[Tensor], Tensor], x: Tensor, top: Tensor, leaves: list[nn.Parameter]
) -> Callable[[], object]:
    def once() -> None:
        x.grad = None
        for leaf in leaves:
            leaf.grad = None
        call(x).backward(top)

    return once


def norms(large: bool = False, turns: int = 25, sizes: Sequence[tuple[int, int]] = SIZES) -> None:
    """Print milliseconds of forward and backward for each norm module, and for its rival."""
    print("norms: milliseconds, forward and backward, float32, median (quartiles)")
    print("rival: torch's module where there is one (marked torch), else the formula")
    print(f"{'':<28} {'labkit':>24} {'rival':>24}   ratio")
    for rows, dim in (*sizes, *([LARGE] if large else [])):
        few = rows * dim > 2**24
        inner = max(1, min(100, 2**22 // (rows * dim)))
        for name in NORMS:
            ours, shape = make_norm(name, dim), (rows, dim)
            if name == "instance":  # in torch's layout, since torch has no other
                ours, shape = NORMS[name](dim), (rows // POSITIONS, dim, POSITIONS)
            x, top = torch.randn(shape, requires_grad=True), torch.randn(shape)
            own = list(ours.parameters())
            if name in TORCH:
                rival = TORCH[name](dim)
                theirs = _forward_backward(rival, x, top, list(rival.parameters()))
            else:
                theirs = _forward_backward(formula(name, ours), x, top, own)
            calls = _forward_backward(ours, x, top, own), theirs
            pairs = paired(*calls, max(2, turns // 5) if few else turns, inner)
            label = f"{name} ({rows}, {dim}){' torch' if name in TORCH else ''}"
            print(row(label, pairs, lambda s: 1e3 * s, ".3f"), flush=True)


def plain_loop(model: nn.Module, batches: Iterator[tuple[Tensor, Tensor]], steps: int) -> None:
    """Train as one would by hand."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.0, fused=True
    )
    model.train()
    losses = []
    for _ in range(steps):
        inputs, targets = next(batches)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


def training(
    turns: int = 9, steps: int = 30, models: Sequence[tuple[int, int]] = ((64, 4), (128, 6))
) -> None:
    """Print tokens per second of labkit.train, and of a plain loop on the same model and data."""
    print(f"train: tokens per second, turns of {steps} steps, median (quartiles)")
    print(f"{'':<28} {'labkit':>24} {'plain loop':>24}   ratio")
    config = TrainConfig(steps=steps, lr=1e-3, schedule="constant")
    batch, context, vocab = 16, 64, 96
    seen = batch * context * steps
    tokens = torch.randint(vocab, (steps, 2, batch, context))
    batches = [(inputs, targets) for inputs, targets in tokens]
    for dim, depth in models:
        start = Transformer(ModelConfig(dim=dim, depth=depth, vocab=vocab, context=context))

        def ours(start: nn.Module = start) -> None:
            train(copy.deepcopy(start), iter(batches), config, progress=False)

        def theirs(start: nn.Module = start) -> None:
            plain_loop(copy.deepcopy(start), iter(batches), steps)

        pairs = paired(ours, theirs, turns)
        print(row(f"dim {dim}, depth {depth}", pairs, lambda s: seen / s, ",.0f"), flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `labkit bench`: both tables, or the one that is named."""
    parser = argparse.ArgumentParser("labkit bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", nargs="?", choices=("norms", "train"), help="default: both")
    parser.add_argument("--large", action="store_true", help=f"norms at {LARGE} too: 3 GB")
    parser.add_argument("--turns", type=int, help="pairs to time for each line")
    options = parser.parse_args(argv)
    if options.turns is not None and options.turns < 1:
        parser.error(f"--turns must be at least 1, got {options.turns}")
    turns = {} if options.turns is None else {"turns": options.turns}
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if options.what != "train":
        norms(options.large, **turns)
    if options.what != "norms":
        training(**turns)
    return 0
