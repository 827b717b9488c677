"""The built site, as a reader meets it in a browser."""

import json
import re
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.site

# Composite what is painted behind an element, then compare as WCAG 2 says.
CONTRAST = """element => {
    const read = text => {
        const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
        return text.startsWith("color(srgb") ? [255 * r, 255 * g, 255 * b, a] : [r, g, b, a];
    };
    const over = ([r, g, b, a], [R, G, B]) =>
        [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a)];
    const layers = [];
    for (let e = element; e; e = e.parentElement)
        layers.unshift(read(getComputedStyle(e).backgroundColor));
    const behind = layers.reduce((below, layer) => over(layer, below), [255, 255, 255]);
    const front = over(read(getComputedStyle(element).color), behind);
    const light = rgb => {
        const [r, g, b] = rgb.map(v => v / 255).map(
            v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const [dark, bright] = [light(front), light(behind)].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
}"""
AA = 4.5
READ = [
    ".bd-article p",
    ".labkit-statement",
    ".labkit-values",
    ".labkit-source",
    ".labkit-verdict",
    ".labkit-provenance",
    ".labkit-facts p",
    "figcaption p",
    "summary",
    ".bd-article a:not(.headerlink)",
    ".bd-article p code",
]


def test_search_finds_warm_up_and_leads_to_the_chapter_on_placement(page: Page):
    page.goto("index.html")
    page.locator(".search-button__button:visible").first.click()
    field = page.locator("#pst-search-dialog input[name=q]")
    field.fill("warm-up")
    field.press("Enter")
    result = page.locator("ul.search a[href*='02_']").first
    expect(result).to_be_visible()
    result.click()
    expect(page).to_have_url(re.compile("/02_"))
    expect(page.locator(".bd-article h1").last).to_be_visible()


def test_math_is_typeset_on_every_chapter(page: Page, chapters: list[str]):
    for name in chapters:
        page.goto(name)
        formulas = page.locator(".math.notranslate")
        assert formulas.count() > 0, name
        expect(page.locator("mjx-container").first).to_be_attached()
        page.wait_for_function("MathJax.startup.promise.then(() => true)")
        assert page.locator("mjx-container").count() >= formulas.count(), name
        assert page.locator("mjx-merror, [data-mjx-error]").count() == 0, name
        text = page.evaluate(
            """() => {
                const article = document.querySelector(".bd-article").cloneNode(true);
                article.querySelectorAll("pre, code, mjx-container").forEach(e => e.remove());
                return article.textContent;
            }"""
        )
        assert not re.search(r"\$\$|\\\(|\\\[|\\frac|\{\w+:?\w*\}`", text), name


def test_no_page_asks_anything_of_another_machine(page: Page, pages: list[str]):
    for name in pages:  # the fixture fails on any such request, and on any error
        page.goto(name, wait_until="networkidle")


def test_every_picture_has_words(page: Page, chapters: list[str]):
    for name in chapters:
        page.goto(name)
        alts = page.locator(".bd-article img").evaluate_all("images => images.map(i => i.alt)")
        assert all(alt.strip() and not alt.startswith(("_images", "../")) for alt in alts), name
        broken = "images => images.filter(i => !i.complete || !i.naturalWidth).map(i => i.src)"
        assert page.locator(".bd-article img").evaluate_all(broken) == []


def test_every_figure_says_where_its_numbers_come_from(page: Page, chapters: list[str]):
    for name in chapters:
        page.goto(name)
        figures = page.locator("figure.labkit-figure")
        assert figures.count() == page.locator("figure .labkit-provenance").count(), name


