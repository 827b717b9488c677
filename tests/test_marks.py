"""The data and the phone version of figures, on pages and in files."""

import csv
import html
import io
import json
import re
from statistics import median

import numpy as np
import pytest
from each import each
from matplotlib.text import Text
from test_plots import ACCURACY, FALL, PICTURES, drawn

from labkit import plots
from labkit.plots.attention import attention_maps
from labkit.plots.marks import MOST_PLACES, Marks
from labkit.plots.style import PHONE

WITHOUT = {"axes_cube", "bookshelf", "placement_diagram"}  # drawings that show no numbers
MARKED = sorted(PICTURES.keys() - WITHOUT)
# Numbers of a figure's data that are no series: where its lines of reference are, what they bound.
BESIDE = {"roof", "shadow", "share_bars", "dots", "panels"}
each_marked = each(name=MARKED)


def table(figure) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(marks_of(figure).to_csv())))


def marks_of(figure) -> Marks:
    assert figure.marks, "these figures have some"
    return figure.marks


def narrow(name: str) -> plots.Figure:
    draw = drawn(name).draw_narrow
    assert draw, "every figure draws itself for a phone"
    return draw()


def numbers(rows) -> set[float]:
    found = set()
    for row in rows:
        for cell in row.values():
            try:
                found.add(float(cell))
            except ValueError:
                continue
    return found


def told(svg_or_page: str, attribute: str):
    found = re.search(rf"{attribute}=(['\"])(.*?)\1", svg_or_page, re.S)
    assert found, attribute
    return html.unescape(found[2])


# -- the table ----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", sorted(set(MARKED) - BESIDE))
def test_a_table_has_every_number_that_a_figure_s_data_has(name):
    figure = drawn(name)
    kept = {value for value in figure.data if value is not None}
    assert kept and not kept - numbers(table(figure))


def test_a_row_is_one_run_at_one_setting_and_columns_carry_units():
    figure = plots.curves(
        ACCURACY | {"none, rate 1": {2: [0.1, None]}},
        xlabel="batch size", ylabel="accuracy (%)", caption="c",
    )  # fmt: skip
    rows = table(figure)
    assert list(rows[0]) == ["series", "arm", "batch size", "run", "accuracy (%)"]
    by_place: dict[tuple[str, float], list[str]] = {}
    for row in rows:
        place = (row["series"], float(row["batch size"]))
        by_place.setdefault(place, []).append(row["accuracy (%)"])
    lost = by_place.pop(("none, rate 1", 2.0))
    assert lost == ["0.1", "diverged"]
    values = [v for (_, x), runs in by_place.items() for v in (x, *map(float, runs))]
    assert values == figure.data[:-3], "Figure.data is these numbers, in this order"
    assert {row["series"]: row["arm"] for row in rows}["none, rate 1"] == "none"


def test_medians_groups_and_shares_follow_from_the_rows_of_the_table():
    rows = table(drawn("panels"))
    assert list(rows[0]) == ["series", "arm", "step", "run", "quantity", "value"]
    groups: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        key = (row["quantity"], row["series"], row["step"])
        groups.setdefault(key, []).append(float(row["value"]))
    assert list(map(median, groups.values())) == pytest.approx(drawn("panels").data)
    dots = table(drawn("dots"))
    assert [row["accuracy"] for row in dots] == ["0.9", "0.92", "0.5", "diverged"]
    assert "" not in dots[0], "no column without a name"
    bars = [float(row["% of the whole"]) for row in table(drawn("share_bars"))]
    assert bars == pytest.approx([97, 3, 50, 50])


def test_what_an_operation_reads_and_writes_stands_at_its_name():
    rows = table(drawn("trips"))
    found = [(row["panel"], row["operation"], row["quantity"], row["value"]) for row in rows]
    assert sorted(found) == [
        ("in steps", "mean", "bytes read", "4"),
        ("in steps", "mean", "bytes written", "0"),
        ("in steps", "square", "bytes read", "4"),
        ("in steps", "square", "bytes written", "4"),
        ("one kernel", "norm", "bytes read", "2"),
        ("one kernel", "norm", "bytes written", "2"),
    ]


def test_a_slider_s_table_says_of_which_picture_a_row_is():
    slider = plots.explore(
        lambda k: plots.curves({"pre": {1: [k], 2: [2 * k]}}, xlabel="x", ylabel="y", caption="c"),
        [1, 3], "times", label="k",
    )  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(slider.to_csv())))
    assert [(row["k"], row["x"], row["y"]) for row in rows] == [
        ("1", "1", "1"), ("1", "2", "2"), ("3", "1", "3"), ("3", "2", "6"),
    ]  # fmt: skip


# -- what a page reads --------------------------------------------------------------------------
@each_marked
def test_every_place_that_is_told_lies_in_both_drawings_and_every_hook_has_a_series(name):
    figure = drawn(name)
    marks = json.loads(told(figure.draw_page(), "data-marks"))
    for svg in (figure.svg(), figure.draw_narrow().svg()):
        _, _, wide, high = map(float, told(svg, "viewBox").split())
        lines = [line.split(",") for line in told(svg, "data-at").split(";")]
        assert [len(line) for line in lines] == [len(one[4]) for one in marks["series"]]
        seen = [list(map(float, at.split())) for line in lines for at in line if at]
        assert seen and all(0 <= x <= wide and 0 <= y <= high for x, y in seen)
        hooks = {int(i) for i in re.findall(r'data-(?:series|name)="(\d+)"', svg)}
        assert hooks <= set(range(len(lines)))
        assert 'id="series-' not in svg and 'id="name-' not in svg


