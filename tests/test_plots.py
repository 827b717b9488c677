"""The book's figures: their data for a build, their alternative texts, and their common style."""

import base64
import io
import itertools
import re
from functools import cache
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from each import each, some_quick
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from PIL import Image, ImageColor

from labkit import plots
from labkit.norms import NORMS
from labkit.placements import RECIPES
from labkit.plots.alt import describe_trend, format_number
from labkit.plots.figure import VARIABLES
from labkit.plots.lines import running_mean
from labkit.plots.looks import COLOURS, LOOKS, SPARE_MARKERS, choose_look, choose_looks
from labkit.plots.series import mean_and_half
from labkit.plots.slider import VEGA_LITE
from labkit.plots.style import HAIR, INK, QUIET, measure_contrast
from labkit.statistics.pooled import Scatter, compare_samples

ACCURACY = {
    "batch": {2: [0.47, 0.5, 0.46], 8: [0.97, 0.98, 0.97], 128: [0.98, 0.98, 0.99]},
    "layer": {2: [0.97, 0.98, 0.97], 8: [0.96, 0.97, 0.97], 128: [0.77, 0.8, 0.75]},
}
FALL = [[4.5 - 2.5 * (1 - 0.98**i) + 0.01 * s for i in range(200)] for s in range(3)]
CELLS = {(layers, rate): layers / 10 + rate for layers in (4, 12) for rate in (0.001, 0.01)}
LOSSES = {"pre": {1: [1.4], 2: [2.2]}, "post": {1: [1.5], 2: [2.3]}}
CAPTION = {"caption": "c"}
AXES = CAPTION | {"xlabel": "x", "ylabel": "y"}
GRID = CAPTION | {"row_label": "r", "col_label": "c", "value_label": "v"}
PAIR = CAPTION | {"ylabel": "y", "columns": ("on", "off")}
XOR = CAPTION | {"line": (1, -1, 0), "titles": ("before", "after")}
SKEW = {"a": [3, 1, -1, 5], "b": [1, 2, 3, 4]}
MAP = {("pre", "step 0"): [[1.0]]}


def accuracy(**more):
    return plots.curves(
        ACCURACY, xlabel="batch size", ylabel="accuracy", logx=True, caption="Look left.", **more
    )


PICTURES = {
    "curves": accuracy,
    "loss_curves": lambda: plots.loss_curves({"pre": FALL, "post": FALL[:2]}, caption="Both fall."),
    "by_depth": lambda: plots.by_depth(
        {"pre": [[1, 2, 3], [1, 2.2, 3.3]], "post": [1, 1, 1]}, ylabel="RMS", caption="It grows."
    ),
    "norm_curves": lambda: plots.norm_curves(
        {"layer": {"points": [[-3, 0, 5], [-1, 0, 1]], "lines": [[-3, -1, 5, 1]], "bend": 0.5}},
        caption="It bends.",
    ),
    "dots": lambda: plots.dots(
        {"rms": [0.9, 0.92], "none": [0.5, None]},
        xlabel="accuracy",
        caption="One is lower.",
        threshold={"chance": 0.1},
    ),
    "panels": lambda: plots.panels(
        {
            "loss": {"pre": [{0: 4.0, 5: 2.0}, {0: 4.2, 5: 2.4}], "post": [{0: 4.0, 5: 3.1}]},
            "share": {"pre": [{0: 1.0, 4: 0.5}], "post": [{0: 1.0, 4: 1e-8}]},
        },
        xlabel="step",
        log=["share"],
        caption="Two quantities, one axis.",
    ),
    "histograms": lambda: plots.histograms(
        {"one-pass": [0.0, 0.0, 4.0, 9.0], "two-pass": [1.0, 1.1]},
        [-1, 0.5, 2, 5],
        xlabel="variance",
        caption="Lost.",
        reference={"true": 1.0},
    ),
    "trips": lambda: plots.trips(
        {"in steps": [("square", 4, 4), ("mean", 4, 0)], "one kernel": [("norm", 2, 2)]},
        **CAPTION,
    ),
    "turns": lambda: plots.turns(
        {"post": (1, 1), "heavy skip": (2, 1), "light branch": (1, 0.5)}, **CAPTION
    ),
    "shadow": lambda: plots.shadow(
        {"a": [3, 1, -1, 5], "b": [1, 3, 5, -1]}, {"as it is": 0, "plus 10": 10}, caption="Drop it."
    ),
    "paired": lambda: plots.paired(
        {"batch": ([0.98, 0.97], [0.9, 0.8]), "layer": ([0.97, 0.97], [0.97, 0.96])},
        columns=("train", "eval"),
        ylabel="accuracy",
        caption="A gap.",
    ),
    "grid_map": lambda: plots.grid_map(
        panels={"pre": CELLS, "none": {**CELLS, (12, 0.01): float("nan"), (12, 0.001): None}},
        row_label="layers",
        col_label="learning rate",
        value_label="loss",
        caption="Hatched: diverged.",
    ),
    "attention_maps": lambda: plots.attention_maps(
        {("pre", "step 0"): [[1, 0], [0.5, 0.5]], ("pre", "step 9"): [[1, 0], [0.9, 0.1]]},
        "a ",
        notes={("pre", "step 0"): "largest logit 1", ("pre", "step 9"): "largest logit 9"},
        caption="It gets sharper.",
    ),
    "axes_cube": lambda: plots.axes_cube(["batch", "layer", "instance", "group-2"]),
    "bookshelf": lambda: plots.bookshelf(["batch", "layer", "instance"], caption="Books."),
    "sphere_paths": lambda: plots.sphere_paths(
        {"lerp": [[1, 0, 0], [0, 1, 0]], "chord": [[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0]]},
        marks={"h": [1, 0, 0]},
        title="Two ways",
        caption="Chord and arc.",
    ),
    "xor_points": lambda: plots.xor_points(
        [[0, 0], [0, 1], [1, 0], [1, 1]],
        [[-1, 1], [1, -1], [1, -1], [-1, 1]],
        [0, 1, 1, 0],
        **XOR,
    ),
    "placement_diagram": lambda: plots.placement_diagram("post", "hybrid"),
    "block_explorer": lambda: plots.block_explorer(
        {"none": {0.001: [1.6], 0.01: [None]}, "peri": {0.001: [1.5, 1.6], 0.01: [1.4]}},
        {"post": {0.001: [1.7], 0.01: [3.0]}},
        reference={"letter frequencies": 3.0},
        caption="Two blocks.",
    ),
    "roof": lambda: plots.roof(
        3e12, {"matrix": 9e14, "vector": 6e13}, {"norm": 1.25, "product": 900.0}, caption="Left."
    ),
    "share_bars": lambda: plots.share_bars(
        {"fused": {"rest": 97.0, "norms": 3.0}, "eager": {"rest": 1.0, "norms": 1.0}},
        caption="One is half.",
        notes={"fused": "5 ms", "eager": "8 ms"},
    ),
}
each_picture = each(name=PICTURES)