def test_the_button_changes_light_and_dark(page: Page, chapters: list[str]):
    page.goto(chapters[0])
    ground = "() => getComputedStyle(document.body).backgroundColor"
    seen = []
    for mode in ("dark", "light"):
        page.locator(".theme-switch-container:visible, .theme-switch-button:visible").first.click()
        page.locator(f".theme-change-button[data-mode={mode}]:visible").first.click()
        expect(page.locator("html")).to_have_attribute("data-theme", mode)
        seen.append(page.evaluate(ground))
    assert seen[0] != seen[1]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_contrast(page: Page, chapters: list[str], theme: str):
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    for name in [*chapters, "scoreboard.html", "index.html"]:
        page.goto(name)
        assert page.locator("html").get_attribute("data-theme") == theme
        for selector in READ:
            for element in page.locator(selector).all()[:12]:
                ratio = element.evaluate(CONTRAST)
                assert ratio >= AA, f"{name}, {theme}, {selector}: {ratio:.2f}"


def test_the_scoreboard_lists_every_claim_and_each_link_arrives(page: Page, root: Path):
    claims = json.loads((root / "build" / "claims" / "book.json").read_text())["claims"]
    assert claims
    page.goto("scoreboard.html")
    rows = page.locator(
        "table.labkit-scoreboard [id^='row-0'], table.labkit-scoreboard [id^='row-1']"
    )
    links = dict(rows.locator("code a").evaluate_all("all => all.map(a => [a.innerText, a.href])"))
    assert set(links) == set(claims)
    verdicts = {"holds": "holds", "not-seen": "not seen", "contradicted": "contradicted",
                "out-of-range": "out of range"}  # fmt: skip
    for identifier, entry in claims.items():
        row = page.locator(f"[id='row-{identifier}']")
        assert verdicts[entry["verdict"]] in row.locator(".labkit-verdict").inner_text()
    for identifier, link in links.items():
        page.goto(link)
        assert page.locator(f"[id='claim-{identifier}'] .labkit-claim").count() == 1, link


def test_the_scoreboard_fits_a_telephone(page: Page):
    page.set_viewport_size({"width": 380, "height": 800})
    page.goto("scoreboard.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= 380


def test_solutions_are_folded_and_open_on_click(page: Page, chapters: list[str]):
    found = 0
    for name in chapters:
        page.goto(name)
        for fold in page.locator("details.labkit-solution").all():
            found += 1
            inside = fold.locator(".cell").first
            expect(inside).to_be_hidden()
            fold.locator("summary").first.click()
            expect(inside).to_be_visible()
    assert found


def test_a_reader_chooses_how_much_code_to_see_and_keeps_it(page: Page, chapters: list[str]):
    page.goto(chapters[0])
    folded = page.locator("details.hide .cell_input").first
    opened = page.locator("div.cell:not(.tag_exercise) > .cell_input").first
    expect(folded).to_be_hidden()
    expect(opened).to_be_visible()
    page.get_by_label("all", exact=True).check()
    expect(folded).to_be_visible()
    page.get_by_label("none", exact=True).check()
    expect(opened).to_be_hidden()
    page.goto(chapters[1])
    expect(page.get_by_label("none", exact=True)).to_be_checked()
    expect(page.locator("div.cell:not(.tag_exercise) > .cell_input").first).to_be_hidden()
    page.get_by_label("essential", exact=True).check()


def test_parameters_and_progress_are_not_shown(page: Page, chapters: list[str]):
    for name in chapters:
        page.goto(name)
        assert page.locator(".tag_parameters, .tag_injected-parameters, .stderr").count() == 0


def test_every_internal_link_arrives(site: Path, pages: list[str]):
    texts = {name: (site / name).read_text(encoding="utf-8") for name in pages}
    ids = {name: set(re.findall(r'\sid="([^"]+)"', text)) for name, text in texts.items()}
    broken = []
    for name, text in texts.items():
        for link in re.findall(r'<a\s[^>]*?href="([^"]+)"', text):
            if re.match(r"[a-z]+:", link):
                continue
            path, fragment = urldefrag(urljoin(name, link.partition("?")[0]))
            path, fragment = path or name, unquote(fragment)
            if not (site / unquote(path)).exists() or (
                fragment and path in ids and fragment not in ids[path]
            ):
                broken.append(f"{name}: {link}")
    assert broken == []
