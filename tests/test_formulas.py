"""Formulas are typeset when the site is built, and an invalid formula is reported then."""

import re

from press.site import formulas


def test_a_formula_becomes_html_mathml_and_the_rules_of_its_letters():
    (inline, displayed), style = formulas.typeset([(r"x_1", False), (r"\frac{a}{2}", True)])
    assert "<msub><mi>x</mi><mn>1</mn></msub>" in inline and 'display="true"' not in inline
    assert "<mfrac>" in displayed and 'display="true"' in displayed
    for letter in set(re.findall(r"mjx-c[0-9A-F]{2,}", inline + displayed)):
        assert f".{letter}" in style
    served = set(re.findall(r'url\("mathjax/([^"]+)"\)', style))
    names = {name.removeprefix("_static/mathjax/") for name, _ in formulas.list_fonts()}
    assert served and served < names


def test_a_fault_is_marked_and_unknown_commands_are_faults():
    drawn, _ = formulas.typeset([(r"\nosuchcommand x", False), (r"\frac{1", False), ("x", False)])
    assert ["data-mjx-error" in one for one in drawn] == [True, True, False]
