"""Train one big run: put it together, take its steps, and say what ended it.

A run ends when its steps are done, its minutes are over, somebody asks it to stop (SIGTERM,
Ctrl-C), or its loss is not finite; each time it leaves a checkpoint and says why. A loss that is
not finite is a result: its step is recorded, counted from 0, and the weights are those before it.
"""

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from labkit.fused import fuse
from labkit.model import ModelConfig, Transformer
from labkit.norms import NORMS
from labkit.scale import checkpoints, folder, parallel
from labkit.scale.config import ScaleConfig
from labkit.scale.parallel import Group
from labkit.scale.step import DividedStep, measure_loss
from labkit.scale.tokens import open_shards
from labkit.scale.windows import Windows
from labkit.training import (
    Batch,
    make_optimizer,
    prepare_model,
    take_steps,
)

PROFILED = 32  # sequences that Admin sees before training, whatever the number of processes


def train_run(
    given: dict[str, Any], resume: bool = False, say: Callable[[str], object] = print
) -> str:
    """Train a run, in all processes that torchrun started; return how it ended.

    `given` are fields of ScaleConfig; with `resume`, what is not given is as the run's folder has
    it. ValueError where settings, tokens or the folder do not fit.
    """
    config = folder.choose_settings(given, resume)
    out = Path(config.out)
    log, found = folder.read_log(out), checkpoints.list_checkpoints(out)
    done = int(found[-1].name.removeprefix("step-")) if found else 0
    diverged = bool(log) and "diverged_at" in log[-1]
    if diverged or done == config.steps:
        return describe_end(done, config.steps, diverged)
    with parallel.join_processes(config.device) as group, ExitStack() as held:
        shards, training = open_shards(Path(config.data)), config.training()
        model_config = config.model(shards.vocab)
        how = parallel.choose_parallel(config.parallel, group.world)
        micro_batch = divide_batch(config, model_config.norm_name, group.world)
        train, held_out = (
            Windows(shards.splits[split], model_config.context, config.seed)
            for split in ("train", "validation")
        )
        model = draw_model(model_config, config, group, train)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        group.sum_values(0)  # all have read the folder before the first changes it
        if group.rank == 0:
            held.enter_context(folder.hold_folder(config, shards.index, parameters))
            folder.rewind_log(out, done)
            tokens = config.batch * train.time
            passes = config.batch // group.world // micro_batch
            say(
                f"model      {model_config.recipe}, {model_config.norm_name}, size {config.size}: "
                f"{parameters:,} parameters with {shards.vocab:,} tokens in the vocabulary\n"
                f"a step     {tokens:,} tokens = {config.batch} sequences × {train.time:,}, as "
                f"{group.world} ({how}) × {micro_batch} × {passes}: processes, sequences at once, "
                "passes\n"
                f"all steps  {config.steps:,}, from {done:,} on, in {config.precision}: "
                f"{tokens * config.steps / shards.count_tokens('train'):.3g} × the training tokens"
            )
        group.sum_values(0)
        wrapped = parallel.wrap_model(model, how, group)
        optimizer = make_optimizer(model, training)
        if found:
            checkpoints.load_checkpoint(found[-1], model, optimizer)
        step = DividedStep(wrapped, training, optimizer, group, micro_batch)
        with notice_signals() as asked:
            return take_all_steps(config, step, train, held_out, done, asked)


def describe_end(done: int, steps: int, diverged: bool) -> str:
    """Say in a sentence how a run ended."""
    if diverged:
        return f"diverged: the loss of step {done} is not finite; recorded"
    if done < steps:
        return f"stopped after {done} steps; --resume goes on"
    return f"finished: {steps} steps"


def divide_batch(config: ScaleConfig, norm: str, world: int) -> int:
    """Return the sequences of one pass in one process; ValueError where a rest would be left."""
    micro_batch = config.micro_batch or max(1, config.batch // world)
    if config.batch % (world * micro_batch):
        raise ValueError(
            f"--batch ({config.batch} sequences) must be a multiple of {world} processes × "
            f"--micro-batch ({micro_batch})"
        )
    if getattr(NORMS[norm], "takes_mask", False) and micro_batch < config.batch:
        raise ValueError(
            f"norm {norm!r} takes statistics over the batch of {config.batch}, which parts of "
            f"{micro_batch} would cut up; take one process without --micro-batch, or another norm"
        )
    return micro_batch


def draw_model(
    model_config: ModelConfig, config: ScaleConfig, group: Group, train: Windows
) -> Transformer:
    """Draw the weights on the CPU, where a seed means the same everywhere."""
    torch.manual_seed(config.seed)
    model = model_config.build().to(group.device)
    if group.device.type == "cuda":
        fuse(model)
    inputs, _ = train.read(train.choose(0, config.batch)[:PROFILED])
    prepare_model(model, inputs)
    return model.train()


def take_all_steps(
    config: ScaleConfig,
    step: DividedStep,
    train: Windows,
    held_out: Windows,
    done: int,
    asked: Callable[[], bool],
) -> str:
    """Take the steps that are left, until something ends the run; return how it ended."""
    out, group = Path(config.out), step.group
    limit = math.inf if config.minutes is None else time.monotonic() + 60 * config.minutes
    tokens, saved = config.batch * train.time, done

    def read_batch(number: int) -> list[Batch]:
        windows = train.choose(number, config.batch, group.rank, group.world)
        inputs, targets = (part.to(group.device) for part in train.read(windows))
        return [(inputs, targets)]

    def log(**values: Any) -> None:
        if group.rank == 0:
            folder.write_line(out, **values)

    bar = tqdm(total=config.steps, initial=done, desc="train", disable=group.rank > 0, delay=3)
    began = time.monotonic()
    for number in take_steps(step, range(done, config.steps), map(read_batch, count(done))):
        done = number + 1
        log(
            step=number,
            loss=step.loss,
            lr=step.optimizer.param_groups[0]["lr"],
            grad_norm=step.norm,
            tokens=done * tokens,
            tokens_per_second=tokens / (time.monotonic() - began),
        )
        bar.set_postfix(loss=f"{step.loss:.3f}", refresh=False)
        bar.update()
        last = done == config.steps
        if last or (config.eval_every and done % config.eval_every == 0):
            log(after=done, validation_loss=measure_loss(step, held_out))
        (stop,) = group.sum_values(asked() or time.monotonic() > limit)
        if last or stop:
            break
        if config.save_every and done % config.save_every == 0:
            checkpoints.save_checkpoint(out, done, step.models[0], step.optimizer, group)
            saved = done
        began = time.monotonic()
    bar.close()
    if saved < done:
        checkpoints.save_checkpoint(out, done, step.models[0], step.optimizer, group)
    diverged = not math.isfinite(step.loss)
    if diverged:
        log(diverged_at=done)
    return describe_end(done, config.steps, diverged)


@contextmanager
def notice_signals() -> Iterator[Callable[[], bool]]:
    """Notice SIGTERM and Ctrl-C instead of dying of them; a second Ctrl-C is not waited for."""
    asked: list[int] = []

    def note_signal(number: int, frame: Any) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)

    before = {
        number: signal.signal(number, note_signal) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
