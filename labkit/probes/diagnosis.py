"""diagnose: from a symptom to its cause, for the book's training problems.

    diagnose(record)            a Record: its losses, and the results of its probes
    diagnose(model, corpus)     a transformer, trained or not: probes that need no training
    diagnose(optimizer)         its groups: the parameters that have weight decay

A row of SYMPTOMS is one problem: its symptom, the probe that distinguishes it from others, the
number computed from that probe, the limit of healthy values, the cause, and the fix. Limits are
rules of thumb, far from the values of this book's healthy runs; a number near its limit is a reason
to investigate, not a verdict. A row says if its probe was not run.
"""

import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from labkit.corpora import Corpus
from labkit.model import Transformer
from labkit.probes import make_probe
from labkit.training import Record, loss_of, name_weights

# Measurements of a model without further training.
OF_A_MODEL = ("validation", "test-batch-statistics", "test", "attention", "residual-rms",
              "leakage", "mean-share", "gradient-at-start")  # fmt: skip


# From a run and the loss of letter frequencies to a number; None: the probe was not run.
Measure = Callable[[Record, float | None], float | None]


@dataclass(frozen=True)
class Symptom:
    """One problem: its symptom, and how to find its cause."""

    name: str
    see: str  # the symptom without a probe
    probe: str  # the probe that finds it
    number: str  # the number computed from the probe, in words
    limit: float  # sick above it
    cause: str
    fix: str
    chapter: str
    measure: Measure
    early: bool = False  # measured before anything can diverge


@dataclass(frozen=True)
class Finding:
    """Result of one symptom's probe for one run; `sick` is None if the probe was not run."""

    symptom: Symptom
    value: float | None

    @property
    def sick(self) -> bool | None:
        """Return whether the value is beyond its limit or NaN; None if it was not measured."""
        if self.value is None:
            return None
        return math.isnan(self.value) or self.value > self.symptom.limit


@dataclass(frozen=True)
class Diagnosis:
    """All findings; `sick` lists the problems that were found."""

    findings: tuple[Finding, ...]

    @property
    def sick(self) -> tuple[Finding, ...]:
        """List the findings beyond their limits."""
        return tuple(finding for finding in self.findings if finding.sick)

    @property
    def names(self) -> list[str]:
        """Return the names of the problems that were found."""
        return [finding.symptom.name for finding in self.sick]

    def __str__(self) -> str:
        lines = []
        for f in self.findings:
            value = "not measured" if f.value is None else f"{f.value:.3g}"
            mark = {True: "✗", False: "✓", None: "·"}[f.sick]
            lines.append(f"{mark} {f.symptom.name}: {f.symptom.number} {value}")
            if f.sick:
                lines += [f"    cause: {f.symptom.cause}", f"    fix: {f.symptom.fix}"]
        return "\n".join(lines)

    __repr__ = __str__


def _boil_down(compute: Callable[[Any], float], *path: str) -> Measure:
    """Return a function of a record: a number from a probe's result; None without the probe."""

    def measure(record: Record, unigram: float | None) -> float | None:
        found: Any = record.probes
        for part in path:
            found = found.get(part) if isinstance(found, Mapping) else None
        if isinstance(found, list):  # a record stores values that are not finite as null
            found = [math.nan if value is None else float(value) for value in found]
        return None if found is None or found == [] else compute(found)

    return measure


def _measure_divergence(record: Record, unigram: float | None) -> float | None:
    return None if not record.steps else float(record.diverged_at is not None)


def _measure_spacing(record: Record, unigram: float | None) -> float | None:
    if not record.provenance:
        return None
    return torch.finfo(getattr(torch, record.provenance.get("gains", "float32"))).eps


