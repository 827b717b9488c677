"""Sharpness of attention: the logits of each layer, and their softmax.

    p       = softmax(cap(logits))                         cap(l) = c · tanh(l / c), or nothing
    entropy = Σ_rows H(p) / Σ_rows log(n)                  n: the number of allowed keys of the row
    slope   = mean over rows of Σ_j ∂p_j/∂l_j = Σ_j p_j (1 − p_j) cap′(l_j)

Rows with a single key are left out: their softmax is 1 whatever the logit. The entropy is a
fraction: 1 for uniform attention, 0 if every row is one-hot. The slope is 0 if no gradient passes,
because attention is one-hot or the cap is saturated. Sources of the symptom: Dehghani et al. 2023,
arXiv 2302.05442; Zhai et al. 2023, arXiv 2303.06296 (entropy collapse).
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from labkit.attention import Attention
from labkit.attention.logits import allowed_pairs, explicit_logits, soft_cap
from labkit.context import Context
from labkit.corpora import Corpus
from labkit.corpora.base import Batch
from labkit.model import Transformer
from labkit.probes.look import require_transformer, untouched
from labkit.probes.trained import make_on_trained
from labkit.training import Observer

Seen = tuple[Tensor, Tensor]  # logits before the soft cap (batch, heads, query, key); allowed pairs


def attention_logits(model: nn.Module, tokens: Tensor) -> list[Seen]:
    """Run the model once and recompute each self-attention's logits, first layer first."""
    seen: list[Seen] = []

    def keep_logits(layer: nn.Module, args: tuple, named: dict[str, Any], output: Tensor) -> None:
        assert isinstance(layer, Attention)
        given = (*args[1:], named.get("context"))[0]
        context = Context() if given is None else given
        q, k, _ = layer.project(args[0], context)
        if layer.chain is None:
            scale = None if layer.temperature is None else 1.0
            logits = explicit_logits(q, k, scale)
        else:
            logits = context.scores[layer.chain]  # with those of earlier layers
        seen.append((logits, allowed_pairs(q, k, layer.causal, context.padding)))

    with ExitStack() as hooks:
        for layer in _list_layers(model):
            hooks.enter_context(layer.register_forward_hook(keep_logits, with_kwargs=True))
        model(tokens)
    return seen


def _list_layers(model: nn.Module) -> list[Attention]:
    """List the self-attentions, first layer first."""
    return [m for m in model.modules() if isinstance(m, Attention) and not m.cross]


def sharpness(logits: Tensor, allowed: Tensor, cap: float | None = None) -> dict[str, float]:
    """Return the largest |logit| before the cap, and the weights' entropy fraction and slope."""
    largest = logits.masked_fill(~allowed, 0).abs().max().item()
    bent, gain = logits, torch.ones_like(logits)
    if cap is not None:
        bent, gain = soft_cap(logits, cap), 1 - torch.tanh(logits / cap).square()
    p = bent.masked_fill(~allowed, -torch.inf).softmax(dim=-1).double()
    keys = allowed.sum(dim=-1).expand(p.shape[:-1]).double()
    some = keys > 1
    entropy = -(p * p.clamp_min(1e-300).log()).sum(dim=-1)
    slope = (p * (1 - p) * gain).sum(dim=-1)
    return {
        "largest": largest,
        "entropy": (entropy[some].sum() / keys[some].log().sum()).item(),
        "slope": slope[some].mean().item(),
    }


def attention_sharpness(model: Transformer, batch: Batch) -> dict[str, list[float]]:
    """Measure `sharpness` of every layer: {"largest": [one number per layer], …}."""
    seen = zip(attention_logits(model, batch[0]), _list_layers(model), strict=True)
    rows = [sharpness(*one, layer.softcap) for one, layer in seen]
    return {name: [row[name] for row in rows] for name in rows[0]}


class AttentionMaps(Observer):
    """The attention weights of one head on one held-out text, before some steps and at the end.

    Result: {"layer", "head": both from 0, "steps": […], "largest": [the head's largest |logit| on
    that text, by step], "maps": [its weights, one row per query, by step]}. The head is the one
    with the largest |logit| in the trained model. Only the text's first `time` characters are kept.
    """

    name = "attention-maps"

    def __init__(self, batch: Batch, steps: tuple[int, ...] = (0, 100), time: int = 24):
        self.text, self.steps = batch[0][:1, :time], steps
        self.seen: list[tuple[int, Tensor, Tensor]] = []  # step, logits, weights of every head

    def after_backward(self, step: int, model: nn.Module) -> None:
        """Record the weights before the update of step `step`, if this step was chosen."""
        self.last = step
        if step in self.steps:
            self._look(step, model)

    def result(self, model: nn.Module) -> dict[str, Any]:
        """Record the weights once more, and choose the head."""
        self._look(getattr(self, "last", -1) + 1, model)
        largest = torch.stack([sizes for _, sizes, _ in self.seen])  # (look, layer, head)
        layer, head = divmod(int(largest[-1].argmax()), largest.shape[-1])
        return {
            "layer": layer,
            "head": head,
            "steps": [step for step, _, _ in self.seen],
            "largest": largest[:, layer, head].tolist(),
            "maps": [weights[layer, head].round(decimals=3).tolist() for *_, weights in self.seen],
        }

    def _look(self, step: int, model: nn.Module) -> None:
        require_transformer(model, self.name)
        sizes, weights = [], []
        with untouched(model, training=False):
            for (logits, allowed), layer in zip(
                attention_logits(model, self.text), _list_layers(model), strict=True
            ):
                sizes.append(logits[0].masked_fill(~allowed[0], 0).abs().amax(dim=(-2, -1)))
                bent = logits if layer.softcap is None else soft_cap(logits, layer.softcap)
                weights.append(bent.masked_fill(~allowed, -torch.inf).softmax(dim=-1)[0])
        self.seen.append((step, torch.stack(sizes), torch.stack(weights)))


class SharpnessBySteps(Observer):
    """`attention_sharpness` on a held-out batch, at regular steps of training.

    Result: {"steps": […], "largest": [the largest layer's, by step], "entropy": [the mean over
    layers], "slope": [the mean over layers]}; the last entry is the trained model's.
    """

    name = "attention-by-steps"

    def __init__(self, batch: Batch, every: int = 20):
        self.batch, self.every = batch, every
        self.seen: dict[str, list[float]] = {
            name: [] for name in ("steps", "largest", "entropy", "slope")
        }

    def after_backward(self, step: int, model: nn.Module) -> None:
        """Measure before the update of step `step`, that is, after `step` updates."""
        self.last = step
        if step % self.every == 0:
            self._measure_step(step, model)

    def result(self, model: nn.Module) -> dict[str, Any]:
        """Measure once more, after training."""
        self._measure_step(getattr(self, "last", -1) + 1, model)
        return self.seen

    def _measure_step(self, step: int, model: nn.Module) -> None:
        transformer = require_transformer(model, self.name)
        with untouched(model, training=False):
            now = attention_sharpness(transformer, self.batch)
        self.seen["steps"].append(step)
        self.seen["largest"].append(max(now["largest"]))
        for name in ("entropy", "slope"):
            self.seen[name].append(sum(now[name]) / len(now[name]))


PROBES: dict[str, Callable[[Corpus], Observer]] = {
    "attention": make_on_trained("attention", attention_sharpness),
    "attention-by-steps": lambda corpus: SharpnessBySteps(corpus.held_out["test"][0]),
    "attention-maps": lambda corpus: AttentionMaps(corpus.held_out["test"][0]),
}
