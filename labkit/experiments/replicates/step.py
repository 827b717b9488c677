"""One training step for N rows of a stack: losses, gradients and updates of all at once.

`labkit.training.take_steps` defines their order. A row stops at a loss that is not finite; it is
still computed like all others, but its old values are restored.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from labkit.experiments.replicates.optimizer import Optimizer
from labkit.experiments.replicates.stack import Stack
from labkit.training import Batch, Steps, TrainConfig, use_autocast


class Step(Steps):
    """A step of a stack of models. `batches`, the first batch of each row, are for a trial step."""

    def __init__(
        self,
        stack: Stack,
        configs: Sequence[TrainConfig],
        decays: Sequence[float],
        batches: Sequence[Batch],
    ):
        self.stack, self.models, self.config = stack, stack.models, configs[0]
        self.place_batches(0, batches)
        with self._use_autocast():
            stack.rehearse_step(self.inputs, self.targets)
        decayed = stack.mark_matrices() if self.config.decayed == "matrices" else None
        self.optimizer = Optimizer(stack.weights, stack.gradients, configs, decays, decayed)
        self.going = [*range(len(self.models))]  # rows that have not stopped
        self.past: list[list[float]] = []  # the losses of each step

    def place_batches(self, number: int, batches: Sequence[Batch]) -> None:
        """Stack the batches of a step, one per row."""
        inputs, targets = zip(*batches, strict=True)
        self.number, self.targets = number, self._stack_rows(targets)
        if isinstance(inputs[0], tuple):
            self.inputs = tuple(
                None if all(part is None for part in parts) else self._stack_rows(parts)
                for parts in zip(*inputs, strict=True)
            )
        else:
            self.inputs = self._stack_rows(inputs)

    def compute_gradients(self) -> None:
        """Compute losses and gradients of all rows."""
        stack = self.stack
        with self._put_back_stopped(*stack.buffers.values()):
            with self._use_autocast():
                self.losses, totals, made = stack.compute_losses(self.inputs, self.targets)
            slopes = torch.autograd.grad(totals.sum(), list(stack.parameters.values()))
            with torch.no_grad():
                flat = [slope.reshape(len(self.models), -1) for slope in slopes]
                torch.cat(flat, dim=1, out=stack.gradients)
                for name, buffer in made.items():
                    stack.buffers[name].copy_(buffer)

    def note_losses(self) -> Sequence[int]:
        """Record the losses; return the rows that continue."""
        self.past.append(self.losses.tolist())
        self.going = [row for row in self.going if math.isfinite(self.past[-1][row])]
        return self.going

    @torch.no_grad()
    def update_models(self) -> None:
        """Update the rows that continue."""
        with self._put_back_stopped(self.stack.weights, *self.stack.buffers.values()):
            self.optimizer.update_weights(self.number)
            self.stack.after_step()

    def list_losses(self) -> list[list[float]]:
        """Return every row's losses, including those after it stopped."""
        return [list(row) for row in zip(*self.past, strict=True)]

    @contextmanager
    def _put_back_stopped(self, *tensors: Tensor) -> Iterator[None]:
        """Restore the rows that stopped."""
        stopped = [row for row in range(len(self.models)) if row not in self.going]
        kept = [(tensor, tensor[stopped]) for tensor in tensors if stopped]
        yield
        for tensor, rows in kept:
            tensor[stopped] = rows

    def _use_autocast(self):
        return use_autocast(self.config, self.stack.weights.device)

    def _stack_rows(self, parts: Sequence[Tensor]) -> Tensor:
        """Stack one tensor per row, in pinned memory, so that GPU copies overlap computation."""
        whole, device = torch.stack(list(parts)), self.stack.weights.device
        if device.type == "cuda" and whole.device.type == "cpu":
            whole = whole.pin_memory()
        return whole.to(device, non_blocking=True)
