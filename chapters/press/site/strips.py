"""Draw the values of a claim as a strip: dots on a line, with zero and the ends of the interval."""

from labkit.experiments.card_html import format_number
from labkit.statistics.recorded import read_criterion
from press.book.facts import Json

SHORTEST = 0.06  # of the line: an interval that is shorter cannot be read


def draw_strip(claim: Json) -> str:
    """Draw values as dots, the interval as a bar with its ends as numbers, zero and thresholds.

    Zero is left out where the interval would be too short next to it.
    """
    values, bounds = list(map(float, claim["values"])), list(read_criterion(claim).bounds)
    start, end = map(float, claim["interval"])
    if not end > start:
        return ""
    low, high = min([*values, *bounds, start]), max([*values, *bounds, end])
    if end - start > SHORTEST * (max(high, 0) - min(low, 0)):
        low, high = min(low, 0), max(high, 0)

    def place(value: float) -> str:
        return f"{45 + 110 * (value - low) / (high - low):.1f}"

    zero = low <= 0 <= high
    marks = sorted({*bounds, 0.0} if zero else bounds)
    labels = [0.0] if zero else marks
    anchors = ("end", "start") if len(labels) == 2 else ("middle",)
    ends = format_number(start, end - start), format_number(end, end - start)
    parts = [f'<path class="tick" d="M{place(mark)} 11V24"/>' for mark in marks]
    parts += [
        f'<text x="{place(mark)}" y="9" text-anchor="{anchor}">{format_number(mark)}</text>'
        for mark, anchor in zip(labels, anchors, strict=True)
    ]
    parts += [
        f'<text x="{place(start)}" y="31" text-anchor="end">{ends[0]}</text>',
        f'<path class="bar" d="M{place(start)} 18H{place(end)}"/>',
        f'<text x="{place(end)}" y="31" text-anchor="start">{ends[1]}</text>',
    ]
    parts += [f'<circle cx="{place(value)}" cy="18" r="2.4"/>' for value in values]
    said = f"interval from {ends[0]} to {ends[1]}".replace("-", "−")
    return (
        f'<svg class="labkit-strip" viewBox="0 0 200 32" role="img" aria-label="{said}">'
        f"{''.join(parts).replace('>-', '>−')}</svg>"
    )
