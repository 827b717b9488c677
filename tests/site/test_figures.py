"""Figures in use: read, saved, moved, linked and loaded, with and without a script."""

import csv
import gzip
import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Locator, Page, ViewportSize, expect

from press.site.figures import list_pictures, read_name

pytestmark = pytest.mark.site

READ = "figure:not([data-explorer]) .labkit-drawing[data-marks]:visible"
PHONE: ViewportSize = {"width": 390, "height": 844}
LEAST = 11  # pixels: text on a phone
HEAVIEST = 900_000  # bytes: a chapter and all that it loads, compressed

# Of each visible drawing: its figure, its smallest text in pixels, the texts that leave it.
TEXTS = """() => [...document.querySelectorAll("figure.labkit-figure .labkit-drawing > svg")]
    .filter(svg => svg.getClientRects().length)
    .map(svg => {
        const box = svg.getBoundingClientRect(), unit = box.width / svg.viewBox.baseVal.width;
        const texts = [...svg.querySelectorAll("text")].filter(t => t.textContent.trim());
        const sizes = texts.flatMap(t => [t, ...t.querySelectorAll("tspan")])
            .map(t => parseFloat(getComputedStyle(t).fontSize) * unit);
        const out = texts.filter(t => {
            const at = t.getBoundingClientRect();
            return at.left < box.left - 3 || at.right > box.right + 3;
        });
        return {figure: svg.closest("figure").id, smallest: Math.min(...sizes),
                out: out.map(t => t.textContent)};
    })"""
SHOW = "localStorage.setItem('labkit-show-everything', 'yes')"  # a reader who predicts nothing
OPEN = "document.querySelectorAll('details').forEach(fold => { fold.open = true; })"
MOVE = "(e, value) => { e.value = value; e.dispatchEvent(new Event('input')); }"
# Click a name, and wait until that is painted.
CLICK = """async () => {
    const names = [...document.querySelectorAll("[data-name]")];
    const name = names.find(n => n.getClientRects().length);
    name.dispatchEvent(new MouseEvent("click", {bubbles: true}));
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
# Where a drawing's marks are on the screen: [series, place, x, y].
PLACES = """drawing => {
    const svg = [...drawing.querySelectorAll("svg")].find(s => s.getClientRects().length);
    const box = svg.getBoundingClientRect(), unit = box.width / svg.viewBox.baseVal.width;
    return svg.dataset.at.split(";").flatMap((line, s) => line.split(",").map((at, i) => {
        const [x, y] = at.split(" ").map(Number);
        return at && [s, i, box.left + x * unit, box.top + y * unit];
    })).filter(Boolean);
}"""


@pytest.fixture
def page(page: Page) -> Page:
    page.add_init_script(SHOW)
    return page


@pytest.fixture
def phone(tab) -> Page:
    page = tab(viewport=PHONE, has_touch=True, is_mobile=True, color_scheme="light")
    page.add_init_script(SHOW)
    return page


def marks_of(drawing: Locator) -> dict:
    return json.loads(drawing.get_attribute("data-marks") or "")


def outputs_of(root: Path, chapter: str) -> dict[str, dict]:
    """Read a chapter's executed figures by their names."""
    path = root / "build" / "book" / "book" / chapter.replace(".html", ".ipynb")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return {read_name(output): output for output in list_pictures(notebook)}


def name_of(drawing: Locator) -> str:
    figure = drawing.locator("xpath=ancestor::figure").get_attribute("id") or ""
    return figure.removeprefix("figure-")


def number_in(text: str) -> float:
    """Parse a number as displayed: 1.436, −3, 2.5·10⁻⁴."""
    digits, _, power = text.replace("−", "-").partition("·10")
    return float(digits) * 10 ** int(
        power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")) or 0
    )


