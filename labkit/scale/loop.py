"""Train one big run: the steps, and what ends them.

A run ends when its steps are done, its minutes are over, somebody asks it to stop (SIGTERM,
Ctrl-C), or its loss is not finite; each time it leaves a checkpoint and says why. A loss that is
not finite is a result: its step is recorded, counted from 0, and the weights are those before it.
"""

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from labkit.provenance import provenance
from labkit.scale import checkpoint
from labkit.scale.evaluate import Evaluation
from labkit.scale.log import Log, peak_memory
from labkit.scale.parallel import Group, bare, clip, gradients
from labkit.scale.plan import Plan
from labkit.scale.sampler import Sampler
from labkit.training import loss_of


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    reason: str  # finished, minutes, asked or diverged
    steps: int  # that are done
    diverged_at: int | None = None  # the step (from 0) whose loss was not finite

    def __str__(self) -> str:
        return {
            "finished": f"finished: {self.steps} steps",
            "minutes": f"stopped by --minutes after {self.steps} steps; --resume goes on",
            "asked": f"stopped on request after {self.steps} steps; --resume goes on",
            "diverged": f"diverged: the loss of step {self.diverged_at} is not finite; recorded",
        }[self.reason]


@dataclass
class Training:
    """A model in training, and everything a step needs."""

    plan: Plan
    group: Group
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    sampler: Sampler
    evaluation: Evaluation
    log: Log
    data: str  # digest of the tokens
    done: int = 0  # steps

    def run(self) -> Outcome:
        """Train until something ends it."""
        config = self.plan.config
        limit = math.inf if config.minutes is None else time.monotonic() + 60 * config.minutes
        with _asked_to_stop() as asked, self._bar() as bar:
            while self.done < config.steps:
                loss, wanted, late = self._step(lambda: (asked(), time.monotonic() > limit))
                if not math.isfinite(loss):
                    return self._end("diverged")
                bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
                bar.update()
                if self.done == config.steps:
                    break
                if config.eval_every and self.done % config.eval_every == 0:
                    self._evaluate()
                if wanted or late:
                    return self._end("asked" if wanted else "minutes")
                if config.save_every and self.done % config.save_every == 0:
                    self._save()
        self._evaluate()
        return self._end("finished")

    def _step(self, stop: Callable[[], tuple[bool, bool]]) -> tuple[float, float, float]:
        """Take one step; give its loss, and in how many processes the two reasons to stop hold."""
        plan, group, began = self.plan, self.group, time.monotonic()
        rate = plan.training.lr_at(self.done)
        for part in self.optimizer.param_groups:
            part["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        inputs, targets = self._batch()
        total = torch.zeros((), dtype=torch.float64, device=group.device)
        parts = zip(inputs.split(plan.micro_batch), targets.split(plan.micro_batch), strict=True)
        for number, (x, y) in enumerate(parts, 1):
            with gradients(self.model, last=number == plan.accumulate):
                with torch.autocast(group.device.type, torch.bfloat16, enabled=plan.half):
                    loss = loss_of(self.model, x, y)
                # Every pass of every process has equally many tokens: the mean of means is exact.
                (loss / plan.accumulate).backward()
            total += loss.detach()
        mean, wanted, late = group.sum(total / plan.accumulate / group.world, *stop())
        if not math.isfinite(mean):
            self.log.write(diverged_at=self.done)
            return mean, wanted, late
        norm = clip(self.model, plan.training.clip)
        self.optimizer.step()
        bare(self.model).after_step()
        self.log.write(
            step=self.done,
            loss=mean,
            lr=rate,
            grad_norm=norm,
            tokens=(self.done + 1) * plan.tokens_per_step,
            tokens_per_second=plan.tokens_per_step / (time.monotonic() - began),
            peak_memory=peak_memory(group.device),
        )
        self.done += 1
        return mean, wanted, late

    def _batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        batch, device = self.plan.config.batch, self.group.device
        inputs, targets = self.sampler.batch(self.done, batch, self.group.rank, self.group.world)
        return inputs.to(device), targets.to(device)

    def _evaluate(self) -> None:
        measured = self.evaluation.measure(self.model, self.plan.config.residual)
        self.log.write(after=self.done, **measured)

    def _save(self, diverged_at: int | None = None) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        config = self.plan.config
        self.log.sync()  # a checkpoint never knows of steps that the log may still lose
        checkpoint.save(
            Path(config.out) / "checkpoints",
            bare(self.model),
            self.optimizer,
            {
                "step": self.done,
                "sequences": self.done * config.batch,
                "diverged_at": diverged_at,
                "config": asdict(config),
                "data": self.data,
                "versions": provenance(bare(self.model)),
            },
            writes=self.group.first,
            keep=config.keep,
        )

    def _end(self, reason: str) -> Outcome:
        diverged_at = self.done if reason == "diverged" else None
        self._save(diverged_at)
        return Outcome(reason, self.done, diverged_at)

    def _bar(self) -> tqdm:
        steps, silent = self.plan.config.steps, not self.group.first
        return tqdm(total=steps, initial=self.done, desc="train", disable=silent, delay=3)


@contextmanager
def _asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Notice SIGTERM and Ctrl-C instead of dying of them; a second Ctrl-C is not waited for."""
    asked: list[int] = []

    def notice(number: int, frame: Any) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)

    before = {number: signal.signal(number, notice) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