@cache
def drawn(name):
    """Draw each picture once for all tests that only read it."""
    return PICTURES[name]()


def shown(thing):
    """Display an object as a notebook would and return its outputs."""
    InteractiveShell.instance()
    with capture_output() as captured:
        thing._ipython_display_()
    return captured.outputs


def test_every_function_that_draws_is_tried_here():
    assert set(PICTURES) == set(dir(plots)) - {
        "ClosedForm", "Figure", "Slider", "Table", "explore", "table",
    }  # fmt: skip


@each_picture
def test_a_figure_tells_the_build_what_it_shows(name):
    figure = drawn(name)
    picture, caption = shown(figure)
    assert set(picture.data) == {"image/png", "text/plain"}
    assert picture.data["text/plain"] == figure.alt
    assert picture.metadata["image/png"] == {"alt": figure.alt}, "where nbconvert looks"
    told = picture.metadata["labkit"]
    assert list(told) == ["kind", "name", "caption", "data", "provenance"]
    assert told["kind"] == "figure"
    assert 0 < len(told["data"]) <= 400
    assert all(v is None or v == float(f"{v:.6g}") for v in told["data"])
    assert caption.metadata["labkit"] == {"kind": "caption"}
    assert caption.data["text/markdown"] == figure.caption == told["caption"]
    assert base64.b64decode(picture.data["image/png"]) == figure.png()


@each_picture
def test_a_picture_is_small_white_wide_as_a_page_and_leaves_nothing_open(name):
    settings = dict(matplotlib.rcParams)
    figure = drawn(name)
    assert plt.get_fignums() == [] and dict(matplotlib.rcParams) == settings
    assert re.search(r"\d.*\.$", figure.alt, re.S) and len(figure.alt) > 40
    assert "nan" not in figure.alt and "None" not in figure.alt
    picture = Image.open(io.BytesIO(figure.png()))
    assert len(figure.png()) < 40_000
    assert not picture.info.keys() & {"Software", "Date", "Creation Time"}
    assert 690 <= picture.width <= 720
    assert picture.convert("RGB").getpixel((1, 1)) == (255, 255, 255)


