"""Train a model and record what happened: one loop for every chapter.

    loss = mean cross-entropy in nats per prediction (per token for text, per image for digits)

Observers measure; the loop never changes for them. A loss that is not finite ends the run and is
a result: `diverged_at` says the step.
"""

import json
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm.auto import tqdm

from labkit.fused import fusing, on_gpu
from labkit.muon import Muon
from labkit.optimizers import SGD, AdamW
from labkit.provenance import provenance

SCHEDULES = {
    # progress in [0, 1] after warm-up -> share of the peak learning rate
    "constant": lambda progress, final: 1.0,
    "linear": lambda progress, final: 1 - (1 - final) * progress,
    "cosine": lambda progress, final: final + (1 - final) * (1 + math.cos(math.pi * progress)) / 2,
}
OPTIMIZERS = ("adamw", "sgd", "muon")
Inputs = Tensor | tuple[Tensor | None, ...]  # what a model is called with


@dataclass(frozen=True)
class TrainConfig:
    """How to train: optimizer, schedule, length. Refuses nonsense when it is made."""

    steps: int = 300
    lr: float = 1e-3  # peak learning rate
    optimizer: str = "adamw"  # adamw, sgd or muon (AdamW outside blocks)
    betas: tuple[float, float] = (0.9, 0.98)  # adamw
    momentum: float = 0.9  # sgd
    weight_decay: float = 0.0
    warmup: int = 0  # steps of linear growth from lr/warmup to lr
    schedule: str = "cosine"  # constant, linear or cosine
    final_lr: float = 0.05  # last learning rate, as a share of the peak
    clip: float | None = None  # largest norm of the whole gradient

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(
                f"unknown optimizer {self.optimizer!r}; choose one of {', '.join(OPTIMIZERS)}"
            )
        if self.schedule not in SCHEDULES:
            raise ValueError(
                f"unknown schedule {self.schedule!r}; choose one of {', '.join(SCHEDULES)}"
            )
        for name, low in (("steps", 1), ("warmup", 0), ("weight_decay", 0), ("final_lr", 0)):
            value = getattr(self, name)
            if not isinstance(value, int if name in ("steps", "warmup") else int | float):
                kind = "a whole number" if name in ("steps", "warmup") else "a number"
                raise TypeError(f"{name} must be {kind}, got {value!r}")
            if not low <= value < math.inf:
                raise ValueError(f"{name} must be at least {low} and finite, got {value}")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must be two numbers in [0, 1), got {self.betas}")
        if not isinstance(self.lr, int | float):
            raise TypeError(f"lr must be a number, got {self.lr!r}")
        if not (0 < self.lr < math.inf):
            raise ValueError(f"lr must be positive and finite, got {self.lr}")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be above 0 (or None), got {self.clip}")

    def lr_at(self, step: int) -> float:
        """Give the learning rate of step `step` (from 0)."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.lr * SCHEDULES[self.schedule](progress, self.final_lr)


class Observer:
    """Measure something while a model trains; what `result` returns goes into the record.

    The three hooks may read the model and must leave its weights, gradients, buffers and mode,
    and the random state, as they found them.
    """

    name = "observer"

    def start(self, model: nn.Module) -> None:
        """See the model before its first step."""

    def after_backward(self, step: int, model: nn.Module) -> None:
        """See the gradients of step `step` (from 0), before clipping and before the update."""

    def result(self, model: nn.Module) -> Any:
        """See the trained model; return anything JSON can hold."""


@dataclass
class Record:
    """What one training run left behind."""

    losses: list[float]  # training loss of each finished step, nats per prediction
    steps: int  # steps asked for
    diverged_at: int | None = None  # the step (from 0) whose loss was not finite
    seconds: float = 0.0  # wall time of the loop
    cpu_seconds: float = 0.0  # processor time of training and measuring, all threads
    predictions_per_second: float = 0.0
    probes: dict[str, Any] = field(default_factory=dict)  # observer name -> result
    provenance: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """Write as JSON; a number that is not finite becomes null."""
        return json.dumps(_finite(asdict(self)), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Record":
        """Read what `to_json` wrote."""
        return cls(**json.loads(text))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def loss_of(model: nn.Module, inputs: Inputs, targets: Tensor) -> Tensor:
    """Mean cross-entropy of the model's logits, in nats per prediction.

    `inputs` is what the model takes: one tensor, or a tuple such as (tokens, source) or
    (tokens, None, padding). A target of −100 counts nowhere.
    """
    logits = model(*inputs) if isinstance(inputs, tuple) else model(inputs)
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Make the optimizer; weight decay, if any, acts on every parameter.

    A model whose method `weight_decay_allowed` says no gets none: nGPT's weights have one length.
    """
    allowed = getattr(model, "weight_decay_allowed", None)
    decay = config.weight_decay if allowed is None or allowed() else 0.0
    if config.optimizer == "sgd":
        return SGD(model.parameters(), config.lr, config.momentum, weight_decay=decay)
    if config.optimizer == "muon":
        return Muon(model.named_parameters(), config.lr, config.betas, weight_decay=decay)
    return AdamW(model.parameters(), config.lr, config.betas, weight_decay=decay, fused=True)


