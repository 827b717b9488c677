"""One big run: a transformer of any recipe and norm, divided over processes by FSDP2.

    torchrun --nproc-per-node=2 big_run.py --tokens book.txt --out build/run --recipe 'hybrid*'

Processes talk by nccl where torch sees GPUs, one for each process, else by gloo. The same command
goes on from the last checkpoint, with any number of processes. Change the file as you need it.

TOKENS                one flat file of numbers, read as a memory map. A text is one already: bytes,
                      a vocabulary of 256. Those of a tokenizer, with --vocab and --dtype uint16:
                      np.array(tokens, np.uint16).tofile("book.bin")
OUT/log.jsonl         a line for each step: {"step": 7, "loss": …, "lr": …, "norm": …}, from 0 on;
                      steps that saved have the "validation" loss, too
OUT/step-00000500/    weights and optimizer after 500 steps (torch.distributed.checkpoint). Part of
                      this format is a pickle: load only checkpoints that you trust

FSDP2 refuses recipes with a single number as a parameter, such as `dyt`. A norm that pools over the
batch pools over one pass of one process.
"""

import json
import math
import os
import shutil
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.fsdp import fully_shard
from torch.optim import Optimizer

from labkit import ModelConfig, TrainConfig
from labkit.fused import fuse
from labkit.training import compute_objective, make_optimizer, prepare_model, use_autocast

COUNTS = {"vocab": 256, "dim": 768, "depth": 12, "heads": 16, "context": 1024}
COUNTS |= {"batch": 256, "micro_batch": 8, "steps": 10_000, "save_every": 500, "seed": 0}
Pass = tuple[Tensor, Tensor]  # inputs, targets


def read_settings() -> Namespace:
    """Read the command line; batches are of windows, and of all processes together."""
    parser = ArgumentParser(formatter_class=ArgumentDefaultsHelpFormatter)
    parser.add_argument("--tokens", type=Path, required=True, help="flat file of tokens")
    parser.add_argument("--out", type=Path, required=True, help="folder of log and checkpoints")
    parser.add_argument("--dtype", default="uint8", help="NumPy's name for the file's numbers")
    parser.add_argument("--recipe", default="pre", help="where the norms sit (labkit show)")
    parser.add_argument("--norm", default="rms", help="which norm, where the recipe has none")
    parser.add_argument("--lr", type=float, default=3e-4, help="highest learning rate")
    for name, count in COUNTS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=count, help="count")
    settings = parser.parse_args()
    if not settings.tokens.is_file():
        parser.error(f"--tokens must be a file, but there is no {settings.tokens}")
    return settings


@lru_cache(maxsize=2)
def draw_order(seed: int, epoch: int, count: int) -> np.ndarray:
    """Draw the order in which an epoch visits each window once."""
    return np.random.RandomState([seed, epoch]).permutation(count)


class Windows:
    """Windows of `context` tokens; the last ones, a batch of them, are held out."""

    def __init__(self, settings: Namespace, device: torch.device):
        self.tokens = np.memmap(settings.tokens, settings.dtype, "r")
        self.settings, self.device, self.time = settings, device, settings.context
        self.count = (len(self.tokens) - 1) // self.time - settings.batch
        if self.count < 1:
            least = (settings.batch + 1) * self.time + 1
            raise SystemExit(f"--tokens must have {least:,} or more, got {len(self.tokens):,}")
        self.held_out = [*range(self.count, self.count + settings.batch)]

    def choose(self, step: int) -> list[int]:
        """Choose the windows of a step: they depend on step and seed, not on the processes."""
        first, seed = step * self.settings.batch, self.settings.seed
        places = (divmod(place, self.count) for place in range(first, first + len(self.held_out)))
        return [int(draw_order(seed, epoch, self.count)[at]) for epoch, at in places]

    def read(self, windows: list[int]) -> Pass:
        """Read inputs and targets, the same tokens one place further: int64 (windows, time)."""
        rows = [self.tokens[n * self.time : (n + 1) * self.time + 1] for n in windows]
        tokens = torch.from_numpy(np.stack(rows).astype(np.int64)).to(self.device)
        return tokens[:, :-1], tokens[:, 1:]

    def read_passes(self, windows: list[int]) -> list[Pass]:
        """Read this process' share of a batch, cut into passes of --micro-batch windows."""
        rank, world, micro = dist.get_rank(), dist.get_world_size(), self.settings.micro_batch
        if len(windows) % (world * micro):
            raise SystemExit(f"--batch must be a multiple of {world} processes × {micro}")
        inputs, targets = self.read(np.array_split(windows, world)[rank].tolist())
        return list(zip(inputs.split(micro), targets.split(micro), strict=True))


