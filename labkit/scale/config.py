"""One big run as a frozen description: each field is an option of `labkit train`.

This module imports no torch, so that the command starts at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from labkit.scale.sizes import SIZES, find_size, model_config
from labkit.system.unknown import explain_unknown

if TYPE_CHECKING:
    from labkit.model import ModelConfig
    from labkit.training import TrainConfig

PARALLEL = ("auto", "none", "ddp", "fsdp2")
PRECISIONS = ("auto", "float32", "bfloat16")
DEVICES = ("auto", "cpu", "cuda")


def _define_option(default: Any, group: str, help: str, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"group": group, "help": help, "choices": choices})


@dataclass(frozen=True)
class ScaleConfig:
    """What to train, on what, how, and where it is written. Refuses nonsense when it is made."""

    data: str = _define_option("", "data", "folder of token shards (labkit tokens)")
    out: str = _define_option("", "run", "folder of the run: log, checkpoints")
    recipe: str = _define_option("pre", "model", "where the norms sit: a name of `labkit show`")
    norm: str = _define_option("rms", "model", "which norm, where the recipe leaves it open")
    size: str = _define_option("tiny", "model", f"{', '.join(SIZES)}")
    context: int | None = _define_option(None, "model", "tokens in a sequence; else the size's")
    init: str | None = _define_option(
        None, "model", "initialization; else the recipe's own, or megatron"
    )
    seed: int = _define_option(0, "data", "of weights and of the order of the data")
    batch: int = _define_option(32, "data", "sequences a step, over all processes")
    micro_batch: int | None = _define_option(
        None, "data", "sequences at once in one process, else its share; less accumulates gradients"
    )
    steps: int = _define_option(1000, "training", "length of the schedule")
    optimizer: str = _define_option("adamw", "training", "adamw or sgd")
    lr: float = _define_option(3e-4, "training", "peak learning rate")
    warmup: int | None = _define_option(
        None, "training", "steps of warm-up; else a tenth of all, at most 2,000, and none for nGPT"
    )
    schedule: str = _define_option("cosine", "training", "constant, linear or cosine")
    final_lr: float = _define_option(0.1, "training", "last learning rate, as a share of the peak")
    weight_decay: float = _define_option(0.1, "training", "acts on every parameter")
    beta1: float = _define_option(0.9, "training", "adamw")
    beta2: float = _define_option(0.95, "training", "adamw")
    clip: float = _define_option(1.0, "training", "largest norm of the gradient; 0: any")
    device: str = _define_option("auto", "machine", "where to train", DEVICES)
    precision: str = _define_option(
        "auto", "machine", "of matrix products (weights are float32); auto: by device", PRECISIONS
    )
    parallel: str = _define_option(
        "auto", "machine", "auto: ddp under torchrun, else none", PARALLEL
    )
    compile: bool = _define_option(False, "machine", "compile the blocks (needs a compiler)")
    formulas: bool = _define_option(False, "machine", "on CUDA: formulas instead of fused kernels")
    deterministic: bool = _define_option(
        False, "machine", "on CUDA: the same bits each time, slower"
    )
    minutes: float | None = _define_option(
        None, "run", "then stop with a checkpoint; --resume goes on"
    )
    eval_every: int = _define_option(100, "run", "steps between evaluations; 0: only at the end")
    eval_sequences: int = _define_option(64, "run", "held-out sequences of an evaluation")
    save_every: int = _define_option(500, "run", "steps between checkpoints; 0: only at the end")
    keep: int = _define_option(2, "run", "newest checkpoints to keep")
    residual: bool = _define_option(False, "run", "evaluations log the stream's largest RMS")
    tensorboard: str | None = _define_option(None, "run", "folder for TensorBoard's files too")

    def __post_init__(self) -> None:
        find_size(self.size)
        for name in ("data", "out"):
            if not getattr(self, name):
                raise ValueError(f"--{name} must name a folder, got nothing")
        for name, low in (
            ("batch", 1), ("micro_batch", 1), ("context", 1), ("seed", 0), ("warmup", 0),
            ("keep", 1), ("eval_every", 0), ("eval_sequences", 1), ("save_every", 0),
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < low):
                raise ValueError(
                    f"{format_option(name)} must be a number from {low} on, got {value!r}"
                )
        if self.seed >= 2**32:
            raise ValueError(f"--seed must be below 2**32, got {self.seed}")
        if self.clip < 0:
            raise ValueError(f"--clip must be at least 0, got {self.clip}; 0 clips nothing")
        if self.optimizer == "muon":
            raise ValueError("--optimizer muon is not for big runs yet; take adamw or sgd")
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"--minutes must be above 0, got {self.minutes:g}")
        if self.warmup is not None and self.warmup > self.steps:
            raise ValueError(
                f"--warmup ({self.warmup}) must not be longer than --steps ({self.steps})"
            )
        for item in fields(self):
            if (known := item.metadata["choices"]) and getattr(self, item.name) not in known:
                raise ValueError(
                    explain_unknown(format_option(item.name), getattr(self, item.name), known)
                )

    def model(self, vocab: int) -> ModelConfig:
        """Describe the model for a vocabulary."""
        return model_config(self.size, self.recipe, self.norm, vocab, self.context, self.init)

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
            betas=(self.beta1, self.beta2),
            weight_decay=self.weight_decay,
            warmup=warmup,
            schedule=self.schedule,
            final_lr=self.final_lr,
            clip=self.clip or None,
            precision="bf16" if self.precision == "bfloat16" else "float32",
        )


# What may change when a run goes on: none of these moves the loss curve beyond rounding.
FREE = (
    "data", "out", "micro_batch", "device", "parallel", "compile", "formulas", "deterministic",
    "minutes", "eval_every", "eval_sequences", "save_every", "keep", "residual", "tensorboard",
)  # fmt: skip


def format_option(name: str) -> str:
    """Write a field as the option that sets it."""
    return "--" + name.replace("_", "-")


def resume_config(saved: dict[str, Any], given: dict[str, Any]) -> ScaleConfig:
    """Take a run up again: its own settings, and what is given now where that may change."""
    for name, value in given.items():
        if name not in FREE and value != saved[name]:
            raise ValueError(
                f"a run that goes on keeps {format_option(name)} {saved[name]}, got {value}; leave "
                "the option out, or start a new run in another --out"
            )
    return ScaleConfig(**{**saved, **given})
