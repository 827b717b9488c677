"""From runs to ranks: test losses of each entry, every pair compared, letters for what differs.

A pair differs where the p-value of Student's paired t test over seeds, adjusted by Holm for all
pairs, is at most 0.05. The interval beside the difference from the first is the plain paired one.
An entry with a diverged run stands last and is compared with nobody.
"""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, cast

from labkit.display import publish_bundle
from labkit.experiments import Results, ladder, minus
from labkit.experiments.regime import UPDATES
from labkit.leaderboard.contest import Contest, best_rates
from labkit.leaderboard.entries import Entry
from labkit.leaderboard.footprint import count_footprint
from labkit.leaderboard.letters import letters
from labkit.model import ModelConfig
from labkit.statistics.holm import adjusted
from labkit.statistics.seeds import paired_p, t_interval
from labkit.statistics.verdicts import LEVEL

HEADS = ("rank", "recipe", "test loss", "95 % interval", "behind the first", "group",
         "rate", "steps", "norms' share", "kept")  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One entry of the leaderboard; `group` holds its compact letters."""

    name: str
    values: tuple[float | None, ...]  # test losses, one a seed; None: diverged
    rate: float
    edge: bool  # the rate is the lowest or highest that was tried
    steps: int
    operations: float  # of a step
    norm_share: float
    kept: int  # bytes for the backward pass
    parameters: int
    mean: float | None = None
    interval: tuple[float, float] | None = None
    behind: tuple[float, float, float] | None = None  # mean and interval of the difference
    group: str = "–"


@dataclass(frozen=True)
class Standings:
    """The rows by rank, and the adjusted p-value of each pair."""

    rows: tuple[Row, ...]
    pairs: Mapping[tuple[str, str], float]
    flops: float | None  # the budget of a run; None: everybody has the same steps

    def format_summary(self) -> str:
        """Describe in words what is significant and what is not."""
        alive = [row for row in self.rows if row.mean is not None]
        if not alive:
            return "Every entry diverged."
        if len(self.rows) == 1:
            return f"One entry, {alive[0].name}: nothing is compared; name another, such as pre."
        level = [row.name for row in alive if set(row.group) & set(alive[0].group)]
        told = sum(p <= LEVEL for p in self.pairs.values())
        text = f"First: {alive[0].name}. "
        text += (
            f"Not distinguishable from it: {', '.join(level[1:])}. "
            if len(level) > 1
            else "Every other entry is told apart from it. "
        )
        text += f"{told} of {len(self.pairs)} pairs differ at 5 % after Holm's correction."
        lost = [row.name for row in self.rows if row.mean is None]
        if lost:
            text += f" Diverged with at least one seed, so not ranked: {', '.join(lost)}."
        if edge := [row.name for row in alive if row.edge]:
            text += f" Best rate at the end of the grid, so perhaps not tuned: {', '.join(edge)}."
        if (steps := min(row.steps for row in alive)) < UPDATES:
            text += (
                f" These runs are too young to rank recipes: {steps:,} updates, and {UPDATES:,} "
                "are needed."
            )
        if len(level) == 1:
            text += (
                f" Before you believe the first place ({alive[0].steps} steps a run): five other "
                "seeds, a finer grid of rates for the second, another depth, another task."
            )
        return text

    def format_rows(self) -> list[dict[str, str]]:
        """Write the rows as text, a column a key."""
        return [
            dict(zip(HEADS, _format_cells(i, row), strict=True)) for i, row in enumerate(self.rows)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        pairs = [{"pair": list(pair), "p": p} for pair, p in self.pairs.items()]
        return {"flops": self.flops, "rows": [asdict(row) for row in self.rows], "pairs": pairs}

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


def standings(
    contest: Contest, entries: Sequence[Entry], tuned: Results, final: Results
) -> Standings:
    """Rank the entries by their test losses."""
    best, rows = best_rates(tuned), []
    ends = {min(contest.rates), max(contest.rates)} if len(contest.rates) > 1 else set()
    for each in entries:
        cost, values = contest.cost(each), final.where(entry=each.name).values("test.loss")
        rate = best[each.name]
        rows.append(
            Row(each.name, tuple(values), rate, rate in ends, contest.steps(each),
                cost.operations, cost.norm_share, cost.kept, cost.parameters)
        )  # fmt: skip
    return rank_rows(rows, contest.flops)


def rank_ladder(found: Results, arms: Mapping[str, str], rung: str) -> Standings:
    """Rank arms of the shared ladder, by the names to show, by what their fresh seeds report."""
    rows, text = [], ladder.build_text(rung)
    for name, arm in arms.items():
        run, of_arm = ladder.build_base_run(rung, arm), found.where(arm=arm, rung=rung)
        (rate,), tried = of_arm.where(stage="final").by("lr"), of_arm.where(stage="tuning").by("lr")
        losses = ladder.reported(found, arm).get(rung, {})
        cost = count_footprint(cast(ModelConfig, run.model), text.batch, text.time)
        rows.append(
            Row(name, tuple(losses.get(seed) for seed in ladder.SEEDS), rate,
                rate in (min(tried), max(tried)), run.train.steps,
                cost.operations, cost.norm_share, cost.kept, cost.parameters)
        )  # fmt: skip
    return rank_rows(rows, None)


def rank_rows(rows: Sequence[Row], flops: float | None) -> Standings:
    """Order rows by their mean, compare all pairs, and give letters."""
    alive = {row.name: [float(v) for v in row.values if v is not None] for row in rows
             if all(v is not None and math.isfinite(v) for v in row.values)}  # fmt: skip
    mean = {name: math.fsum(values) / len(values) for name, values in alive.items()}
    order = sorted(mean, key=lambda name: mean[name])
    p = {(a, b): paired_p(alive[a], alive[b]) for a, b in combinations(order, 2)}
    pairs = adjusted(p)
    groups = letters(order, [pair for pair, value in pairs.items() if value <= LEVEL])
    by_name = {row.name: row for row in rows}
    ranked = []
    for name in order:
        gaps = minus(alive[name], alive[order[0]])
        behind = (math.fsum(gaps) / len(gaps), *t_interval(gaps)) if name != order[0] else None
        computed = {"mean": mean[name], "interval": t_interval(alive[name]), "behind": behind}
        ranked.append(Row(**{**vars(by_name[name]), **computed, "group": groups[name]}))
    return Standings((*ranked, *(row for row in rows if row.name not in alive)), pairs, flops)


def _format_cells(place: int, row: Row) -> tuple[str, ...]:
    mean = interval = behind = "–"
    if row.mean is None or row.interval is None:
        mean = f"diverged in {sum(v is None for v in row.values)} of {len(row.values)}"
    else:
        mean, interval = f"{row.mean:.3f}", f"{row.interval[0]:.3f} to {row.interval[1]:.3f}"
    if row.behind is not None:
        behind = f"{row.behind[0]:+.3f} ({row.behind[1]:+.3f} to {row.behind[2]:+.3f})"
    rank = "–" if row.mean is None else str(place + 1)
    edge = " (end of the grid)" if row.edge else ""
    return (
        rank, row.name, mean, interval, behind, row.group, f"{row.rate:g}{edge}", str(row.steps),
        f"{row.norm_share:.1%}", f"{row.kept / 2**20:.1f} MiB",
    )  # fmt: skip
