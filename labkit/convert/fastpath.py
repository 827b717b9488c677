"""Keep PyTorch's fused encoder layer from computing a norm that was replaced.

In evaluation nn.TransformerEncoderLayer passes the numbers `norm1.weight`, `norm1.bias` and
`norm1.eps` to one fused operation, which is LayerNorm whatever module they belong to: a norm
without these names would raise, and one that has them would silently be computed as LayerNorm.
"""

from typing import Any

from torch import nn

from labkit.norms import LayerNorm

Switch = tuple[nn.Module, str, Any]


def switches_off(model: nn.Module, new: set[nn.Module]) -> tuple[list[Switch], list[str]]:
    """Disable the fused operation for layers with a new norm; return old settings and a note."""
    layers = [
        layer
        for layer in model.modules()
        if isinstance(layer, nn.TransformerEncoderLayer)
        and any(child in new and not _has_fast_path(child) for child in layer.children())
    ]
    encoders = [
        encoder
        for encoder in model.modules()
        if isinstance(encoder, nn.TransformerEncoder) and {*encoder.layers.children()} & {*layers}
    ]
    switches: list[Switch] = []
    for name, modules in (("activation_relu_or_gelu", layers), ("use_nested_tensor", encoders)):
        for module in modules:
            switches.append((module, name, getattr(module, name)))
            # False or 0, as the setting is: torch asks for either before its fused path.
            setattr(module, name, type(getattr(module, name))(0))
    note = (
        f"PyTorch's fused path is off in {len(layers)} nn.TransformerEncoderLayer: it computes "
        "LayerNorm whatever the norm is"
    )
    return switches, [note] if layers else []


def _has_fast_path(norm: nn.Module) -> bool:
    affine = getattr(norm, "weight", None) is not None and getattr(norm, "bias", None) is not None
    return type(norm) in (LayerNorm, nn.LayerNorm) and affine
