"""A Lab that trains nothing: it notes which runs a chapter wants and the store lacks."""

from collections.abc import Mapping
from typing import Any, NoReturn

from labkit.experiments.experiment import Experiment, Results
from labkit.experiments.lab import Lab
from labkit.experiments.run import Run


class NotTrained(Exception):
    """What a cell gets that asks for results which are not there yet."""


def no_training(*words: Any, **options: Any) -> NoReturn:
    """Stand in for labkit.train, where a cell trains a model of its own."""
    raise NotTrained("a cell's own model")


class DryLab(Lab):
    """Stands in for Lab while a chapter's cells are executed only to see what they want."""

    wanted: Mapping[str, Run] = {}  # of all labs, by key
    missing: Mapping[str, Run] = {}

    def close(self) -> None:
        """Nothing was started, and nothing is said."""

    def run(self, experiment: Experiment) -> Results:
        """Hand out the results where all are stored; else note what is missing."""
        rows = experiment.runs()
        runs = {run.key(self.device): run for _, run in rows}
        records = {key: self.store.get(run) for key, run in runs.items()}
        lacking = {key: run for key, run in runs.items() if records[key] is None}
        kind = type(self)
        kind.wanted = {**kind.wanted, **runs}
        kind.missing = {**kind.missing, **lacking}
        if lacking:
            raise NotTrained(f"{len(lacking)} of {len(runs)} runs")
        found = {key: record for key, record in records.items() if record is not None}
        return Results(tuple((labels, found[run.key(self.device)]) for labels, run in rows))
