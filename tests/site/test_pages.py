"""The built site in use, in a browser."""

import json
import re
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import pytest
from playwright.sync_api import Page, expect

from press.book.chapters import read_number

pytestmark = pytest.mark.site


def test_search_finds_prose_and_no_code(page: Page):
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
    page.goto("search.html?q=matmul+kwargs+lambda+def")
    page.wait_for_selector("#search-results p.search-summary")
    assert page.locator("#search-results li a[href*='0']").count() == 0, "it has no code in it"


def test_no_formula_is_shown_as_it_is_typed(site: Path, chapters: list[str]):
    typed = re.compile(r"<(pre|code|script|mjx-container)\b.*?</\1>|<[^>]*>", re.DOTALL)
    for name in chapters:
        page = (site / name).read_text(encoding="utf-8")
        assert "<mjx-container" in page and "data-mjx-error" not in page, name
        words = typed.sub("", page)
        assert not re.search(r"\$\$|\\\(|\\\[|\\frac|\{\w+:?\w*\}`", words), name


def test_every_picture_has_words_and_every_figure_its_origin(page: Page, chapters: list[str]):
    for name in chapters:
        page.goto(name)
        figures = page.locator("figure.labkit-figure")
        assert figures.count() == page.locator("figure .labkit-provenance").count(), name
        assert page.locator(".tag_parameters, .tag_injected-parameters, .stderr").count() == 0
        alts = page.locator(".bd-article img").evaluate_all("images => images.map(i => i.alt)")
        assert all(alt.strip() and not alt.startswith(("_images", "../")) for alt in alts), name
        drawn = page.locator(".bd-article .labkit-figure svg:not(.labkit-explorer svg)")
        named = "all => all.every(svg => svg.role === 'img' && svg.ariaLabel.trim())"
        assert drawn.evaluate_all(named), name
        broken = "images => images.filter(i => !i.complete || !i.naturalWidth).map(i => i.src)"
        assert page.locator(".bd-article img").evaluate_all(broken) == []


