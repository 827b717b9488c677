"""A step as a CUDA graph: its kernels are launched once, and replayed.

A small model's step is hundreds of kernels of a few microseconds each, and Python needs longer to
ask for one. After `WARM` ordinary calls, which let libraries choose and allocate, the call is
recorded; from then on one launch replays it on the same memory. So the call must work on tensors
that stay where they are and must not ask what they hold, as `Step.look` and `Step.move` do.

Not tried on a GPU yet: nothing but the code around the capture has run, on a CPU. A call that
cannot be captured goes on as it is, and `reason` says why.
"""

from collections.abc import Callable

import torch

from labkit.experiments.replicates.step import Step
from labkit.training import Steps

WARM = 3


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
            self._capture(self._stream)
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
        """Say what became of the graph."""
        if self.graph is not None:
            return "captured"
        return self.reason or f"not captured: {self.calls} calls, and {WARM} come before"

    def _capture(self, stream: torch.cuda.Stream) -> None:
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
    """A step whose `look` and `move` become graphs. Nothing of the step refers back to it."""

    def __init__(self, step: Step):
        self.models, self.config, self.put = step.models, step.config, step.put
        self.going, self.history = step.going, step.history
        self.graphs = [Captured(call, step.losses.device) for call in (step.look, step.move)]
        self.look, self.move = self.graphs

    def __str__(self) -> str:
        """Say what became of the graphs: of the one that failed, if one did."""
        return str(next((one for one in self.graphs if one.graph is None), self.graphs[0]))
