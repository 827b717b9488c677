"""Settings of the book's web site, for Sphinx.

The site is built by `make site` from staged copies of these files, never from this folder: the
executed notebooks come from build/book, so Sphinx runs no code cell itself and needs no network.
"""

import gc
import re
import textwrap
from functools import cache
from pathlib import Path

from docutils import nodes

from press.book.citations import read_works
from press.site.code_colours import PlainNamesLexer
from press.site.search import Places, list_sentences
from press.site.sidebar import list_sections

# Sphinx makes millions of nodes and keeps them, so a search for garbage finds little; with Python's
# threshold of 700 objects these searches take a third of the build.
gc.set_threshold(200_000, 50, 100)

project = "Normalization in Transformers: a Lab Book"
author = "the lab book's authors"
language = "en"
extensions = [
    "myst_nb",
    "press.site.formulas",
    "sphinx.ext.autodoc",
    "sphinx.ext.githubpages",  # .nojekyll: a host that would leave out _static does not
    "sphinx_copybutton",
    "sphinxcontrib.bibtex",
]
exclude_patterns = ["notebooks/**", ".doctrees"]

# -- chapters ---------------------------------------------------------------------------------
nb_execution_mode = "off"
nb_merge_streams = True
nb_render_markdown_format = "myst"
nb_code_prompt_show = "code"
nb_code_prompt_hide = "code"
myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_dmath_double_inline = True
myst_heading_anchors = 3
myst_links_external_new_tab = False

html_math_renderer = "typeset"

# -- citations: links to the works, whose full names a pointer shows ------------------------------
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"


@cache
def name_works(folder: Path) -> dict[str, str]:
    return {work.url: str(work) for work in read_works(folder).values()}


def name_cited_works(app, doctree, docname: str) -> None:
    """Show authors, year and title where a pointer rests on a link to a work."""
    works = name_works(Path(app.srcdir))
    for link in doctree.findall(nodes.reference):
        if link.get("refuri") in works:
            link["reftitle"] = works[link["refuri"]]


# -- search: sentences, sections and claims, no code and no formula as it is typed --------------
html_show_search_summary = False


def hide_code_from_search(app, doctree) -> None:
    for block in doctree.findall(nodes.literal_block):
        block["classes"].append("no-search")


# -- pages of the package ---------------------------------------------------------------------
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_use_type_comments = False  # there are none to look for
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False


def plain_docstring(app, what, name, obj, options, lines: list[str]) -> None:
    """Show a docstring as it was typed, where |x| is a length and not a substitution.

    Prose stays prose and a list a list; a block with indented lines or columns is kept verbatim.
    """
    blocks = re.split(r"\n[ \t]*\n", "\n".join(lines).expandtabs(4).strip("\n").rstrip())
    out = [part for block in blocks if block.strip() for part in rst_blocks(block)]
    lines[:] = [*"\n\n".join(out).split("\n"), ""]


def rst_blocks(block: str) -> list[str]:
    """Write one block of plain text in reStructuredText."""
    if re.match(r"[-*] ", block):
        items = re.split(r"\n(?=[-*] )", block)
        return ["\n".join("- " + escaped(" ".join(item[2:].split())) for item in items)]
    first, _, rest = block.partition("\n")
    if first.endswith(":") and re.match(" +[^ ]", rest):
        return [escaped(first), verbatim(rest)]
    if re.search(r"^ | {3}", block, re.MULTILINE):
        return [verbatim(block)]
    return [escaped(block)]


def verbatim(block: str) -> str:
    return ".. code-block:: text\n\n" + textwrap.indent(textwrap.dedent(block), "    ")


def escaped(text: str) -> str:
    """Neutralise the marks of reStructuredText outside `code`."""
    out = ""
    for part in re.split(r"(`+[^`]+`+)", text):
        if part.startswith("`"):
            out += f"``{part.strip('`')}``"
            continue
        # A code span needs white space or punctuation after it; an escaped space is invisible.
        out += "\\ " if out and re.match(r"\w", part) else ""
        out += re.sub(r"([\\*|_`:])|^(?=[-+.=>~\d])", r"\\\1", part, flags=re.MULTILINE)
    return out


