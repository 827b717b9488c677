"""One step, divided over passes and processes, and one evaluation."""

import math

import numpy as np
import torch
from torch import nn
from torch.distributed.tensor import DTensor

from labkit.probes.look import untouched
from labkit.scale.parallel import Group, exchange_gradients, unwrap_model
from labkit.scale.windows import Windows
from labkit.training import Step, TrainConfig, compute_objective, loss_of

HELD_OUT = 64  # sequences of an evaluation


class DividedStep(Step):
    """A step whose batch is divided over several passes in several processes."""

    norm = math.nan  # of the whole gradient

    def __init__(
        self,
        model: nn.Module,
        training: TrainConfig,
        optimizer: torch.optim.Optimizer,
        group: Group,
        micro_batch: int,
    ):
        super().__init__(unwrap_model(model), training, optimizer)
        self.model, self.group, self.micro_batch = model, group, micro_batch

    def compute_gradients(self) -> None:
        """Compute the mean loss over all passes and processes, and its gradients."""
        self.optimizer.zero_grad(set_to_none=True)
        assert isinstance(self.inputs, torch.Tensor)
        passes = [part.split(self.micro_batch) for part in (self.inputs, self.targets)]
        many = len(passes[0])
        total = torch.zeros((), dtype=torch.float64, device=self.group.device)
        for number, (inputs, targets) in enumerate(zip(*passes, strict=True), 1):
            with exchange_gradients(self.model, last=number == many):
                with self.use_autocast():
                    loss, minimized = compute_objective(self.model, inputs, targets)
                # Every pass of every process has equally many tokens: the mean of means is exact.
                (minimized / many).backward()
            total += loss.detach()
        mean = total / many / self.group.world
        (self.loss,) = self.group.sum_values(mean)

    def clip_gradients(self) -> None:
        """Measure the gradient's norm, and shorten it to what is allowed."""
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip or math.inf)
        self.norm = float(norm.full_tensor() if isinstance(norm, DTensor) else norm)


def measure_loss(step: DividedStep, held_out: Windows) -> float:
    """Return the mean loss on the first held-out windows, in nats per token.

    Every process measures all of them: beside a step they are few.
    """
    windows = np.arange(min(HELD_OUT, held_out.count))
    total = 0.0
    with untouched(step.model, training=False), step.use_autocast():
        for first in range(0, len(windows), step.micro_batch):
            inputs, targets = held_out.read(windows[first : first + step.micro_batch])
            inputs, targets = inputs.to(step.group.device), targets.to(step.group.device)
            total += loss_of(step.model, inputs, targets).item() * len(inputs)
    return total / len(windows)
