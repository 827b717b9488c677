"""What to measure while a model trains, or once it has: observers by name.

`PROBES` maps a name to a way to make the observer from the corpus, so that a run can name what
it wants measured. Every result is plain numbers in lists and dicts.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.corpora import Corpus
from labkit.corpora.base import Batch
from labkit.model import Transformer
from labkit.training import Observer, loss_of


@contextlib.contextmanager
def untouched(model: nn.Module, training: bool) -> Iterator[None]:
    """Look at a model in a given mode without gradients, and leave mode and buffers as found."""
    was_training = model.training
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    model.train(training)
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])


class Evaluate(Observer):
    """Loss (nats per prediction) and accuracy of the trained model on held-out batches.

    With `batch_statistics` the model is evaluated in training mode: BatchNorm then uses each
    held-out batch's own statistics in place of the running ones.
    """

    def __init__(self, name: str, batches: list[Batch], batch_statistics: bool = False):
        self.name, self.batches, self.batch_statistics = name, batches, batch_statistics

    def result(self, model: nn.Module) -> dict[str, float]:
        """Average over all predictions of all batches."""
        loss, right, count = 0.0, 0, 0
        with untouched(model, training=self.batch_statistics):
            for inputs, targets in self.batches:
                logits = model(inputs).flatten(0, -2)
                flat = targets.flatten()
                loss += F.cross_entropy(logits, flat, reduction="sum").item()
                right += int((logits.argmax(dim=-1) == flat).sum())
                count += flat.numel()
        return {"loss": loss / count, "accuracy": right / count}


class GradientNorms(Observer):
    """Frobenius norm of the gradient of each block's feed-forward output matrix, by step.

    Result: {"step": [one number per block, first block first]}.
    """

    def __init__(self, name: str, steps: tuple[int, ...]):
        self.name, self.steps, self.seen = name, steps, {}

    def after_backward(self, step: int, model: nn.Module) -> None:
        """Read the gradients at the chosen steps."""
        if step in self.steps:
            self.seen[str(step)] = [
                0.0 if weight.grad is None else weight.grad.norm().item()
                for name, weight in model.named_parameters()
                if name.endswith("feed_forward.sublayer.down.weight")
            ]

    def result(self, model: nn.Module) -> dict[str, list[float]]:
        """Return what was read."""
        return self.seen


def residual_streams(model: Transformer, tokens: Tensor) -> list[Tensor]:
    """Run the model and keep the residual stream: after the embedding and after each block."""
    first: list[Tensor] = []
    hook = model.blocks[0].register_forward_pre_hook(lambda _, args: first.append(args[0]))
    try:
        outputs = outputs_of(list(model.blocks), model, tokens)
    finally:
        hook.remove()
    return first + outputs


def outputs_of(layers: Sequence[nn.Module], model: nn.Module, inputs: Tensor) -> list[Tensor]:
    """Run the model once and keep what each of these layers of it puts out."""
    seen: list[Tensor] = []

    def keep(layer: nn.Module, args: tuple, output: Tensor) -> None:
        seen.append(output)

    hooks = [layer.register_forward_hook(keep) for layer in layers]
    try:
        model(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


class OnTrained(Observer):
    """One function of the trained transformer and one held-out batch."""

    def __init__(self, name: str, batch: Batch, measure: Callable[[Transformer, Batch], Any]):
        self.name, self.batch, self.measure = name, batch, measure

    def result(self, model: nn.Module) -> Any:
        """Measure without touching the model."""
        if not isinstance(model, Transformer):
            raise TypeError(f"probe {self.name!r} needs a Transformer, got {type(model).__name__}")
        with untouched(model, training=False):
            return self.measure(model, self.batch)


def residual_rms(model: Transformer, batch: Batch) -> list[float]:
    """Typical size of the stream after the embedding and each block: sqrt(mean x²)."""
    return [x.square().mean().sqrt().item() for x in residual_streams(model, batch[0])]


def layer_cosine(model: Transformer, batch: Batch) -> list[float]:
    """Mean cosine between the stream before and after each block: near 1, it hardly turns it."""
    streams = residual_streams(model, batch[0])
    return [F.cosine_similarity(a, b, dim=-1).mean().item() for a, b in pairwise(streams)]


def removal_cost(model: Transformer, batch: Batch) -> list[float]:
    """Rise of the loss (nats) when one block is skipped and its input passed on."""
    whole = loss_of(model, *batch).item()
    costs = []
    for block in model.blocks:
        hook = block.register_forward_hook(lambda _, inputs, output: inputs[0])
        costs.append(loss_of(model, *batch).item() - whole)
        hook.remove()
    return costs


def activation_extremes(model: Transformer, batch: Batch) -> list[float]:
    """Largest magnitude over root mean square of the stream after the embedding and each block."""
    streams = residual_streams(model, batch[0])
    return [(x.abs().max() / x.square().mean().sqrt()).item() for x in streams]


def leakage(model: Transformer, batch: Batch) -> dict[str, float]:
    """How far information flows that must not, in training mode: change one thing, watch logits.

    `earlier`: largest change of a logit before the last token when only last tokens change.
    `others`: largest change of any logit of the first example when the others change.
    """
    tokens = batch[0][:16]
    last, others = tokens.clone(), tokens.clone()
    last[:, -1] = (last[:, -1] + 1) % model.config.vocab
    others[1:] = (others[1:] + 1) % model.config.vocab
    model.train()
    before = model(tokens)
    return {
        "earlier": (model(last) - before)[:, :-1].abs().max().item(),
        "others": (model(others) - before)[0].abs().max().item(),
    }


def mean_fluctuation(features: list[Tensor]) -> float:
    """How much batch means scatter: Var over batches of a feature's batch mean × N ÷ Var of it.

    `features`: one (rows, features) tensor per batch, N rows each. Independent rows give 1;
    rows that resemble each other within a batch give more, up to N. Averaged over features.
    """
    rows = features[0].shape[0]
    means = torch.stack([batch.mean(dim=0) for batch in features])
    variance = torch.cat(features).var(dim=0)
    return (means.var(dim=0) * rows / variance.clamp(min=1e-12)).mean().item()


class Fluctuation(Observer):
    """`mean_fluctuation` of batches of the training size, at the start and at the end.

    For a transformer: of the stream after the embedding and each block. For any other network:
    of what each linear layer or convolution but the last puts out. BatchNorm, if there is one,
    uses its running statistics, so that it does not hide what it would have to average.
    """

    name = "fluctuation"

    def __init__(self, corpus: Corpus, batches: int = 64):
        stream = corpus.train(seed=2**20)
        self.inputs = [next(stream)[0] for _ in range(batches)]
        self.seen: dict[str, list[float]] = {}

    def start(self, model: nn.Module) -> None:
        """Measure at initialization."""
        self.seen["start"] = self._measure(model)

    def result(self, model: nn.Module) -> dict[str, list[float]]:
        """Measure again once trained."""
        return {**self.seen, "end": self._measure(model)}

    def _measure(self, model: nn.Module) -> list[float]:
        with untouched(model, training=False):
            by_batch = [_activations(model, inputs) for inputs in self.inputs]
        return [mean_fluctuation(list(layer)) for layer in zip(*by_batch, strict=True)]


def _activations(model: nn.Module, inputs: Tensor) -> list[Tensor]:
    if isinstance(model, Transformer):
        return [x.flatten(0, -2) for x in residual_streams(model, inputs)]
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)][:-1]
    seen = outputs_of(layers, model, inputs)
    return [y.movedim(1, -1).flatten(0, -2) for y in seen]


PROBES: dict[str, Callable[[Corpus], Observer]] = {
    "validation": lambda corpus: Evaluate("validation", corpus.held_out["validation"]),
    "test": lambda corpus: Evaluate("test", corpus.held_out["test"]),
    "test-batch-statistics": lambda corpus: Evaluate(
        "test-batch-statistics", corpus.held_out["test"], batch_statistics=True
    ),
    "gradient-at-start": lambda corpus: GradientNorms("gradient-at-start", (0,)),
    "fluctuation": Fluctuation,
    **{
        name: lambda corpus, name=name, measure=measure: OnTrained(
            name, corpus.held_out["test"][0], measure
        )
        for name, measure in {
            "residual-rms": residual_rms,
            "layer-cosine": layer_cosine,
            "removal-cost": removal_cost,
            "activation-extremes": activation_extremes,
            "leakage": leakage,
        }.items()
    },
}


def make_probe(name: str, corpus: Corpus) -> Observer:
    """Make the observer called `name` for a corpus."""
    if name not in PROBES:
        raise ValueError(f"unknown probe {name!r}; choose one of {', '.join(PROBES)}")
    return PROBES[name](corpus)
