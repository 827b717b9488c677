"""What a run will be, settled before it starts: how a step is divided, what it takes or forbids.

batch = processes × micro-batch × accumulated passes, in sequences

Its memory is counted on tensors without storage, before it takes any:

states         16 bytes a parameter: weight, gradient and Adam's two moments, in float32
activations    what one micro-batch's forward pass keeps for its backward pass
"""

import json
import os
import shutil
from dataclasses import asdict, dataclass

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from labkit.costs.operations import kept_bytes
from labkit.model import ModelConfig
from labkit.norms import NORMS
from labkit.scale.config import ScaleConfig
from labkit.scale.parallel import Group, choose_parallel
from labkit.scale.shards import Shards
from labkit.scale.sizes import count_parameters
from labkit.system.units import in_words
from labkit.training import TrainConfig, loss_of


@dataclass(frozen=True)
class Memory:
    """Bytes of one process."""

    states: int
    activations: int | None  # None: the model looks at values, and cannot be run without them

    def __str__(self) -> str:
        states = f"{in_words(self.states)} weights, gradients and optimizer"
        if self.activations is None:
            return f"{states} a process; activations unknown with this norm"
        total = in_words(self.states + self.activations)
        return f"{total} a process: {states}, {in_words(self.activations)} activations"


@dataclass(frozen=True)
class Plan:
    """A run as it will be trained here."""

    config: ScaleConfig
    model: ModelConfig
    training: TrainConfig
    parallel: str  # none, ddp or fsdp2
    world: int
    micro_batch: int
    accumulate: int
    parameters: int
    memory: Memory
    train_tokens: int

    @property
    def half(self) -> bool:
        """Return whether matrix products are in bfloat16."""
        return self.training.precision == "bf16"

    @property
    def tokens_per_step(self) -> int:
        """Count the tokens of a global batch."""
        return self.config.batch * self.model.context

    def __str__(self) -> str:
        config, model = self.config, self.model
        total = self.tokens_per_step * config.steps
        epochs = total / self.train_tokens
        rows = {
            "model": f"{model.recipe}, {model.norm_name}, size {config.size}: dim {model.dim}, "
            f"{model.depth} blocks, {model.heads} heads ({model.kv_heads or model.heads} for keys "
            f"and values), hidden {model.hidden_dim}, initialization {model.init_name}",
            "parameters": f"{self.parameters:,} ({model.vocab:,} tokens in the vocabulary, "
            f"{'tied' if model.tie else 'output matrix of its own'})",
            "a step": f"{self.tokens_per_step:,} tokens = {config.batch} sequences × "
            f"{model.context:,}: {self.world} process{'es' * (self.world > 1)} ({self.parallel}) × "
            f"{self.micro_batch} × {self.accumulate} pass{'es' * (self.accumulate > 1)}",
            "all steps": f"{config.steps:,}: {total:,} tokens, {epochs:.3g} × the training tokens",
            "precision": f"{config.precision} matrix products, float32 weights",
            "memory": f"about {self.memory}",
            "settings": json.dumps({**asdict(config), "warmup": self.training.warmup}),
        }
        return "\n".join(f"{name:<11} {text}" for name, text in rows.items())


def settle_plan(config: ScaleConfig, group: Group, shards: Shards) -> Plan:
    """Divide a step among the processes; ValueError says which settings contradict one another."""
    parallel, training = choose_parallel(config.parallel, group.world), config.training()
    model = config.model(shards.vocab)
    micro, accumulate = _divide_batch(config, group.world)
    batch_norm = getattr(NORMS[model.norm_name], "takes_mask", False)
    if batch_norm and group.world * accumulate > 1:
        raise ValueError(
            f"norm {model.norm_name!r} takes statistics over the batch, which {group.world} "
            f"processes × {accumulate} passes would cut up; take one process and leave "
            "--micro-batch out, or another norm"
        )
    if config.deterministic and group.device.type != "cuda":
        raise ValueError("--deterministic is for CUDA; on the CPU every run is; leave it out")
    if config.formulas and group.device.type != "cuda":
        raise ValueError("--formulas is for CUDA; on the CPU there are no kernels; leave it out")
    if config.compile and not _has_compiler(group.device.type):
        raise ValueError(
            "--compile needs a C++ compiler (CXX, g++ or clang++) on the CPU, found none; leave "
            "it out: nothing depends on it"
        )
    count = count_parameters(model)
    return Plan(
        config,
        model,
        training,
        parallel,
        group.world,
        micro,
        accumulate,
        count,
        estimate_memory(
            model,
            count,
            micro,
            config.precision == "bfloat16",
            group.world if parallel == "fsdp2" else 1,
            moments=2 if config.optimizer == "adamw" else 1,
        ),
        shards.count_tokens("train"),
    )


def estimate_memory(
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
    with (
        FakeTensorMode(allow_non_fake_inputs=True),
        torch.autocast("cpu", torch.bfloat16, enabled=half),
    ):
        model = model.to_empty(device="cpu")
        tokens = torch.zeros(micro_batch, config.context, dtype=torch.int64)
        try:
            kept = kept_bytes(lambda: loss_of(model, tokens, tokens), model.parameters())
        except DataDependentOutputException:  # PowerNorm reads how often it was called
            kept = None
    return Memory(4 * (2 + moments) * count // shards, kept)


def _divide_batch(config: ScaleConfig, world: int) -> tuple[int, int]:
    """Return the sequences of one pass, and the passes of one step."""
    if config.batch % world:
        raise ValueError(
            f"--batch ({config.batch} sequences) must be a multiple of the {world} processes; "
            f"take {max(1, round(config.batch / world)) * world}"
        )
    share = config.batch // world
    micro = share if config.micro_batch is None else config.micro_batch
    if share % micro:
        fits = [n for n in range(1, share + 1) if share % n == 0]
        raise ValueError(
            f"--micro-batch ({micro}) must divide the {share} sequences of a process (--batch "
            f"{config.batch} over {world}); take one of {', '.join(map(str, fits))}"
        )
    return micro, share // micro


def _has_compiler(device: str) -> bool:
    names = (os.environ.get("CXX", ""), "g++", "clang++")
    return device == "cuda" or any(name and shutil.which(name) for name in names)
