"""Alt text: one sentence per series, written from the drawn numbers."""

from collections.abc import Mapping, Sequence
from math import floor, isfinite, log10
from typing import Any

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def format_number(value: float | None) -> str:
    """Format a number with three significant digits; a value that is not finite is "diverged"."""
    if value is None or not isfinite(value):
        return "diverged"
    rounded = f"{value:.3g}"
    if "e" in rounded and 1e-4 <= abs(value) < 1e7:
        rounded = f"{float(rounded):.0f}" if abs(value) >= 1 else f"{float(rounded):g}"
    return shorten_power(rounded)


def format_power(value: float) -> str:
    """Format a number as a power of ten: 10⁵, 3·10⁻⁴, 1."""
    power = floor(log10(abs(value)) + 1e-9) if value else 0
    digits = f"{value / 10**power:g}".replace("-", "−")
    if not power:
        return digits
    ten = "10" + str(power).translate(RAISED)
    return ten if digits == "1" else f"{digits}·{ten}"


def shorten_power(figures: str) -> str:
    """Shorten a power of ten: 1e+07 becomes 1e7."""
    return figures.replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")


def describe_trend(
    name: str, xs: Sequence[float | str], ys: Sequence[float], link: str = "at"
) -> str:
    """Describe the start and the end of a series, and its extreme if that lies in between."""
    points = [(x, y) for x, y in zip(xs, ys, strict=True) if isfinite(y)]
    if not points:
        return f"{name} diverges everywhere"
    places = [x if isinstance(x, str) else format_number(x) for x, _ in points]
    values = [y for _, y in points]
    first, last = values[0], values[-1]
    if len(values) == 1:
        return f"{name} is {format_number(first)} {link} {places[0]}"
    if format_number(first) == format_number(last):
        text = f"{name} is {format_number(first)} {link} {places[0]} and {link} {places[-1]}"
    else:
        verb = "falls" if last < first else "rises"
        text = (
            f"{name} {verb} from {format_number(first)} {link} {places[0]} "
            f"to {format_number(last)} {link} {places[-1]}"
        )
    low, high = min(values), max(values)
    below, above = min(first, last) - low, high - max(first, last)
    if max(below, above) > 0.05 * (high - low):
        word, extreme = ("lowest", low) if below >= above else ("highest", high)
        if format_number(extreme) not in (format_number(first), format_number(last)):
            text += f", {word} {format_number(extreme)} {link} {places[values.index(extreme)]}"
    return text


def describe_spread(name: str, values: Sequence[float]) -> str:
    """Describe the mean and the range of a group of values."""
    kept = [v for v in values if isfinite(v)]
    lost = (
        f", {len(values) - len(kept)} of {len(values)} diverged" if len(kept) < len(values) else ""
    )
    if not kept:
        return f"{name} diverged in all {len(values)} runs"
    text = f"{name} {format_number(sum(kept) / len(kept))}"
    if len(kept) > 1:
        text += f" (from {format_number(min(kept))} to {format_number(max(kept))})"
    return text + lost


def join_sentences(
    head: str, parts: Sequence[str], notes: Mapping[str, float] | None = None
) -> str:
    """Join a heading, one part per series, and marked values into alt text."""
    text = f"{head}: {'; '.join(parts)}."
    if notes:
        marked = ", ".join(f"{name} at {format_number(value)}" for name, value in notes.items())
        text += f" Marked: {marked}."
    return text


def describe_divergence(points: Mapping[Any, Sequence[float]]) -> str:
    """Return the settings at which runs diverged, and how many."""
    parts = [
        f"{lost} of {len(ys)} runs diverged at {x if isinstance(x, str) else format_number(x)}"
        for x, ys in points.items()
        if (lost := sum(not isfinite(y) for y in ys))
    ]
    return f" ({', '.join(parts)})" if parts else ""


def format_count(n: int, thing: str) -> str:
    """Format a count with its noun: "one panel", "three panels"."""
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    plural = thing if n == 1 or thing.endswith("s") else thing + "s"
    return f"{words[n] if n < len(words) else n} {plural}"
