"""Two small networks for images, with a norm after every layer: a perceptron and a CNN.

MLP   pixels -> depth × [linear -> norm -> relu] -> linear -> logits
CNN   image  -> depth × [3×3 convolution -> norm -> relu] -> mean over space -> linear -> logits
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

from labkit.norms import BatchNorm, GroupNorm
from labkit.system.unknown import explain_unknown

# A norm for images: channels on axis 1, space after it. Over all channels and all of space,
# LayerNorm is GroupNorm with one group, and InstanceNorm with as many groups as channels.
CHANNEL_NORMS: dict[str, Callable[[int, int, float], nn.Module]] = {
    "batch": lambda channels, groups, eps: BatchNorm(channels, eps),
    "layer": lambda channels, groups, eps: GroupNorm(1, channels, eps),
    "group": lambda channels, groups, eps: GroupNorm(groups, channels, eps),
    "instance": lambda channels, groups, eps: GroupNorm(channels, channels, eps),
    "none": lambda channels, groups, eps: nn.Identity(),
}


@dataclass(frozen=True)
class _ImageConfig:
    norm: str = "batch"  # a key of CHANNEL_NORMS
    width: int = 128  # features or channels of every hidden layer
    depth: int = 3
    groups: int = 8  # for norm="group"
    classes: int = 10
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        if self.norm not in CHANNEL_NORMS:
            raise ValueError(explain_unknown("norm", self.norm, CHANNEL_NORMS))
        for field in ("width", "depth", "groups", "classes"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be at least 1, got {getattr(self, field)}")
        if not self.norm_eps >= 0:
            raise ValueError(f"norm_eps must be at least 0, got {self.norm_eps}")
        if self.norm == "group" and self.width % self.groups:
            raise ValueError(f"width ({self.width}) must be a multiple of groups ({self.groups})")

    def make_norm(self) -> nn.Module:
        """Make one norm for `width` channels."""
        return CHANNEL_NORMS[self.norm](self.width, self.groups, self.norm_eps)


@dataclass(frozen=True)
class MLPConfig(_ImageConfig):
    """A perceptron on flattened pixels."""

    pixels: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norm == "instance":
            raise ValueError(
                "instance norm averages over positions, but a perceptron has only one value per "
                "channel; choose another norm, or a CNNConfig"
            )

    def build(self) -> nn.Module:
        """Make the network with torch's default initialization."""
        sizes = [self.pixels, *[self.width] * self.depth]
        layers = [
            layer
            for before, after in pairwise(sizes)
            for layer in (nn.Linear(before, after), self.make_norm(), nn.ReLU())
        ]
        return nn.Sequential(nn.Flatten(), *layers, nn.Linear(self.width, self.classes))


@dataclass(frozen=True)
class CNNConfig(_ImageConfig):
    """A convolutional network that keeps the image's size and averages over it at the end."""

    width: int = 32
    depth: int = 4

    def build(self) -> nn.Module:
        """Make the network with torch's default initialization."""
        sizes = [1, *[self.width] * self.depth]
        layers = [
            layer
            for before, after in pairwise(sizes)
            for layer in (nn.Conv2d(before, after, 3, padding=1), self.make_norm(), nn.ReLU())
        ]
        return nn.Sequential(*layers, _MeanOverSpace(), nn.Linear(self.width, self.classes))


class _MeanOverSpace(nn.Module):
    def forward(
        self, x: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch channels"]:
        return x.mean(dim=(2, 3))