@each(kind=["wide", "narrow"])
def test_a_place_is_where_its_marker_is_drawn(kind):
    figure = drawn("curves") if kind == "wide" else drawn("curves").draw_narrow()
    svg = figure.svg()
    for i, line in enumerate(told(svg, "data-at").split(";")):
        groups = re.findall(rf'<g data-series="{i}">(.*?)\n   </g>', svg, re.S)
        uses = [re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"', group) for group in groups]
        means = [tuple(map(float, at)) for at in uses[-1]]
        places = [tuple(map(float, at.split())) for at in line.split(",")]
        assert len(means) == len(places) == 3
        for mean, place in zip(means, places, strict=True):
            assert mean == pytest.approx(place, abs=0.6)


@each(name=["curves", "loss_curves", "by_depth", "panels", "dots", "paired", "histograms"])
def test_names_belong_to_the_series_that_they_name(name):
    figure = drawn(name)
    series = [one.name for one in figure.marks.series]
    for svg in (figure.svg(), figure.draw_narrow().svg()):
        words = re.findall(r'<g data-name="(\d+)">\s*<text[^>]*>([^<]*)</text>', svg)
        assert words or name == "paired"
        assert all(series[int(i)] == word for i, word in words)


def test_an_arm_is_what_gives_the_colour_and_not_a_label_s_first_word():
    series = {"GPT": {1: [1.0]}, "no norm, rate 0.1": {1: [2.0]}, "no decay": {1: [3.0]}}
    marks = marks_of(plots.curves(series, xlabel="x", ylabel="y", caption="c"))
    assert [one.arm for one in marks.series] == ["pre", "none", "no decay"]


def test_a_summary_is_what_is_drawn_mean_and_interval_or_median_and_range():
    runs = [[1.0, 2.0, 6.0], [float("nan"), 1.0, 1.0], [float("nan")] * 2]
    for middle, first in (
        ("mean", [0, 3, -3.57248, 9.57248, 3, 0]),
        ("median", [0, 2, 1, 6, 3, 0]),
    ):
        marks = Marks("x", middle=middle)
        marks.add("pre", drawn("curves").fig.axes[0], "y", [0, 1, 2], runs)
        one, two, lost = (marks.series[0].summarize(i, middle) for i in range(3))
        assert one == pytest.approx(first, rel=1e-4)
        assert two[-2:] == [2, 1] and lost == [2, None, None, None, 0, 2]


def test_a_page_reads_so_many_places_of_a_long_line_and_a_file_all():
    long = plots.loss_curves({"pre": [FALL[0] * 3]}, caption="c")
    (series,) = json.loads(told(long.draw_page(), "data-marks"))["series"]
    settings = [point[0] for point in series[4]]
    assert len(settings) == MOST_PLACES and settings[0] == 1 and settings[-1] == 600
    assert len(table(long)) == 600


def words_of(fig) -> list[Text]:
    """List the drawn labels; a tick outside its axis does not count."""
    unseen: set[Text] = set()
    for ax in fig.axes:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():
                if not (ax.axison and low <= tick.get_loc() <= high):
                    unseen |= {tick.label1, tick.label2}
    texts = [text for text in fig.findobj(Text) if text.get_visible() and text not in unseen]
    return [
        text
        for text in texts
        if text.get_text().strip() and (text.axes is None or text.axes.get_visible())
    ]


def test_places_are_rounded_and_numbers_that_are_read_are_not():
    figure = plots.curves(
        {"pre": {0.00316: [1.23456], 0.0178: [2.0]}}, xlabel="x", ylabel="y", caption="c", logx=True
    )
    page = figure.draw_page()
    assert ">0.00316<" in page and "1.23456" in told(page, "data-marks")
    shapes = " ".join(re.findall(r' d="([^"]*)"', page))
    assert re.search(r"\d\.\d\d\b", shapes) and not re.search(r"\.\d{3}", shapes)


# -- a phone ------------------------------------------------------------------------------------
@each(name=sorted(PICTURES))
def test_a_phone_s_drawing_is_360_pixels_wide_with_text_of_11(name):
    svg = narrow(name).svg(PHONE[1])
    assert told(svg, " width") == "360"
    unit = 360 / float(told(svg, "viewBox").split()[2])
    sizes = [float(size) * unit for size in re.findall(r"font-size: ([\d.]+)px", svg)]
    sizes += [float(size) * unit for size in re.findall(r"font: [^;\"]*?([\d.]+)px", svg)]
    assert sizes and min(sizes) >= 11


@each(name=sorted(PICTURES))
def test_no_word_is_cut_on_a_phone(name):
    fig = narrow(name).fig
    fig.draw_without_rendering()
    for text in words_of(fig):
        box = text.get_window_extent()
        assert box.x0 >= -3 and box.x1 <= fig.bbox.x1 + 3, text.get_text()


def test_a_map_s_cells_show_the_page_s_ground_through():
    maps = {("pre", "step 0"): [[1.0, 0.0], [0.25, 0.75]]}
    axes = attention_maps(maps, "ab", notes=dict.fromkeys(maps, "n"), caption="c").fig.axes[0]
    cells = np.asarray(axes.get_images()[0].get_array())
    assert cells[..., 3].tolist() == [[1.0, 0.0], [0.25, 0.75]]
