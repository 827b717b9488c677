"""Change of a model's outputs by one training step: the quantity that DeepNorm bounds.

    ΔF = F(x, θ + Δθ) − F(x, θ)      F: the stream that the output matrix reads

`step_response` gives |ΔF| / η for a tiny rate η and one step Δθ of a kind:

    sgd       −η · gradient, on the matrices of the blocks
    sgd-all   −η · gradient, on gains, shifts and other vectors of the blocks too
    adam      −η · sign(gradient), on the matrices: the first step of Adam
    random     η · random signs, on the matrices: as long as Adam's step, independent of the loss

Source of the question: Wang et al. 2022, arXiv 2203.00555, section 4.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from labkit.corpora import Corpus
from labkit.model import Transformer
from labkit.probes.look import Watcher, untouched
from labkit.training import Inputs, Observer, loss_of

Batch = tuple[Inputs, Tensor]
MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "sgd": lambda gradient: -gradient,
    "sgd-all": lambda gradient: -gradient,
    "adam": lambda gradient: -gradient.sign(),
    "random": lambda gradient: torch.randn_like(gradient).sign(),
}


def step_response(
    model: Transformer, batch: Batch, moves: Sequence[str] = tuple(MOVES), rate: float = 1e-6
) -> dict[str, float]:
    """Return |ΔF| / rate for each kind of step: the RMS over tokens of the length of ΔF.

    Gradient and F are for the same batch. The step is taken on a float64 copy, so that rounding
    does not matter at a tiny rate; the model is not changed.
    """
    if unknown := [move for move in moves if move not in MOVES]:
        raise ValueError(f"unknown move {unknown[0]!r}; choose one of {', '.join(MOVES)}")
    copy = deepcopy(model).double()
    moved = [p for name, p in copy.named_parameters() if name.startswith(("blocks.", "encoder."))]
    with torch.enable_grad():
        gradients = torch.autograd.grad(loss_of(copy, *batch), moved, materialize_grads=True)
    found, before = {}, [parameter.detach().clone() for parameter in moved]
    start = final_stream(copy, batch[0])
    for move in moves:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            for parameter, gradient in zip(moved, gradients, strict=True):
                if parameter.ndim > 1 or move == "sgd-all":
                    parameter += rate * MOVES[move](gradient)
            found[move] = _measure_length(final_stream(copy, batch[0]) - start) / rate
            for parameter, value in zip(moved, before, strict=True):
                parameter.copy_(value)
    return found


def final_stream(model: Transformer, inputs: Inputs) -> Tensor:
    """Run the model and return the input of its output matrix, after any final norm."""
    seen: list[Tensor] = []
    keep = model.output.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with keep, untouched(model, model.training):
        model(*inputs) if isinstance(inputs, tuple) else model(inputs)
    return seen[0]


def _measure_length(change: Tensor) -> float:
    return change.square().sum(dim=-1).mean().sqrt().item()


class StepResponse(Watcher):
    """`step_response` at initialization, after the recipe's preparation for the first step."""

    def after_backward(self, step: int, model: nn.Module) -> None:
        """Measure at the first step."""
        if step == 0 and isinstance(model, Transformer):
            self.seen = step_response(model, self.batch)


PROBES: dict[str, Callable[[Corpus], Observer]] = {
    "step-response": lambda corpus: StepResponse(
        "step-response", batch=corpus.held_out["validation"][0]
    )
}
