"""Measures of a trained transformer's weights: lengths of vectors, and nGPT's learned scales.

    lengths     of the vectors along the stream's axis: rows of matrices that read the stream, of
                embedding and output; columns of those that write to it (`out`, `down`)

Source of the question: Loshchilov et al. 2024, arXiv 2410.01131, section 3.
"""

from typing import Any

from torch import Tensor, nn

from labkit.corpora.base import Batch
from labkit.model import Transformer
from labkit.placements.sphere import SphereStep
from labkit.probes.trained import make_on_trained

WRITERS = ("out", "down")


def lengths(model: nn.Module) -> dict[str, Tensor]:
    """Return the lengths of every matrix's vectors along the stream's axis, by its path."""
    return {
        path: module.weight.double().norm(dim=0 if path.split(".")[-1] in WRITERS else 1)
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear | nn.Embedding)
    }


def measure_weights(model: Transformer, batch: Batch) -> dict[str, Any]:
    """Measure the trained weights; the batch is not used.

    `off` is the largest |length − 1| of a vector.
    """
    return {"off": max((one - 1).abs().max().item() for one in lengths(model).values())}


def sphere_scales(model: Transformer, batch: Batch) -> dict[str, Any]:
    """Read nGPT's learned scales: |α| of each sublayer (mean over channels) and s_z.

    The result is empty for other recipes.
    """
    found: dict[str, Any] = {}
    for block in model.blocks:
        for name in ("attention", "feed_forward"):
            step = block.get_submodule(name)
            if isinstance(step, SphereStep):
                found.setdefault(name, []).append(step.share.mean().item())
    if found:
        found["s_z"] = model.get_submodule("s_z")().mean().item()
    return found


PROBES = {
    "weights": make_on_trained("weights", measure_weights),
    "sphere-scales": make_on_trained("sphere-scales", sphere_scales),
}
