"""Train a model and record the results: one loop for every chapter.

    loss = mean cross-entropy in nats per prediction (per token for text, per image for digits)

    put     the learning rate and the batch of a step
    look    the loss and its gradients; a loss that is not finite ends the run here
    move    clipping, the optimizer, the model's own `after_step`

`take_steps` has the order, a `Step` the three parts: of one model here, of N stacked models in
`labkit.experiments.replicates`.

Observers measure; the loop never changes for them. A loss that is not finite is a result:
`diverged_at` is the step.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import chain, takewhile
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm.auto import tqdm

from labkit.fused import fuse_temporarily, on_gpu
from labkit.system.provenance import collect_provenance
from labkit.system.unknown import explain_unknown

SCHEDULES = {
    # progress in [0, 1] after warm-up -> share of the peak learning rate
    "constant": lambda progress, final: 1.0,
    "linear": lambda progress, final: 1 - (1 - final) * progress,
    "cosine": lambda progress, final: final + (1 - final) * (1 + math.cos(math.pi * progress)) / 2,
}
CHOICES = {
    "optimizer": ("adamw", "sgd"),
    "schedule": tuple(SCHEDULES),
    "precision": ("float32", "bf16"),
    "decayed": ("all", "matrices"),
}
Inputs = Tensor | tuple[Tensor | None, ...]  # the arguments of a model
Batch = tuple[Inputs, Tensor]  # inputs, targets


@dataclass(frozen=True)
class TrainConfig:
    """Training settings: optimizer, schedule, length; invalid values are refused."""

    steps: int = 300
    lr: float = 1e-3  # peak learning rate
    optimizer: str = "adamw"  # adamw or sgd
    betas: tuple[float, float] = (0.9, 0.98)  # adamw
    momentum: float = 0.9  # sgd
    weight_decay: float = 0.0
    decayed: str = "all"  # scope of weight decay: all parameters, or only matrices
    warmup: int = 0  # steps of linear growth from lr/warmup to lr
    schedule: str = "cosine"  # constant, linear or cosine
    final_lr: float = 0.05  # last learning rate, as a share of the peak
    clip: float | None = None  # largest norm of the whole gradient
    precision: str = "float32"  # of the loss's matrix products; weights stay float32

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            if (value := getattr(self, name)) not in known:
                raise ValueError(explain_unknown(name, value, known))
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
            raise ValueError(f"clip must be positive, or None for no clipping; got {self.clip}")

    def lr_at(self, step: int) -> float:
        """Return the learning rate of step `step` (from 0)."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.lr * SCHEDULES[self.schedule](progress, self.final_lr)


class Observer:
    """A measurement while a model trains; the value of `result` goes into the record.

    The three hooks may read the model and must leave its weights, gradients, buffers and mode,
    and the random state, as they found them.
    """

    name = "observer"

    def start(self, model: nn.Module) -> None:
        """Read the model before its first step."""

    def after_backward(self, step: int, model: nn.Module) -> None:
        """Read the gradients of step `step` (from 0), before clipping and before the update."""

    def result(self, model: nn.Module) -> Any:
        """Read the trained model; return a result that JSON can represent."""


@dataclass
class Record:
    """Result of one training run."""

    losses: list[float]  # training loss of each finished step, nats per prediction
    steps: int  # configured steps
    diverged_at: int | None = None  # the step (from 0) whose loss was not finite
    seconds: float = 0.0  # wall time of the loop
    cpu_seconds: float = 0.0  # processor time of training and measuring, all threads
    predictions_per_second: float = 0.0
    probes: dict[str, Any] = field(default_factory=dict)  # observer name -> result
    provenance: dict[str, Any] = field(default_factory=dict)
    at: str = field(default="", compare=False)  # when it was stored (UTC)


def name_weights(model: nn.Module) -> str:
    """Return the coarsest dtype among the one-dimensional parameters (gains and biases)."""
    dtypes = {p.dtype for p in model.parameters() if p.ndim < 2 and p.is_floating_point()}
    coarsest = max(dtypes, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float32)
    return str(coarsest).removeprefix("torch.")


