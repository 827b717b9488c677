"""Results on the training set and others, with statistics of the whole training set.

Before the evaluation, every BatchNorm's running statistics are replaced by the mean and the
(biased) variance of the whole training set, layer by layer. So models that trained with different
groups are evaluated in the same way, without influence of the momentum. Source: Wu and Johnson
2021, arXiv 2105.07576, who call it precise BatchNorm. A model without BatchNorm is evaluated
unchanged.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from torch import Tensor, nn

from labkit.corpora import Corpus
from labkit.norms import BatchNorm
from labkit.probes.look import untouched
from labkit.probes.trained import Evaluate
from labkit.training import Observer


def settle_statistics(model: nn.Module, inputs: Tensor) -> None:
    """Set every evaluating BatchNorm's statistics to those of these inputs, in place.

    One pass is enough, because each norm already uses its new statistics for its output.
    """

    def settle(norm: nn.Module, args: tuple[Any, ...]) -> None:
        assert isinstance(norm, BatchNorm)
        if norm.running_mean is not None and norm.running_var is not None:
            rows = args[0].movedim(norm.channel_axis, -1).flatten(0, -2)
            norm.running_mean.copy_(rows.mean(dim=0))
            norm.running_var.copy_(rows.var(dim=0, correction=0))

    with ExitStack() as hooks:
        for part in model.modules():
            if isinstance(part, BatchNorm):
                hooks.enter_context(part.register_forward_pre_hook(settle))
        model(inputs)


class WholeSet(Observer):
    """Loss (nats per prediction) and accuracy by split, including the training set.

    Raises:
        ValueError: the corpus has no batch of all its training examples.
    """

    name = "whole-set"

    def __init__(self, corpus: Corpus):
        if corpus.whole is None:
            raise ValueError(
                "probe 'whole-set' needs data of which every batch is the whole training set, "
                "such as FewDigits or Points; use one of them, or the probes 'validation' and "
                "'test'"
            )
        self.inputs, _ = corpus.whole
        splits = {"train": [corpus.whole], **corpus.held_out}
        self.splits = {split: Evaluate(split, batches) for split, batches in splits.items()}

    def result(self, model: nn.Module) -> dict[str, dict[str, float]]:
        """Evaluate every split, and restore the statistics."""
        with untouched(model, training=False):
            settle_statistics(model, self.inputs)
            return {split: evaluate.result(model) for split, evaluate in self.splits.items()}


PROBES: dict[str, Callable[[Corpus], Observer]] = {"whole-set": WholeSet}
