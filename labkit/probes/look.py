"""Look at a model without leaving a trace, and keep what its layers put out."""

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from labkit.model import Transformer


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

    def keep_output(layer: nn.Module, args: tuple, output: Tensor) -> None:
        seen.append(output)

    hooks = [layer.register_forward_hook(keep_output) for layer in layers]
    try:
        model(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return seen
