"""Initializations by name: they set the initial scale of a transformer's weights.

Matrices are drawn independently; embeddings are normal with standard deviation 1/sqrt(dim);
gains start at 1 and shifts at 0 as their norms make them.

    normal        every matrix N(0, 1/(2.5 dim)), truncated at three standard deviations
    megatron      as normal; attention-output and feed-forward-output matrices ÷ sqrt(2 · depth)
    depth-scaled  inputs N(0, 1/dim); outputs of layer ℓ N(0, 1/(2 fan_in ℓ)), ℓ from 1
    gpt2          every matrix N(0, 0.02²); output matrices ÷ sqrt(2 · depth)
    xavier        every matrix N(0, 2/(fan_in + fan_out)): Xavier with gain 1
    half-xavier   Xavier with gain 1/2
    deepnorm      Xavier; gain β for value, attention output and feed-forward
    magneto       Xavier; gain sqrt(ln 2N) for the same: Sub-LN's rule
    b2t           Xavier; gain depth^(−1/2) for every matrix, as B2T's code has it

Sources: Xavier: Glorot and Bengio 2010; gpt2: Radford et al. 2019; normal, megatron and
depth-scaled: as in the HybridNorm paper, arXiv 2503.04598, and its code; deepnorm: arXiv
2203.00555; magneto: arXiv 2210.06423.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from labkit.placements.scaled import deepnorm_constants

# The matrices that write to the residual stream, by the last part of their name.
OUTPUTS = ("out", "down")
ATTENTION = ("q", "k", "v", "out")
# Matrices that DeepNorm and Magneto scale: not queries and keys, which only sharpen attention.
_SCALED = ("v", "out", "gate", "up", "down")


@dataclass(frozen=True)
class Matrix:
    """A matrix to initialize, and the counts that its rule may use."""

    name: str  # the last part of its path: q, k, v, out, gate, up, down, output …
    dim: int  # width of the stream
    stack: str = "decoder"
    layer: int = 1  # its block, from 1; 1 outside all blocks
    encoder: int = 0  # blocks in each stack
    decoder: int = 1

    @property
    def depth(self) -> int:
        """Return the number of blocks in its own stack."""
        return self.encoder if self.stack == "encoder" else self.decoder

    @property
    def is_output(self) -> bool:
        """Return whether the matrix writes to the stream."""
        return self.name in OUTPUTS


@torch.no_grad()
def _draw_truncated(weight: Tensor, std: float) -> None:
    """Draw normal values; redraw those beyond three standard deviations.

    torch's trunc_normal_ does this since 2.13. Before, it inverted the distribution function, and
    the same seed gave other weights. This function gives the same weights under every torch.
    """
    if weight.is_meta:
        return
    weight.normal_(0.0, std)
    bound = weight.new_tensor(3 * std, device="cpu").item()
    while (beyond := weight.abs() > bound).any():
        weight.copy_(torch.where(beyond, torch.empty_like(weight).normal_(0.0, std), weight))


def _draw_normal(weight: Tensor, matrix: Matrix) -> None:
    _draw_truncated(weight, (2.5 * matrix.dim) ** -0.5)


def _draw_megatron(weight: Tensor, matrix: Matrix) -> None:
    _draw_truncated(
        weight, (2.5 * matrix.dim * (2 * matrix.depth if matrix.is_output else 1)) ** -0.5
    )


def _depth_scaled(weight: Tensor, matrix: Matrix) -> None:
    fan_in = weight.shape[1]
    _draw_truncated(
        weight, (2 * fan_in * matrix.layer) ** -0.5 if matrix.is_output else matrix.dim**-0.5
    )


def _draw_gpt2(weight: Tensor, matrix: Matrix) -> None:
    nn.init.normal_(weight, std=0.02 / ((2 * matrix.depth) ** 0.5 if matrix.is_output else 1))


def _draw_xavier(weight: Tensor, matrix: Matrix) -> None:
    nn.init.xavier_normal_(weight)


def _half_xavier(weight: Tensor, matrix: Matrix) -> None:
    nn.init.xavier_normal_(weight, gain=0.5)


def _draw_deepnorm(weight: Tensor, matrix: Matrix) -> None:
    gain = 1.0
    if matrix.name in _SCALED:
        gain = deepnorm_constants(matrix.stack, matrix.encoder, matrix.decoder).beta
    nn.init.xavier_normal_(weight, gain=gain)


def magneto_gain(stack: str, encoder: int, decoder: int) -> float:
    """Return Sub-LN's gain for a stack, given the number of blocks in each stack.

    One stack of N blocks: sqrt(ln 2N). Two: encoder sqrt(ln(3M) · ln(2N) / 3), decoder sqrt(ln 3M).
    """
    if stack == "decoder" and encoder:
        return math.sqrt(math.log(3 * decoder))
    if stack == "encoder" and decoder:
        return math.sqrt(math.log(3 * decoder) * math.log(2 * encoder) / 3)
    return math.sqrt(math.log(2 * (encoder or decoder)))


def _draw_magneto(weight: Tensor, matrix: Matrix) -> None:
    gain = 1.0
    if matrix.name in _SCALED:
        gain = magneto_gain(matrix.stack, matrix.encoder, matrix.decoder)
    nn.init.xavier_normal_(weight, gain=gain)


def _draw_b2t(weight: Tensor, matrix: Matrix) -> None:
    nn.init.xavier_normal_(weight, gain=matrix.depth**-0.5)


INITS: dict[str, Callable[[Tensor, Matrix], None]] = {
    "normal": _draw_normal,
    "megatron": _draw_megatron,
    "depth-scaled": _depth_scaled,
    "gpt2": _draw_gpt2,
    "xavier": _draw_xavier,
    "half-xavier": _half_xavier,
    "deepnorm": _draw_deepnorm,
    "magneto": _draw_magneto,
    "b2t": _draw_b2t,
}


@torch.no_grad()
def initialize_model(
    model: nn.Module, name: str, *, dim: int, decoder: int, encoder: int = 0
) -> None:
    """Draw every matrix of `model` by the rule called `name`, in the order of their names.

    A matrix under `blocks.<i>` belongs to layer i + 1 of the only stack, or of the decoder if there
    are two; one under `encoder.<i>` belongs to the encoder; any other counts as layer 1.
    """
    for path, module in model.named_modules():
        parts = path.split(".")
        inside = parts[0] in ("blocks", "encoder") and len(parts) > 1
        stack = "encoder" if parts[0] == "encoder" or not decoder else "decoder"
        layer = int(parts[1]) + 1 if inside else 1
        if isinstance(module, nn.Linear):
            matrix = Matrix(parts[-1], dim, stack, layer, encoder, decoder)
            INITS[name](module.weight, matrix)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=dim**-0.5)
