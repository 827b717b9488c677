"""axe-core finds no violation on any page: light or dark, desktop or phone."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.site
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN = """async ([rules, within]) => {
    const found = await axe.run(within ?? document, {
        runOnly: {type: "tag", values: rules}, resultTypes: ["violations"],
    });
    return found.violations.map(v => ({
        rule: v.id, impact: v.impact, help: v.help,
        nodes: v.nodes.map(n => n.target.join(" ") + " " + n.html.slice(0, 120)),
    }));
}"""
# axe's time grows with a page's elements: most are words of code, lines of figures and letters of
# formulas. These, and open folds, are seen on the first chapter alone, whose marks and colours all
# chapters have.
LIGHTEN = """() => {
    document.querySelectorAll("pre").forEach(e => { e.textContent = e.textContent; });
    const drawn = ".labkit-drawing > svg, mjx-container";
    document.querySelectorAll(drawn).forEach(e => e.replaceChildren());
}"""
OPEN = """async () => {
    document.querySelectorAll("details").forEach(fold => { fold.open = true; });
    await new Promise(seen => requestAnimationFrame(() => setTimeout(seen)));
}"""
PICTURE = '<img id="wrong" src="data:image/gif;base64,R0lGODlhAQABAAAAACw=" width="40" height="40">'


def axe() -> str:
    """Read axe-core from the package that contains it."""
    spec = find_spec("axe_playwright_python")
    assert spec and spec.origin, "run `make setup`: axe-playwright-python carries axe-core"
    return (Path(spec.origin).parent / "axe.min.js").read_text(encoding="utf-8")


SCREENS = {"light": ("light", 1400, 900), "dark, telephone": ("dark", 390, 844)}


@pytest.fixture(params=SCREENS.values(), ids=SCREENS)
def themed(request: pytest.FixtureRequest, tab: Any) -> Page:
    """Open a tab with axe on every page, without transitions, which axe would see half done."""
    scheme, width, height = request.param
    viewport = {"width": width, "height": height}
    page = tab(color_scheme=scheme, reduced_motion="reduce", viewport=viewport)
    page.add_init_script(axe())
    return page


def faults(page: Page, within: str | None = None) -> list[str]:
    """Return what axe finds on the page, or within the elements of a selector."""
    if within:
        page.evaluate(LIGHTEN)
    return [
        f"{one['impact']} {one['rule']}: {one['help']}: {'; '.join(one['nodes'][:3])}"
        for one in page.evaluate(RUN, [RULES, within])
    ]


def test_no_page_has_a_fault(themed: Page, pages: list[str], chapters: list[str]):
    """API pages are made alike: two are looked at. In the dark, every third chapter is."""
    api = [name for name in pages if name.startswith("api/")]
    left_out = {*api} - {"api/index.html", "api/labkit.norms.html"}
    if themed.evaluate("matchMedia('(prefers-color-scheme: dark)').matches"):
        left_out |= {*chapters} - {*chapters[::3]}
    found = {}
    for name in pages:
        if name in left_out:
            continue
        themed.goto(name, wait_until="load")
        themed.evaluate(OPEN if name == chapters[0] else LIGHTEN)
        found[name] = faults(themed)
    assert {name: said for name, said in found.items() if said} == {}


def test_predictions_have_no_fault_in_any_state(themed: Page, chapters: list[str]):
    themed.goto(chapters[0], wait_until="load")
    locked, declined, *_ = themed.locator(".labkit-asked[data-ask]").all()
    locked.locator("li button").first.click()
    declined.get_by_role("button", name="Show without predicting").click()
    themed.locator(".labkit-asked[data-state=declined] .result:focus").wait_for()
    assert faults(themed, ".labkit-asked") == []
    themed.goto("predictions.html", wait_until="load")
    themed.locator(".labkit-chapter summary").first.click()
    themed.locator(".labkit-scores table").wait_for()
    assert faults(themed) == []


def test_axe_would_see_one(themed: Page, chapters: list[str]):
    themed.goto(chapters[0], wait_until="load")
    themed.evaluate("html => document.querySelector('article').innerHTML += html", PICTURE)
    assert any("image-alt" in fault for fault in faults(themed))
