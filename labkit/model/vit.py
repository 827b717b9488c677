"""ViT: a small vision transformer with the same blocks as `labkit.model`.

image -> patches -> linear + position -> depth × block -> final norm -> mean over patches -> logits

It accepts any recipe and norm of the transformer. Source: Dosovitskiy et al. 2021, arXiv
2010.11929; averaged patches in place of a class token as in Zhai et al. 2022, arXiv 2106.04560.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from labkit.context import Context, apply_norm
from labkit.model import ModelConfig
from labkit.model.block import Block
from labkit.model.init import initialize_model


@dataclass(frozen=True)
class ViTConfig:
    """Configuration of a small vision transformer; invalid values are refused when it is made."""

    recipe: str = "pre"  # recipe, norm …: as in ModelConfig
    norm: str = "layer"
    dim: int = 32
    depth: int = 3
    heads: int = 4
    patch: int = 2  # pixels along a patch's side
    size: int = 8  # pixels along an image's side
    classes: int = 10
    activation: str = "gelu"
    init: str | None = None
    alpha: tuple[float, float] | None = None
    norm_kw: tuple[tuple[str, float], ...] = ()
    dropout: float = 0.0  # share of the embedded patches' channels that is set to 0 in training

    def __post_init__(self) -> None:
        for field in ("patch", "size", "classes"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be at least 1, got {getattr(self, field)}")
        if self.size % self.patch:
            raise ValueError(f"size ({self.size}) must be a multiple of patch ({self.patch})")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {self.dropout}")
        _ = self.stack

    @property
    def patches(self) -> int:
        """Return the number of patches per image."""
        return (self.size // self.patch) ** 2

    @property
    def stack(self) -> ModelConfig:
        """Return the blocks' configuration: a transformer that attends to every position."""
        return ModelConfig(
            recipe=self.recipe,
            norm=self.norm,
            dim=self.dim,
            depth=self.depth,
            heads=self.heads,
            context=self.patches,
            kind="encoder",
            activation=self.activation,
            init=self.init,
            alpha=self.alpha,
            norm_kw=self.norm_kw,
        )

    def build(self) -> "ViT":
        """Make the network, drawing its weights from torch's current random state."""
        return ViT(self)


class ViT(nn.Module):
    """Classify an image from its patches."""

    def __init__(self, config: ViTConfig):
        super().__init__()
        self.config, stack = config, config.stack
        self.embedding = nn.Linear(config.patch**2, config.dim)
        self.position = nn.Parameter(torch.randn(config.patches, config.dim) * 0.5)
        self.blocks = nn.ModuleList(Block(stack, i) for i in range(config.depth))
        self.final_norm = stack.make_norm()
        self.output = nn.Linear(config.dim, config.classes)
        initialize_model(self, stack.init_name, dim=config.dim, decoder=0, encoder=config.depth)

    def embed(self, images: Float[Tensor, "batch 1 height width"]) -> Tensor:
        """Cut images into patches and embed each: (batch, patches, dim)."""
        if images.shape[1:] != (1, self.config.size, self.config.size):
            side = self.config.size
            raise ValueError(
                f"ViT needs images of shape (batch, 1, {side}, {side}), got {tuple(images.shape)}"
            )
        patches = F.unfold(images, self.config.patch, stride=self.config.patch).mT
        x = self.embedding(patches) + self.position
        return F.dropout(x, self.config.dropout, self.training)

    def forward(
        self, images: Float[Tensor, "batch 1 height width"]
    ) -> Float[Tensor, "batch classes"]:
        """Return a logit for each class."""
        x, context = self.embed(images), Context()
        for block in self.blocks:
            x = block(x, context)
        return self.output(apply_norm(self.final_norm, x, context).mean(dim=1))