def test_two_hues_stay_two_in_a_png():
    arms = {"Post-Norm": [3.0, 3.1], "Pre-Norm": [2.3, 2.4], "DeepNorm": [2.4, 2.5]}
    picture = plots.dots(arms, xlabel="x", caption="c", threshold={"a": 3.05, "b": 2.4})
    colours = {rgb for _, rgb in Image.open(io.BytesIO(picture.png())).convert("RGB").getcolors()}
    assert {ImageColor.getrgb(choose_look(arm).colour) for arm in arms} <= colours


@pytest.mark.parametrize("name", some_quick(PICTURES, "curves", "axes_cube"))
def test_the_same_numbers_make_the_same_bytes_whatever_a_readers_settings(name):
    plain = PICTURES[
        name
    ]().png()  # not the shared one, whose drawing another test may have laid out
    with plt.rc_context({"font.size": 30, "axes.facecolor": "red", "lines.linewidth": 9}):
        assert PICTURES[name]().png() == plain


def test_a_figure_without_words_is_refused():
    for alt, caption, word in (("", "c", "alt"), ("a", " ", "caption")):
        with pytest.raises(ValueError, match=f"non-empty {word}"):
            plots.Figure(plt.figure(), alt, caption, [1])
    plt.close("all")


def test_provenance_is_kept_and_what_is_counted_has_no_seeds():
    figure = accuracy(counted=True, provenance={"seeds": [0, 1]})
    assert figure.metadata()["provenance"] == {"seeds": [0, 1]}
    assert figure.caption == "Look left." and "seed" in drawn("curves").caption
    table = plots.dots({"a": [3]}, xlabel="bytes", caption="Look left.", counted=True)
    assert table.caption == "Look left." and "seed" in drawn("dots").caption


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("share_bars", "fused 3 %; eager 50 %"),
        # what lies beyond the axis is in the first or last bin
        ("histograms", "has 50 % between -1 and 0.5; two-pass has 100 % between 0.5 and 2"),
        ("roof", "norm has 1.25 and may reach 3.75; product has 900 and may reach 900"),
        ("roof", "ridge of matrix at 300"),
        ("grid_map", "2 of 4 cells diverged"),
        (
            "placement_diagram",
            "Post-Norm: norms on the residual stream, after each of 2 additions.",
        ),
        ("placement_diagram", "on q, k and v and on the residual stream, after the first"),
        (
            "block_explorer",
            "No norm: norms nowhere. Peri-LN: norms on the embedding and before each",
        ),
        ("block_explorer", "Peri-LN falls from 1.55 at 0.001 to 1.4 at 0.01"),
        ("block_explorer", "(1 of 1 runs diverged at 0.01)"),
    ],
)
def test_the_words_of_a_figure_hold_what_it_draws(name, words):
    assert words in drawn(name).alt


def test_a_shadow_is_the_mean_and_rms_norm_keeps_the_arrows_direction():
    alt = drawn("shadow").alt
    angle = 2 * np.degrees(np.arctan2(5**0.5, [2, 12]))  # the standard deviation over the mean
    for at, mean in zip(angle, (2, 12), strict=True):
        assert f"have the mean {mean} and stand 2.24 off the line; {at:.0f} degrees" in alt
    assert alt.count("180 after LayerNorm") == 2
    # Of each offset: two tokens, then where each norm puts each of them, at an RMS of 1.
    ends = np.reshape(drawn("shadow").data, (2, 12))[:, 4:].reshape(-1, 2)
    assert np.hypot(*ends.T) == pytest.approx(np.ones(8))


def test_a_heavier_skip_turns_a_token_as_a_lighter_branch_does():
    rows = np.reshape(drawn("turns").data, (3, 3))
    assert rows[:, 2] == pytest.approx([45, *[np.degrees(np.arctan(1 / 2))] * 2], abs=1e-3)
    assert drawn("turns").alt.count("turned by 27 degrees") == 2


def test_a_panel_is_logarithmic_where_it_is_asked_for():
    assert [ax.get_yscale() for ax in drawn("panels").fig.axes] == ["linear", "log"]


def test_data_are_thinned_and_a_divergence_is_none():
    figure = plots.Figure(plt.figure(), "a", "c", np.arange(10_000) / 7)
    assert len(figure.data) == 400 and figure.data[-1] == 1428.43
    figure = plots.Figure(plt.figure(), "a", "c", [[1, None], (float("inf"), 2)])
    assert figure.data == [1, None, None, 2]
    plt.close("all")


@pytest.mark.parametrize("ending", some_quick(["png", "svg", "pdf"], "svg"))
def test_a_saved_figure_is_the_same_each_time(tmp_path, ending):
    first, second = (accuracy().save(tmp_path / f"{i}.{ending}").read_bytes() for i in "ab")
    assert first == second and len(first) > 1000
    with pytest.raises(ValueError, match=r"png, .svg or .pdf"):
        accuracy().save(tmp_path / "a.gif")


