"""Shortcuts other than the identity, in place of ResNet v1's shortcut.

    x ← relu(h(x) + k(x) ⊙ N(f(x)))        T(x) = sigmoid(W x + b), for each channel

HalvedShortcut      h = x / 2               k = 1 / 2
ProjectedShortcut   h = W x                 k = 1
DroppedShortcut     h = dropout(x)          k = 1       half of the values, in training
ShortcutGate        h = (1 − T(x)) ⊙ x      k = 1
ExclusiveGate       h = (1 − T(x)) ⊙ x      k = T(x)    a highway with a norm and a final ReLU

ClosedHighway is the highway itself, without norm and ReLU, with the initial gates of those above.

Source: He et al. 2016b, arXiv 1603.05027, section 3.1 and Table 1.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.placements.images import Highway, ResNetV1
from labkit.placements.step import ALONE, MakeNorm, Map, Place


class HalvedShortcut(ResNetV1):
    """x ← relu((x + N(f(x))) / 2): over S steps the direct path is multiplied by 2^−S."""

    equation = "relu((x + N(f(x))) / 2)"

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Average the stream and the normalized write."""
        return torch.relu((x + N(f(x))) / 2)


class DroppedShortcut(ResNetV1):
    """x ← relu(dropout(x) + N(f(x))): in training a random half of the stream is dropped."""

    equation = "relu(dropout(x) + N(f(x)))"

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Add a normalized write to the stream after dropout, then apply ReLU."""
        return torch.relu(F.dropout(x, 0.5, self.training) + N(f(x)))


class ProjectedShortcut(ResNetV1):
    """x ← relu(W x + N(f(x))): a learned matrix is on every shortcut.

    W is drawn by He's rule. It is its own parameter, not an nn.Linear, so initializations of a
    model's matrices leave it as it is.
    """

    equation, symbols = "relu(W(x) + N(f(x)))", {"W": "project"}

    def __init__(self, make_norm: MakeNorm, sublayer: nn.Module, place: Place = ALONE):
        super().__init__(make_norm, sublayer, place)
        self.weight = nn.Parameter(torch.randn(place.dim, place.dim) * (2 / place.dim) ** 0.5)

    def project(self, x: Tensor) -> Tensor:
        """Multiply the stream by the shortcut's matrix."""
        return F.linear(x, self.weight)

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Add a normalized write to the projected stream."""
        return torch.relu(self.project(x) + N(f(x)))


class ShortcutGate(ResNetV1):
    """x ← relu((1 − T(x)) ⊙ x + N(f(x))), with a learned gate on the shortcut only.

    b starts at −6, the best of the values that the paper tried: at first the shortcut is open.
    """

    equation, symbols = "relu((1 - T(x)) * x + N(f(x)))", {"T": "close"}
    first_bias = -6.0

    def __init__(self, make_norm: MakeNorm, sublayer: nn.Module, place: Place = ALONE):
        super().__init__(make_norm, sublayer, place)
        self.weight = nn.Parameter(torch.randn(place.dim, place.dim) * place.dim**-0.5)
        self.bias = nn.Parameter(torch.full((place.dim,), self.first_bias))

    def close(self, x: Tensor) -> Tensor:
        """Return the fraction by which each channel's shortcut is closed: T(x), between 0 and 1."""
        return torch.sigmoid(F.linear(x, self.weight, self.bias))

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Add a normalized write to the gated shortcut."""
        return torch.relu((1 - self.close(x)) * x + N(f(x)))


class ExclusiveGate(ShortcutGate):
    """x ← relu((1 − T(x)) ⊙ x + T(x) ⊙ N(f(x))): shortcut and branch have weights that sum to 1."""

    equation = "relu((1 - T(x)) * x + T(x) * N(f(x)))"

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Mix the stream with the normalized write."""
        T = self.close(x)
        return torch.relu((1 - T) * x + T * N(f(x)))


class ClosedHighway(Highway):
    """x ← T ⊙ f(x) + (1 − T) ⊙ x with initial b = −6: S steps pass the input on nearly unchanged.

    With b = −2 the shortcuts of S steps carry 0.88^S at first, with b = −6 they carry 0.9975^S.
    """

    def __init__(self, make_norm: MakeNorm, sublayer: nn.Module, place: Place = ALONE):
        super().__init__(make_norm, sublayer, place)
        nn.init.constant_(self.bias, ShortcutGate.first_bias)
