"""Early readout: the answer of a trained model after each of its steps (logit lens).

    early answer after step n = argmax read_out(x_n)        x_n the stream, read_out the model's end

The readout is the model's own: the final norm (and ReLU), if it has one, and the output matrix. It
was trained only on the last stream. Source: Geva et al. 2021, arXiv 2012.14913, section 5.2.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from labkit.corpora import Corpus
from labkit.model import Transformer
from labkit.model.stacks import signal
from labkit.placements import Step
from labkit.probes.look import join_batches, residual_streams, untouched
from labkit.training import Observer

Answers = dict[str, list[float]]


def summarize_answers(early: Sequence[Tensor]) -> Answers:
    """Summarize the logits (…, classes) read off at each place, the last of which is the end.

    `agreement`   fraction of predictions whose top class is already the final one
    `confidence`  mean probability of the top class, by place
    `changed`     fraction of predictions whose top class differs from the previous place
    """
    tops = [logits.argmax(dim=-1) for logits in early]
    return {
        "agreement": [(top == tops[-1]).float().mean().item() for top in tops],
        "confidence": [x.softmax(dim=-1).amax(dim=-1).mean().item() for x in early],
        "changed": [(a != b).float().mean().item() for a, b in pairwise(tops)],
    }


def judge_answers(early: Sequence[Tensor], targets: Tensor) -> Answers:
    """Compare the early readouts at each place with the truth.

    `right`   fraction of predictions whose top class is the target, by place
    `truth`   mean probability of the target, by place
    `mended`  fraction that is wrong at a place and right at the end
    `broken`  fraction that is right at a place and wrong at the end
    """
    right = [x.argmax(dim=-1) == targets for x in early]
    truth = [x.softmax(dim=-1).gather(-1, targets.unsqueeze(-1)) for x in early]
    return {
        "right": [of.float().mean().item() for of in right],
        "truth": [probability.mean().item() for probability in truth],
        "mended": [(~of & right[-1]).float().mean().item() for of in right],
        "broken": [(of & ~right[-1]).float().mean().item() for of in right],
    }


def read_early(model: nn.Module, inputs: Tensor) -> list[Tensor]:
    """Read logits off the stream: at the first step's (or block's) input, and after each step.

    Raises:
        TypeError: the model is neither a transformer nor a stack of residual steps.
    """
    if isinstance(model, Transformer):
        return [model.output(model.final_norm(x)) for x in residual_streams(model, inputs)]
    if not (isinstance(model, nn.Sequential) and any(isinstance(part, Step) for part in model)):
        raise TypeError(
            f"early readout needs a residual stream, but {type(model).__name__} has none; use a "
            "Transformer, or a StackConfig whose step is not 'plain'"
        )
    layers = list(model)
    last = max(i for i, layer in enumerate(layers) if isinstance(layer, Step))
    end = nn.Sequential(*layers[last + 1 :])
    return [end(x) for x in signal(model, inputs)]


class EarlyAnswers(Observer):
    """Answers to the test set that are read off the trained model's stream, after each step."""

    name = "early-judged"

    def __init__(self, corpus: Corpus):
        self.batches = corpus.held_out["test"]

    def result(self, model: nn.Module) -> Answers:
        """Measure without changing the model."""
        inputs, targets = join_batches(self.batches)
        with untouched(model, training=False), torch.no_grad():
            early = read_early(model, inputs)
        return summarize_answers(early) | judge_answers(early, targets)


PROBES: dict[str, Callable[[Corpus], Observer]] = {"early-judged": EarlyAnswers}
