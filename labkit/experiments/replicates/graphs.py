"""A step of a stack as CUDA graphs: one launch replays hundreds of small kernels.

A kernel of a small model computes for a few microseconds, and Python needs longer to launch it. So
the two parts of a step, gradients and update, are captured after `WARM` ordinary calls (in which
libraries choose algorithms and allocate memory) and then replayed on the same memory; batches and
the optimizer's numbers are copied there. Neither part reads a tensor's values in Python.

If a part cannot be captured, it stays an ordinary call, and `reason` says why; the same happens to
gradients after a batch of a different shape. A counter in Python, rather than in a buffer, would
not change in a graph; no module of labkit has one.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from labkit.experiments.replicates.step import Step

WARM = 3  # ordinary calls before the capture


class Captured:
    """A call that becomes a CUDA graph; on a CPU it stays a call."""

    def __init__(self, call: Callable[[], None], device: torch.device):
        self.call, self.calls, self.graph = call, 0, None
        self.reason = "" if device.type == "cuda" else "graphs are CUDA's"
        self.stream = None if self.reason else torch.cuda.Stream(device)

    def __call__(self) -> None:
        """Run the call, or replay its graph."""
        if self.graph is None and self.stream is not None and not self.reason:
            if self.calls < WARM:
                return self._warm_up(self.stream)
            self._capture(self.stream)
        return self.call() if self.graph is None else self.graph.replay()

    def _warm_up(self, stream: Any) -> None:
        """Run the call on the stream that will be captured, because the default one cannot be."""
        self.calls += 1
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.call()
        torch.cuda.current_stream().wait_stream(stream)

    def _capture(self, stream: Any) -> None:
        """Capture the call without running it; if that fails, store the reason."""
        graph, before, cause = torch.cuda.CUDAGraph(), torch.cuda.current_stream(), ""
        try:
            with torch.cuda.graph(graph, stream=stream):
                try:
                    self.call()
                except RuntimeError as error:
                    cause = str(error)  # the end of the capture replaces it by its own error
                    raise
        except RuntimeError as error:
            torch.cuda.set_stream(before)  # a failed capture leaves its own stream current
            self.reason = (cause or str(error)).strip().partition("\n")[0]
        else:
            self.graph = graph


class GraphStep(Step):
    """A step whose gradients and update are replayed on a GPU; on a CPU, an ordinary step."""

    places: tuple[Any, Any] = None, None  # of the batches
    table: Tensor | None = None  # the optimizer's numbers of all steps

    def __init__(self, *words: Any):
        super().__init__(*words)
        device = self.stack.weights.device
        self.places, self.table = (self.inputs, self.targets), self.optimizer.numbers
        self.now = self.table[0].clone()
        # The numbers of the requested step.
        self.optimizer.numbers = self.now.expand(self.table.shape)
        self.alive = torch.ones(len(self.models), dtype=torch.bool, device=device)
        self.look = Captured(super().compute_gradients, device)
        self.move = Captured(super().update_models, device)

    @property
    def reason(self) -> str:
        """Return why a part is not replayed; "" if both are, or will be."""
        return self.look.reason or self.move.reason

    def place_batches(self, number: int, batches: Any) -> None:
        """Copy batches and the optimizer's numbers to the memory that the graphs read."""
        super().place_batches(number, batches)
        if self.table is None:  # the first batches allocate the places
            return
        self.now.copy_(self.table[number])
        new, places = _list_parts(self.inputs, self.targets), _list_parts(*self.places)
        if [*map(_describe_part, new)] != [*map(_describe_part, places)]:
            self.look.graph, self.look.reason = None, "batches differ in shape"
            return
        for place, part in zip(places, new, strict=True):
            if place is not None and part is not None:
                place.copy_(part)
        self.inputs, self.targets = self.places

    def compute_gradients(self) -> None:
        """Compute losses and gradients of all rows."""
        self.look()

    def note_losses(self) -> Sequence[int]:
        """Record the losses; return the rows that continue."""
        before = len(self.going)
        super().note_losses()
        if len(self.going) < before:
            alive = [row in self.going for row in range(len(self.models))]
            self.alive.copy_(torch.tensor(alive))
        return self.going

    def update_models(self) -> None:
        """Update the rows that continue."""
        self.move()

    @contextmanager
    def _put_back_stopped(self, *tensors: Tensor) -> Iterator[None]:
        """Restore the rows that stopped, without a branch, which a graph cannot contain."""
        kept = [(tensor, tensor.clone()) for tensor in tensors]
        yield
        for tensor, was in kept:
            rows = self.alive.view(-1, *[1] * (tensor.ndim - 1))
            tensor.copy_(torch.where(rows, tensor, was))


def _list_parts(inputs: Any, targets: Tensor) -> tuple[Tensor | None, ...]:
    return (*inputs, targets) if isinstance(inputs, tuple) else (inputs, targets)


def _describe_part(part: Tensor | None) -> Any:
    return None if part is None else (part.shape, part.dtype)
