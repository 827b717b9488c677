"""Norms of gradients, by layer and step."""

from collections.abc import Callable

from torch import nn

from labkit.corpora import Corpus
from labkit.probes.look import Watcher
from labkit.training import Observer


class GradientNorms(Watcher):
    """Frobenius norm of the gradient of each block's feed-forward output matrix, by step.

    Result: {"step": [one number per block, first block first]}.
    """

    def after_backward(self, step: int, model: nn.Module) -> None:
        """Measure the gradients at the chosen steps."""
        if step in self.steps:
            self.seen[str(step)] = [
                0.0 if weight.grad is None else weight.grad.norm().item()
                for name, weight in model.named_parameters()
                if name.endswith("feed_forward.sublayer.down.weight")
            ]


class GradientProfile(Watcher):
    """Frobenius norm of the gradient of all matrices of each block, before clipping.

    Result: {"step": {"block": [one number per block, first block first]}}. Steps count from 1.
    Gains and shifts do not count, because they are vectors. Steps that were not reached are
    missing.
    """

    def after_backward(self, step: int, model: nn.Module) -> None:
        """Measure the gradients at the chosen steps."""
        if step + 1 not in self.steps:
            return
        squares: dict[int, float] = {}
        for path, weight in model.named_parameters():
            stack, *rest = path.split(".")
            if stack != "blocks" or weight.ndim < 2:
                continue
            block = int(rest[0])
            size = 0.0 if weight.grad is None else weight.grad.norm().item() ** 2
            squares[block] = squares.get(block, 0.0) + size
        self.seen[str(step + 1)] = {"block": [squares[i] ** 0.5 for i in sorted(squares)]}


class GradientExtremes(Watcher):
    """Largest gradient entry by kind of parameter, to find which overflows first.

    Result: {"step": {"norms": …, "matrices": …, "embedding": …, "output": …}}, before clipping. The
    vectors in a layer are its norms' gains and shifts. Steps count from 1.
    """

    def after_backward(self, step: int, model: nn.Module) -> None:
        """Measure the gradients at the chosen steps."""
        if step + 1 not in self.steps:
            return
        largest: dict[str, float] = {}
        for path, weight in model.named_parameters():
            if weight.grad is None:
                continue
            first = path.split(".")[0]
            ends = first if first in ("embedding", "output") else "matrices"
            kind = "norms" if weight.ndim < 2 else ends
            # torch's maximum, unlike Python's, keeps a NaN
            found = weight.grad.new_tensor([largest.get(kind, 0.0), weight.grad.abs().max()])
            largest[kind] = found.max().item()
        self.seen[str(step + 1)] = largest


# The first steps of a run, one by one; then fewer.
EARLY = (*range(11), *range(12, 21, 2), 24, 28, 32, 40, 50, 60, 80, 100, 120, 140)

PROBES: dict[str, Callable[[Corpus], Observer]] = {
    "gradient-at-start": lambda corpus: GradientNorms("gradient-at-start", (0,)),
    "gradient-by-steps": lambda corpus: GradientNorms("gradient-by-steps", EARLY),
    "gradient-profile": lambda corpus: GradientProfile("gradient-profile", (1, 2, 5, 20, 100)),
    "gradient-extremes": lambda corpus: GradientExtremes("gradient-extremes", (1, 5, 20, 100, 150)),
}
