"""Claims: invalid claims are refused, and cards and ledger entries are correct."""

import math
import re
import sys

import pytest
from claim_call import claim

from labkit.experiments import proportion
from labkit.experiments.card_html import (
    KINDS,
    VERDICTS,
    format_interval,
    format_number,
    mark_rungs,
    typeset,
)
from labkit.statistics.recorded import rebuild_estimate
from labkit.statistics.seeds import Seeds, t_interval

REST = {"source": "a paper", "criterion": "> 0", "kind": "at"}


def test_a_card_says_everything(capsys):
    made = claim(
        "02-x",
        "Post loses {mean:.2f} nats over {n} seeds; factor {factor:.1f}.",
        [0.5, 0.6, 0.7],
        published="0.4",
        factor=2.0,
        **REST,
    )
    assert made.statement == "Post loses 0.60 nats over 3 seeds; factor 2.0."
    assert made.verdict == "holds"
    card = capsys.readouterr().out
    for part in ("holds here", "0.60 nats", "95 % interval", "3 seeds", "> 0", "a paper", "0.4"):
        assert part in card
    for part in ("●</span>", "<b>Holds here, weak</b>", "0.60 nats", "[0.35, 0.85]", "a paper"):
        assert part in made.to_html()


def test_a_card_escapes_what_it_is_given():
    made = claim("x", "a <b> & c", [1.0, 1.1], said="b < c", published="<i>", **REST)
    assert "a &lt;b&gt; &amp; c" in (card := made.to_html())
    assert "<b>Claim:</b> b &lt; c" in card and "published: &lt;i&gt;" in card


def test_a_contradicted_card_says_the_tested_sentence_before_it_is_opened():
    said = {"said": "Post-Norm diverges.", **REST}
    closed, _, opened = (
        claim("x", "It does not.", [-1.0, -1.1], **said).to_html().partition("</summary>")
    )
    assert "<b>Claim:</b> Post-Norm diverges.<br><b>Result:</b> It does not." in closed
    assert "Post-Norm" not in opened
    closed, _, opened = claim("x", "It does.", [1.0, 1.1], **said).to_html().partition("</summary>")
    assert "Post-Norm" not in closed and "<b>Claim:</b> Post-Norm diverges." in opened


def test_a_card_needs_nothing_that_an_untrusted_notebook_drops():
    card = claim("x", "s", [1.0, 1.1, 0.9], **REST).to_html()
    assert not re.search("<(svg|script|style|link)", card) and 'style="color:#2c8a57"' in card


def test_a_card_lists_sizes_before_variants_in_whatever_order_they_are_stored():
    card = {"criterion": "> 0", "rungs": {r: {"values": [1.0, 1.1]} for r in ("D24", "M", "S")}}
    assert re.findall(r">(\w+)</", mark_rungs(card)) == ["S", "M", "D24"]


def test_a_card_says_its_mean_once():
    values = [0.5, 0.6, 0.7]
    told = claim("x", "It is {mean:.1f}.", values, **REST).to_html().partition("</summary>")[0]
    assert "[0.35, 0.85]" in told and "0.60" not in told
    silent = claim("x", "It is so.", values, **REST).to_html().partition("</summary>")[0]
    assert "<b>0.60</b> [0.35, 0.85]" in silent


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("4.4e-16 at most", "4.4·10<sup>−16</sup> at most"),
        ("< 1e-5", "&lt; 10<sup>−5</sup>"),
        ("by 0e+00 of it, >= -0.5", "by 0 of it, ≥ −0.5"),
        ("10 to the power -8.8, L to the power 0.04", "10<sup>−8.8</sup>, L<sup>0.04</sup>"),
        ("√d_k and W_V, not my_norm", "√d<sub>k</sub> and W<sub>V</sub>, not my_norm"),
        ("bound by L^-1/2", "bound by L<sup>−1/2</sup>"),
        ("arXiv 2302.05442, Pre-Norm, 0-4", "arXiv 2302.05442, Pre-Norm, 0-4"),
    ],
)
def test_simple_math_is_typeset(typed, shown):
    assert typeset(typed) == shown


def test_the_width_of_an_interval_decides_how_many_digits_its_numbers_have():
    assert format_interval(2.0714, 2.3788) == "[2.07, 2.38]"
    assert format_interval(0.018, 0.02339) == "[0.0180, 0.0234]"
    assert format_interval(-0.00098, 0.7169) == "[0.00, 0.72]"
    assert format_interval(210.36, 243.37) == "[210, 243]"
    assert format_interval(16210.0, 17341.2) == "[16,210, 17,340]"
    assert format_interval(-5.38e-6, 2.58e-6) == "[-5.4e-06, 2.6e-06]"
    assert [format_number(v) for v in (0.47801, 17341.2, 6.0)] == ["0.478", "17,341", "6"]


