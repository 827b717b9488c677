"""Measures of a trained transformer's weights: conditioning, lengths, nGPT's learned scales.

    condition   largest over smallest singular value of a matrix; 1 for a rotation
    lengths     of the vectors along the stream's axis: rows of matrices that read the stream, of
                embedding and output; columns of those that write to it (`out`, `down`)

Source of both questions: Loshchilov et al. 2024, arXiv 2410.01131, section 3.
"""

from typing import Any

import torch
from torch import Tensor, nn

from labkit.corpora.base import Batch
from labkit.model import Transformer
from labkit.placements.sphere import SphereStep
from labkit.probes.trained import make_on_trained

WRITERS = ("out", "down")
KINDS = ("q", "k", "v", "out", "gate", "up", "down")


def compute_condition(weight: Tensor) -> float:
    """Return the largest over the smallest singular value, in float64; inf if that is 0."""
    values = torch.linalg.svdvals(weight.double())
    return (values[0] / values[-1]).item()


def lengths(model: nn.Module) -> dict[str, Tensor]:
    """Return the lengths of every matrix's vectors along the stream's axis, by its path."""
    return {
        path: module.weight.double().norm(dim=0 if path.split(".")[-1] in WRITERS else 1)
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear | nn.Embedding)
    }


def compute_conditions(model: Transformer) -> dict[str, list[float]]:
    """Return the condition number of each kind of matrix, block by block."""
    found: dict[str, list[float]] = {}
    for path, module in model.blocks.named_modules():
        if isinstance(module, nn.Linear) and (kind := path.split(".")[-1]) in KINDS:
            found.setdefault(kind, []).append(compute_condition(module.weight))
    return found


def measure_weights(model: Transformer, batch: Batch) -> dict[str, Any]:
    """Measure the trained weights; the batch is not used.

    `condition`: by kind of matrix, one number per block. `spread`: standard deviation over mean of
    the lengths, for embedding, output and all matrices of blocks together. `off`: the largest
    |length − 1|. `embedding`, `output`: the lengths themselves, sorted.
    """
    found = lengths(model)
    blocks = torch.cat([one for path, one in found.items() if path.startswith("blocks.")])
    parts = {"embedding": found["embedding"], "output": found["output"], "blocks": blocks}
    return {
        "condition": compute_conditions(model),
        "spread": {name: (part.std() / part.mean()).item() for name, part in parts.items()},
        "off": max((one - 1).abs().max().item() for one in found.values()),
        **{
            name: sorted(round(v, 5) for v in found[name].tolist())
            for name in ("embedding", "output")
        },
    }


def sphere_scales(model: Transformer, batch: Batch) -> dict[str, Any]:
    """Read nGPT's learned scales: |α| of each sublayer (mean over channels), s_qk, s_z.

    Empty for other recipes.
    """
    found: dict[str, Any] = {}
    for block in model.blocks:
        for name in ("attention", "feed_forward"):
            step = block.get_submodule(name)
            if isinstance(step, SphereStep):
                found.setdefault(name, []).append(step.share.mean().item())
        inner = block.get_submodule("attention")
        if isinstance(inner, SphereStep):
            s_qk = inner.sublayer.get_submodule("s_qk")()
            found.setdefault("s_qk", []).append(s_qk.abs().mean().item())
    if found:
        found["s_z"] = model.get_submodule("s_z")().mean().item()
    return found


PROBES = {
    "weights": make_on_trained("weights", measure_weights),
    "sphere-scales": make_on_trained("sphere-scales", sphere_scales),
}
