"""An experiment is a grid of runs around a base; its results are records with labels."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from labkit.experiments.run import Run
from labkit.experiments.sample import Sample, find_start
from labkit.statistics.criteria import Estimate
from labkit.statistics.proportions import proportion
from labkit.statistics.seeds import Seeds
from labkit.training import Record

# One axis of a grid: values of one field ("train.lr": [1e-3, 3e-3]), or named arms that change
# several fields at once ("arm": {"post": {"model.recipe": "post"}, …}).
Axis = Sequence[Any] | Mapping[str, Mapping[str, Any]]


def change_fields(run: Run, changes: Mapping[str, Any]) -> Run:
    """Return a run with changed fields, named as in "train.lr" or "seed".

    All fields change at once, because a config is checked when it is made, and dim and heads must
    fit together.
    """
    known = _list_fields(run)
    whole: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for path, value in changes.items():
        part, _, name = path.partition(".")
        if path not in (*known, "model", "data", "train"):
            raise ValueError(f"a run has no field {path!r}; choose one of {', '.join(known)}")
        if name:
            parts.setdefault(part, {})[name] = value
        else:
            whole[part] = value
    run = replace(run, **whole)
    return replace(run, **{part: replace(getattr(run, part), **new) for part, new in parts.items()})


def _list_fields(run: Run) -> list[str]:
    """List the fields that may be changed, including those of configs."""
    opened = [
        f"{part}.{one.name}"
        for part in ("model", "data", "train")
        for one in fields(getattr(run, part))
    ]
    return [*opened, "seed", "probes"]


SHOWN = 4  # values of a label that a printed result names


@dataclass(frozen=True)
class Experiment:
    """Every combination of the axes' values, each a run made from `base`."""

    base: Run
    axes: Mapping[str, Axis]

    def runs(self) -> list[tuple[dict[str, Any], Run]]:
        """List (labels, run); a label is the last word of its axis: "train.lr" gives "lr"."""
        choices = []
        for axis, values in self.axes.items():
            label = axis.rpartition(".")[2]
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise TypeError(
                    f"an axis must be a list of values, but {axis!r} has {values!r}; write "
                    f"[{values!r}]"
                )
            if not values:
                raise ValueError(f"every axis needs at least one value, but {axis!r} has none")
            named = isinstance(values, Mapping)
            changes = values.items() if named else [(value, {axis: value}) for value in values]
            choices.append([(label, name, changed) for name, changed in changes])
        grid = []
        for combination in itertools.product(*choices):
            changes = {k: v for _, _, changed in combination for k, v in changed.items()}
            run = change_fields(self.base, changes)
            grid.append(({label: name for label, name, _ in combination}, run))
        return grid

    def change(self, changes: Mapping[str, Any]) -> "Experiment":
        """Return a copy with other fields, by their last word; a list of values makes an axis."""
        axes, fixed = dict(self.axes), dict[str, Any]()
        for name, value in changes.items():
            known = [*axes, *_list_fields(self.base)]
            path = next((path for path in known if path.rpartition(".")[2] == name), name)
            if isinstance(value, list | tuple):
                axes[path] = value
            elif path in axes:
                axes[path] = [value]
            else:
                fixed[path] = value
        return Experiment(change_fields(self.base, fixed), axes)