def test_the_entry_is_the_ledger_s():
    entry = claim("x", "s", [1.0, 2.0, 3.0], **REST).to_dict()
    assert set(entry) == {
        "id", "sort", "said", "statement", "wording", "numbers", "source", "published", "domain",
        "values", "counts", "interval", "criterion", "effect", "predicted", "kind",
        "samples", "rungs", "runs", "only", "word", "lock", "lacking", "unit",
        "tried", "verdict", "weak", "tolerance", "seeds",
    }  # fmt: skip
    assert entry["seeds"] == 3 and entry["rungs"] is None and entry["tolerance"] == 2.48
    assert entry["verdict"] in VERDICTS and entry["kind"] in KINDS
    far = claim("x", "s", [1000.01, 1000.02, 1000.03], **REST).to_dict()
    assert rebuild_estimate(far) == Seeds((1000.01, 1000.02, 1000.03)), "six digits are its own"


def test_a_card_says_how_somebody_tried_to_break_it_and_what_nobody_tried():
    told = claim("x", "s", [1.0, 2.0], tried={"control": "the same rate"}, **REST)
    assert "control: the same rate; not checked: second value, last step" in told.to_html()
    assert "not tried" not in claim("x", "s", [1.0, 2.0], **REST).to_html(), "nobody said anything"
    with pytest.raises(ValueError, match=r"second value, last step, control; luck is neither"):
        claim("x", "s", [1.0, 2.0], tried={"luck": "none"}, **REST)
    with pytest.raises(ValueError, match="low, mean would; choose other names"):
        claim("x", "s {mean} {low}", [1.0, 2.0], mean=3.0, low=1, **REST)
    rungs = {"S": [1.0, 1.1, 1.2, 1.1, 1.0], "M": [1.1, 1.0, 1.2, 1.1, 1.3]}
    ladder = claim("x", "s", rungs, **REST | {"kind": "best"}).to_dict()["tried"]
    assert ladder["second value"] == "on S and M" and ladder["control"].startswith("tuned")
    given = REST | {"kind": "best", "tried": {"control": "the same rate"}}
    one = claim("x", "s", {"S": rungs["S"]}, **given).tried
    assert one == {"last step": "the test loss at the end", "control": "the same rate"}


def test_the_tolerance_is_a_share_of_the_value_unless_told():
    low, high = t_interval([1.0, 2.0, 3.0])
    wide = claim("x", "s", [1.0, 2.0, 3.0], **REST)
    assert wide.tolerance == pytest.approx((high - low) / 2)
    exact = REST | {"kind": "exact"}
    assert claim("x", "s", -6.3e-7, **exact).tolerance == pytest.approx(0.05 * 6.3e-7)
    assert claim("x", "s", 2.0, tolerance=0.5, **exact).tolerance == 0.5
    assert claim("x", "s", 0.0, **exact).tolerance == 0.0, "zero has no share"


def test_a_sentence_may_name_words_and_they_are_settings():
    made = claim("x", "They differ in {which}.", [1.0, 1.1], which="a shift", **REST)
    assert made.statement == "They differ in a shift."
    assert made.to_dict()["numbers"] == {"which": "a shift"}
    made = claim("x", "At {rate:g}: {mean:.2f}, {n} seeds", [1.0, 2.0, 3.0], rate=0.03, **REST)
    assert made.to_dict()["numbers"] == {"rate": 0.03, "mean": 2.0, "n": 3}
    far = claim("x", "Up to {rate:g}", [1.0, 1.1], rate=math.inf, **REST)
    assert far.to_dict()["numbers"] == {"rate": "inf"}, "JSON has no infinity"


# -- what a verdict needs ---------------------------------------------------------------------
@pytest.mark.parametrize(("kind", "count"), [("at", 1), ("at", 2), ("best", 5)])
def test_an_interval_of_width_zero_is_refused(kind, count):
    with pytest.raises(ValueError, match=r"width 0 is no evidence.* values? of 1.9.*a count"):
        claim("x", "s", [1.9] * count, source="a", criterion="> 1", kind=kind)
    law = claim("x", "s", [1.9] * 5, source="a", criterion="> 1", kind="exact")
    assert law.verdict == "holds" and law.to_dict()["sort"] == "law"
    assert "labkit-law" in law.to_html() and "✓" in law.to_html()


def test_a_card_names_what_its_sample_is_of():
    turns = claim("x", "s", proportion([1, 1, 0]), unit="turns", **REST)
    pairs = claim("x", "s", [1.0, 2.0, 3.0], unit="pairs", **REST)
    assert "2 of 3 turns;" in str(turns) and "; 3 pairs; 95 % interval" in str(pairs)


def test_an_interval_that_is_given_for_one_value_is_of_what_its_unit_says():
    given = claim(
        "x", "s", 1.0, interval=(0.9, 1.1), unit="replays, 20th to 80th percentile", **REST
    )
    assert "replays, 20th to 80th percentile [0.90, 1.10]" in str(given)
    assert "95 % interval" not in str(given)
    assert "95 % interval [0.90, 1.10]" in str(claim("x", "s", 1.0, interval=(0.9, 1.1), **REST))


