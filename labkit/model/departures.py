"""Models that differ from a recipe in one point that the final loss alone might not reveal.

    wrong axis          every matrix gets unit rows, `out` and `down` too: it should be columns
    wrong branch        h ← norm(b + |α| ⊙ (h − b)), b = norm(f(h)): 1 − |α| of the way to b
    no outer norm       h ← h + |α| ⊙ (norm(f(h)) − h): along the chord, into the ball
    no attention        attention writes 0: nothing but a norm over tokens sees other positions

The first three are for nGPT, the last one for any recipe, and so is a `bias` of the logits, which
is given and never trained: layers need not learn what it contains. "no attention" draws the
recipe's weights and never trains those of attention; norms stay in place. It is the baseline for
the benefit of attention. `constants` replace those of DeepNorm's paper.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from labkit.attention import Attention
from labkit.context import Context
from labkit.model.config import ModelConfig
from labkit.model.space import SPHERE, space_of
from labkit.model.transformer import Transformer
from labkit.placements import DeepNorm
from labkit.placements.sphere import SphereStep, normalize_weights, unit_rows_
from labkit.placements.step import Map
from labkit.system.unknown import explain_unknown


@dataclass(frozen=True)
class Departure(ModelConfig):
    """A model with one named difference, a bias on its logits, or other constants of DeepNorm.

    `s_z` and `share` are initial values of nGPT's scales.
    """

    differs: str | None = None  # a key of DEPARTURES; None: not at all
    s_z: float = 1.0  # of the logits' scale
    share: float = 0.05  # of |α|, in every sublayer
    bias: tuple[float, ...] = ()  # a constant added to the logits, one number per token; (): none
    # Of DeepNorm: α, and the gains over Xavier's rule of all matrices but q and k, and of these.
    constants: tuple[float, float, float] | None = None  # None: as published

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.differs is not None and self.differs not in DEPARTURES:
            raise ValueError(explain_unknown("difference", self.differs, DEPARTURES))
        if not min(self.s_z, self.share) > 0:
            raise ValueError(f"s_z and share must be above 0, got {self.s_z} and {self.share}")
        usual = self.differs in (None, _FOR_ANY) and (self.s_z, self.share) == (1.0, 0.05)
        if space_of(self.recipe) is not SPHERE and not usual:
            raise ValueError(
                f"differs={self.differs!r}, s_z={self.s_z} and share={self.share} apply only to "
                f"nGPT, got recipe {self.recipe!r}; every recipe accepts differs={_FOR_ANY!r}"
            )
        if self.bias and len(self.bias) != self.vocab:
            raise ValueError(
                f"a bias of the logits must have one number for each of the {self.vocab} tokens, "
                f"got {len(self.bias)} numbers"
            )
        if self.constants and (self.recipe, self.init) != ("deepnorm", "xavier"):
            raise ValueError(
                "constants apply only to recipe 'deepnorm' with init 'xavier', got "
                f"{self.recipe!r} with {self.init!r}; leave constants out, or change both"
            )
        if self.differs == "no attention" and self.qk_clip is not None:
            raise ValueError(
                "qk_clip clips the logits of attention, but a model with differs='no attention' "
                "has none; leave out qk_clip"
            )

    def build(self) -> Transformer:
        """Make the model, then apply the difference."""
        model = DepartedTransformer(self)
        if model.space is SPHERE:
            model.s_z.factor *= self.s_z
            for module in model.modules():
                if isinstance(module, SphereStep):
                    module.alpha.factor *= self.share / 0.05
        if self.constants:
            _set_constants(model, *self.constants)
        if self.differs is not None:
            DEPARTURES[self.differs](model)
        return model


class DepartedTransformer(Transformer):
    """A transformer that may add a constant to its logits."""

    def __init__(self, config: Departure):
        super().__init__(config)
        self.told = bool(config.bias)
        if self.told:
            self.register_buffer("bias", torch.tensor(config.bias), persistent=False)

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        """Add the given bias to the logits, if there is one."""
        logits = super().forward(*inputs, **named)
        return logits + self.get_buffer("bias") if self.told else logits


class WrongBranch(SphereStep):
    """A planted bug: α multiplies the stream instead of the branch."""

    def step(self, x: Tensor, f: Map) -> Tensor:
        """Move most of the way to the branch."""
        b = self.unit(f(x))
        return self.unit(b + self.share * (x - b))


class NoOuterNorm(SphereStep):
    """A planted bug: the step does not return to the sphere."""

    def step(self, x: Tensor, f: Map) -> Tensor:
        """Move along the chord."""
        return x + self.share * (self.unit(f(x)) - x)


class NoAttention(Attention):
    """Attention that outputs 0; it has the usual weights, which are not trained."""

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Return zeros."""
        return torch.zeros_like(x)


def _change_class(model: nn.Module, old: type[nn.Module], new: type[nn.Module]) -> None:
    # Only the class changes: a new module would draw new weights, and lose its name and tensors.
    for module in model.modules():
        if isinstance(module, old):
            module.__class__ = new


@torch.no_grad()
def _set_constants(model: Transformer, alpha: float, beta: float, of_q_and_k: float) -> None:
    for module in model.modules():
        if isinstance(module, DeepNorm):
            module.alpha = alpha
    for path, weight in model.blocks.named_parameters():
        if weight.ndim == 2:
            weight *= of_q_and_k if path.split(".")[-2] in ("q", "k") else beta


def _wrong_axis(model: Transformer) -> None:
    model.unit_rows_ = _rows_always  # pyright: ignore[reportAttributeAccessIssue]
    normalize_weights(model, _rows_always)


def _rows_always(weight: Tensor, dim: int = -1) -> Tensor:
    return unit_rows_(weight, -1)


def _no_attention(model: Transformer) -> None:
    _change_class(model, Attention, NoAttention)
    for module in model.modules():
        if isinstance(module, NoAttention):
            module.requires_grad_(False)
        elif isinstance(module, SphereStep) and isinstance(module.sublayer, NoAttention):
            # Going a share of the way to 0 and back to the sphere ends where it began: the share's
            # gradient is rounding, which Adam would follow at full length.
            module.alpha.requires_grad_(False)


_FOR_ANY = "no attention"
DEPARTURES = {
    "wrong axis": _wrong_axis,
    "wrong branch": lambda model: _change_class(model, SphereStep, WrongBranch),
    "no outer norm": lambda model: _change_class(model, SphereStep, NoOuterNorm),
    "no attention": _no_attention,
}