@dataclass(frozen=True, repr=False)
class Results:
    """Records with their labels; select rows and read numbers."""

    rows: tuple[tuple[dict[str, Any], Record], ...]
    rerun: Callable[[Mapping[str, Any]], "Results"] | None = field(
        default=None, compare=False, kw_only=True
    )  # runs the same experiment with other fields

    def __repr__(self) -> str:
        """Return the number of runs and their labels; `values` reads their numbers."""
        names = dict.fromkeys(name for row, _ in self.rows for name in row)
        said = []
        for name in names:
            values = list(dict.fromkeys(str(row.get(name)) for row, _ in self.rows))
            more = f", … ({len(values)})" if len(values) > SHOWN else ""
            said.append(f"{name}: {', '.join(values[:SHOWN])}{more}")
        return f"Results of {len(self)} runs ({'; '.join(said)})"

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[dict[str, Any], Record]]:
        return iter(self.rows)

    def __add__(self, other: "Results") -> "Results":
        return Results(self.rows + other.rows)

    def where(self, **labels: Any) -> "Results":
        """Return the rows with these labels; a list or tuple selects any of its values."""
        self._refuse_unknown(labels)
        rows = self.rows
        for name, value in labels.items():
            wanted = value if isinstance(value, list | tuple) else (value,)
            rows = tuple(one for one in rows if name in one[0] and one[0][name] in wanted)
        if not rows:
            raise ValueError(
                f"at least one run must have the labels {labels}, but none has; choose from {self}"
            )
        # A ladder keeps the standard deviations pooled over all its arms.
        return replace(self, rows=rows, rerun=self._follow(lambda again: again.where(**labels)))

    def by(self, label: str) -> dict[Any, "Results"]:
        """Split by the values of one label, in their original order."""
        self._refuse_unknown([label])
        parts: dict[Any, list[tuple[dict[str, Any], Record]]] = {}
        for row, record in self.rows:
            parts.setdefault(row[label], []).append((row, record))
        return {
            value: replace(
                self,
                rows=tuple(rows),
                rerun=self._follow(lambda again, v=value: again.by(label)[v]),
            )
            for value, rows in parts.items()
        }

    def values(self, what: str | Callable[[Record], Any]) -> list[Any]:
        """Read one value from each record: by a path such as "test.loss", or by a function."""
        return [_read_value(record, what) for _, record in self.rows]

    def measure(self, what: str | Callable[..., float], *, at: int | str | None = None) -> Sample:
        """Read one number from each run, as a sample that is linked to its runs.

        `what` is a path such as "test.loss", or a function of the record. `at` is the step of a
        probe that measured at several: then the path continues below it, and a function gets it as
        an argument. Records store a number that is not finite, such as the loss of a diverged run,
        as null, which is read as NaN. Samples and tables may contain NaN; a claim refuses it and
        names the seeds.
        """
        found = [_read_at(record, what, at) for _, record in self.rows]
        values = tuple(math.nan if value is None else float(value) for value in found)
        return self._make_sample(
            Seeds(values), lambda again, step: again.measure(what, at=step), at
        )

    def measure_by(
        self,
        what: str | Callable[..., float],
        label: str,
        *others: str,
        at: int | str | None = None,
    ) -> dict[Any, Any]:
        """Measure each part separately; by "arm" and "lr": {arm: {rate: sample}}."""
        return {
            value: part.measure_by(what, *others, at=at) if others else part.measure(what, at=at)
            for value, part in self.by(label).items()
        }

    def count(self, which: Callable[..., bool], *, at: int | str | None = None) -> Sample:
        """Count the runs that meet a condition: k of n."""
        flags = [bool(_read_at(record, which, at)) for _, record in self.rows]
        return self._make_sample(
            proportion(flags), lambda again, step: again.count(which, at=step), at
        )

    def _refuse_unknown(self, labels: Iterable[str]) -> None:
        known = {name for row, _ in self.rows for name in row}
        if self.rows and (unknown := set(labels) - known):
            raise ValueError(
                f"the runs have no label {sorted(unknown)}; choose from {sorted(known)}"
            )

    def again(self, **changes: Any) -> "Results":
        """Run again with some fields changed, each named by its last word: lr, steps, seed."""
        if self.rerun is None:
            raise ValueError(
                "only results of Lab.run, or a part of them, can be run again with other fields, "
                "but these come from another source"
            )
        return self.rerun(changes)

    def find_start(self) -> str:
        """Return when the first of these runs began (UTC); "" if one of them has no date."""
        return find_start(record for _, record in self.rows)

    def _follow(self, select: Callable[["Results"], "Results"]) -> Any:
        """Return a function that reruns a part of these results."""
        rerun = self.rerun
        return None if rerun is None else lambda changes: select(rerun(changes))

    def _make_sample(self, estimate: Estimate, read: Callable[..., Sample], at: Any) -> Sample:
        def reread(changes: Mapping[str, Any]) -> Sample:
            others = {name: value for name, value in changes.items() if name != "at"}
            return read(self.again(**others) if others else self, changes.get("at", at))

        sizes = list(dict.fromkeys(labels["rung"] for labels, _ in self.rows if "rung" in labels))
        if len(sizes) > 1:
            raise ValueError(
                f"a sample of the ladder must have one model size, got {', '.join(sizes)}; choose "
                "one size with where(rung=…)"
            )
        return Sample(
            estimate,
            seeds=tuple(record.provenance["seed"] for _, record in self.rows),
            records=tuple(record for _, record in self.rows),
            size="".join(sizes),
            reread=reread,
        )

    def best(self, label: str, by: str | Callable[[Record], float] = "validation.loss") -> Any:
        """Return the value of a label whose runs have the lowest mean; diverged runs are worst.

        Runs of the ladder must have one model size.
        """
        means = {value: of.mean for value, of in self.measure_by(by, label).items()}
        return min(means, key=lambda value: (math.isnan(means[value]), means[value]))


def _read_at(record: Record, what: str | Callable[..., Any], at: int | str | None) -> Any:
    """Read a value of a record, at a given step if there is one."""
    if at is None:
        return _read_value(record, what)
    if callable(what):
        return what(record, str(at))
    probe, _, rest = what.partition(".")
    return _read_value(record, f"{probe}.{at}" + (f".{rest}" if rest else ""))


def _read_value(record: Record, what: str | Callable[[Record], Any]) -> Any:
    if callable(what):
        return what(record)
    value: Any = record.probes
    for part in what.split("."):
        if part not in value:
            raise ValueError(f"the record has no {what!r}; {part!r} must be one of {sorted(value)}")
        value = value[part]
    return value