def point_at(page: Page, drawing: Locator, series: int) -> int | None:
    """Point at the first visible mark of a series; return its position, if there is one."""
    drawing.scroll_into_view_if_needed()
    places = drawing.evaluate(PLACES)
    for s, i, x, y in places:
        near = [other for other in places if abs(other[2] - x) + abs(other[3] - y) < 8]
        if s == series and len(near) == 1:
            page.evaluate("y => scrollBy(0, y - innerHeight / 2)", y)
            x, y = next(at[2:] for at in drawing.evaluate(PLACES) if at[:2] == [s, i])
            page.mouse.move(x, y)
            return i
    return None


# -- numbers, addresses, tables ---------------------------------------------------------------
def test_figures_are_numbered_in_order_and_no_id_comes_twice(page: Page, chapters: list[str]):
    for name in chapters:
        page.goto(name)
        numbers = page.locator("figure.labkit-figure .labkit-number").all_inner_texts()
        start = numbers[0].rpartition(".")[0]
        assert numbers == [f"{start}.{i}" for i in range(1, len(numbers) + 1)], name
        assert len(numbers) == page.locator("figure.labkit-figure").count()
        links = page.locator("figure.labkit-figure .labkit-number")
        for link in links.evaluate_all("all => all.map(a => a.getAttribute('href'))"):
            assert page.locator(link).count() == 1
        ids = page.evaluate("[...document.querySelectorAll('figure [id], figure')].map(e => e.id)")
        assert [i for i, n in Counter(filter(None, ids)).items() if n > 1] == [], name


