"""Maps from the inputs to the outputs of a trained model's norms.

    map    = pairs (x, y) of single entries, y before gain and shift
    bend   = slope of the far entries / slope of the middle       slope = Σxy / Σx² there
    spread = largest |x| / root mean square of x
    flat   = fraction of entries with |y| > 0.95 · the largest possible |y|   (DyT, Derf only)

For a straight line the bend is 1; for an S it is below 1. The far entries are the largest hundredth
in |x|, the middle ones the smaller half. Source of the pictures: Zhu et al. 2025, arXiv 2503.10622,
Figure 2.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from labkit.corpora import Corpus
from labkit.corpora.base import Batch
from labkit.norms import NORMS, facts
from labkit.probes.look import untouched
from labkit.training import Observer

POINTS = 160  # kept of each map


def norm_maps(model: nn.Module, inputs: Tensor) -> list[dict[str, Any]]:
    """Run the model once and describe the map of each per-token norm, first norm first."""
    kinds = tuple(
        kind
        for name, kind in NORMS.items()
        if kind is not nn.Identity and facts(name).scope == "token"
    )
    seen: dict[str, tuple[nn.Module, Tensor]] = {}
    names: dict[nn.Module, str] = {
        module: name for name, module in model.named_modules() if isinstance(module, kinds)
    }

    def keep_input(module: nn.Module, args: tuple) -> None:
        seen[names[module]] = (module, args[0].detach())

    with untouched(model, training=False), ExitStack() as hooks:
        for module in names:
            hooks.enter_context(module.register_forward_pre_hook(keep_input))
        model(inputs)
    return [describe(name, *found) for name, found in seen.items()]


@torch.no_grad()
def describe(name: str, norm: nn.Module, x: Tensor) -> dict[str, Any]:
    """Describe the map of one norm for inputs (…, dim); its lines are those of single tokens."""
    bare = {"weight": getattr(norm, "start", 1.0), "bias": 0.0}
    bare = {k: torch.full_like(p, bare[k]) for k, p in norm.named_parameters() if k in bare}
    y = functional_call(norm, bare, (x,))
    tokens = x.flatten(0, -2)
    rms = x.square().mean().sqrt()
    alpha = getattr(norm, "alpha", None)
    return {
        "name": name,
        "bend": bend(x, y),
        "rms": rms.item(),
        "flat": (y.abs() > 0.95).float().mean().item() if alpha is not None else None,
        "alpha": None if alpha is None else alpha.item(),
        "points": _sample_entries(x.flatten(), y.flatten()),
        "lines": _list_lines(tokens, y.flatten(0, -2)),
    }


def bend(x: Tensor, y: Tensor) -> float:
    """Return the slope of the far entries divided by that of the middle: 1 for a straight line."""
    x, y = x.flatten().double(), y.flatten().double()
    order = x.abs().argsort()
    middle, far = order[: len(x) // 2], order[-max(1, len(x) // 100) :]
    slopes = [(x[i] @ y[i] / (x[i] @ x[i]).clamp_min(1e-30)).item() for i in (far, middle)]
    return slopes[0] / slopes[1] if slopes[1] else float("nan")


def _sample_entries(x: Tensor, y: Tensor) -> list[list[float]]:
    """Return entries at equal steps of rank in x, including the extremes."""
    order = x.argsort()
    half = torch.linspace(0, len(x) - 1, POINTS // 2).round().long()
    ends = torch.cat([torch.arange(POINTS // 4), len(x) - 1 - torch.arange(POINTS // 4)])
    chosen = order[torch.cat([half, ends.clamp(0, len(x) - 1)])]
    return [[round(v, 4) for v in values[chosen].tolist()] for values in (x, y)]


def _list_lines(tokens: Tensor, y: Tensor) -> list[list[float]]:
    """Return the ends (x₀, y₀, x₁, y₁) of the maps of tokens of small, middle and large spread."""
    order = tokens.std(dim=-1).argsort()
    chosen = [order[0], order[len(order) // 2], order[-1]]
    lines = []
    for i in chosen:
        low, high = tokens[i].argmin(), tokens[i].argmax()
        ends = (tokens[i][low], y[i][low], tokens[i][high], y[i][high])
        lines.append([round(v.item(), 4) for v in ends])
    return lines


class NormMaps(Observer):
    """`norm_maps` of the trained model on one held-out batch."""

    name = "norm-maps"

    def __init__(self, batch: Batch):
        self.batch = batch

    def result(self, model: nn.Module) -> list[dict[str, Any]]:
        """Measure once, at the end."""
        return norm_maps(model, self.batch[0])


PROBES: dict[str, Callable[[Corpus], Observer]] = {
    "norm-maps": lambda corpus: NormMaps(corpus.held_out["test"][0])
}