def train(
    model: nn.Module,
    batches: Iterable[tuple[Inputs, Tensor]],
    config: TrainConfig,
    observers: Sequence[Observer] = (),
    *,
    progress: bool = True,
    kernels: bool = True,
) -> Record:
    """Train `model` in place on (inputs, targets) batches and return the record.

    On CUDA its norms run as fused kernels (`labkit.fused`) while it trains, unless `kernels` is
    False; the record's provenance says which. Elsewhere they are the formulas.

    A model may ask for more: `before_training(*inputs)` sees the first batch before the first
    step, `auxiliary_loss()` is added to what is minimized (never to what is recorded), and
    `after_step()` runs after each step of the optimizer. The bar appears only when training
    takes longer than three seconds.
    """
    if kernels and on_gpu(model):
        with fusing(model) as fused:
            return _train(model, batches, config, observers, progress, str(fused))
    return _train(model, batches, config, observers, progress, "formulas")


def _train(
    model: nn.Module,
    batches: Iterable[tuple[Inputs, Tensor]],
    config: TrainConfig,
    observers: Sequence[Observer],
    progress: bool,
    norms: str,
) -> Record:
    optimizer = make_optimizer(model, config)
    record = Record(losses=[], steps=config.steps, provenance=provenance(model) | {"norms": norms})
    predictions = 0
    prepare, auxiliary, after_step = (
        getattr(model, name, None) for name in ("before_training", "auxiliary_loss", "after_step")
    )
    for observer in observers:
        observer.start(model)
    model.train()
    stream = _checked(batches)
    wall, cpu = time.perf_counter(), time.process_time()
    for step in tqdm(range(config.steps), "train", disable=not progress, delay=3, leave=False):
        inputs, targets = next(stream)
        if step == 0 and prepare is not None:
            prepare(*(inputs if isinstance(inputs, tuple) else (inputs,)))
        for group in optimizer.param_groups:
            group["lr"] = config.lr_at(step)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, inputs, targets)
        if not math.isfinite(value := loss.item()):
            record.diverged_at = step
            break
        record.losses.append(value)
        extra = auxiliary() if auxiliary is not None else None
        (loss if extra is None else loss + extra).backward()
        for observer in observers:
            observer.after_backward(step, model)
        if config.clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimizer.step()
        if after_step is not None:
            after_step()
        predictions += targets.numel()
    record.seconds = time.perf_counter() - wall
    record.predictions_per_second = predictions / max(record.seconds, 1e-9)
    for observer in observers:
        record.probes[observer.name] = observer.result(model)
    record.cpu_seconds = time.process_time() - cpu
    return record


def _checked(batches: Iterable[tuple[Inputs, Tensor]]) -> Iterator[tuple[Inputs, Tensor]]:
    """Refuse empty batches, and a stream that ends before the steps do."""
    step = -1
    for step, (inputs, targets) in enumerate(batches):
        given = inputs if isinstance(inputs, tuple) else (inputs,)
        if any(part is not None and part.numel() == 0 for part in (*given, targets)):
            shapes = ", ".join(str(tuple(part.shape)) for part in given if part is not None)
            raise ValueError(
                f"batch {step} is empty: inputs {shapes}, "
                f"targets {tuple(targets.shape)}; leave such batches out"
            )
        yield inputs, targets
    raise ValueError(f"the batches ended after {step + 1} steps; give a stream that is long enough")
