"""Run a contest on the store and engines of every other run: nothing is trained twice."""

from collections.abc import Sequence
from pathlib import Path

from labkit.experiments import Experiment, Results, sweep
from labkit.leaderboard.contest import Contest
from labkit.leaderboard.entries import Entry
from labkit.leaderboard.standings import Standings, standings


def compete(
    contest: Contest,
    entries: Sequence[Entry],
    *,
    engine: str | None = None,
    root: Path | None = None,
    progress: bool = True,
) -> Standings:
    """Tune every entry, train it with all seeds at its best rate, and rank; see `sweep`."""

    def run_experiment(experiment: Experiment) -> Results:
        return sweep(experiment, engine, root=root, progress=progress)

    tuned = run_experiment(contest.tuning(entries))
    return standings(contest, entries, tuned, run_experiment(contest.final(entries, tuned)))
