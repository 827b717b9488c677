"""How much memory a run will take, before it takes any: counted on tensors without storage.

states         16 bytes a parameter: weight, gradient and Adam's two moments, in float32
activations    what one micro-batch's forward pass keeps for its backward pass
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from labkit.model import ModelConfig
from labkit.training import loss_of


@dataclass(frozen=True)
class Memory:
    """Bytes of one process."""

    states: int
    activations: int | None  # None: the model looks at values, and cannot be run without them

    def __str__(self) -> str:
        states = f"{size(self.states)} weights, gradients and optimizer"
        if self.activations is None:
            return f"{states} a process; activations unknown with this norm"
        total = size(self.states + self.activations)
        return f"{total} a process: {states}, {size(self.activations)} activations"


def estimate(
    config: ModelConfig,
    count: int,
    micro_batch: int,
    half: bool,
    shards: int = 1,
    moments: int = 2,
) -> Memory:
    """Estimate a process's memory: formulas, before kernels save; buffers between come on top.

    `count` is the number of parameters, `shards` over how many processes they are spread.
    """
    with torch.device("meta"):  # drawing weights needs values; meta tensors only pretend
        model = config.build()
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = model.to_empty(device="cpu")
        tokens = torch.zeros(micro_batch, config.context, dtype=torch.int64)
        try:
            kept = saved_bytes(model, tokens, half)
        except DataDependentOutputException:  # PowerNorm reads how often it was called
            kept = None
    return Memory(4 * (2 + moments) * count // shards, kept)


def saved_bytes(model: torch.nn.Module, tokens: Tensor, half: bool) -> int:
    """Count the bytes that a forward pass and its loss keep, without the parameters themselves."""
    own = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(x: Tensor) -> Tensor:
        storage = x.untyped_storage()
        if storage._cdata not in own:
            kept[storage._cdata] = storage
        return x

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x),
        torch.autocast("cpu", torch.bfloat16, enabled=half),
    ):
        loss = loss_of(model, tokens, tokens)
    total = sum(storage.nbytes() for storage in kept.values())
    del loss
    return total


def size(count: float) -> str:
    """Write a number of bytes."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
