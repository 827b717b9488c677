"""The loss on held-out windows, the same ones whatever the number of processes."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.probes.look import untouched
from labkit.scale.parallel import Group, unwrap_model
from labkit.scale.sampler import Sampler


class Evaluation:
    """Measure a model on the first windows of a held-out split."""

    def __init__(
        self, sampler: Sampler, sequences: int, micro_batch: int, group: Group, half: bool
    ):
        self.sampler, self.micro_batch = sampler, micro_batch
        self.group, self.half = group, half
        self.sequences = min(sequences, sampler.windows)
        shares = np.array_split(np.arange(self.sequences), group.world)
        self._mine = shares[group.rank]
        # FSDP2's processes must run equally many forward passes.
        self._passes = -(-len(shares[0]) // micro_batch)

    def measure_loss(self, model: nn.Module, residual: bool = False) -> dict[str, float]:
        """Return the mean loss in nats per token, and the largest block's RMS of the stream."""
        total = torch.zeros((), dtype=torch.float64, device=self.group.device)
        with untouched(model, training=False), _watch_blocks(model, residual) as squares:
            for number in range(self._passes):
                places = self._mine[number * self.micro_batch :][: self.micro_batch]
                if len(places):
                    total += self._sum_losses(model, *self.sampler.read_windows(places))
                else:  # only to keep step with the others
                    before = squares.clone()
                    self._sum_losses(model, *self.sampler.read_windows(np.array([0])))
                    squares.copy_(before)
        loss, *sums = self.group.sum_values(total, *squares)
        tokens = self.sequences * self.sampler.time
        measured = {"validation_loss": loss / tokens}
        if residual:
            dim = unwrap_model(model).config.dim
            measured["residual_rms"] = (max(sums) / (tokens * dim)) ** 0.5
        return measured

    def _sum_losses(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        device = self.group.device
        with torch.autocast(device.type, torch.bfloat16, enabled=self.half):
            logits = model(inputs.to(device)).flatten(0, -2)
        flat = targets.to(device).flatten()
        return F.cross_entropy(logits.float(), flat, reduction="sum").double()


@contextmanager
def _watch_blocks(model: nn.Module, residual: bool) -> Iterator[Tensor]:
    """Add up the squares of what each block puts out; nothing where `residual` is off."""
    blocks = list(unwrap_model(model).blocks) if residual else []
    device = next(model.parameters()).device
    squares = torch.zeros(len(blocks), dtype=torch.float64, device=device)

    def make_adder(number: int):
        def add_squares(block: nn.Module, args: tuple, output: Tensor) -> None:
            squares[number].add_(output.double().square().sum())

        return add_squares

    hooks = [block.register_forward_hook(make_adder(i)) for i, block in enumerate(blocks)]
    try:
        yield squares
    finally:
        for hook in hooks:
            hook.remove()
