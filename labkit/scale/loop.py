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

from labkit.scale import checkpoint
from labkit.scale.evaluate import Evaluation
from labkit.scale.log import Log, peak_memory
from labkit.scale.parallel import Group, clip_gradients, exchange_gradients, unwrap_model
from labkit.scale.plan import Plan
from labkit.scale.sampler import Sampler
from labkit.system.provenance import collect_provenance
from labkit.training import Batch, Step, compute_objective, take_steps


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


class Passes(Step):
    """A step whose batch is divided over several passes in several processes."""

    norm = math.nan  # of the whole gradient

    def __init__(
        self,
        plan: Plan,
        group: Group,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        stop: Callable[[], tuple[bool, bool]],
    ):
        super().__init__(unwrap_model(model), plan.training, optimizer)
        self.plan, self.group, self.model, self.stop = plan, group, model, stop
        self.wanted = self.late = 0.0  # in how many processes the two reasons to stop hold

    def compute_gradients(self) -> None:
        """Compute the mean loss over all passes and processes, and its gradients."""
        plan, group, inputs = self.plan, self.group, self.inputs
        assert isinstance(inputs, torch.Tensor)
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), dtype=torch.float64, device=group.device)
        parts = (part.split(plan.micro_batch) for part in (inputs, self.targets))
        for number, (x, y) in enumerate(zip(*parts, strict=True), 1):
            with exchange_gradients(self.model, last=number == plan.accumulate):
                with self.use_autocast():
                    loss, minimized = compute_objective(self.model, x, y)
                # Every pass of every process has equally many tokens: the mean of means is exact.
                (minimized / plan.accumulate).backward()
            total += loss.detach()
        mean = total / plan.accumulate / group.world
        self.loss, self.wanted, self.late = group.sum_values(mean, *self.stop())

    def clip_gradients(self) -> None:
        """Measure the gradient's norm, and shorten it to what is allowed."""
        self.norm = clip_gradients(self.model, self.config.clip)


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
        with _asked_to_stop() as asked, self._build_bar() as bar:
            step = Passes(
                self.plan,
                self.group,
                self.model,
                self.optimizer,
                stop=lambda: (asked(), time.monotonic() > limit),
            )
            for number in take_steps(step, range(self.done, config.steps), self._draw_batches()):
                self.done = number + 1
                self._write_step(step)
                bar.set_postfix(loss=f"{step.loss:.3f}", refresh=False)
                bar.update()
                if self.done == config.steps:
                    break
                if config.eval_every and self.done % config.eval_every == 0:
                    self._evaluate_model()
                if step.wanted or step.late:
                    return self._end_run("asked" if step.wanted else "minutes")
                if config.save_every and self.done % config.save_every == 0:
                    self._save_checkpoint()
        if self.done < config.steps:
            self.log.write_line(diverged_at=self.done)
            return self._end_run("diverged")
        self._evaluate_model()
        return self._end_run("finished")

    def _draw_batches(self) -> Iterator[list[Batch]]:
        batch, device = self.plan.config.batch, self.group.device
        while True:
            self._began = time.monotonic()
            drawn = self.sampler.read_batch(self.done, batch, self.group.rank, self.group.world)
            inputs, targets = (part.to(device) for part in drawn)
            yield [(inputs, targets)]

    def _write_step(self, step: "Passes") -> None:
        tokens = self.plan.tokens_per_step
        self.log.write_line(
            step=self.done - 1,
            loss=step.loss,
            lr=step.optimizer.param_groups[0]["lr"],
            grad_norm=step.norm,
            tokens=self.done * tokens,
            tokens_per_second=tokens / (time.monotonic() - self._began),
            peak_memory=peak_memory(self.group.device),
        )

    def _evaluate_model(self) -> None:
        measured = self.evaluation.measure_loss(self.model, self.plan.config.residual)
        self.log.write_line(after=self.done, **measured)

    def _save_checkpoint(self, diverged_at: int | None = None) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        config = self.plan.config
        self.log.sync_lines()  # a checkpoint never knows of steps that the log may still lose
        checkpoint.save_checkpoint(
            Path(config.out) / "checkpoints",
            unwrap_model(self.model),
            self.optimizer,
            {
                "step": self.done,
                "sequences": self.done * config.batch,
                "diverged_at": diverged_at,
                "config": asdict(config),
                "data": self.data,
                "versions": collect_provenance(unwrap_model(self.model)),
            },
            writes=self.group.first,
            keep=config.keep,
        )

    def _end_run(self, reason: str) -> Outcome:
        diverged_at = self.done if reason == "diverged" else None
        self._save_checkpoint(diverged_at)
        return Outcome(reason, self.done, diverged_at)

    def _build_bar(self) -> tqdm:
        steps, silent = self.plan.config.steps, not self.group.first
        return tqdm(total=steps, initial=self.done, desc="train", disable=silent, delay=3)


@contextmanager
def _asked_to_stop() -> Iterator[Callable[[], bool]]:
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