def test_a_lead_is_said_in_words():
    ends = "A's loss is {apart:.2f} nats {side} B's."
    ahead = claim("x", ends, [1.0, 2.0], **REST)
    assert ahead.statement == "A's loss is 1.50 nats lower than B's."
    behind = claim("x", ends, [-1.0, -2.0], **REST)
    assert behind.statement == "A's loss is 1.50 nats higher than B's."
    assert "improvement: <b>−1.5</b>" in behind.to_html(), "its sign is shown"


def test_runs_are_counted_with_exact_intervals():
    made = claim(
        "x", "{k} of {n} diverge", proportion([0, 0, 0, 0, 0, 0]), **REST | {"criterion": "> 0.5"}
    )
    assert made.statement == "0 of 6 diverge" and made.interval[1] == pytest.approx(0.459, abs=1e-3)
    assert made.verdict == "contradicted" and "0 of 6 runs" in str(made)
    entry = made.to_dict()
    assert entry["counts"] == [[0, 6]] and entry["seeds"] == 6 and entry["values"] == [0.0]
    all_five = claim("x", "s", proportion([True] * 5), **REST | {"criterion": "> 0.5"})
    assert all_five.verdict == "not-seen", "five of five do not show that more than half do"
    gap = claim(
        "x", "{k}/{n}, {other_k}/{other_n}", proportion([1] * 5) - proportion([0] * 5), **REST
    )
    assert gap.statement == "5/5, 0/5" and gap.verdict == "holds" and gap.weak is False
    assert gap.to_dict()["counts"] == [[5, 5], [0, 5]]


def test_a_claim_beyond_its_source_s_domain_gets_no_verdict():
    far = {"domain": "24 layers, 200k steps", "ours": "2 blocks, 400 steps", "in_range": False}
    made = claim("x", "s", [-1.0, -1.1, -0.9], **REST, **far)
    assert made.verdict == "out-of-range" and made.weak is False
    assert "[Finding: out of range]" in str(made)
    assert "the source's setting: 24 layers, 200k steps; ours: 2 blocks, 400 steps" in str(made)
    assert made.to_dict()["domain"]["inside"] is False
    near = claim("x", "s", [-1.0, -1.1, -0.9], **REST, **far | {"in_range": True})
    assert near.verdict == "contradicted"


def test_a_margin_is_tied_to_an_effect_or_to_a_prediction():
    same = {"source": "a", "criterion": "in [-0.005, 0.005]", "kind": "at"}
    values = [0.001, 0.0, 0.002]
    with pytest.raises(ValueError, match="needs a reference for its margin"):
        claim("x", "s", values, **same)
    tied = claim("x", "s", values, effect=0.02, **same)
    assert (tied.verdict, tied.criterion, tied.effect) == ("holds", same["criterion"], 0.02)
    assert claim("x", "s", values, effect=-0.02, **same).verdict == "holds"
    for wide in ("in [-0.03, 0.03]", "< 0.03"):  # beside an effect of 0.02
        with pytest.raises(ValueError, match=r"at most a quarter.*0.03 for an effect of 0.02"):
            claim("x", "s", values, effect=0.02, **same | {"criterion": wide})
    slope = same | {"criterion": "in [0.4, 0.6]"}
    assert claim("x", "s", [0.5, 0.51, 0.5], predicted=0.5, **slope).verdict == "holds"
    with pytest.raises(ValueError, match="must include the predicted value"):
        claim("x", "s", [0.5, 0.51, 0.5], predicted=1.0, **slope)
    with pytest.raises(ValueError, match="needs a reference for its margin"):
        claim("x", "s", [*values, 0.001, 0.0], predicted=0.0, **same | {"kind": "best"})
    assert claim("x", "s", 0.5, **slope | {"kind": "exact"}).verdict == "holds"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "Bad id"}, "lower-case letters"),
        ({"criterion": "positive"}, "a criterion must have a form like"),
        ({"values": []}, "at least one value"),
        ({"values": [1.0, math.nan]}, "each finite"),
        ({"kind": "best", "values": [1.0, 2.0]}, "at least five seeds"),
        ({"statement": "{other}"}, "name the numbers that are passed to it, but it names other"),
    ],
)
def test_a_claim_refuses_nonsense(change, message):
    with pytest.raises(ValueError, match=message):
        claim(**{"id": "x", "statement": "s", "values": [1.0, 1.1], **REST, **change})


def test_a_claim_needs_no_notebook_and_no_ipython(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "IPython.core.getipython", None)
    claim("one-is-one", "One is {mean:.0f}.", 1.0, source="algebra", criterion="> 0", kind="exact")
    assert capsys.readouterr().out.startswith("[Exact claim: holds here] One is 1.")
