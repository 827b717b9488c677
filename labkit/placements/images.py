"""Residual designs that preceded the transformer, as steps of a stream.

ResNetV1  x ← relu(x + N(f(x)))                        He et al. 2016a, arXiv 1512.03385
ResNetV2  x ← x + f(relu(N(x)))                        He et al. 2016b, arXiv 1603.05027
Highway   x ← T(x) ⊙ f(x) + (1 − T(x)) ⊙ x             Srivastava et al. 2015, arXiv 1505.00387

In a ResNet f is one or two convolutions and N is BatchNorm; in `labkit.model.stacks` f is two
matrices.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.placements.step import ALONE, MakeNorm, Map, Place, Step


class ResNetV1(Step):
    """x ← relu(x + N(f(x))): a norm on the branch, and a ReLU on the stream after the addition."""

    equation = "relu(x + N(f(x)))"

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Add a normalized write to the stream, then apply ReLU."""
        return torch.relu(x + N(f(x)))


class ResNetV2(Step):
    """x ← x + f(relu(N(x))): norm and ReLU before the sublayer, none on the stream."""

    equation = "x + f(relu(N(x)))"

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Add the sublayer's output for a normalized and rectified copy of the stream."""
        return x + f(torch.relu(N(x)))


class Highway(Step):
    """x ← T ⊙ f(x) + (1 − T) ⊙ x with the gate T = sigmoid(W x + b), for each channel.

    b starts at −2, as the paper suggests for deep networks: at first the gate passes the input on.
    There is no norm.
    """

    norms, equation, symbols = (), "T(x) * f(x) + (1 - T(x)) * x", {"T": "transform"}

    def __init__(self, make_norm: MakeNorm, sublayer: nn.Module, place: Place = ALONE):
        super().__init__(make_norm, sublayer, place)
        # Separate parameters, not an nn.Linear, so that initializations leave them as they are.
        self.weight = nn.Parameter(torch.randn(place.dim, place.dim) * place.dim**-0.5)
        self.bias = nn.Parameter(torch.full((place.dim,), -2.0))

    def transform(self, x: Tensor) -> Tensor:
        """Return the fraction of each channel to replace: T(x), between 0 and 1."""
        return torch.sigmoid(F.linear(x, self.weight, self.bias))

    def step(self, x: Tensor, f: Map) -> Tensor:
        """Mix the sublayer's output with its input."""
        T = self.transform(x)
        return T * f(x) + (1 - T) * x