def test_all_methods_have_looks_of_their_own():
    names = sorted({*NORMS, *RECIPES, *LOOKS, "my-norm", "her-norm"})
    chosen = choose_looks(names)
    aliases = {"hybridnorm", "post-norm", "pre-norm", "qkv-post"}
    distinct = [chosen[name] for name in names if name not in aliases]
    assert len({(look.marker, look.dash) for look in distinct}) == len(distinct)
    assert {name: chosen[name] for name in LOOKS} == LOOKS


@pytest.mark.parametrize(
    "written, key",
    [("HybridNorm*", "hybrid*"), ("no norm", "none"), ("Peri-LN", "peri"), ("OLMo 2", "olmo2"),
     ("GPT", "pre"), ("GPT with QK-Norm", "qk")],
)  # fmt: skip
def test_a_method_has_its_look_as_chapters_write_it(written, key):
    assert choose_looks([written])[written] == choose_looks([key])[key]


def test_a_method_looks_the_same_in_every_figure():
    together = choose_looks(["a", "layer", "rms", "my-norm"])
    assert choose_look("rms") == together["rms"] and choose_look("my-norm") == together["my-norm"]
    assert choose_look("my-norm").marker in SPARE_MARKERS
    assert choose_look("LayerNorm") == choose_look("layer")


def test_the_best_known_arms_of_the_ladder_differ_in_colour():
    known = ["pre", "post", "qk", "qkv-pre", "hybrid", "hybrid*", "deepnorm", "lns", "ngpt", "dyt"]
    known += ["none", "sandwich"]
    assert len({LOOKS[name].colour for name in known}) == len(COLOURS)


def test_variants_of_a_method_share_its_colour_and_differ_in_marker_and_dash():
    chosen = choose_looks(["post", "post, warm-up 100", "post (no warm-up)", "layer 3"])
    looks = [*chosen.values()]
    assert looks[0].colour == looks[1].colour == looks[2].colour
    assert len({(look.marker, look.dash) for look in looks}) == 4
    assert len({look.dash for look in looks[:3]}) == 3
    of_two_words = choose_looks(["no norm", "no norm, 0 bytes", "no norm (abc)"])
    assert {look.colour for look in of_two_words.values()} == {COLOURS["black"]}
    assert chosen["layer 3"].marker in SPARE_MARKERS  # the third layer, not LayerNorm


def test_colours_are_readable_on_white():
    assert min(map(measure_contrast, (*COLOURS.values(), INK, QUIET))) >= 4.5
    assert measure_contrast("black") == pytest.approx(21) and measure_contrast(HAIR) < 2


# What the eyes of 8 % of men make of a colour: Machado et al. 2009, severity 1, linear RGB.
DEUTAN = [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
]
PROTAN = [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
]


