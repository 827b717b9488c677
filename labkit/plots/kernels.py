"""Kernels: limits of memory and arithmetic, and the fraction of copy's bandwidth per kernel.

`labkit show FILE.json` draws and tabulates the fractions in a file written by `normkernels.bench`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from .alt import describe_trend, format_number, join_sentences
from .axes import DOTS, log_ticks, make_handle, place_ticks, start_axes
from .figure import Figure, redrawable
from .looks import COLOURS, Look, choose_looks
from .marks import Marks, name_key
from .style import INK, QUIET, WIDTH, is_narrow, label_axes, make_canvas, write_text
from .tables import table

WAYS = ("forward", "backward")
TARGETS = {"forward": 90, "backward": 80}  # per cent
LONGEST = 8192  # values of a row at which the targets still hold
OURS = "normkernels"
PROVIDERS = (OURS, "torch", "compile", "liger", "quack", "eager")
DRY = "**DRY RUN.** Triton's interpreter on a CPU, at tiny sizes: the numbers are no measurements."
Shares = dict[str, dict[str, dict[int, float]]]  # direction, provider, row length: per cent


@redrawable
def roof(
    bandwidth: float,
    peaks: Mapping[str, float],
    points: Mapping[str, float],
    *,
    caption: str,
) -> Figure:
    """Draw the roofline of a device and mark the kernels on it by their intensity.

    bandwidth    bytes per second
    peaks        operations per second of each kind of arithmetic, the highest first
    points       operations per byte of each kernel, drawn at its limit under the highest peak
    """
    top = max(peaks.values())
    low, high = min(points.values()) / 2, 1.5 * max(*points.values(), 4 * top / bandwidth)
    ax = start_axes(logx=True, logy=True, height=3.9)
    x = np.geomspace(low, high, 200)
    ax.plot(x, np.minimum(bandwidth * x, top) / 1e12, color=INK, linewidth=2)
    for name, peak in peaks.items():
        start, y = peak / bandwidth, peak / 1e12
        ax.plot([start, high], [y, y], color=INK if peak == top else QUIET, linewidth=1)
        text = f"{name}: {format_number(y)}, ridge at {format_number(start)}"
        write_text(ax, text, (high, y), (0, 4), ha="right", va="bottom")
    marks = Marks("operations for each byte", of="kernel")
    rate = "10¹² operations a second, at most"
    ordered = sorted(points.items(), key=lambda point: point[1])
    above = [at for _, at in ordered[1:]] + [np.inf]
    for i, (name, intensity) in enumerate(ordered):
        spot = (intensity, min(bandwidth * intensity, top) / 1e12)
        colour = list(COLOURS.values())[i % 6]
        key = marks.add(name, ax, rate, spot[:1], [[spot[1]]])
        ax.plot(*spot, "osD^vP"[i % 6], color=colour, markersize=7, zorder=3, gid=key)
        aside, side = (9, -9 if above[i] < 2 * intensity else -2), "left"
        if intensity >= top / bandwidth:  # the roof is flat: below it
            aside, side = (26, -13), "right"
        ink: dict[str, Any] = {"color": colour, "fontweight": "bold", "gid": name_key(key)}
        write_text(ax, name, spot, aside, ha=side, va="top", **ink)
    ax.set_xlim(low, high)
    ax.set_ylim(bandwidth * low / 1e12, 3 * top / 1e12)
    log_ticks(ax, "x")
    log_ticks(ax, "y")
    label_axes(ax, "operations for each byte", rate)
    parts = [
        f"{name} has {format_number(at)} and may reach "
        f"{format_number(min(bandwidth * at, top) / 1e12)}"
        for name, at in points.items()
    ]
    head = "Roofline: attainable 10¹² operations a second against operations for each byte"
    ridges = {f"ridge of {name}": peak / bandwidth for name, peak in peaks.items()}
    data = [bandwidth, list(peaks.values()), list(points.values())]
    text = join_sentences(head, parts, ridges)
    return Figure(ax.figure, text, caption, data, marks=marks)


def publish_report(file: Path) -> str:
    """Write tables and figure of a recorded file next to it; return the tables' text.

    Raises:
        ValueError: the file was not written by `make bench-kernels`.
    """
    try:
        recorded = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"a file of results must exist and be JSON, but {file} is not ({error})"
        ) from error
    if recorded.get("schema") != 1 or not recorded.get("results"):
        raise ValueError(
            f"{file} must contain results of `make bench-kernels` with schema 1, got schema "
            f"{recorded.get('schema')!r} and {len(recorded.get('results') or ())} results"
        )
    text = write_report(recorded)
    figure = kernel_shares(recorded)
    picture = figure.save(file.with_suffix(".png"))
    page = f"{text}\n![{figure.alt}]({picture.name})\n\n{figure.caption}\n"
    file.with_suffix(".md").write_text(page, encoding="utf-8")
    return f"{text}\n{picture}: {figure.caption}"


def write_report(recorded: Mapping[str, Any]) -> str:
    """Return a Markdown report: our lowest fractions, every size by provider, missing times."""
    facts = recorded["provenance"]
    versions = {name: facts[name] for name in ("driver", "cuda", "torch", "triton", "python")}
    listed = ", ".join(f"{k} {v or 'absent'}" for k, v in (versions | facts["peers"]).items())
    entries = recorded["results"].items()
    lowest = [_tabulate_lowest(*one) for one in _read_shares(recorded).items()]
    return (
        "\n\n".join(
            [
                f"# Kernels on {facts['device']}",
                *([DRY] if recorded["dry_run"] else []),
                f"Sources {facts['source']}; {listed}.",
                "## The lowest share of copy's bandwidth: bf16, 64 MiB and more, N up to 8192",
                repr(table(lowest)) if lowest else "No such size was measured.",
                "## Share of copy's bandwidth, forward / backward, and µs of the host",
                repr(table([_tabulate_size(key, entry) for key, entry in entries])),
                "## Not timed",
                "\n".join(sorted({line for _, entry in entries for line in _list_untimed(entry)}))
                or "Every provider was right at every size.",
            ]
        )
        + "\n"
    )


def _tabulate_lowest(kernel: str, shares: Shares) -> dict[str, str]:
    row = {"kernel": kernel}
    for way, target in TARGETS.items():
        ours = {n: s for n, s in shares[way].get(OURS, {}).items() if n <= LONGEST}
        worst = min(ours, key=lambda n: ours[n]) if ours else 0
        missed = ", missed" if ours and ours[worst] < target else ""
        cell = f"{ours[worst]:.0f} % at N = {worst}{missed}" if ours else "–"
        row[f"{way}, target {target} %"] = cell
    return row


def _tabulate_size(key: str, entry: Mapping[str, Any]) -> dict[str, str]:
    cells = {"size": key}
    ways = [way for way in WAYS if entry["bytes"][way]]

    def join(name: str, number: Callable[[dict[str, float]], str]) -> str:
        found = entry["providers"].get(name, {"status": ""})
        times = [found[way] for way in ways] if found["status"] == "ok" else []
        return " / ".join(map(number, times)) or found["status"]

    cells["copy, GB/s"] = join("copy", lambda time: f"{time['gbps']:.0f}")
    cells["copy, GB/s"] += "" if entry["cold"] else " (in cache)"
    for name in PROVIDERS:
        cells[name] = join(name, lambda time: f"{time['share']:.0%}")
    for name in PROVIDERS[:2]:
        cells[f"host of {name}"] = join(name, lambda time: f"{time['host_us']:.1f}")
    return cells


def _list_untimed(entry: Mapping[str, Any]) -> list[str]:
    return [
        f"- {name} **{found['status']}** at {entry['kernel']}: {found['reason']}"
        for name, found in entry["providers"].items()
        if found["status"] != "ok" and not found["reason"].endswith("has no such kernel")
    ]


@redrawable
def kernel_shares(recorded: Mapping[str, Any], chosen: Sequence[str] = ()) -> Figure:
    """Draw the fraction against row length: a row of panels per kernel, a line per provider.

    chosen    kernels to draw; empty: all that were measured
    """
    kernels = {k: of for k, of in _read_shares(recorded).items() if not chosen or k in chosen}
    if not kernels:
        raise ValueError(
            "the file has no large bf16 size, so there is nothing to draw; measure `targets` first"
        )
    device = recorded["provenance"]["device"]
    names = {name for shares in kernels.values() for lines in shares.values() for name in lines}
    styles = choose_looks(sorted(names, key=lambda name: (name != OURS, name)))
    narrow = is_narrow()
    down, across = (2 * len(kernels), 1) if narrow else (len(kernels), 2)
    picture = make_canvas(0.9 + 1.65 * down, None if narrow else WIDTH * 1.25)
    axes = picture.subplots(down, across, squeeze=False).reshape(len(kernels), 2)
    for row, (kernel, shares) in zip(axes, kernels.items(), strict=True):
        for ax, way in zip(row, WAYS, strict=True):
            if not shares[way]:
                ax.set_axis_off()
                continue
            _draw_shares(ax, shares[way], styles)
            ax.axhline(TARGETS[way], color=QUIET, linewidth=0.9, linestyle=DOTS, zorder=1)
            length = "values of a head" if kernel == "qk_norm_rope" else "values of a row"
            label_axes(ax, length, "% of copy's bandwidth", f"{kernel}, {way}")
    handles = [make_handle(*named) for named in styles.items()]
    dry = bool(recorded["dry_run"])
    title = "DRY RUN: these are no measurements" if dry else None
    above: dict[str, Any] = {"loc": "outside upper left", "alignment": "left", "title_fontsize": 18}
    columns = 2 if narrow else len(handles)
    picture.legend(handles=handles, ncols=columns, title=title, **above)
    warning = "DRY RUN, no measurements. " if dry else ""
    data = [
        [n, share]
        for shares in kernels.values()
        for lines in shares.values()
        for points in lines.values()
        for n, share in points.items()
    ]
    return Figure(
        picture,
        f"{warning}Line plots of the share of copy's bandwidth, in per cent, against row length on "
        f"{device}, bf16. {'. '.join(_describe_shares(kernels))}.",
        f"{warning}Speed of each kernel (bytes per second, by our count) against row length, in "
        f"per cent of the speed of a kernel that only flips bits ({device}, bf16, 64 MiB and more)."
        f" Dotted: our targets, {TARGETS['forward']} per cent forward and {TARGETS['backward']}"
        " backward. Unavailable implementations and wrong results are not drawn.",
        data,
        recorded["provenance"],
    )


def _read_shares(recorded: Mapping[str, Any]) -> dict[str, Shares]:
    """Group the large bf16 sizes by kernel, direction, provider and length."""
    entries = [e for e in recorded["results"].values() if e["large"] and e["dtype"] == "bf16"]
    kernels: dict[str, Shares] = {e["kernel"]: {way: {} for way in WAYS} for e in entries}
    for entry in sorted(entries, key=lambda entry: entry["n"]):
        if entry["heads"] and entry["heads"][0] == entry["heads"][1]:
            continue  # the same lengths once more, with fewer heads
        shares = kernels[entry["kernel"]]
        for name, result in entry["providers"].items():
            for way in WAYS:
                if name != "copy" and result["status"] == "ok" and way in result:
                    shares[way].setdefault(name, {})[entry["n"]] = 100 * result[way]["share"]
    return {kernel: shares for kernel, shares in kernels.items() if shares["forward"]}


def _draw_shares(ax: Any, lines: dict[str, dict[int, float]], styles: dict[str, Look]) -> None:
    ax.set_xscale("log", base=2)
    for name, look in styles.items():
        points = lines.get(name, {})
        wide, front = (2.4, 4) if name == OURS else (1.4, 3)
        ax.plot(
            list(points), list(points.values()), linewidth=wide, zorder=front, **look.marked_line
        )
    ax.set_ylim(0, max(105, 1.05 * max(max(points.values()) for points in lines.values())))
    place_ticks(ax, sorted({n for points in lines.values() for n in points}), log=True)


def _describe_shares(kernels: dict[str, Shares]) -> list[str]:
    """Describe our line, and the best other provider on average."""
    said = []
    for kernel, shares in kernels.items():
        for way, lines in shares.items():
            parts = []
            if points := lines.get(OURS):
                parts.append(describe_trend(OURS, [*map(str, points)], [*points.values()]))
            others = {n: fmean(p.values()) for n, p in lines.items() if n != OURS}
            if others:
                best = max(others, key=lambda name: others[name])
                parts.append(
                    f"best of the others is {best}, {format_number(others[best])} in the mean"
                )
            if parts:
                said.append(f"{kernel} {way}: {'; '.join(parts)}")
    return said