def shard_model(model: Any) -> None:
    """Divide the weights over the processes, block by block.

    FSDP2 hands a block a copy of its context, a dataclass: what the block writes is brought back.
    """

    def share_context(block: nn.Module) -> None:
        given = []
        block.register_forward_pre_hook(lambda _, args: given.append(args[1]), prepend=True)
        block.register_forward_hook(lambda _, args, y: vars(given.pop()).update(vars(args[1])))

    for block in model.blocks:
        fully_shard(block)
        share_context(block)
    fully_shard(model)


def compute_loss(model: Any, config: TrainConfig, passes: list[Pass]) -> float:
    """Return the mean loss over the passes of all processes; accumulate gradients if enabled."""
    total = torch.zeros((), device=passes[0][0].device)
    for number, (inputs, targets) in enumerate(passes, 1):
        model.set_requires_gradient_sync(number == len(passes))
        with use_autocast(config, inputs.device):
            loss, minimized = compute_objective(model, inputs, targets)
        if torch.is_grad_enabled():
            (minimized / len(passes)).backward()
        total += loss.detach() / len(passes)
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def collect_state(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Collect what a checkpoint holds; each process has its part."""
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments}


def save_checkpoint(out: Path, step: int, model: nn.Module, optimizer: Optimizer) -> None:
    """Write a checkpoint, which gets its name when it is whole; the newest two stay."""
    path = out / f"step-{step:08d}"
    save(collect_state(model, optimizer), checkpoint_id=path.with_suffix(".part"))
    if dist.get_rank() == 0:
        path.with_suffix(".part").rename(path)
        for old in sorted(out.glob("step-????????"))[:-2]:
            shutil.rmtree(old)


def load_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer) -> None:
    """Read each process' part of a checkpoint, whatever number of processes wrote it."""
    state = collect_state(model, optimizer)
    load(state, checkpoint_id=path)
    weights, moments = state["model"], state["optimizer"]
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)


def describe_run(settings: Namespace, gpu: bool) -> tuple[ModelConfig, TrainConfig]:
    """Describe the model and how it is trained, as labkit does it."""
    names = ("recipe", "norm", "dim", "depth", "heads", "vocab", "context")
    training = TrainConfig(
        steps=settings.steps,
        lr=settings.lr,
        betas=(0.9, 0.95),
        weight_decay=0.1,
        warmup=min(2000, settings.steps // 10),
        final_lr=0.1,
        clip=1.0,
        precision="bf16" if gpu else "float32",
    )
    return ModelConfig(**{name: getattr(settings, name) for name in names}), training


def train_model(settings: Namespace, device: torch.device) -> None:
    """Take the steps that are left, from the last checkpoint on."""
    out, windows, gpu = settings.out, Windows(settings, device), device.type == "cuda"
    described, config = describe_run(settings, gpu)
    torch.manual_seed(settings.seed)  # every process draws all weights, and keeps its part
    model: Any = described.build().to(device).train()
    if gpu:
        fuse(model)
    prepare_model(model, windows.read(windows.choose(0)[:32])[0])
    shard_model(model)
    optimizer = make_optimizer(model, config)

    out.mkdir(parents=True, exist_ok=True)
    found, done, kept_model = sorted(out.glob("step-????????")), 0, out / "model.txt"
    if found and kept_model.is_file() and kept_model.read_text() != repr(described):
        raise SystemExit(
            f"--out must be a folder of the same model, but {out} holds checkpoints of "
            f"{kept_model.read_text()}; name another folder"
        )
    if found:
        done = int(found[-1].name.removeprefix("step-"))
        load_checkpoint(found[-1], model, optimizer)
    if dist.get_rank() == 0:  # later steps are taken again
        kept = (out / "log.jsonl").read_text().splitlines(keepends=True)[:done] if done else []
        (out / "log.jsonl").write_text("".join(kept))
        kept_model.write_text(repr(described))

    for step in range(done, settings.steps):
        for group in optimizer.param_groups:
            group["lr"] = config.lr_at(step)
        optimizer.zero_grad()
        loss = compute_loss(model, config, windows.read_passes(windows.choose(step)))
        if not math.isfinite(loss):
            raise SystemExit(f"the loss of step {step} is not finite: {loss}")
        norm: Any = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        model.after_step()
        line = {"step": step, "loss": loss, "lr": config.lr_at(step)}
        line["norm"] = norm.full_tensor().item()
        saves = (step + 1) % settings.save_every == 0 or step + 1 == settings.steps
        if saves:
            model.eval()
            with torch.no_grad():
                held_out = windows.read_passes(windows.held_out)
                line["validation"] = compute_loss(model, config, held_out)
            model.train()
        if dist.get_rank() == 0:
            with (out / "log.jsonl").open("a") as log:
                log.write(json.dumps(line) + "\n")
        if saves:
            save_checkpoint(out, step + 1, model, optimizer)


if __name__ == "__main__":
    settings = read_settings()
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo")
    world = dist.group.WORLD  # kept to the end: gloo may hang where its group is freed earlier
    train_model(settings, device)
    dist.destroy_process_group()