def lab(hexed, eye):
    """Convert a colour to CIE Lab coordinates."""
    rgb = np.array(matplotlib.colors.to_rgb(hexed))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(to_xyz) @ np.clip(np.array(eye) @ linear, 0, 1) / [0.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eye", [np.eye(3), DEUTAN, PROTAN], ids=["usual", "deutan", "protan"])
@pytest.mark.parametrize("names", ["batch layer rms group none", "post pre deepnorm hybrid none"])
def test_the_main_methods_differ_in_colour_for_every_eye(names, eye):
    for a, b in itertools.combinations(names.split(), 2):
        distance = np.linalg.norm(lab(LOOKS[a].colour, eye) - lab(LOOKS[b].colour, eye))
        assert distance > 12, (a, b)  # about 2 is just noticeable side by side


@pytest.mark.parametrize(
    ("draw", "given", "more", "said"),
    [
        (plots.curves, [{"post": {1: [2]}, "pre": {}}], AXES, "'pre' has none"),
        (plots.curves, [{"pre": {3: []}}], AXES, "'pre' has none at 3"),
        (plots.curves, [{"pre": [1, 2]}], AXES, "'pre' is a list; write"),
        (plots.curves, [{"pre": {0: [1]}}], AXES | {"logx": True}, "positive"),
        (plots.curves, [LOSSES], AXES | {"reference": {"chance": np.nan}}, "'chance' has nan"),
        (plots.loss_curves, [{}], CAPTION, "at least one series"),
        (plots.by_depth, [{"pre": [[1], []]}], CAPTION | {"ylabel": "y"}, "contains an empty run"),
        (plots.dots, [[1, 2]], CAPTION | {"xlabel": "x"}, "must be a dict"),
        (plots.paired, [{"a": ([1], [])}], PAIR, "one on and one off"),
        (plots.grid_map, [], GRID, "but not both"),
        (plots.grid_map, [], GRID | {"panels": {"a": {}}}, "'a' has none"),
        (plots.axes_cube, [["rmsnorm"]], {}, "instance"),
        (plots.axes_cube, [["group-4"]], {}, "divisor of the 6 channels"),
        (plots.bookshelf, [["rmsnorm"]], {"caption": "Books."}, "instance"),
        (plots.placement_diagram, ["ngpt"], {}, "hybrid"),
        (plots.placement_diagram, ["pre", "post", "qk", "peri"], {}, "one to three"),
        (
            plots.block_explorer,
            [{"pre": {}}, {}],
            CAPTION | {"reference": {"a": 3}},
            "needs at least one point",
        ),
        (plots.sphere_paths, [{"a": [[1, 2]]}], CAPTION | {"marks": {}, "title": ""}, "points, 3"),
        (plots.xor_points, [[[1, 2]], [[1, 2]], [0, 1]], XOR, "each of the 2 labels"),
        (plots.share_bars, [{"a": {"x": 1}, "b": {"y": 1}}], CAPTION | {"notes": {}}, "same parts"),
        (plots.shadow, [SKEW, {"as it is": 0}], CAPTION, "'b' does not; use x and"),
        (plots.turns, [{"post": (0, 1)}], CAPTION, "of positive numbers; got"),
        (plots.trips, [{"in steps": []}], CAPTION, "every program needs at least one operation"),
        (plots.attention_maps, [MAP, "xy"], CAPTION | {"notes": MAP}, r"got \(1, 1\)"),
        (plots.attention_maps, [MAP, "x"], CAPTION | {"notes": {}}, "a note for each"),
        (plots.explore, [None, [1], "a"], {"label": "l"}, "at least two values"),
        (plots.explore, [None, [1, 2], 'x" onload="'], {"label": "l"}, "consist of a-z"),
        (plots.table, [[{"a": 1}, {"b": 1}]], {}, "row 1 has"),
        (plots.table, [[]], {}, "at least one row"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_its_reason(draw, given, more, said):
    with pytest.raises(ValueError, match=said):
        draw(*given, **more)


def test_the_cube_takes_the_number_of_groups():
    sizes = plots.axes_cube(["layer", "group-1", "group-2", "group-6", "instance"]).data
    assert sizes == [24, 24, 12, 4, 4]


def test_a_shelf_of_books_colours_as_many_as_the_cube():
    norms = ["batch", "layer", "token", "instance", "group-3"]
    shelf = plots.bookshelf(norms, caption="Books.")
    assert shelf.data == plots.axes_cube(norms).data == [16, 24, 6, 4, 8]
    assert "4 books, each of 6 pages with 4 characters" in shelf.alt


def test_divergences_are_drawn_and_said():
    curve = {"none": {1: [2.0, None], 2: [None, float("nan")]}, "pre": {1: [1.0], 2: [1.5]}}
    figure = plots.curves(curve, **AXES, logy=True)
    assert "1 of 2 runs diverged at 1, 2 of 2 runs diverged at 2" in figure.alt
    assert "Thin crosses at the top: diverged runs." in figure.caption
    early = plots.loss_curves({"pre": FALL, "none": [FALL[0][:50], FALL[1]]}, caption="c")
    assert "1 of 2 runs diverged, the first at step 50" in early.alt and "cross" in early.caption
    nan = plots.loss_curves({"a": [[float("nan")] * 3, [3.0, 2.0, 1.0]]}, caption="c")
    assert "the first at step 0" in nan.alt


def test_panels_share_a_scale_of_colours_or_have_their_own():
    panels = {"sizes": {(1, 1): 1.0, (1, 2): 2.0}, "angles": {(1, 1): 10.0, (1, 2): 20.0}}

    def find_colours(**how):
        drawn = plots.grid_map(panels=panels, **GRID, **how)
        return re.findall(r'style="fill: (#\w{6}); stroke: var', drawn.svg())  # of cells

    shared, own = find_colours(), find_colours(own_scales=True)
    assert len(shared) == len(own) == 4
    assert len({*shared}) == 4 and own[:2] == own[2:], "the least and the most of each panel"


def test_unusual_but_honest_input_is_drawn():
    words = {"pre": {"xavier": 1.0, "half": [2.0]}, "rms": {"half": np.array([1.0, 3.0])}}
    assert "at half" in plots.curves(words, **AXES).alt
    one = plots.curves({"pre": {8: 0.5}}, **AXES, logx=True)
    assert "pre is 0.5 at 8" in one.alt and "One seed." in one.caption
    same = {(1, 1): 2.0, ("a", 1): 2.0}
    assert plots.grid_map(same, **GRID).png()
    assert plots.grid_map({(1, 1): None}, **GRID).png()
    depths = {"pre": np.ones((2, 4)), "post": [[1, 2], [3, 4, 5]]}
    assert plots.by_depth(depths, ylabel="y", caption="c", logy=True).png()
    lines = plots.by_depth(depths, ylabel="y", caption="c", xlabel="block (0: text)", start=0)
    assert "y by block for" in lines.alt and "post rises from 2 at block 0" in lines.alt
    many = {f"arm {i}": {1: [i], 2: [i / 2]} for i in range(14)}
    assert "arm 13 falls from 13 at 1 to 6.5 at 2" in plots.curves(many, **AXES).alt


def test_the_interval_is_students():
    mean, half = mean_and_half([1.0, 2.0, 3.0, 4.0, 5.0])
    assert mean == 3 and half == pytest.approx(2.7764451 * np.sqrt(2.5 / 5), rel=1e-6)
    assert mean_and_half([7.0]) == (7.0, 0.0)


def test_the_running_mean_looks_back_only():
    assert running_mean([4, 2, 0, 6], 2) == [4, 3, 1, 3]
    assert running_mean([4, 2, 0, 6], 1) == [4, 2, 0, 6]


def test_sentences_say_first_last_and_extreme():
    assert (
        describe_trend("pre", [1, 2, 3], [5, 1, 4])
        == "pre falls from 5 at 1 to 4 at 3, lowest 1 at 2"
    )
    assert (
        describe_trend("pre", [1, 2], [1, 3], "at step")
        == "pre rises from 1 at step 1 to 3 at step 2"
    )
    assert [format_number(v) for v in (0.98234, 1234.5, 6.6e10, 3e-4, None)] == [
        "0.982", "1230", "6.6e10", "0.0003", "diverged",
    ]  # fmt: skip


def slider():
    return plots.explore(
        lambda key: plots.Figure(drawn("curves").fig, f'Frame "{key}".', "Look.", [len(key)]),
        ["a<b", "c"],
        "norms",
        label="norm",
    )


def test_a_slider_is_a_page_on_the_site_and_a_vega_lite_specification_in_a_notebook(monkeypatch):
    monkeypatch.setenv("LABKIT_POOL", "1")  # as while the book is built
    one = slider()
    page, caption = shown(one)
    told = page.metadata["labkit"]
    assert told["kind"] == "slider" and 0 < len(told["data"]) <= 400
    assert caption.metadata["labkit"] == {"kind": "caption"}
    html = page.data["text/html"]
    assert 'aria-label="Frame &quot;a&lt;b&quot;."' in html and 'data-label="a&lt;b"' in html
    assert html.count("<svg ") == 2 and html.count(" hidden>") == 2  # second frame, controls
    assert "<script" not in html, "figures.js moves it, on every page"
    assert '<label for="labkit-slider-norms-range">' in html and 'type="range"' in html
    names = re.findall(r' id="([^"]+)"', html)
    assert len(names) == len(set(names)) > 2, "a hidden frame would own another frame's clip path"
    assert set(re.findall(r'url\(#([^)]+)\)|xlink:href="#([^"]+)"', html)[0]) & set(names)
    assert 'src="http' not in html

    monkeypatch.delenv("LABKIT_POOL")
    page, _ = shown(one)
    assert set(page.data) == {VEGA_LITE, "image/png", "text/plain"}
    specification = page.data[VEGA_LITE]
    (choice,) = specification["params"]
    assert choice["bind"] == {"input": "radio", "options": ["a<b", "c"], "name": "norm: "}
    assert choice["value"] == "a<b"
    assert specification["transform"] == [{"filter": "datum.frame == chosen"}]
    frames = specification["data"]["values"]
    assert [frame["frame"] for frame in frames] == ["a<b", "c"]
    assert frames[0]["picture"] == "data:image/png;base64," + page.data["image/png"]


def test_a_slider_refuses_what_is_too_large(monkeypatch):
    monkeypatch.setattr("labkit.plots.slider.MOST_BYTES", 9000)
    with pytest.raises(ValueError, match=r"at most 9 kB, but 'norms' has .* use fewer frames"):
        slider()


def test_what_can_be_explored_is_drawn_once_for_each_value():
    drawn = []

    def draw(eps):
        drawn.append(eps)
        return plots.curves({"layer": {1: [eps], 2: [2 * eps]}}, **AXES)

    page, caption = shown(plots.explore(draw, [1, 2, 4], "eps", label="eps", caption="Move it."))
    assert drawn == [1, 2, 4]
    frames = page.data[VEGA_LITE]["data"]["values"]
    assert len({frame["picture"] for frame in frames}) == 3
    assert caption.data["text/plain"] == "Move it."


def test_a_table_writes_numbers_shortly():
    rows = [{"what": "a|b", "loss": 1.23456, "ok": True}, {"what": 2, "loss": 0.5, "ok": False}]
    lines = plots.table(row for row in rows)._repr_markdown_().splitlines()
    assert lines[0] == "| what | loss | ok |"
    assert lines[2:] == ["| a\\|b | 1.23 | yes |", "| 2 | 0.5 | no |"]


LINES = {"letters": 2.9, "bigram counts": 2.4, "no attention": 2.33, "trigram counts": 1.89}


def with_lines(name, losses=LOSSES, reference=LINES, **more):
    labels = {"caption": "Look.", "reference": reference, **more}
    if name == "dots":
        groups = {arm: [ys[0] for ys in one.values()] for arm, one in losses.items()}
        return plots.dots(groups, xlabel="loss", **labels)
    if name == "curves":
        return plots.curves(losses, xlabel="rate", ylabel="loss", **labels)
    rows = {arm: [ys[0] for ys in one.values()] for arm, one in losses.items()}
    if name == "by_depth":
        return plots.by_depth(rows, ylabel="loss", **labels)
    return plots.loss_curves(rows, smooth=1, **{k: v for k, v in labels.items() if k != "logy"})


HELD = each(name=["curves", "loss_curves", "by_depth", "dots"])


@HELD
def test_reference_lines_are_named_in_the_picture_and_in_the_alt_text(name):
    figure = with_lines(name)
    assert "Marked: letters at 2.9, bigram counts at 2.4" in figure.alt
    assert "Beyond" not in figure.alt + figure.caption
    ax = figure.fig.axes[0]
    side = 0 if name == "dots" else 1
    places = [np.array(line.get_xydata())[:, side] for line in ax.lines]
    drawn = {float(ends[0]) for ends in places if len(ends) == 2 and np.ptp(ends) == 0}
    assert set(LINES.values()) <= drawn
    written = {text.get_text() for text in (*ax.texts, *_legend(ax))}
    assert set(LINES) <= written


def _legend(ax):
    return ax.get_legend().get_texts() if ax.get_legend() else []


@HELD
def test_a_reference_line_that_would_squeeze_the_series_is_told_and_not_drawn(name):
    near = {"pre": {1: [1.38], 2: [1.40]}, "post": {1: [1.40], 2: [1.41]}}
    figure = with_lines(name, near, {**LINES, "4-gram counts": 1.42})
    assert "Marked: 4-gram counts at 1.42. Beyond the axis: letters at 2.9, bigram" in figure.alt
    assert figure.caption.endswith("no attention at 2.33, trigram counts at 1.89.")
    ax = figure.fig.axes[0]
    axes = (ax, with_lines(name, near, None).fig.axes[0])
    grown, alone = (np.ptp(a.get_xlim() if name == "dots" else a.get_ylim()) for a in axes)
    assert grown < 2.2 * alone, "the series keep half of the axis, but for its margins"
    assert "bigram counts" not in {text.get_text() for text in (*ax.texts, *_legend(ax))}


@pytest.mark.parametrize("name", ["curves", "loss_curves", "by_depth"])
@pytest.mark.parametrize("logy", [False, True])
def test_limits_that_are_given_stay_and_decide_which_lines_are_drawn(name, logy):
    figure = with_lines(name, ylim=(1.2, 2.35), logy=logy)
    assert figure.fig.axes[0].get_ylim() == pytest.approx((1.2, 2.35))
    assert "Marked: no attention at 2.33, trigram counts at 1.89." in figure.alt
    assert figure.caption.endswith("Beyond the axis: letters at 2.9, bigram counts at 2.4.")


def test_a_diverged_run_leaves_reference_lines_their_place():
    figure = with_lines("curves", {**LOSSES, "none": {1: [1.6], 2: [None]}})
    low, high = figure.fig.axes[0].get_ylim()
    assert low < 1.4 and high > 2.9, "and above them is room for the cross"
    assert "letters at 2.9" in figure.alt


def test_a_reference_that_a_logarithm_does_not_reach_is_told():
    zero = with_lines("curves", reference={"nothing": 0.0}, logy=True)
    assert "Beyond the axis: nothing at 0." in zero.alt


@pytest.mark.parametrize("spiked", [3.0, 7.0])
def test_a_spike_above_the_axis_is_told_in_the_caption_and_to_who_cannot_see(spiked):
    losses = {"post": [[4.0, 3.0, spiked, 2.5]]}
    figure = plots.loss_curves(losses, caption="c", ylim=(2, 4.5), reference={"letters": 5.0})
    told = "Beyond the axis: letters at 5, values up to 7." in figure.caption
    assert told == (spiked > 4.5) == ("values up to" in figure.alt)


def test_a_legend_says_where_a_reference_line_lies():
    ends = {name: {1: [2.0], 2: [1.0]} for name in "abcdefghij"}  # too many names for the margin
    figure = plots.curves(ends, xlabel="x", ylabel="y", caption="c", reference={"letters": 1.5})
    (legend,) = [ax.get_legend() for ax in figure.fig.axes]
    assert legend.get_texts()[-1].get_text() == "letters, 1.5"


# -- on a page --------------------------------------------------------------------------------
def test_a_drawing_takes_its_colours_from_the_page_and_its_text_is_text():
    svg = drawn("curves").svg()
    assert svg.startswith("<svg role=") and "<metadata" not in svg and "<style" not in svg
    assert not re.search(r"(?<!, )#[0-9a-f]{6}", svg), "every colour is a variable"
    assert "<text" in svg and ">batch</text>" in svg
    assert drawn("curves").svg() == svg


@pytest.mark.parametrize("name", some_quick(PICTURES, "panels"))
def test_a_drawing_keeps_the_names_that_it_asks_for_and_no_other(name):
    svg = drawn(name).svg()
    asked = set(re.findall(r'(?:href="|url\()#([^")]+)', svg))
    assert asked == set(re.findall(r' id="([^"]+)"', svg))


def test_a_number_on_a_cell_keeps_its_colour_and_a_word_beside_the_map_has_the_page_s():
    svg = drawn("grid_map").svg()
    for on_cell in ("0.401", "1.20", "diverged"):
        assert all("var(" not in tag for tag in re.findall(rf"<text[^>]*>{on_cell}</text>", svg))
    for beside in ("learning rate", "12"):
        assert "--figure-ink" in re.search(rf"<text[^>]*>{beside}</text>", svg)[0]


def test_every_colour_of_a_drawing_can_be_read_in_the_dark():
    sheet = (Path(__file__).parents[1] / "chapters/_static/book.css").read_text()
    dark = sheet[sheet.index('html[data-theme="dark"] {') :].partition("}")[0]
    ground = re.search(r"--pst-color-background: (#\w+)", dark)[1]
    for name in {*VARIABLES.values()} - {"ground", "hair", "ink"}:
        colour = re.search(rf"--figure-{name}: (#\w+);", dark)[1]
        assert measure_contrast(colour, ground) >= 4.5, name


def test_a_build_gets_the_drawing_and_a_reader_the_png_alone(monkeypatch):
    figure = drawn("curves")
    monkeypatch.setenv("LABKIT_POOL", "1")
    assert set(figure.pages()) == {"image/png", "text/csv", "text/html", "text/plain"}
    monkeypatch.delenv("LABKIT_POOL")
    assert set(figure.pages()) == {"image/png", "text/plain"}


def test_a_difference_is_drawn_with_the_interval_that_judges():
    ours, theirs = [1.0, 1.02, 0.98, 1.01], [1.2, 1.3, 1.1]
    lead = compare_samples(ours, theirs, Scatter(0.05, 30), tuned=0.01)
    low, high = lead.compute_interval()
    for figure, axis in (
        (plots.dots({"pre": lead, "post": [0.1]}, xlabel="nats", caption="c"), 0),
        (plots.curves({"pre": {"S": lead}}, xlabel="rung", ylabel="nats", caption="c"), 1),
    ):
        assert "95 % interval of the difference." in figure.caption
        (bars,) = [
            one.get_segments()[0]
            for one in figure.fig.axes[0].collections
            if one.get_segments() and np.allclose(one.get_segments()[0][:, axis], [low, high])
        ]
        assert len(bars) == 2
        assert f"{lead.mean:.4f}"[:5] in figure.marks.describe()
    mixed = plots.dots({"pre": lead, "post": [0.1, 0.2]}, xlabel="nats", caption="c")
    assert "95 % interval, of the difference where it is one." in mixed.caption
    plain = plots.dots({"post": [0.1, 0.2]}, xlabel="nats", caption="c")
    assert "95 % t interval" in plain.caption


def test_no_module_that_another_imports_takes_the_place_of_a_figure():
    """Python sets labkit.plots.x to a module x as soon as anything imports it."""
    folder = Path(plots.__file__).parent
    imported = {
        name
        for path in folder.glob("*.py")
        for name in re.findall(r"^from \.(\w+) import", path.read_text(encoding="utf-8"), re.M)
    }
    assert not imported & set(dir(plots))
