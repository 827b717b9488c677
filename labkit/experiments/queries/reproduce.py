"""Train a stored run again and say whether its numbers agree.

difference of a curve or a probe's value = largest |again − stored| / largest |stored|

On one machine, with one code, torch and number of threads, it is 0: bit for bit.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from labkit.experiments.queries.entries import Entry
from labkit.experiments.records import from_row, to_row
from labkit.experiments.run import CPU, Run, execute, gpu
from labkit.files import code_hash
from labkit.training import Record

TOLERANCE = 1e-3  # another machine's rounding, after some hundred steps


@dataclass(frozen=True)
class Again:
    """What a second training says about a stored record."""

    differences: dict[str, float]  # by curve or probe's value; infinite where one has no number
    tolerance: float
    changed: tuple[str, ...]  # what was not as it was when the record was made

    @property
    def agrees(self) -> bool:
        """Say whether every number lies within the tolerance."""
        return all(d <= self.tolerance for d in self.differences.values())

    def __str__(self) -> str:
        differing = {name: d for name, d in self.differences.items() if d}
        lines = [f"differs from then: {what}" for what in self.changed]
        if not differing:
            return "\n".join(
                [*lines, f"agrees bit for bit: {len(self.differences)} curves and values"]
            )
        wide = max(map(len, differing))
        lines += [
            f"  {name:<{wide}}  {_words(d)}{'' if d <= self.tolerance else '  outside'}"
            for name, d in sorted(differing.items(), key=lambda item: -item[1])
        ]
        verdict = "agrees within" if self.agrees else "does not agree within"
        equal = len(self.differences) - len(differing)
        lines.append(
            f"{verdict} {self.tolerance:g}: largest relative difference "
            f"{_words(max(differing.values()))}; {equal} of {len(self.differences)} bit for bit"
        )
        return "\n".join(lines)


def reproduce(
    entry: Entry,
    tolerance: float = TOLERANCE,
    train: Callable[..., Record] = execute,
) -> Again:
    """Train an entry's run again, on its device if that is here; nothing is stored."""
    try:
        run = Run.from_dict(entry.run)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RuntimeError(
            f"this run was described by other code, and cannot be read by this: {error}; check out "
            f"commit {_origin(entry).get('commit') or '(unknown)'} to train it"
        ) from error
    device = _origin(entry).get("device") or CPU
    if device != CPU and device != gpu():
        device = gpu()
    threads = torch.get_num_threads()
    try:
        # Sums are split among threads: another number of them rounds otherwise.
        torch.set_num_threads(_origin(entry).get("threads") or 1)
        record = train(run, progress=True, device=device)
        changed = tuple(_changed(entry, record, device))
        if entry.state == "recorded":  # as the book keeps it: a thinned curve, seven digits
            record = from_row(to_row(run, record, ""))
    finally:
        torch.set_num_threads(threads)
    return Again(differences(entry.record, record), tolerance, changed)


def differences(stored: dict[str, Any], again: Record) -> dict[str, float]:
    """Compare the losses, where it diverged, and all that the probes measured."""
    new = json.loads(again.to_json())  # as a store would give it back
    return {
        "losses": _difference(stored["losses"], new["losses"]),
        "diverged_at": 0.0 if stored.get("diverged_at") == new["diverged_at"] else math.inf,
        **dict(_leaves(stored.get("probes") or {}, new["probes"], "")),
    }


def _leaves(a: Any, b: Any, name: str) -> Iterator[tuple[str, float]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys([*a, *b]):
            yield from _leaves(a.get(key), b.get(key), f"{name}.{key}" if name else key)
    else:
        yield name, _difference(a, b)


def _difference(a: Any, b: Any) -> float:
    """Give the largest difference in proportion to the largest stored number."""
    if a == b:
        return 0.0
    first, second = list(_numbers(a)), list(_numbers(b))
    if len(first) != len(second) or not first or _shape(a) != _shape(b):
        return math.inf
    largest = max(map(abs, first))
    gap = max(abs(x - y) for x, y in zip(first, second, strict=True))
    return gap / largest if largest else math.inf


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, list):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def _shape(value: Any) -> Any:
    """See a value without its numbers: lists, nulls and words stay."""
    if isinstance(value, list):
        return [_shape(item) for item in value]
    return 0 if isinstance(value, int | float) and not isinstance(value, bool) else value


def _short(value: Any) -> str:
    text = str(value)
    return text[:12] if re.fullmatch("[0-9a-f]{64}", text) else text


def _origin(entry: Entry) -> dict[str, Any]:
    return {**(entry.record.get("provenance") or {}), **entry.made}


def _changed(entry: Entry, record: Record, device: str) -> Iterator[str]:
    """Say what the stored record was made with and this one was not."""
    then = _origin(entry)
    now = {**record.provenance, "code": code_hash(), "torch": torch.__version__, "device": device}
    for name in ("code", "torch", "device", "cpu", "python", "threads", "norms"):
        if name not in then:
            yield f"{name} (it was not recorded)"
        elif then[name] != now.get(name):
            yield f"{name} {_short(then[name])}, now {_short(now.get(name))}"
            if name == "code":
                yield f"commit {then.get('commit')}, now {now.get('commit')}"
    if then.get("together", 1) > 1:
        yield f"trained together with others ({then['together']}), now alone"


def _words(difference: float) -> str:
    return "not comparable" if math.isinf(difference) else f"{difference:.2g}"
