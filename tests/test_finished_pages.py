"""Built pages: formulas, colours of code, and the open page's sections in the list of pages."""

import re
from io import BytesIO

from fontTools.ttLib import TTFont
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers.python import PythonLexer

from press.site import formulas
from press.site.code_colours import PlainNamesLexer
from press.site.sidebar import list_sections

NAV = (
    '<li class="toctree-l1"><a href="03.html">3</a></li>\n'
    '<li class="toctree-l1 current active"><a class="current" href="#">4 · <i>QK</i></a></li>\n'
)
OTHER = "<h2> On this page </h2>"  # the theme's, without an address
HEADING = '<h2>Why <i>d</i> grows<a class="headerlink" href="#why" title="Link">#</a></h2>'


def test_a_formula_becomes_html_mathml_and_the_rules_of_its_letters():
    (inline, displayed), style = formulas.typeset([(r"x_1", False), (r"\frac{a}{2}", True)])
    assert "<msub><mi>x</mi><mn>1</mn></msub>" in inline and 'display="true"' not in inline
    assert "<mfrac>" in displayed and 'display="true"' in displayed
    for letter in set(re.findall(r"mjx-c[0-9A-F]{2,}", inline + displayed)):
        assert f".{letter}" in style


def test_a_page_loads_the_fonts_of_its_formulas_at_once():
    _, style = formulas.typeset([("x", False)])
    files = [f"{formulas.SERVED}/MathJax_{name}-Regular.woff" for name in ("Main", "Size2")]
    assert formulas.find_fonts("<mjx-c class='mjx-c33'>", style) == files[:1]
    assert formulas.find_fonts("<mjx-c class='mjx-c28 TEX-S2'>", style) == files
    assert any("Size4" in file for file in formulas.find_fonts("<mjx-stretchy-v>", style))


def test_a_font_has_the_letters_that_are_used_and_no_other():
    _, style = formulas.typeset([(r"x + \sum_i \sqrt{2}", False)])
    font = TTFont(BytesIO(formulas.reduce_font("MathJax_Main-Regular.woff", style)))
    assert "".join(map(chr, sorted(font.getBestCmap()))) == "+2ix√"


def test_a_fault_is_marked_and_unknown_commands_are_faults():
    drawn, _ = formulas.typeset([(r"\nosuchcommand x", False), (r"\frac{1", False), ("x", False)])
    assert ["data-mjx-error" in one for one in drawn] == [True, True, False]


def test_the_open_page_has_its_sections_and_no_other_has():
    page = list_sections(f"{NAV}{OTHER}{HEADING}")
    listed = '<ul class="labkit-sections"><li><a href="#why">Why <i>d</i> grows</a></li></ul>'
    assert f'<a class="current" href="#">4 · <i>QK</i></a>{listed}</li>' in page
    assert page.replace(listed, "") == f"{NAV}{OTHER}{HEADING}"
    assert list_sections(page) == page  # the next build finishes the page again


def test_a_page_without_sections_or_outside_the_list_stays_as_it_is():
    for page in (NAV, HEADING, f"{NAV}<h2>Alone</h2>"):
        assert list_sections(page) == page


def test_plain_code_is_one_run_of_text():
    code = "def f(x):\n    return x.mean(dim=-1) + 1  # why\n"
    usual, ours = (highlight(code, of(), HtmlFormatter()) for of in (PythonLexer, PlainNamesLexer))
    assert re.sub("<[^>]+>", "", ours) == re.sub("<[^>]+>", "", usual)
    assert 'class="p"' in usual and not re.search('class="[npw]"', ours)
    assert all(f'class="{kind}"' in ours for kind in ("k", "nf", "o", "mi", "c1"))
