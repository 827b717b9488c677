"""Runs that were never trained, written to a store for the tests of `show` and `reproduce`."""

import json
from dataclasses import replace
from pathlib import Path

from labkit import ModelConfig, Record, TrainConfig
from labkit.corpora import Digits, Text
from labkit.experiments import Run
from labkit.experiments.records import compute_checksum, format_row
from labkit.experiments.store import Store
from labkit.model.vision import MLPConfig
from press import cli

TINY = Run(
    model=MLPConfig(width=8, depth=1), data=Digits(batch=16), train=TrainConfig(steps=3, lr=0.01)
)
LANGUAGE = Run(
    model=ModelConfig(dim=16, depth=1, heads=2, context=8),
    data=Text(batch=2, time=8),
    train=TrainConfig(steps=2),
)


def record(loss: float | None = 0.5, cpu_seconds: float = 2.0, **more) -> Record:
    """Make the record of an artificial run; a loss of None means that it diverged."""
    return Record(
        losses=[1.0, 0.75, 0.5] if loss is None else [1.0, 0.75, loss],
        steps=3,
        diverged_at=3 if loss is None else None,
        seconds=cpu_seconds,
        cpu_seconds=cpu_seconds,
        probes={"test": {"loss": loss, "accuracy": 0.5}, "residual-rms": [1.0, 2.0, 4.0]},
        provenance={"device": "cpu", "cpu": "a processor", "threads": 1, "commit": "abc"},
        **more,
    )


def variants() -> list[Run]:
    """List runs of two kinds that together vary every requested field."""
    language = [
        replace(
            LANGUAGE,
            model=replace(LANGUAGE.model, recipe=recipe),
            train=replace(LANGUAGE.train, lr=lr),
            seed=seed,
        )
        for recipe in ("pre", "post")
        for lr in (1e-3, 1e-2)
        for seed in (0, 1)
    ]
    return [*language, TINY]


def rewrite(path: Path, **changes) -> None:
    """Change parts of a record, and update its checksum."""
    row = {**json.loads(path.read_text()), **changes}
    path.write_text(format_row({**row, "sum": compute_checksum(row)}))


def filled(root: Path) -> Store:
    """Make a store with runs that were never trained, one of them diverged."""
    store = Store(root)
    for i, run in enumerate(variants()):
        store.write_record(
            run, record(None if i == 3 else 0.1 * (i + 1)), peak_bytes=2**20 * (i + 1)
        )
    return store


def said(capsys, *words: str, status: int = 0) -> str:
    """Run `labkit` and return its output."""
    assert cli.main([*words]) == status
    return "".join(capsys.readouterr())
