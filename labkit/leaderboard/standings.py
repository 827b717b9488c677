"""From runs to ranks: test losses of each entry, a comparison of every pair, and letters.

A pair differs if the p-value of a two-sample test, with one standard deviation for all arms and the
uncertainty from tuning (labkit.statistics.pooled), adjusted by Holm for all pairs, is at most 0.05.
The interval of the gap to the first entry is for that pair only. Entries with a diverged run come
last and are not compared.
"""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any, cast

from labkit.display import publish_bundle
from labkit.experiments import Results, ladder
from labkit.experiments.ladder.orders import adjust_pairs
from labkit.experiments.regime import UPDATES
from labkit.leaderboard.footprint import count_footprint
from labkit.leaderboard.letters import letters
from labkit.model import ModelConfig
from labkit.statistics.pooled import Difference, Scatter, compare_samples, pool_scatter
from labkit.statistics.verdicts import LEVEL

HEADS = ("rank", "recipe", "test loss", "n", "tuning uncertainty", "gap to first", "group",
         "learning rate", "steps", "norms' share", "saved activations")  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One entry of the leaderboard; `group` holds its compact letters."""

    name: str
    values: tuple[float | None, ...]  # test losses, one a seed; None: diverged
    rate: float
    edge: bool  # the rate is the lowest or highest that was tried
    tuned: ladder.Left  # what the choice of the rate leaves
    strict: bool  # three seeds tuned the rate, and all evaluation seeds of the rung are complete
    steps: int
    operations: float  # of a step
    norm_share: float
    kept: int  # bytes for the backward pass
    parameters: int
    mean: float | None = None
    behind: tuple[float, float, float] | None = None  # mean and interval of the difference
    group: str = "–"


@dataclass(frozen=True)
class Standings:
    """The rows by rank, and the adjusted p-value of each pair."""

    rows: tuple[Row, ...]
    pairs: Mapping[tuple[str, str], float]
    scatter: Scatter | None  # of one run

    def format_summary(self) -> str:
        """Return a sentence on which differences are significant."""
        alive = [row for row in self.rows if row.mean is not None]
        if not alive:
            return "Every entry diverged."
        if len(self.rows) == 1:
            other = "qk" if alive[0].name == "pre" else "pre"
            return (
                f"One entry, {alive[0].name}: nothing is compared; name another, such as {other}."
            )
        level = [row.name for row in alive if set(row.group) & set(alive[0].group)]
        told = sum(p <= LEVEL for p in self.pairs.values())
        steps = min(row.steps for row in alive)
        early = f"After {steps:,} updates, too few to rank recipes ({UPDATES:,} are needed), "
        text = f"{early}first is" if steps < UPDATES else "First:"
        text += f" {alive[0].name}. "
        text += (
            f"Not distinguishable from it: {', '.join(level[1:])}. "
            if len(level) > 1
            else "Every other entry is distinguishable from it. "
        )
        text += f"{told} of {len(self.pairs)} pairs differ at 5 % after Holm's correction."
        lost = [row.name for row in self.rows if row.mean is None]
        if lost:
            text += f" Diverged with at least one seed, so not ranked: {', '.join(lost)}."
        if self.scatter is not None:
            text += (
                f" The standard deviation between runs is {self.scatter.sd:.4f} nats "
                f"({self.scatter.freedom} degrees of freedom)."
            )
        if young := [row.name for row in alive if not row.strict]:
            text += f" Preliminary, with five seeds and one seed for tuning: {', '.join(young)}."
        if edge := [row.name for row in alive if row.edge]:
            text += f" Best rate at the end of the grid, so perhaps not tuned: {', '.join(edge)}."
        if len(level) == 1 and steps >= UPDATES:
            text += (
                f" Before you believe the first place ({alive[0].steps} steps per run): five other "
                "seeds, a finer grid of rates for the second, another depth, another task."
            )
        return text

    def format_rows(self) -> list[dict[str, str]]:
        """Return the rows as text, one key per column."""
        return [
            dict(zip(HEADS, _format_cells(i, row), strict=True)) for i, row in enumerate(self.rows)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        pairs = [{"pair": list(pair), "p": p} for pair, p in self.pairs.items()]
        return {
            "scatter": self.scatter and asdict(self.scatter),
            "rows": [asdict(row) for row in self.rows],
            "pairs": pairs,
        }

    def __str__(self) -> str:
        lines = [list(HEADS), *(list(row.values()) for row in self.format_rows())]
        wide = [max(len(line[i]) for line in lines) for i in range(len(HEADS))]
        text = ["  ".join(cell.ljust(w) for cell, w in zip(line, wide, strict=True)).rstrip()
                for line in lines]  # fmt: skip
        return "\n".join([*text, "", self.format_summary()])

    __repr__ = __str__

    def to_html(self) -> str:
        """Draw the table and its summary."""
        heads = "".join(f'<th scope="col">{html.escape(h)}</th>' for h in HEADS)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row.values()) + "</tr>"
            for row in self.format_rows()
        )
        return (
            f'<div class="labkit-table"><table class="labkit-standings"><thead><tr>{heads}</tr>'
            f"</thead><tbody>{rows}</tbody></table></div><p>{html.escape(self.format_summary())}</p>"
        )

    def _ipython_display_(self) -> None:
        publish_bundle({"text/html": self.to_html(), "text/plain": str(self)}, "standings")


def rank_ladder(
    found: Results, arms: Mapping[str, str], rung: str, own: Mapping[str, ladder.Arm] | None = None
) -> Standings:
    """Rank arms of the ladder, under their displayed names, by the losses of evaluation seeds.

    `own` has the arms that are not in ladder.ARMS, to count their costs.
    """
    rows, text, scatter = [], ladder.build_text(rung), ladder.measure_scatter(found, rung)
    for name, arm in arms.items():
        base = ladder.build_base_run(rung, (own or {}).get(arm, arm))
        of_arm = found.where(arm=arm, rung=rung)
        (rate,), tried = of_arm.where(stage="final").by("lr"), of_arm.where(stage="tuning").by("lr")
        finals = [record for _, record in of_arm.where(stage="final")]
        cost = count_footprint(cast(ModelConfig, base.model), text.batch, text.time)
        rows.append(
            Row(
                name,
                tuple(
                    None if of.diverged_at is not None else of.probes["test"]["loss"]
                    for of in finals
                ),
                rate,
                rate in (min(tried), max(tried)),
                ladder.measure_tuning_left(found, rung, arm, scatter.sd),
                len(finals) > len(ladder.SEEDS),
                base.train.steps,
                cost.operations,
                cost.norm_share,
                cost.kept,
                cost.parameters,
            )
        )
    apart = [name for name, arm in arms.items() if arm in scatter.apart]
    return rank_rows(rows, replace(scatter, apart=tuple(apart)))


def rank_rows(rows: Sequence[Row], scatter: Scatter | None = None) -> Standings:
    """Order rows by their mean, compare all pairs, and assign letters.

    `scatter` is the standard deviation of a run; by default it is pooled over these rows.
    """
    alive = {row.name: [float(v) for v in row.values if v is not None] for row in rows
             if all(v is not None and math.isfinite(v) for v in row.values)}  # fmt: skip
    by_name = {row.name: row for row in rows}
    mean = {name: math.fsum(values) / len(values) for name, values in alive.items()}
    order = sorted(mean, key=lambda name: mean[name])
    if scatter is None and len(alive) > 1:
        scatter = pool_scatter(alive)

    def compare(one: str, other: str) -> Difference:
        assert scatter is not None
        alone = (one in scatter.apart, other in scatter.apart)
        left = by_name[one].tuned.join(by_name[other].tuned)
        return compare_samples(alive[one], alive[other], scatter, alone=alone, tuned=left)

    found = {(a, b): compare(a, b) for a, b in combinations(order, 2)}
    pairs = adjust_pairs(found)
    groups = letters(order, [pair for pair, value in pairs.items() if value <= LEVEL])
    ranked = []
    for name in order:
        gap = found.get((order[0], name))
        behind = None if gap is None else (gap.mean, *gap.compute_interval())
        ranked.append(replace(by_name[name], mean=mean[name], behind=behind, group=groups[name]))
    return Standings((*ranked, *(row for row in rows if row.name not in alive)), pairs, scatter)


def _format_cells(place: int, row: Row) -> tuple[str, ...]:
    mean = behind = "–"
    if row.mean is None:
        mean = f"diverged in {sum(v is None for v in row.values)} of {len(row.values)}"
    else:
        mean = f"{row.mean:.4f}"
    if row.behind is not None:
        behind = f"{row.behind[0]:+.4f} ({row.behind[1]:+.4f} to {row.behind[2]:+.4f})"
    rank = "–" if row.mean is None else str(place + 1)
    edge = " (end of the grid)" if row.edge else ""
    return (
        rank, row.name, mean, str(len(row.values)), f"{row.tuned.size:.4f}", behind, row.group,
        f"{row.rate:g}{edge}", str(row.steps), f"{row.norm_share:.1%}",
        f"{row.kept / 2**20:.1f} MiB",
    )  # fmt: skip
