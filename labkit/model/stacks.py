"""Deep perceptrons: signals and gradients in many layers, with or without skips, norms and noise.

pixels -> linear -> depth / 2 steps -> [norm, relu] -> linear -> logits

plain      x ← relu(N(W x)), twice per step        none, pre, post, resnet-v1, resnet-v2, highway:
                                                   the step's equation, with f = W₂ relu(N(W₁ x))
halved, projected, dropped, shortcut-gate,         resnet-v1 with another shortcut, and a highway
exclusive-gate, closed-highway                     of closed gates: labkit.placements.shortcuts

Only the ResNets have norms inside f. NoisyBatchNorm keeps shifting what BatchNorm has just
standardized: Santurkar et al. 2018, arXiv 1805.11604, section 2.1 and appendix A.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labkit.model.vision import CHANNEL_NORMS
from labkit.norms import BatchNorm
from labkit.placements import (
    Highway,
    NoNorm,
    Place,
    PostNorm,
    PreNorm,
    ResNetV1,
    ResNetV2,
    Step,
)
from labkit.placements.shortcuts import (
    ClosedHighway,
    DroppedShortcut,
    ExclusiveGate,
    HalvedShortcut,
    ProjectedShortcut,
    ShortcutGate,
)
from labkit.system.unknown import explain_unknown


class NoisyBatchNorm(BatchNorm):
    """BatchNorm whose output gets a new random mean and standard deviation at every training step.

        y ← s · BatchNorm(x) + m        m ~ U(μ − r, μ + r),  s ~ N(σ, r²) for each value

    with μ ~ U(−shift, shift) and σ ~ U(1, scale) for each channel and step. No noise in
    evaluation.
    """

    shift, scale, spread = 0.5, 1.25, 0.1

    def forward(self, input: Tensor, mask: Tensor | None = None) -> Tensor:
        """Normalize, then add the noise."""
        y = super().forward(input, mask)
        if not self.training:
            return y
        mean = (2 * torch.rand_like(y[:1]) - 1) * self.shift
        deviation = 1 + torch.rand_like(y[:1]) * (self.scale - 1)
        m = mean + (2 * torch.rand_like(y) - 1) * self.spread
        s = deviation + torch.randn_like(y) * self.spread
        return s * y + m


NORMS: dict[str, Callable[[int], nn.Module]] = {
    **{
        name: lambda width, make=make: make(width, 1, 1e-5)
        for name, make in CHANNEL_NORMS.items()
        if name not in ("instance", "group")
    },
    "noisy-batch": NoisyBatchNorm,
}
STEPS: dict[str, type[Step] | None] = {
    "plain": None,
    "none": NoNorm,
    "pre": PreNorm,
    "post": PostNorm,
    "resnet-v1": ResNetV1,
    "resnet-v2": ResNetV2,
    "highway": Highway,
    "closed-highway": ClosedHighway,
    "halved": HalvedShortcut,
    "projected": ProjectedShortcut,
    "dropped": DroppedShortcut,
    "shortcut-gate": ShortcutGate,
    "exclusive-gate": ExclusiveGate,
}
# Standard deviation of a weight, from the layer's inputs and outputs; "scaled" is He's, with
# each branch's last matrix divided by the root of the number of branches.
INITS: dict[str, Callable[[int, int], float]] = {
    "torch": lambda fan_in, fan_out: (1 / (3 * fan_in)) ** 0.5,
    "xavier": lambda fan_in, fan_out: (2 / (fan_in + fan_out)) ** 0.5,
    "he": lambda fan_in, fan_out: (2 / fan_in) ** 0.5,
    "scaled": lambda fan_in, fan_out: (2 / fan_in) ** 0.5,
}


@dataclass(frozen=True)
class StackConfig:
    """A deep perceptron on flattened pixels; invalid settings are refused when it is made."""

    step: str = "plain"  # a key of STEPS
    norm: str = "none"  # a key of NORMS
    init: str = "he"  # a key of INITS; biases start at 0
    width: int = 64
    depth: int = 4  # hidden matrices; two to a step
    pixels: int = 64
    classes: int = 10

    def __post_init__(self) -> None:
        for field, table in (("step", STEPS), ("norm", NORMS), ("init", INITS)):
            if getattr(self, field) not in table:
                raise ValueError(explain_unknown(field, getattr(self, field), table))
        for field in ("width", "depth", "pixels", "classes"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be at least 1, got {getattr(self, field)}")
        if self.depth % 2:
            raise ValueError(
                f"depth must be even, because a step has two matrices; got {self.depth}"
            )

    @property
    def steps(self) -> int:
        """Return the number of steps."""
        return self.depth // 2

    def build(self) -> nn.Sequential:
        """Make the network, drawing its weights from torch's current random state."""
        width, kind = self.width, STEPS[self.step]
        body = [layer for _ in range(self.steps) for layer in self._build_step(kind)]
        ends = [self._make_norm()] if kind in (PreNorm, ResNetV2) else []
        ends += [nn.ReLU()] if kind is ResNetV2 else []
        first = nn.Linear(self.pixels, width)
        net = nn.Sequential(nn.Flatten(), first, *body, *ends, nn.Linear(width, self.classes))
        for linear in (part for part in net.modules() if isinstance(part, nn.Linear)):
            std = INITS[self.init](linear.in_features, linear.out_features)
            nn.init.normal_(linear.weight, std=std)
            nn.init.zeros_(linear.bias)
        if self.init == "scaled":
            for step in (part for part in net if isinstance(part, Step)):
                last = step.sublayer.get_submodule("last")
                last.get_parameter("weight").data /= self.steps**0.5
        return net

    def _make_norm(self) -> nn.Module:
        return NORMS[self.norm](self.width)

    def _build_step(self, kind: type[Step] | None) -> list[nn.Module]:
        width = self.width
        if kind is None:
            return [
                part
                for _ in range(2)
                for part in (nn.Linear(width, width), self._make_norm(), nn.ReLU())
            ]
        branch = nn.Sequential()
        branch.add_module("first", nn.Linear(width, width))
        if issubclass(kind, ResNetV1 | ResNetV2):
            branch.add_module("norm", self._make_norm())
        branch.add_module("relu", nn.ReLU())
        branch.add_module("last", nn.Linear(width, width))
        return [kind(self._make_norm, branch, Place(dim=width))]


def signal(
    net: nn.Sequential, images: Float[Tensor, "batch 1 height width"]
) -> list[Float[Tensor, "batch width"]]:
    """Run the network and return the input of each step and the output of the last one.

    For a plain network: the output of the first matrix, and of each ReLU.
    """
    kind = Step if any(isinstance(layer, Step) for layer in net) else nn.ReLU
    seen, x = [], images
    for i, layer in enumerate(list(net)[:-1]):
        x = layer(x)
        if i == 1 or isinstance(layer, kind):
            seen.append(x)
    return seen


def follow_gradient(
    net: nn.Sequential, images: Float[Tensor, "batch 1 height width"]
) -> list[float]:
    """Backpropagate a random gradient; return its norm at each point that `signal` returns.

    The lowest layer comes first, the random gradient last; torch's generator draws it.
    """
    streams = signal(net, images)
    found = torch.autograd.grad(streams[-1], streams, torch.randn_like(streams[-1]))
    return [gradient.norm().item() for gradient in found]
