"""Claims: sentences with numbers that a run produced, judged by a criterion written before it."""

import html
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from labkit.experiments.statistics import is_weak, parse_criterion, t_interval, verdict

KINDS = {
    "exact": "algebra or a count",
    "at": "one stated setting",
    "best": "each arm at its own best learning rate",
    "range": "over a learning-rate range declared beforehand",
}
VERDICTS = {
    "holds": "holds here",
    "not-seen": "not seen at this scale",
    "contradicted": "contradicted here",
}
MIME = "application/vnd.labkit.claim+json"
_collections: list[list["Claim"]] = []  # of the blocks that collect claims, the innermost last


@dataclass(frozen=True)
class Claim:
    """One judged sentence; made by `claim`, which also shows it."""

    id: str
    statement: str  # with the numbers filled in
    values: tuple[float, ...]  # one per seed (or pair of seeds)
    interval: tuple[float, float]
    source: str
    criterion: str  # on the interval of the mean
    kind: str
    verdict: str
    weak: bool
    published: str | None
    tolerance: float  # a later mean may differ by this much before the check asks

    @property
    def mean(self) -> float:
        """Average the values."""
        return math.fsum(self.values) / len(self.values)

    def to_dict(self) -> dict[str, Any]:
        """Write the claim as its entry in the ledger, with its id."""
        return {
            "id": self.id,
            "statement": self.statement,
            "source": self.source,
            "published": self.published,
            "values": [float(f"{v:.6g}") for v in self.values],
            "interval": [float(f"{v:.6g}") for v in self.interval],
            "criterion": self.criterion,
            "kind": self.kind,
            "verdict": self.verdict,
            "weak": self.weak,
            "tolerance": float(f"{self.tolerance:.3g}"),
            "seeds": len(self.values),
        }

    def _ipython_display_(self) -> None:
        """Show nothing: the card was shown when the claim was made."""

    def __str__(self) -> str:
        low, high = self.interval
        ours = f"{self.mean:.4g}"
        if len(self.values) > 1:
            ours += f", 95 % interval {low:.4g} to {high:.4g} over {len(self.values)} seeds"
        lines = [
            f"[{VERDICTS[self.verdict]}{', weak' if self.weak else ''}] {self.statement}",
            f"ours: {ours}; criterion: {self.criterion} ({KINDS[self.kind]})",
            f"source: {self.source}" + (f"; published: {self.published}" if self.published else ""),
        ]
        return "\n".join(lines)

    def to_html(self) -> str:
        """Draw the card."""
        head, ours, source = (html.escape(line) for line in str(self).splitlines())
        mark, _, statement = head.partition("] ")
        # The style is for a notebook; the site's own sheet overrules it.
        bar = "border-left: 4px solid #888; padding-left: 0.9em"
        return (
            f'<div class="labkit-claim labkit-verdict-{self.verdict}" style="{bar}">'
            f'<span class="labkit-verdict"><b>{mark[1:]}.</b></span> '
            f'<span class="labkit-statement">{statement}</span><br>'
            f'<span class="labkit-values">{ours}</span><br>'
            f'<span class="labkit-source"><small>{source}</small></span></div>'
        )


def claim(
    id: str,
    statement: str,
    values: float | Sequence[float],
    *,
    source: str,
    criterion: str,
    kind: str,
    interval: tuple[float, float] | None = None,
    published: str | None = None,
    tolerance: float | None = None,
    **numbers: float,
) -> Claim:
    """Judge and show a claim.

    `values` has one number per seed: what the criterion is about (a difference between paired
    seeds, say). `statement` may hold {mean}, {low}, {high}, {n} and any of `numbers`, with a
    format such as {mean:.3f}. `interval` overrides Student's t interval where the values are not
    a sample of seeds. `tolerance` is how far a later mean may lie from the recorded one; by
    default the larger of half the interval's width and 5 % of the mean.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9*.-]*", id):
        raise ValueError(f"a claim's id has lower-case letters, digits, - and .; got {id!r}")
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}; choose one of {', '.join(KINDS)}")
    parse_criterion(criterion)
    sample = [float(v) for v in (values if isinstance(values, Sequence) else [values])]
    if not sample or not all(map(math.isfinite, sample)):
        raise ValueError(
            f"claim {id!r} needs at least one value, each finite; got {sample}. For runs that "
            "diverged, claim how many did"
        )
    if kind == "best" and len(sample) < 5:
        raise ValueError(
            f"a claim of kind 'best' needs five seeds or more, {id!r} has {len(sample)}"
        )
    span = t_interval(sample) if interval is None else interval
    mean = math.fsum(sample) / len(sample)
    filled = statement.format(mean=mean, low=span[0], high=span[1], n=len(sample), **numbers)
    made = Claim(
        id=id,
        statement=filled,
        values=tuple(sample),
        interval=(float(span[0]), float(span[1])),
        source=source,
        criterion=criterion,
        kind=kind,
        verdict=verdict(span, criterion),
        weak=interval is None and is_weak(sample, criterion),
        published=published,
        tolerance=max((span[1] - span[0]) / 2, 0.05 * abs(mean))
        if tolerance is None
        else tolerance,
    )
    _show(made)
    return made


@contextmanager
def collecting() -> Iterator[list[Claim]]:
    """Collect the claims that a block makes; they are shown as ever."""
    _collections.append([])
    try:
        yield _collections[-1]
    finally:
        _collections.pop()


def _show(made: Claim) -> None:
    for collection in _collections:
        collection.append(made)
    from IPython.core.getipython import get_ipython  # a notebook's, where there is one
    from IPython.display import display

    if get_ipython() is None:
        print(made)
        return
    bundle = {"text/plain": str(made), "text/html": made.to_html(), MIME: made.to_dict()}
    display(bundle, raw=True, metadata={"labkit": {"kind": "claim", "id": made.id}})
