"""One step of training for N rows: everything it reads and writes stays where it is.

    put      batches and numbers are copied into their places
    look     a loss and a gradient for each row; a row whose loss is not finite stops here
    move     clipping, the optimizer, the models' own `after_step`; rows that stopped stay

The order of these is `labkit.training.take_steps`. No line of `look` and `move` asks a tensor what
it holds: rows that have stopped are computed like all others, and what they were is put back. So
both can be CUDA graphs (`Recorded`): a small model's step is hundreds of kernels of a few
microseconds each, and Python needs longer to ask for one. After `WARM` ordinary calls, which let
libraries choose and allocate, a call is recorded; from then on one launch replays it on the same
memory. Not tried on a GPU yet: nothing but the code around the capture has run, on a CPU. A call
that cannot be captured goes on as it is, and `reason` says why.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from labkit.experiments.replicates.alike import NotTogether
from labkit.experiments.replicates.optimizer import Optimizer, numbers_of
from labkit.experiments.replicates.stack import Stack
from labkit.training import Batch, Inputs, Steps, TrainConfig, use_autocast

LOOK_EVERY = 50  # steps between two looks whether any row goes on; a look waits for the GPU
WARM = 3  # calls before one is captured


class Step(Steps):
    """A stack of models, the state of its optimizers, and a place for each step's batches.

    Every batch of every row has the parts, shapes and dtypes of the first; NotTogether says which
    has not.
    """

    def __init__(
        self,
        stack: Stack,
        configs: Sequence[TrainConfig],
        decays: Sequence[float],
        batches: Sequence[Batch],
    ):
        self.config = configs[0]
        self.stack, self.models, weights = stack, stack.models, stack.weights
        self.layout = _describe_layout(batches[0])
        self.inputs, self.targets = self._stack_batches(batches, weights.device)
        with use_autocast(self.config, weights.device):
            stack.rehearse_step(self.inputs, self.targets)
        self.optimizer = Optimizer(weights, stack.gradients, configs)
        self.table = numbers_of(configs, decays).to(weights)
        self.numbers = torch.empty_like(self.table[0])
        self.losses = weights.new_zeros(len(weights))
        self.past = weights.new_full((configs[0].steps, len(weights)), torch.nan)
        self.alive = torch.ones(len(weights), dtype=torch.bool, device=weights.device)
        self._weights = _Kept([weights])
        self._buffers = _Kept(list(stack.buffers.values()))

    def place_batches(self, number: int, batches: Sequence[Batch]) -> None:
        """Bring the batches and the numbers of a step to their places."""
        new = self._stack_batches(batches, self.targets.device)
        for place, part in zip(
            _list_parts((self.inputs, self.targets)), _list_parts(new), strict=True
        ):
            if place is not None and part is not None:
                place.copy_(part)
        self.numbers.copy_(self.table[number])

    def compute_gradients(self) -> None:
        """Compute losses and gradients; note which rows go on."""
        stack = self.stack
        self._buffers.copy_tensors()
        with use_autocast(self.config, stack.weights.device):
            losses, totals, made = stack.compute_losses(self.inputs, self.targets)
        slopes = torch.autograd.grad(totals.sum(), list(stack.parameters.values()))
        with torch.no_grad():
            for place, slope in zip(stack.slopes.values(), slopes, strict=True):
                place.copy_(slope)
            for name, buffer in made.items():
                stack.buffers[name].copy_(buffer)
            self._buffers.put_back(self.alive)
            self.losses.copy_(losses)
            self.alive.logical_and_(losses.isfinite())

    def note_losses(self, number: int, watched: bool) -> Sequence[int]:
        """Note the losses; say which rows go on, all of them where nobody needs to know."""
        self.past[number] = self.losses
        if watched or number % LOOK_EVERY == 0:
            return [row for row, alive in enumerate(self.alive.tolist()) if alive]
        return range(len(self.models))

    @torch.no_grad()
    def update_models(self) -> None:
        """Update the rows that go on."""
        self._weights.copy_tensors()
        self._buffers.copy_tensors()
        self.optimizer(self.numbers)
        self.stack.after_step()
        self._weights.put_back(self.alive)
        self._buffers.put_back(self.alive)

    def list_losses(self) -> list[list[float]]:
        """Return every row's losses, those after it stopped among them; waits for the GPU."""
        return self.past.T.tolist()

    def _stack_batches(
        self, batches: Sequence[Batch], device: torch.device
    ) -> tuple[Inputs, Tensor]:
        """Stack one batch a row, in memory from which a GPU copies while others compute."""
        for batch in batches:
            # A part that one row lacks would be left out for all, and a smaller one be spread.
            if (layout := _describe_layout(batch)) != self.layout:
                raise NotTogether(
                    "batches of rows that train together have the same parts at every step, but "
                    f"one has {_format_layout(layout)} and another {_format_layout(self.layout)}"
                )
        columns = [
            _stack_column(parts, device) for parts in zip(*map(_list_parts, batches), strict=True)
        ]
        *inputs, targets = columns
        whole = tuple(inputs) if isinstance(batches[0][0], tuple) else inputs[0]
        assert whole is not None and targets is not None
        return whole, targets