def test_a_line_of_text_has_as_many_letters_as_in_a_book(page: Page, chapters: list[str]):
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(chapters[3])
    counted = page.evaluate("""() => [...document.querySelectorAll('.bd-article section > p')]
        .filter(p => !p.querySelector('mjx-container')).map(p => {
            const range = document.createRange(), lines = {};
            const texts = document.createTreeWalker(p, NodeFilter.SHOW_TEXT);
            for (let text; (text = texts.nextNode()); )
                for (let at = 0; at < text.length; at++) {
                    range.setStart(text, at); range.setEnd(text, at + 1);
                    const line = Math.round(range.getBoundingClientRect().bottom / 10);
                    lines[line] = (lines[line] || 0) + 1;
                }
            return Object.values(lines).slice(0, -1);
        }).flat()""")
    assert 66 <= sorted(counted)[len(counted) // 2] <= 80


def test_the_first_figure_is_whole_on_the_first_screen(page: Page, chapters: list[str]):
    page.set_viewport_size({"width": 1440, "height": 900})
    for name in chapters:
        page.goto(name)
        if page.locator(".labkit-beside").count():
            figure = page.locator(".labkit-hero figure").first
            if figure.get_attribute("data-explorer"):
                expect(figure).to_have_class(re.compile("labkit-live"))
            box = figure.bounding_box()
            assert box and box["y"] + box["height"] <= 900, name
            page.locator(".labkit-short").evaluate_all("all => all.forEach(f => (f.open = true))")
            assert figure.bounding_box() == box, f"{name}: the short answer moves it"


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_nothing_moves_while_a_chapter_arrives(tab, size: tuple[int, int], chapters: list[str]):
    page = tab(viewport={"width": size[0], "height": size[1]})
    page.add_init_script(
        """window.moved = 0; new PerformanceObserver(list => {
            for (const entry of list.getEntries()) if (!entry.hadRecentInput) moved += entry.value;
        }).observe({type: "layout-shift", buffered: true});"""
    )
    found = {}
    for name in chapters:
        page.goto(name, wait_until="networkidle")
        found[name] = page.evaluate("moved")
    assert {name: moved for name, moved in found.items() if moved > 0.05} == {}


def test_no_page_is_wider_than_a_telephone(page: Page, pages: list[str]):
    """Open every page: its fixture also fails on errors and on requests to another machine."""
    page.set_viewport_size({"width": 390, "height": 844})
    wide = {}
    for name in [*pages, "scoreboard.html#f:sort=finding"]:
        page.goto(name, wait_until="load" if name.startswith("api/") else "networkidle")
        wide[name] = page.evaluate("document.documentElement.scrollWidth")
    assert {name: width for name, width in wide.items() if width > 390} == {}


def test_a_drawing_changes_with_light_and_dark(page: Page, chapters: list[str]):
    for name in chapters:
        page.goto(name)
        text = page.locator("figure.labkit-figure svg text[style*='--figure-ink']").first
        if text.count():  # or else this chapter was not executed here
            colours = set()
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                expect(page.locator("html")).to_have_attribute("data-theme", scheme)
                colours.add(text.evaluate("text => getComputedStyle(text).fill"))
            assert len(colours) == 2, name


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


def test_a_page_is_dark_or_light_before_the_theme_asks(page: Page, chapters: list[str]):
    page.route("**/pydata-sphinx-theme.js*", lambda route: route.fulfill(body=""))
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto(chapters[0])
        assert page.locator("html").get_attribute("data-theme") == scheme


def test_folded_code_is_laid_out_when_it_is_opened_or_printed(page: Page, chapters: list[str]):
    page.goto(chapters[0])
    fold = page.locator("details.hide").first
    measure = partial(fold.locator("pre").evaluate, "pre => pre.scrollWidth")
    assert measure() == 0
    page.emulate_media(media="print")
    assert measure() > 0
    page.emulate_media(media="screen")
    fold.locator("summary").click()
    assert measure() > 0


@pytest.fixture(scope="session")
def claims(root: Path) -> dict[str, dict]:
    found = json.loads((root / "build" / "claims" / "book.json").read_text())["claims"]
    assert found
    return found


# Names of claims whose link does not arrive at an open card that leads back.
FOLLOW = """async names => {
    const wrong = [];
    for (const name of names) {
        const arrived = new Promise(done => addEventListener("hashchange", done, {once: true}));
        location.hash = `claim-${name}`;
        await arrived;
        await new Promise(done => setTimeout(done));
        const card = document.getElementById(`claim-${name}`);
        const back = card?.querySelectorAll(`a[href='scoreboard.html#row-${name}']`) ?? [];
        if (!card?.open || back.length !== 1) wrong.push(name);
    }
    return wrong;
}"""


def test_the_scoreboard_lists_every_claim_and_each_link_arrives_at_an_open_card(
    page: Page, claims: dict[str, dict]
):
    page.goto("scoreboard.html")
    rows = page.locator(", ".join(f".labkit-claim[id^='row-{start}']" for start in "01ABCDE"))
    verdicts = "all => all.map(e => [e.id.slice(4), e.dataset.verdict])"
    assert dict(rows.evaluate_all(verdicts)) == {n: c["verdict"] for n, c in claims.items()}
    links = "all => all.map(a => [a.textContent, ...a.href.split('#')])"
    listed = rows.locator(".labkit-more a").evaluate_all(links)
    assert [place for _, _, place in listed] == [f"claim-{name}" for name, _, _ in listed]
    for chapter in sorted({chapter for _, chapter, _ in listed}):
        first, *others = [name for name, there, _ in listed if there == chapter]
        page.goto(f"{chapter}#claim-{first}")
        expect(page.locator(f"[id='claim-{first}']")).to_have_attribute("open", "")
        assert page.evaluate(FOLLOW, [*others, first]) == []


def test_the_scoreboard_is_searched_by_words_and_chips_and_the_address_says_how(
    page: Page, claims: dict[str, dict]
):
    page.goto("scoreboard.html")
    shown = page.locator(".labkit-claim:not([hidden])")
    expect(page.locator(".labkit-filter output")).to_have_text(f"{len(claims)} of {len(claims)}")
    expect(shown.first).to_be_hidden()  # its chapter is closed
    page.get_by_label("holds here").check()
    page.get_by_label("contradicted here").check()
    page.get_by_label("Search the claims").fill("Xiong")
    wanted = {
        name
        for name, claim in claims.items()
        if claim["verdict"] in ("holds", "contradicted")
        and "xiong"
        in f"{claim['statement']} {claim.get('said')} {claim['source']} "
        f"{claim['published']} {claim['domain']}".lower()
    }
    assert wanted
    assert set(shown.evaluate_all("all => all.map(e => e.id.slice(4))")) == wanted
    expect(shown.first).to_be_visible()
    expect(page).to_have_url(re.compile("#f:verdict=holds&verdict=contradicted&q=Xiong$"))
    address = page.url
    page.goto("index.html")
    page.goto(address)
    expect(page.get_by_label("contradicted here")).to_be_checked()
    expect(page.get_by_label("Search the claims")).to_have_value("Xiong")
    assert set(shown.evaluate_all("all => all.map(e => e.id.slice(4))")) == wanted


def test_a_chapter_s_tally_leads_to_its_claims_alone(page: Page, chapters: list[str]):
    page.goto("index.html")
    number = read_number([name for name in chapters if name[0].isdigit()][-1])
    page.locator(f".labkit-matrix .tally[href$='={number}']").click()
    expect(page).to_have_url(re.compile(f"scoreboard.html#f:chapter={number}$"))
    shown = page.locator(".labkit-claim:not([hidden])")
    expect(shown.first).to_be_in_viewport()
    assert set(shown.evaluate_all("all => all.map(e => e.dataset.chapter)")) == {number}


def test_without_script_the_scoreboard_is_a_list_in_folds(tab):
    page = tab(java_script_enabled=False)
    page.goto("scoreboard.html")
    expect(page.locator(".labkit-filter")).to_be_hidden()
    fold = page.locator(".labkit-chapter").first
    fold.locator("summary").first.click()
    card = fold.locator(".labkit-claim").first
    card.locator("summary").click()
    expect(card.locator(".labkit-more")).to_be_visible()


def test_the_cover_has_every_claim_within_its_first_screens(page: Page, claims: dict[str, dict]):
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto("index.html")
    marks = page.locator(".labkit-matrix .marks > a")
    names = marks.evaluate_all("all => all.map(a => a.hash.slice('#claim-'.length))")
    assert sorted(names) == sorted(claims)
    box = page.locator(".labkit-matrix").bounding_box()
    assert box and box["y"] + box["height"] <= 2.5 * 900
    assert page.evaluate("document.documentElement.scrollHeight") <= 3.6 * 900


def test_the_cover_is_read_with_the_keys(page: Page):
    page.goto("index.html")
    row = page.locator(".labkit-matrix .marks").first
    marks = row.locator("> a")
    assert row.locator("> a[tabindex='-1']").count() == marks.count() - 1
    marks.first.focus()
    page.keyboard.press("ArrowRight")
    expect(marks.nth(1)).to_be_focused()
    assert marks.nth(1).locator("span").evaluate("e => getComputedStyle(e).clipPath") == "none"
    address = marks.nth(1).get_attribute("href")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(re.escape(address or "?") + "$"))


def test_solutions_are_folded_and_open_on_click(page: Page, chapters: list[str]):
    found = 0
    for name in chapters[::4]:
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
    opened = page.locator("div.cell:not(.tag_exercise, .tag_solution) > .cell_input").first
    expect(folded).to_be_hidden()
    expect(opened).to_be_visible()
    page.get_by_label("all", exact=True).check()
    expect(folded).to_be_visible()
    page.get_by_label("none", exact=True).check()
    expect(opened).to_be_hidden()
    page.goto(chapters[1])
    expect(page.get_by_label("none", exact=True)).to_be_checked()
    expect(opened).to_be_hidden()
    page.get_by_label("essential", exact=True).check()


def test_every_page_names_both_licences_and_any_static_host_serves_it(site: Path, pages: list[str]):
    """Hosts that run Jekyll omit folders like _static; a site in a subfolder has no root."""
    assert (site / ".nojekyll").is_file()
    for name in pages:
        text = (site / name).read_text(encoding="utf-8")
        assert text.count('rel="license"') == 1 and "MIT licence" in text, name
        assert not re.findall(r'<(?:a|link|script|img)\s[^>]*?(?:href|src)="/[^"]*"', text), name


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