def readable_signature(app, what, name, obj, options, signature, returns):
    """Write Float[Tensor, "batch dim"] the way the source does."""

    def short(text: str) -> str:
        text = re.sub(r"\btorch\.nn\.modules\.\w+\.", "nn.", text)
        return re.sub(r"~?\b(?:jaxtyping|torch|typing|collections\.abc)\.", "", text)

    return signature and short(signature), returns and short(returns)


# -- the cover, the block explorer, exercises: only pages that have one load what it needs --------
def load_parts(app, pagename, templatename, context, doctree) -> None:
    body = context.get("body", "")
    if 'class="labkit-map"' in body:
        app.add_css_file("cover.css")
    if 'class="labkit-voices"' in body:
        app.add_js_file("voices.js", loading_method="defer")
    if "data-explorer=" in body:
        app.add_css_file("explorer.css")
        app.add_js_file("explorer.js", loading_method="defer")
    if "data-exercise=" in body:
        app.add_css_file("answers.css")
        app.add_js_file("judge.js", loading_method="defer")
        code = (Path(app.srcdir) / "_static" / "pyodide").is_dir()
        app.add_js_file(
            "answers.js", loading_method="defer", **{"data-python": "yes" if code else "no"}
        )


# -- what a screen reader hears -----------------------------------------------------------------
# The arrow that opens a part of the list of pages has no words, and the parameters of a long
# signature are a list of definitions of nothing. A list of works has works as its items.
WORDS = {
    ' role="doc-biblioentry">': ' role="listitem">',
    "<details><summary><span": '<details><summary aria-label="Pages of this part"><span',
    "<details open><summary><span": '<details open><summary aria-label="Pages of this part"><span',
    '<details open="open"><summary><span': (
        '<details open="open"><summary aria-label="Pages of this part"><span'
    ),
    '<dl>\n<dd><em class="sig-param"': '<dl role="presentation">\n<dd><em class="sig-param"',
    '<div id="pst-primary-sidebar" class': (
        '<div id="pst-primary-sidebar" role="complementary" aria-label="The book" class'
    ),
}


# The theme loads the search and its index of 400 kB on every page; only search.html uses them.
SEARCH = re.compile(
    r'\s*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js[^"]*"></script>'
)


def finish_pages(app, exception) -> None:
    if exception is not None or app.builder.name != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        before = text = path.read_text(encoding="utf-8")
        for old, new in WORDS.items():
            text = text.replace(old, new)
        if path.name != "search.html":
            text = SEARCH.sub("", text)
        if 'class="labkit-hero' in text or '<div class="labkit-wide"' in text:
            text = text.replace("<body data-", '<body class="labkit-broad" data-')
        if path.parent == Path(app.outdir) and "labkit-hero" in text:  # a chapter
            text = list_sections(text)
        if text != before:
            path.write_text(text, encoding="utf-8")


# The theme asks for dark or light only after the page is there, which then is styled once more.
CHOOSE_THEME = (
    'if (document.documentElement.dataset.mode === "auto") document.documentElement.dataset.theme ='
    ' matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";'
)


def setup(app) -> None:
    app.add_domain(Places)
    app.add_js_file(None, body=CHOOSE_THEME)
    app.add_lexer("ipython3", PlainNamesLexer)
    app.connect("doctree-read", hide_code_from_search)
    app.connect("doctree-read", list_sentences)
    app.connect("doctree-resolved", name_cited_works)
    app.connect("build-finished", finish_pages)
    app.connect("html-page-context", load_parts)
    app.connect("autodoc-process-docstring", plain_docstring)
    app.connect("autodoc-process-signature", readable_signature)


# -- looks ------------------------------------------------------------------------------------
html_theme = "sphinx_book_theme"
html_title = "Normalization in Transformers"
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_js_files = ["wide.js", "code.js", "figures.js", "predict.js", "claims.js", "peek.js"]
html_favicon = "_static/icon.svg"
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_permalinks_icon = "#"
html_domain_indices = False
html_use_index = False
html_theme_options = {
    "logo": {"text": "Normalization in Transformers"},
    "navbar_persistent": [],
    "article_header_end": ["article-header-buttons"],
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "search_bar_text": "Search the book",
    "footer_content_items": ["extra-footer"],
    "extra_footer": (
        '<p>Text and figures: <a rel="license" href="https://creativecommons.org/licenses/by/4.0/">'
        "CC BY 4.0</a>. Code: MIT licence.</p>"
    ),
    "back_to_top_button": False,
    "toc_title": "On this page",
}
