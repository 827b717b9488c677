"""One big run as a frozen description: each field is an option of `labkit train`.

This module imports no torch, so that the command starts at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints

from labkit.scale.sizes import SIZES, find_size
from labkit.system.unknown import explain_unknown

if TYPE_CHECKING:
    from labkit.model import ModelConfig
    from labkit.training import TrainConfig


def _option(default: Any, help: str) -> Any:
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class ScaleConfig:
    """What to train, on what, how, and where it is written. Refuses nonsense when it is made."""

    data: str = _option("", "folder of token shards (labkit tokens)")
    out: str = _option("", "folder of the run: settings, log, checkpoints")
    recipe: str = _option("pre", "where the norms sit: a name of `labkit show`")
    norm: str = _option("rms", "which norm, where the recipe leaves it open")
    size: str = _option("tiny", ", ".join(SIZES))
    context: int | None = _option(None, "tokens in a sequence; else the size's")
    init: str | None = _option(None, "initialization; else the recipe's own, or megatron")
    seed: int = _option(0, "of the weights and of the order of the data")
    batch: int = _option(32, "sequences a step, over all processes")
    micro_batch: int | None = _option(
        None, "sequences at once in one process, else its share; less accumulates gradients"
    )
    steps: int = _option(1000, "length of the schedule")
    optimizer: Literal["adamw", "sgd"] = _option("adamw", "what moves the weights")
    lr: float = _option(3e-4, "peak learning rate")
    warmup: int | None = _option(
        None, "steps of warm-up; else a tenth of all, at most 2,000, and none for nGPT"
    )
    schedule: Literal["constant", "linear", "cosine"] = _option("cosine", "after the warm-up")
    final_lr: float = _option(0.1, "last learning rate, as a share of the peak")
    weight_decay: float = _option(0.1, "acts on every parameter")
    betas: tuple[float, float] = _option((0.9, 0.95), "of adamw")
    clip: float = _option(1.0, "largest norm of the gradient; 0: any")
    device: Literal["auto", "cpu", "cuda"] = _option("auto", "where to train")
    precision: Literal["auto", "float32", "bfloat16"] = _option(
        "auto", "of matrix products (weights are float32); auto: bfloat16 on a GPU"
    )
    parallel: Literal["auto", "none", "ddp", "fsdp2"] = _option(
        "auto", "how processes share the work; auto: ddp under torchrun, else none"
    )
    minutes: float | None = _option(None, "then stop with a checkpoint; --resume goes on")
    eval_every: int = _option(100, "steps between evaluations; 0: only at the end")
    save_every: int = _option(500, "steps between checkpoints; 0: only at the end")

    def __post_init__(self) -> None:
        find_size(self.size)
        for name in ("data", "out"):
            if not getattr(self, name):
                raise ValueError(
                    f"labkit train needs --{name}; tokens come from: labkit tokens DIR"
                )
        least = {"context": 1, "batch": 1, "micro_batch": 1, "seed": 0, "warmup": 0, "clip": 0}
        least |= {"minutes": 0, "eval_every": 0, "save_every": 0}
        for name, low in least.items():
            value = getattr(self, name)
            if value is not None and not value >= low:
                raise ValueError(f"{format_option(name)} must be at least {low}, got {value}")
        for name, kind in get_type_hints(ScaleConfig).items():
            value, known = getattr(self, name), get_args(kind)
            if isinstance(value, str) and known and str not in known and value not in known:
                raise ValueError(explain_unknown(format_option(name), value, known))

    def model(self, vocab: int) -> ModelConfig:
        """Describe the model for a vocabulary.

        nGPT has as many key-value heads as heads and an output matrix of its own, so that its
        models are larger than the size's name.
        """
        from labkit.model import ModelConfig
        from labkit.placements import recipe

        size, asked = find_size(self.size), recipe(self.recipe)
        return ModelConfig(
            recipe=self.recipe,
            norm=self.norm,
            dim=size.dim,
            depth=size.depth,
            heads=size.heads,
            kv_heads=None if asked.sphere else size.kv_heads,
            vocab=vocab,
            hidden=size.hidden,
            context=size.context if self.context is None else self.context,
            tie=not asked.sphere,
            init=self.init,
            norm_eps=1e-5 if (asked.norm or self.norm) in ("rms", "layer") else None,
        )

    def training(self) -> TrainConfig:
        """Describe optimizer and schedule, as labkit.training has them."""
        from labkit.placements import recipe
        from labkit.training import TrainConfig

        warmup = self.warmup
        if warmup is None:
            warmup = 0 if recipe(self.recipe).sphere else min(2000, self.steps // 10)
        return TrainConfig(
            steps=self.steps,
            lr=self.lr,
            optimizer=self.optimizer,
            betas=self.betas,
            weight_decay=self.weight_decay,
            warmup=warmup,
            schedule=self.schedule,
            final_lr=self.final_lr,
            clip=self.clip or None,
            precision="bf16" if self.precision == "bfloat16" else "float32",
        )


def format_option(name: str) -> str:
    """Write a field as the option that sets it."""
    return "--" + name.replace("_", "-")