def loss_of(model: nn.Module, inputs: Inputs, targets: Tensor) -> Tensor:
    """Compute the mean cross-entropy of the model's logits, in nats per prediction.

    `inputs` is what the model takes: one tensor, or a tuple such as (tokens, source) or (tokens,
    None, padding). Targets of −100 are ignored.
    """
    logits = model(*inputs) if isinstance(inputs, tuple) else model(inputs)
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def compute_objective(model: nn.Module, inputs: Inputs, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return two losses: the one to record, and the one to minimize (with any `auxiliary_loss`)."""
    loss = loss_of(model, inputs, targets)
    auxiliary = getattr(model, "auxiliary_loss", None)
    extra = None if auxiliary is None else auxiliary()
    return loss, loss if extra is None else loss + extra


def prepare_model(model: nn.Module, inputs: Inputs) -> None:
    """Pass the first batch to a model's `before_training`, if it has one, before its first step."""
    if (before_training := getattr(model, "before_training", None)) is not None:
        device = next(model.parameters()).device
        parts = inputs if isinstance(inputs, tuple) else (inputs,)
        before_training(*(None if part is None else part.to(device) for part in parts))


def use_autocast(config: TrainConfig, device: torch.device) -> AbstractContextManager[Any]:
    """Multiply in bfloat16 in a forward pass, if the config asks for it."""
    if config.precision != "bf16":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


def weight_decay_of(model: nn.Module, config: TrainConfig) -> float:
    """Return the weight decay, or 0 if the model's `weight_decay_allowed` forbids it (nGPT)."""
    allowed = getattr(model, "weight_decay_allowed", None)
    return config.weight_decay if allowed is None or allowed() else 0.0


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Make the optimizer; weight decay acts on every parameter, or only on matrices.

    Matrices are the parameters of two or more dimensions, including the embedding.
    """
    decay = weight_decay_of(model, config)
    groups: list[dict[str, Any]] = [{"params": list(model.parameters())}]
    if config.decayed == "matrices":
        vectors = [weight for weight in model.parameters() if weight.ndim < 2]
        matrices = [weight for weight in model.parameters() if weight.ndim > 1]
        groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, config.lr, config.momentum, weight_decay=decay)
    return torch.optim.AdamW(groups, config.lr, config.betas, weight_decay=decay, fused=True)


class Steps(Protocol):
    """Parts of a training step that `take_steps` runs, for one model or for several at once."""

    models: Sequence[nn.Module]

    def place_batches(self, number: int, batches: Sequence[Batch]) -> None:
        """Set the batch and the learning rate of each model."""

    def compute_gradients(self) -> None:
        """Compute the losses and, if they are finite, the gradients."""

    def note_losses(self) -> Sequence[int]:
        """Record the losses of a step; return the indices of the models that continue."""
        ...

    def update_models(self) -> None:
        """Clip and update the models that continue, and run their own `after_step`."""

    def list_losses(self) -> list[list[float]]:
        """Return each model's losses; entries after the first non-finite one are meaningless."""
        ...


class Step(Steps):
    """A training step of one model."""

    def __init__(self, model: nn.Module, config: TrainConfig):
        self.models, self.config = [model], config
        self.optimizer = make_optimizer(model, config)
        self.after_step = getattr(model, "after_step", None)
        self.loss = math.nan
        self.losses: list[float] = []

    def place_batches(self, number: int, batches: Sequence[Batch]) -> None:
        """Set the learning rate, and store the batch."""
        self.inputs, self.targets = batches[0]
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.lr_at(number)

    def compute_gradients(self) -> None:
        """Compute the loss and, if it is finite, its gradients."""
        self.optimizer.zero_grad(set_to_none=True)
        with use_autocast(self.config, next(self.models[0].parameters()).device):
            loss, minimized = compute_objective(self.models[0], self.inputs, self.targets)
        self.loss = loss.item()
        if math.isfinite(self.loss):
            minimized.backward()

    def note_losses(self) -> Sequence[int]:
        """Record the loss; the model continues if it is finite."""
        self.losses.append(self.loss)
        return (0,) if math.isfinite(self.loss) else ()

    def update_models(self) -> None:
        """Clip, update, and run the model's own `after_step`."""
        if self.config.clip is not None:
            nn.utils.clip_grad_norm_(self.models[0].parameters(), self.config.clip)
        self.optimizer.step()
        if self.after_step is not None:
            self.after_step()

    def list_losses(self) -> list[list[float]]:
        """Return the losses of the one model."""
        return [self.losses]


def take_steps(
    step: Steps,
    numbers: Iterable[int],
    batches: Iterator[Sequence[Batch]],
    observers: Sequence[Sequence[Observer]],
) -> None:
    """Take the steps; stop before an update if no model has a finite loss."""
    for number in numbers:
        step.place_batches(number, next(batches))
        step.compute_gradients()
        rows = step.note_losses()
        if not rows:
            return
        for row in rows:
            for observer in observers[row]:
                observer.after_backward(number, step.models[row])
        step.update_models()


def train(
    model: nn.Module,
    batches: Iterable[Batch],
    config: TrainConfig,
    observers: Sequence[Observer] = (),
    *,
    progress: bool = True,
    kernels: bool = True,
) -> Record:
    """Train `model` in place on (inputs, targets) batches and return the record.

    On CUDA its norms run as fused kernels (`labkit.fused`) while it trains, unless `kernels` is
    False; the record's provenance names them. On other devices they run as formulas.

    A model may have further methods: `before_training(*inputs)` sees the first batch before the
    first step, `auxiliary_loss()` is added to the minimized loss (never to the recorded one), and
    `after_step()` runs after each step of the optimizer. The bar appears only when training takes
    longer than three seconds. The provenance records the config's precision, because results depend
    on it.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"train needs an nn.Module as its model, got {type(model).__name__}; build one from a "
            "config: train(config.build(), …)"
        )
    if not isinstance(batches, Iterable):
        raise TypeError(
            f"train needs an iterable of batches (inputs, targets), got {type(batches).__name__}; "
            "a corpus provides one: corpus.train(seed)"
        )
    gains = name_weights(model)
    fused = fuse_temporarily(model) if kernels and on_gpu(model) else nullcontext("formulas")
    with fused as norms:
        (record,) = train_models(
            lambda first: Step(model, config),
            [model],
            [batches],
            [config],
            [observers],
            {"norms": str(norms)} | ({} if gains == "float32" else {"gains": gains}),
            progress,
        )
    return record


def train_models(
    make: Callable[[Sequence[Batch]], Steps],
    models: Sequence[nn.Module],
    streams: Sequence[Iterable[Batch]],
    configs: Sequence[TrainConfig],
    observers: Sequence[Sequence[Observer]],
    origin: dict[str, Any],
    progress: bool = False,
) -> list[Record]:
    """Train several models in place with joint steps, each on its own batches; return the records.

    `make` makes the step once the models have seen the first batches. The records share the total
    time in proportion to their steps.
    """
    steps = configs[0].steps
    origin = {"precision": configs[0].precision, **origin}
    records = [Record([], steps, provenance=collect_provenance(model) | origin) for model in models]
    for model, group in zip(models, observers, strict=True):
        for observer in group:
            observer.start(model)
        model.train()
    sizes: list[list[int]] = []  # number of predictions in each drawn batch
    batches = _draw_batches(streams, sizes)
    wall, cpu = time.perf_counter(), time.process_time()
    first = next(batches)
    for model, (inputs, _) in zip(models, first, strict=True):
        prepare_model(model, inputs)
    step = make(first)
    numbers = tqdm(range(steps), "train", disable=not progress, delay=3, leave=False)
    take_steps(step, numbers, chain([first], batches), observers)
    losses = step.list_losses()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    taken = [_finish_record(record, found) for record, found in zip(records, losses, strict=True)]
    for row, (record, model) in enumerate(zip(records, models, strict=True)):
        share = taken[row] / sum(taken)
        record.seconds = wall * share
        predictions = sum(size[row] for size in sizes[: len(record.losses)])
        record.predictions_per_second = predictions / max(record.seconds, 1e-9)
        if record.diverged_at is not None:
            model.zero_grad(set_to_none=True)
        began = time.process_time()
        for observer in observers[row]:
            record.probes[observer.name] = observer.result(model)
        record.cpu_seconds = cpu * share + time.process_time() - began
    return records


def _finish_record(record: Record, losses: list[float]) -> int:
    """Cut the losses after the first non-finite one; return the number of steps, including it."""
    record.losses = list(takewhile(math.isfinite, losses))
    if len(record.losses) < record.steps:
        record.diverged_at = len(record.losses)
    return min(len(record.losses) + 1, record.steps)


def _draw_batches(
    streams: Sequence[Iterable[Batch]], sizes: list[list[int]]
) -> Iterator[list[Batch]]:
    """Draw a batch from every stream; record the number of predictions in each."""
    for batches in zip(*map(_check_batches, streams), strict=True):
        sizes.append([targets.numel() for _, targets in batches])
        yield list(batches)


def _check_batches(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Refuse empty batches, and a stream that ends before the last step."""
    step = -1
    for step, (inputs, targets) in enumerate(batches):
        given = inputs if isinstance(inputs, tuple) else (inputs,)
        if any(part is not None and part.numel() == 0 for part in (*given, targets)):
            shapes = ", ".join(str(tuple(part.shape)) for part in given if part is not None)
            raise ValueError(
                f"no batch may be empty, but batch {step} has inputs of shape {shapes} and "
                f"targets of shape {tuple(targets.shape)}; leave it out"
            )
        yield inputs, targets
    raise ValueError(
        f"training needs a batch for every step, but the batches ended after {step + 1}; pass a "
        "longer iterable"
    )
