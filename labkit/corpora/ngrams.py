"""N-gram counts as a reference: the loss of a table that uses only the last n − 1 symbols.

    p(c | h) = (n(hc) + t(h) · p(c | h′)) / (n(h) + t(h))

n(h) counts how often a symbol follows the context h in the training text, t(h) how many different
ones do, and h′ is h without its first symbol; below the empty context all symbols are equally
likely. A context that never occurred uses p(c | h′). This is Witten and Bell's estimate (1991,
method C), interpolated as in Chen and Goodman 1998 (An empirical study of smoothing techniques for
language modeling, section 2.6).

The loss is measured on the windows that test a model: as for the model, the context begins with the
window, so the first symbol is given and the second is predicted from the first only.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int

from labkit.corpora.base import Batch
from labkit.corpora.text import VOCABULARY, Text, training_text
from labkit.system.unknown import explain_unknown

MOST = 5  # tables of longer contexts would not fit into a chapter's memory
_NAMES = {2: "bigram counts", 3: "trigram counts"}
_PART = 2**20  # symbols of a text that are processed together
Rows = Int[np.ndarray, "row symbol"]  # texts or windows, one in each row


class Level(NamedTuple):
    """Counts after all contexts of one length; the last row is for contexts that never occurred."""

    counts: Int[np.ndarray, "context symbol"]  # n(hc)
    longer: Int[np.ndarray, "context symbol"]  # the number of hc among the next level's contexts


def ngram_loss(data: Text, order: int, split: str = "test") -> float:
    """Return the loss in nats per symbol of `order`-gram counts on a held-out split.

    The counts are from the whole training text of `data`.
    """
    if not isinstance(data, Text):
        raise ValueError(f"n-grams need data of type Text, got {type(data).__name__}")
    if not 1 <= order <= MOST:
        raise ValueError(f"order must be from 1 to {MOST}, got {order}")
    one = replace(data, batch=1)  # the text is the same for any batch size
    return _measure_orders(one, max(order, max(_NAMES)), split)[order - 1]


def reference_lines(data: Text) -> dict[str, float]:
    """Return the losses of bigram and trigram counts by name, for the lines in loss figures."""
    return {name: ngram_loss(data, order) for order, name in _NAMES.items()}


@cache
def _measure_orders(data: Text, order: int, split: str) -> tuple[float, ...]:
    """Return the losses of all orders up to `order`, which share their counts."""
    held_out = data.load().held_out
    if split not in held_out:
        raise ValueError(explain_unknown("split", split, held_out))
    text = training_text(data.characters, data.source).numpy()[None]
    levels = count_ngrams(text, order, len(VOCABULARY))
    return compute_losses(_join_windows(held_out[split]), levels)


def _join_windows(batches: Sequence[Batch]) -> Rows:
    """Join batches into rows: the inputs, followed by the last target."""
    return torch.cat([torch.cat([x, y[:, -1:]], dim=1) for x, y in batches]).numpy()


def count_ngrams(rows: Rows, order: int, symbols: int) -> list[Level]:
    """Count the n-grams of all orders up to `order`; none crosses the end of a row."""
    levels: list[Level] = []
    for length in range(order):
        contexts = int(levels[-1].longer.max()) + 1 if levels else 1
        counts = np.zeros(contexts * symbols, dtype=np.int64)
        for start in range(0, rows.shape[1] - length, _PART):
            part = rows[:, start : start + _PART + length]
            grams = _number_contexts(part, levels) * symbols + part[:, length:]
            counts += np.bincount(grams.ravel(), minlength=counts.size)
        seen = counts > 0
        longer = np.where(seen, seen.cumsum() - 1, seen.sum())
        levels.append(Level(counts.reshape(-1, symbols), longer.reshape(-1, symbols)))
    return levels


def compute_losses(rows: Rows, levels: Sequence[Level]) -> tuple[float, ...]:
    """Return, for each order, the mean of −log p over all symbols except the first of each row."""
    found, p = [], np.full(rows[:, 1:].shape, 1 / levels[0].counts.shape[1])
    for length, level in enumerate(levels):
        first = max(length, 1)  # the first symbol of a row that is predicted with this context
        here = _number_contexts(rows, levels[:length])[:, first - length :]
        n, t = level.counts.sum(axis=1)[here], (level.counts > 0).sum(axis=1)[here]
        below = p[:, first - 1 :]
        mixed = (level.counts[here, rows[:, first:]] + t * below) / np.maximum(n + t, 1)
        p[:, first - 1 :] = np.where(n > 0, mixed, below)
        found.append(float(-np.log(p).mean()))
    return tuple(found)


def _number_contexts(rows: Rows, levels: Sequence[Level]) -> Rows:
    """Number the context before each symbol; its length is the number of levels."""
    numbers = np.zeros_like(rows)
    for length, level in enumerate(levels):
        numbers = level.longer[numbers, rows[:, length:]][:, :-1]
    return numbers