class _Kept:
    """Copies of tensors, to put back what rows that stopped were."""

    def __init__(self, tensors: list[Tensor]):
        self.tensors, self.copies = tensors, [torch.empty_like(tensor) for tensor in tensors]

    def copy_tensors(self) -> None:
        for copy, tensor in zip(self.copies, self.tensors, strict=True):
            copy.copy_(tensor)

    def put_back(self, alive: Tensor) -> None:
        for copy, tensor in zip(self.copies, self.tensors, strict=True):
            rows = alive.view(-1, *[1] * (tensor.ndim - 1))
            torch.where(rows, tensor, copy, out=tensor)


def _list_parts(batch: Batch) -> tuple[Tensor | None, ...]:
    inputs, targets = batch
    return (*inputs, targets) if isinstance(inputs, tuple) else (inputs, targets)


def _describe_layout(batch: Batch) -> tuple[Any, ...]:
    """Return what a batch is made of: a tuple or not, and the shape and dtype of every part."""
    held = (
        None if part is None else (tuple(part.shape), part.dtype) for part in _list_parts(batch)
    )
    return isinstance(batch[0], tuple), *held


def _format_layout(layout: tuple[Any, ...]) -> str:
    parts = ["none" if part is None else f"{part[1]} {part[0]}" for part in layout[1:]]
    return f"({', '.join(parts)})"


def _stack_column(parts: Sequence[Tensor | None], device: torch.device) -> Tensor | None:
    held = [part for part in parts if part is not None]
    if not held:
        return None
    whole = torch.stack(held)
    if device.type == "cuda" and whole.device.type == "cpu":
        return whole.pin_memory().to(device, non_blocking=True)
    return whole.to(device)


class Captured:
    """A call that becomes a CUDA graph; on a CPU it stays a call."""

    def __init__(self, call: Callable[[], None], device: torch.device):
        self.call, self.calls, self.graph = call, 0, None
        self.reason = "" if device.type == "cuda" else "graphs are CUDA's"
        self._stream = torch.cuda.Stream(device) if not self.reason else None

    def __call__(self) -> None:
        """Do what the call does."""
        if self._stream is None:
            return self.call()
        if self.graph is None and self.calls >= WARM and not self.reason:
            self._capture_graph(self._stream)
        self.calls += 1
        if self.graph is not None:
            return self.graph.replay()
        if self.reason:
            return self.call()
        # Warm-up belongs on another stream than the default one, which cannot be captured.
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self.call()
        torch.cuda.current_stream().wait_stream(self._stream)
        return None

    def __str__(self) -> str:
        """Return what became of the graph."""
        if self.graph is not None:
            return "captured"
        return self.reason or f"not captured: {self.calls} calls, and {WARM} come before"

    def _capture_graph(self, stream: torch.cuda.Stream) -> None:
        graph, before, cause = torch.cuda.CUDAGraph(), torch.cuda.current_stream(), ""
        try:
            with torch.cuda.graph(graph, stream=stream):
                try:
                    self.call()
                except RuntimeError as error:
                    cause = str(error)  # the capture's end hides it behind an error of its own
                    raise
        except RuntimeError as error:
            torch.cuda.set_stream(before)  # a capture that fails leaves its own current
            self.reason = f"not captured: {(cause or str(error)).strip().partition(chr(10))[0]}"
        else:
            self.graph = graph


class Recorded(Steps):
    """`compute_gradients` and `update_models` become graphs. Nothing of the step refers back."""

    def __init__(self, step: Step):
        self.models, self.config, self.place_batches = step.models, step.config, step.place_batches
        self.note_losses, self.list_losses = step.note_losses, step.list_losses
        self.graphs = [
            Captured(call, step.losses.device)
            for call in (step.compute_gradients, step.update_models)
        ]
        self.compute_gradients, self.update_models = self.graphs

    def __str__(self) -> str:
        """Return what became of the graphs: of the one that failed, if one did."""
        return str(next((one for one in self.graphs if one.graph is None), self.graphs[0]))