def _measure_gap(record: Record, unigram: float | None) -> float | None:
    if unigram is None or len(record.losses) < 30 or record.diverged_at is not None:
        return None
    tail = record.losses[-max(5, len(record.losses) // 10) :]
    return math.fsum(tail) / len(tail) - unigram


def _evaluation_gap(record: Record, unigram: float | None) -> float | None:
    plain, batch = (
        (record.probes.get(name) or {}).get("loss") for name in ("test", "test-batch-statistics")
    )
    return None if plain is None or batch is None else plain - batch


def _measure_unevenness(sizes: list[float]) -> float:
    low, high = sorted((sizes[0], sizes[-1]))
    return high / low if low > 0 else math.inf


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom("divergence", "the loss becomes NaN or infinite",
            "diverged_at", "steps lost to NaN", 0.5,
            "nothing bounds the stream, or the learning rate is too high for the depth",
            "a norm on every branch; a lower learning rate or smaller branches", "00",
            _measure_divergence, True),
    Symptom("stuck", "the loss stops at that of the unigram baseline",
            "losses, with the unigram loss", "nats above the unigram baseline", -0.1,
            "large branches before a norm: the first steps make the model ignore its input",
            "warm-up, initial weights that keep branches small, or Pre-Norm", "02", _measure_gap),
    Symptom("evaluation gap", "good in training, bad in evaluation",
            "test, test-batch-statistics", "nats between running and batch statistics", 0.05,
            "the norm uses one set of statistics to train and another to evaluate",
            "statistics of each token alone: LayerNorm or RMSNorm", "01", _evaluation_gap),
    Symptom("leak", "a causal model's loss is impossibly low",
            "leakage", "change of a logit that must not change", 1e-4,
            "statistics are computed over positions or examples",
            "a norm over the last axis only", "01",
            _boil_down(lambda found: max(found["earlier"], found["others"]), "leakage")),
    Symptom("sharp attention", "a plateau that rises with the learning rate",
            "attention", "largest attention logit", 100.0,
            "queries and keys have grown: the softmax is one-hot and passes no gradient",
            "norms on q and k, a soft cap, or a lower learning rate", "04",
            _boil_down(max, "attention", "largest")),
    Symptom("growing stream", "late blocks hardly matter",
            "residual-rms", "RMS of the stream, last over first block", 30.0,
            "every block adds to the stream, and nothing divides it",
            "a lower learning rate, smaller output weights, or a placement that divides the stream",
            "02", _boil_down(lambda sizes: sizes[-1] / max(sizes[0], 1e-30), "residual-rms")),
    Symptom("uneven gradients", "some blocks learn, others do not",
            "gradient-at-start", "larger over smaller gradient of the first and last block", 30.0,
            "the sublayers' Jacobians multiply along the stack",
            "a norm in each branch; DeepNorm's constants", "05",
            _boil_down(_measure_unevenness, "gradient-at-start", "0"), True),
    Symptom("offset", "training works in float32 but not in bfloat16",
            "mean-share", "share of a token that is its mean", 0.9,
            "a large common offset: a one-pass variance cancels in half precision",
            "no offset, two passes, or float32 statistics", "03",
            _boil_down(max, "mean-share")),
    Symptom("still gains", "every gain is 1 after training",
            "provenance", "spacing of the numbers above 1 in the gains' dtype", 1e-4,
            "gains are stored in half precision: a step below half the spacing rounds back to 1",
            "gains in float32, or stored as w of 1 + w, with w = 0 at first", "D",
            _measure_spacing, True),
    Symptom("thawed norm", "a frozen model changes in evaluation",
            "thawed-norms", "frozen norms whose running statistics move in training", 0.5,
            "requires_grad_(False) stops only gains, and train() undoes an earlier eval()",
            "a norm that stays in evaluation mode after train(), or a folded one", "B",
            _boil_down(float, "thawed-norms")),
    Symptom("decayed gains", "gains shrink, or 1 + w approaches 1",
            "decayed-vectors", "one-dimensional parameters with weight decay", 0.5,
            "a no-decay list of names that omits some norms",
            "groups by shape: `TrainConfig(decayed=\"matrices\")`", "D",
            _boil_down(float, "decayed-vectors")),
)  # fmt: skip


def diagnose(
    subject: Record | Transformer | Optimizer,
    corpus: Corpus | None = None,
    *,
    unigram: float | None = None,
) -> Diagnosis:
    """Check a run, a model or an optimizer for every symptom.

    For a Record, its stored results are read. For a transformer, a copy makes one forward and
    backward pass on a corpus (`Text(…).load()`), and the model is not changed. For an optimizer,
    the groups are read. `unigram` is the loss in nats of the unigram baseline, for the symptom
    `stuck`.

    Raises:
        TypeError: the subject is of another class.
        ValueError: a model was passed without a corpus.
    """
    if isinstance(subject, Record):
        record = subject
    elif isinstance(subject, Optimizer):
        decayed = [g["params"] for g in subject.param_groups if g.get("weight_decay", 0) > 0]
        vectors = sum(p.ndim < 2 for params in decayed for p in params)
        record = Record([], 0, probes={"decayed-vectors": vectors})
    elif not isinstance(subject, Transformer):
        raise TypeError(
            "diagnose takes a Record, a Transformer or an Optimizer, got "
            f"{type(subject).__name__}; pass the Record of a model of your own"
        )
    elif corpus is None:
        raise ValueError(
            "diagnose needs data, but got none; pass a corpus: diagnose(model, "
            "Text(batch=8).load())"
        )
    else:
        record = _observe_copy(subject, corpus)
    lost = record.diverged_at is not None  # measurements of such a model are meaningless
    return Diagnosis(
        tuple(
            Finding(each, None if lost and not each.early else each.measure(record, unigram))
            for each in SYMPTOMS
        )
    )


def _observe_copy(model: Transformer, corpus: Corpus) -> Record:
    """Run the probes that need no training, on a copy."""
    copy = deepcopy(model)
    observers = [make_probe(name, corpus) for name in OF_A_MODEL]
    for observer in observers:
        observer.start(copy)
    inputs, targets = corpus.held_out["validation"][0]
    copy.train()
    loss_of(copy, inputs, targets).backward()
    for observer in observers:
        observer.after_backward(0, copy)
    results = {observer.name: observer.result(copy) for observer in observers}
    results["thawed-norms"] = sum(_is_thawed(module) for module in model.modules())
    return Record([], 0, probes=results, provenance={"gains": name_weights(model)})


def _is_thawed(module: nn.Module) -> bool:
    """Return whether a norm has frozen parameters but running statistics that train() updates."""
    learned = [p.requires_grad for p in module.parameters(recurse=False)]
    running = getattr(module, "running_mean", None) is not None
    return running and bool(learned) and not any(learned) and deepcopy(module).train().training
