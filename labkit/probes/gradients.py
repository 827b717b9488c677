"""Sizes of gradients, by layer and step."""

from torch import nn

from labkit.training import Observer


class GradientNorms(Observer):
    """Frobenius norm of the gradient of each block's feed-forward output matrix, by step.

    Result: {"step": [one number per block, first block first]}.
    """

    def __init__(self, name: str, steps: tuple[int, ...]):
        self.name, self.steps, self.seen = name, steps, {}

    def after_backward(self, step: int, model: nn.Module) -> None:
        """Read the gradients at the chosen steps."""
        if step in self.steps:
            self.seen[str(step)] = [
                0.0 if weight.grad is None else weight.grad.norm().item()
                for name, weight in model.named_parameters()
                if name.endswith("feed_forward.sublayer.down.weight")
            ]

    def result(self, model: nn.Module) -> dict[str, list[float]]:
        """Return what was read."""
        return self.seen