def test_a_figure_s_link_is_copied_and_leads_to_it(page: Page, base: str, chapters: list[str]):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=base)
    page.goto(chapters[0])
    link = page.locator(".labkit-permalink").last
    link.click()
    expect(link).to_contain_class("labkit-copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    anchor = link.get_attribute("href") or ""
    assert copied.endswith(f"{chapters[0]}{anchor}")
    page.goto("index.html")
    page.goto(copied)
    expect(page.locator(anchor)).to_be_in_viewport()


def test_every_table_loads_and_holds_what_its_figure_draws(
    page: Page, root: Path, chapters: list[str]
):
    held = 0
    for chapter in chapters:
        page.goto(chapter)
        outputs = outputs_of(root, chapter)
        links = page.locator("figure .labkit-foot a[download]")
        for address in links.evaluate_all("all => all.map(a => a.href)"):
            name = Path(urlsplit(address).path).stem
            answer = page.request.get(address)
            assert answer.ok, address
            text = answer.body().decode("utf-8-sig")
            rows = list(csv.reader(io.StringIO(text)))
            assert len({len(row) for row in rows}) == 1 < len(rows) and all(rows[0]), address
            about = outputs[name]["metadata"]["labkit"]
            told = {v for v in about["data"] if v is not None}
            listed = {float(c) for row in rows[1:] for c in row if re.fullmatch(r"-?[\d.e+-]+", c)}
            held += bool(told) and len(told & listed) >= 0.9 * len(told)
    assert held >= 60, "nearly every figure's numbers stand in its file"


def test_a_table_is_saved_by_its_link(page: Page, chapters: list[str]):
    page.goto(chapters[4])
    with page.expect_download() as caught:
        page.locator("figure .labkit-foot a[download]").last.click()
    assert caught.value.suggested_filename.endswith(".csv")
    assert caught.value.path().read_bytes().startswith(b"\xef\xbb\xbf")


# -- point and read -----------------------------------------------------------------------------
def test_pointing_reads_the_value_that_the_figure_has(page: Page, root: Path, chapters: list[str]):
    read = 0
    for chapter in chapters[::2]:
        page.goto(chapter)
        page.evaluate(OPEN)
        outputs = outputs_of(root, chapter)
        for drawing in page.locator(READ).all():
            if drawing.locator("xpath=ancestor::div[@data-formula]").count():
                continue
            marks = marks_of(drawing)
            name, _, quantity, panel, points = marks["series"][0]
            places = [i for s, i, *_ in drawing.evaluate(PLACES) if s == 0]
            if not places:
                continue
            i = point_at(page, drawing, 0)
            if i is None:  # every mark lies on another
                continue
            row = drawing.locator(".labkit-readout p").first
            expect(row).to_contain_text(name)
            said = row.inner_text()
            if points[i][1] is None:
                assert "diverged" in said
                continue
            value = re.search(re.escape(quantity) + r" (\S+)", said)
            assert value, said
            assert number_in(value[1]) == pytest.approx(points[i][1], rel=2e-3, abs=1e-12)
            # And that is the mean of what the executed chapter lists there.
            table = outputs[name_of(drawing)]["data"]["text/csv"]
            rows = list(csv.reader(io.StringIO("".join(table))))
            here = [
                float(one[-1])
                for one in rows[1:]
                if name in one and (not panel or panel in one) and str(points[i][0]) in one
                and ("quantity" not in rows[0] or quantity in one) and one[-1] != "diverged"
            ]  # fmt: skip
            if marks["middle"] == "mean" and here:
                read += fmean(here) == pytest.approx(points[i][1], rel=1e-3, abs=1e-9)
    assert read >= 20


def test_a_readout_stands_beside_its_mark_and_inside_its_figure(page: Page, chapters: list[str]):
    page.goto(chapters[4])
    for drawing in page.locator(READ).all()[:4]:
        drawing.scroll_into_view_if_needed()
        _, _, x, y = drawing.evaluate(PLACES)[-1]
        page.mouse.move(x, y)
        box = drawing.locator(".labkit-readout").bounding_box()
        outer = drawing.bounding_box()
        assert box and outer
        assert not (
            box["x"] < x < box["x"] + box["width"] and box["y"] < y < box["y"] + box["height"]
        )
        assert box["x"] >= outer["x"] - 1
        assert box["x"] + box["width"] <= outer["x"] + outer["width"] + 1
    page.mouse.move(2, 2)
    expect(page.locator("[data-spot]")).to_have_count(0)


def test_a_finger_s_reading_stays_until_it_taps_elsewhere(phone: Page, chapters: list[str]):
    phone.goto(chapters[4])
    drawing = phone.locator(READ).last
    drawing.scroll_into_view_if_needed()
    _, _, x, y = drawing.evaluate(PLACES)[0]
    phone.touchscreen.tap(x, y)
    expect(drawing).to_have_attribute("data-spot", re.compile(r"\d+ \d+"))
    phone.wait_for_timeout(300)
    assert drawing.locator(".labkit-readout").inner_text()
    phone.touchscreen.tap(5, 5)
    expect(phone.locator("[data-spot]")).to_have_count(0)


# -- keep a name --------------------------------------------------------------------------------
def shared_name(page: Page) -> tuple[Locator, Locator, str]:
    """Find two figures that show the same arm, and the arm's name in the first."""
    seen: dict[str, tuple[Locator, int]] = {}
    for drawing in page.locator(READ).all():
        for i, (_, arm, *_) in enumerate(marks_of(drawing)["series"]):
            if not arm or not drawing.locator(f"[data-name='{i}']:visible").count():
                continue
            if arm in seen and seen[arm][0] is not drawing:
                return drawing, seen[arm][0], str(i)
            seen.setdefault(arm, (drawing, i))
    raise AssertionError("no two figures of this page show one arm")


def quiet(drawing: Locator) -> set[str]:
    groups = drawing.locator("[data-series].labkit-quiet")
    return set(groups.evaluate_all("all => all.map(g => g.dataset.series)"))


def test_a_kept_name_greys_the_rest_in_every_figure_of_its_arm(page: Page, chapters: list[str]):
    page.goto(chapters[4])
    page.evaluate(OPEN)
    here, there, i = shared_name(page)
    arm = marks_of(here)["series"][int(i)][1]
    name = here.locator(f"[data-name='{i}'] text:visible").first
    name.click()
    page.wait_for_timeout(200)  # what is not on the screen follows
    for drawing in (here, there):
        series = marks_of(drawing)["series"]
        others = {str(k) for k, one in enumerate(series) if one[1] != arm}
        drawn = set(
            drawing.locator("[data-series]").evaluate_all("a => a.map(g => g.dataset.series)")
        )
        assert others & drawn and quiet(drawing) == others & drawn
    expect(here.locator("[role=status]")).to_contain_text("kept in")
    name.click()
    expect(page.locator(".labkit-quiet")).to_have_count(0)
    name.click()
    page.keyboard.press("Escape")
    expect(page.locator(".labkit-quiet")).to_have_count(0)


def test_a_keyboard_reads_and_keeps(page: Page, chapters: list[str]):
    page.goto(chapters[4])
    drawing = page.locator(READ).last
    drawing.evaluate("d => d.closest('figure').previousElementSibling?.scrollIntoView()")
    drawing.focus()
    page.keyboard.press("ArrowRight")
    first = drawing.locator("[role=status]").inner_text()
    page.keyboard.press("ArrowRight")
    assert drawing.locator("[role=status]").inner_text() != first
    page.keyboard.press("ArrowDown")
    series = marks_of(drawing)["series"]
    s = int((drawing.get_attribute("data-spot") or "").split()[0])
    expect(drawing.locator("[role=status] b").first).to_have_text(series[s][0])
    page.keyboard.press("Enter")
    assert quiet(drawing) and str(s) not in quiet(drawing)
    page.keyboard.press("Escape")
    assert not quiet(drawing)
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement !== document.body"), "no trap"


def test_keeping_a_name_is_two_layouts_and_few_changes(
    page: Page, count_work: Callable[[], tuple[int, int]], chapters: list[str]
):
    page.goto(chapters[4])
    page.evaluate(OPEN)
    page.wait_for_load_state("networkidle")
    page.evaluate(CLICK)
    count_work()
    found = []
    for _ in range(4):
        page.evaluate(CLICK)
        found.append(count_work())
    layouts, changes = map(max, zip(*found, strict=True))
    assert layouts <= 2
    assert changes <= 10, "a name is kept by its figures, not by their marks"


# -- sliders ------------------------------------------------------------------------------------
def place(axes: dict, point: tuple[float, ...]) -> tuple[float, float]:
    """Return the position of a point in a drawing, from its axes or its viewpoint."""
    x, y = point[:2]
    if axes["view"]:
        x, y = (sum(c * row[k] for c, row in zip(point, axes["view"], strict=True)) for k in (0, 1))
    spots = []
    for value, limits, log, ends in zip(
        (x, y), (axes["x"], axes["y"]), axes["log"], (axes["at"][:2], axes["at"][2:]), strict=True
    ):
        value, low, high = (math.log10(v) if log else v for v in (value, *limits))
        spots.append(ends[0] + (ends[1] - ends[0]) * (value - low) / (high - low))
    return spots[0], spots[1]


@pytest.mark.parametrize("number", ["00", "04", "08"])
def test_what_a_page_computes_is_what_the_book_drew(
    page: Page, root: Path, chapters: list[str], number: str
):
    (chapter,) = (name for name in chapters if name.startswith(number))
    page.goto(chapter)
    page.evaluate(OPEN)
    slider = page.locator(".labkit-slider[data-formula]").first
    drawing = slider.locator(".labkit-drawing")
    table = outputs_of(root, chapter)[name_of(drawing)]["data"]["text/csv"]
    head, *rows = csv.reader(io.StringIO("".join(table)))
    lines: dict[str, dict[str, list[list[float]]]] = {}  # value of the slider, series: points
    for row in rows:
        of, setting = lines.setdefault(row[0], {}).setdefault(row[1], []), float(row[3])
        if "quantity" not in head:
            of.append([setting, float(row[-1])])
        elif row[-2] == "x":
            of.append([float(row[-1])])
        else:
            of[int(setting) - 1].append(float(row[-1]))
    assert len(lines) >= 3
    for value, series in lines.items():
        slider.locator("input").evaluate(MOVE, value)
        expect(slider.locator("output")).to_have_text(f"{float(value):g}")
        for svg in drawing.locator("svg").all():
            axes = json.loads(svg.get_attribute("data-axes") or "")
            for s, points in enumerate(series.values()):
                key = 3 * s if axes["view"] else s
                paths = svg.locator(f"[data-series='{key}'] > path")
                shapes = paths.evaluate_all("all => all.map(p => p.getAttribute('d'))")
                shape = max(shapes, key=len)
                drawn = [(float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) (\S+)", shape)]
                wanted = [place(axes, tuple(point)) for point in points]
                assert [y for _, y in drawn] == pytest.approx([y for _, y in wanted], abs=0.1)
                aside = [a - b for (a, _), (b, _) in zip(drawn, wanted, strict=True)]
                assert max(aside) - min(aside) < 0.1, "a series may stand aside, as a whole"
                assert abs(aside[0]) < 5


def test_a_slider_begins_where_its_range_says_and_its_frames_are_in_order(
    page: Page, chapters: list[str]
):
    moved = 0
    for name in chapters:
        page.goto(name)
        for slider in page.locator(".labkit-slider:not([data-formula])").all():
            frames = slider.locator(".labkit-frame")
            at = slider.locator("input").input_value()
            seen = frames.evaluate_all("all => all.map(f => !f.hidden)")
            assert seen == [i == int(at) for i in range(len(seen))], name
            slider.locator("input").evaluate(MOVE, (int(at) + 1) % len(seen))
            assert frames.evaluate_all("all => all.map(f => !f.hidden)") != seen
            moved += 1
    assert moved >= 6


# -- a phone, the dark, no script ---------------------------------------------------------------
def test_text_on_a_phone_can_be_read_and_none_is_cut(phone: Page, chapters: list[str]):
    wrong, drawings = {}, 0
    for name in chapters:
        phone.goto(name)
        phone.evaluate(OPEN)
        found = phone.evaluate(TEXTS)
        drawings += len(found)
        for one in found:
            if one["smallest"] < LEAST or one["out"]:
                wrong[f"{name}#{one['figure']}"] = (round(one["smallest"], 1), one["out"])
        assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], name
    assert drawings > 60
    assert wrong == {}


def test_without_a_script_a_figure_says_all_that_it_can(tab, base: str, chapters: list[str]):
    page = tab(java_script_enabled=False)
    for name in chapters[:5]:
        page.goto(name)
        for figure in page.locator("article figure.labkit-figure:visible").all():
            assert figure.locator("svg[role=img]:visible, img:visible").count() == 1
            assert re.match(r"Figure \w+\.\d+", figure.locator(".labkit-number").inner_text())
            assert figure.locator("input:visible").count() == 0, "a slider that moves nothing"
        address = page.locator("figure .labkit-foot a[download]").first.get_attribute("href")
        assert page.request.get(f"{base}/{address}").ok


def test_a_readout_can_be_read_in_the_dark(tab, chapters: list[str]):
    page = tab(color_scheme="dark")
    page.add_init_script(SHOW)
    page.goto(chapters[4])
    drawing = page.locator(READ).last
    drawing.focus()
    page.keyboard.press("ArrowRight")
    ink, ground = drawing.locator(".labkit-readout").evaluate(
        "e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]"
    )
    light = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ink, ground)]
    assert light[0] > 500 > 150 > light[1]
    image = page.locator(".labkit-drawing svg image").first
    assert "brightness" in image.evaluate("e => getComputedStyle(e).filter")


# -- weight -------------------------------------------------------------------------------------
def test_a_chapter_and_all_that_it_loads_is_light(page: Page, site: Path, chapters: list[str]):
    heavy = {}
    for name in chapters:
        loaded: set[str] = set()
        page.on("requestfinished", lambda r, loaded=loaded: loaded.add(r.url))
        page.goto(name, wait_until="networkidle")
        files = {
            site / unquote(urlsplit(url).path).lstrip("/")
            for url in loaded
            if url.startswith("http")
        }
        weight = sum(
            len(
                path.read_bytes()
                if path.suffix in {".woff", ".woff2", ".png"}
                else gzip.compress(path.read_bytes())
            )
            for path in files
            if path.is_file()
        )
        if weight > HEAVIEST:
            heavy[name] = weight
    assert heavy == {}
