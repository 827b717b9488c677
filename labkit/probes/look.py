"""Observe a model without changing it, and return its inner values."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from labkit.corpora.base import Batch
from labkit.model import Transformer
from labkit.training import Observer


@contextlib.contextmanager
def untouched(model: nn.Module, training: bool) -> Iterator[None]:
    """Set a model's mode without gradients for a block, then restore mode and buffers."""
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


def residual_streams(model: Transformer, tokens: Tensor) -> list[Tensor]:
    """Run the model and return the residual stream: after the embedding and after each block."""
    first: list[Tensor] = []
    with model.blocks[0].register_forward_pre_hook(lambda _, args: first.append(args[0])):
        outputs = outputs_of(list(model.blocks), model, tokens)
    return first + outputs


def outputs_of(layers: Sequence[nn.Module], model: nn.Module, inputs: Tensor) -> list[Tensor]:
    """Run the model once and return the output of each of these layers."""
    seen: list[Tensor] = []

    def keep_output(layer: nn.Module, args: tuple, output: Tensor) -> None:
        seen.append(output)

    with contextlib.ExitStack() as hooks:
        for layer in layers:
            hooks.enter_context(layer.register_forward_hook(keep_output))
        model(inputs)
    return seen


def require_transformer(model: nn.Module, probe: str) -> Transformer:
    """Refuse any network that is not a transformer."""
    if not isinstance(model, Transformer):
        raise TypeError(f"probe {probe!r} needs a Transformer, got {type(model).__name__}")
    return model


class Watcher(Observer):
    """An observer whose result is `seen`, filled in at its steps."""

    def __init__(self, name: str, steps: tuple[int, ...] = (), batch: Any = None):
        self.name, self.steps, self.batch = name, steps, batch
        self.seen: dict[str, Any] = {}

    def result(self, model: nn.Module) -> dict[str, Any]:
        """Return the measurements."""
        return self.seen


def join_batches(batches: list[Batch]) -> Batch:
    """Join several batches into one."""
    return torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches])
