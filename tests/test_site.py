"""Sources, scoreboard and keys of the web site, without a browser."""

import json
import os
import re
from pathlib import Path

import fake_book
import pytest
from scipy.stats import binomtest

from labkit.experiments.locks import LOCKED, LOOKED, SEEN
from labkit.statistics.pooled import Scatter, compare_samples
from labkit.statistics.recorded import compute_p_values, find_survivors, p_value
from press.book.chapters import find_chapters
from press.book.facts import format_seeds, provenance_line
from press.book.files import Red
from press.book.forecasts import HELD, Forecast
from press.book.ledger import load_recorded
from press.site import claim_cards
from press.site import sphinx as site_module
from press.site.coverage import mark_claim
from press.site.figures import list_pictures, list_tables, read_name
from press.site.outline import read_outline
from press.site.page import build_page, is_figure
from press.site.scoreboard import build_scoreboard
from press.site.sphinx import build_site
from press.site.sphinx_sources import INTERNAL, api_pages, public_modules, staged_files
from press.site.strips import draw_strip

ONE, TWO = fake_book.ONE, fake_book.TWO


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return fake_book.make(tmp_path)


def shown(cells: list) -> str:
    return json.dumps(build_page(ONE, fake_book.notebook(*cells)), ensure_ascii=False)


# -- a chapter's page -------------------------------------------------------------------------
def test_nothing_volatile_and_no_parameter_reaches_the_page():
    out = json.dumps(build_page(ONE, fake_book.FIRST))
    assert "VOLATILE" not in out and "stderr" not in out and "10/10" not in out
    assert "gpu" not in out and "widgets" not in out
    assert "2.0 5.0" in out, "what print() says stays"


def test_a_figure_carries_its_words_its_caption_and_its_provenance():
    cells = build_page(ONE, fake_book.FIRST)["cells"]
    figures = [cell["source"] for cell in cells if is_figure(cell)]
    assert [figure.count("<img") for figure in figures] == [1] * 4, "each in a cell of its own"
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert json.dumps(cells).count("The gap, first.") == 1
    assert [re.search('alt="([^"]+)"', figure)[1] for figure in figures] == [
        "Two loss curves that cross.",
        "Accuracy by batch size.",
        "The same for a small CNN.",
        "A flat line.",
    ]
    assert "</a> Batches of two: $B=2$ **fails**" in figures[0]
    assert "<details" in figures[0] and "*turbo*</details>" not in figures[0]
    assert "10 runs" in figures[0] and "No training run" in figures[2]


def test_the_seeds_of_a_figure_stand_in_its_fold():
    told = "Points: 5 seeds; lines: their mean."
    out = shown([("plots.curves()", [], fake_book.figure("A line.", f"It falls. {told}"))])
    caption, _, fold = out.partition("<details")
    assert "It falls." in caption and told not in caption and told in fold


def test_a_drawing_is_shown_before_a_png():
    (picture, caption) = fake_book.figure("A line.", "Flat.")
    drawn = {**picture, "data": {**picture["data"], "text/html": "<svg>drawn</svg>"}}
    out = shown([("plots.curves()", [], [drawn, caption])])
    assert "<svg>drawn</svg>" in out and "base64" not in out


def named(name: str, caption: str, **data: str) -> list:
    """Make the outputs of a named figure."""
    picture, words = fake_book.figure("A line.", caption)
    about = {"labkit": {**picture["metadata"]["labkit"], "name": name}}
    return [{**picture, "data": {**picture["data"], **data}, "metadata": about}, words]


def test_a_figure_has_a_number_and_an_address_that_no_word_changes():
    table = {"text/csv": "rate,loss\n0.1,2.5\n"}
    rise, fall = named("rise", "Up.", **table), named("fall", "Down.")
    slider = [{**fall[0], "metadata": {"labkit": {**fall[0]["metadata"]["labkit"]}}}, fall[1]]
    slider[0]["metadata"]["labkit"]["kind"] = "slider"
    slider[0]["data"]["text/html"] = '<div class="labkit-slider"></div>'
    page = build_page(ONE, fake_book.notebook(("rise()", [], rise), ("fall()", [], slider)))
    first, second = (cell["source"] for cell in page["cells"] if is_figure(cell))
    assert '<figure class="labkit-figure" id="figure-rise">' in first
    assert '<a class="labkit-number" href="#figure-rise">Figure 1.1</a> Up.' in first
    assert f'href="_static/data/{ONE}/rise.csv" download' in first
    assert "Figure 1.2</a> Down." in second and 'id="figure-fall"' in second
    assert "labkit-slider" in second and ".csv" not in second, "it shows no numbers"
    swapped = build_page(ONE, fake_book.notebook(("x = 1\nfall()", [], slider), ("r()", [], rise)))
    ids = re.findall(r'id=\\"(figure-\w+)', json.dumps(swapped))
    assert ids == ["figure-fall", "figure-rise"]
    ((path, content),) = list_tables(ONE, fake_book.notebook(("rise()", [], rise)))
    assert path == f"_static/data/{ONE}/rise.csv"
    assert content.decode("utf-8-sig") == table["text/csv"]
    assert content.startswith(b"\xef\xbb\xbf"), "a spreadsheet must see that it is UTF-8"


def test_two_figures_of_a_chapter_cannot_have_one_address():
    cells = [(f"draw({i})", [], named("rise", "Up.")) for i in range(2)]
    with pytest.raises(Red, match="has two figures 'rise'; rename one"):
        build_page(ONE, fake_book.notebook(*cells))


def test_every_figure_of_the_book_has_a_name_of_its_own():
    root = Path(__file__).parents[1]
    for chapter in find_chapters(root):
        twin = json.loads(chapter.twin.read_text(encoding="utf-8"))
        names = list(map(read_name, list_pictures(twin)))
        assert all(names), f'{chapter.name}: end the figure\'s cell in .named("…")'
        assert len(set(names)) == len(names), chapter.name


def test_a_claim_card_has_an_anchor_one_form_and_a_way_to_the_scoreboard():
    out = shown([("claim()", [], [fake_book.card("02-post-ends-lower")])])
    assert r"id=\"claim-02-post-ends-lower\"" in out
    assert r"href=\"scoreboard.html#row-02-post-ends-lower\"" in out
    assert "vnd.labkit" not in out and "text/plain" not in out


def test_the_code_of_claims_stands_once_inside_the_last_card():
    cards = [fake_book.card("02-post-needs-warm-up"), fake_book.card("02-post-ends-lower")]
    (cell,) = build_page(ONE, fake_book.notebook(("both(claims)", [], cards)))["cells"]
    first, last = (output["data"]["text/html"] for output in cell["outputs"])
    assert "both" not in first and "both" in last and cell["source"] == "# output"


def test_a_solution_is_folded_with_all_its_outputs():
    sources = [c["source"] for c in build_page(ONE, fake_book.FIRST)["cells"]]
    start = next(i for i, s in enumerate(sources) if "labkit-solution" in s)
    end = sources.index("</details>", start)
    assert "def my_norm" in sources[start + 1]
    assert end > start + 2, "the solution's figure is inside the fold"


@pytest.mark.parametrize(
    "source, tags, outputs, folded",
    [
        (
            'def gap(r):\n    return r\n\n\nclaim("02-post-ends-lower", "…")',
            [],
            [fake_book.card("02-post-ends-lower"), fake_book.said("0.3")],
            True,
        ),
        (
            "records = lab.run(Experiment(base))\nplots.curves(records)",
            [],
            fake_book.figure("A line.", "Flat."),
            True,
        ),
        ("import torch\n\nlab = Lab('x', size=size)", [], [], True),
        ("table(rows)", [], [], True),
        ("def rms_norm(x):\n    return x", [], [], True),
        ("def rms_norm(x):\n    return x", ["mechanism"], [], False),
        ("records = lab.run(Experiment(base, arms))", [], [], True),
        ("show(rms_norm)", [], [], False),
        ("yours = ...", ["exercise"], [], False),
    ],
)
def test_code_is_folded_by_its_kind(source, tags, outputs, folded):
    cells = build_page(ONE, fake_book.notebook((source, tags, outputs)))["cells"]
    code = next(cell for cell in cells if cell["source"] == source)
    assert ("hide-input" in code["metadata"]["tags"]) == folded
    if folded:
        assert code == cells[-1] and not code["outputs"], "code stands below what it made"


def test_in_the_exercises_only_stubs_are_open():
    helper = ("def look(yours):\n    return yours + 2", ["mechanism"], [])
    cells = build_page(
        ONE, fake_book.notebook(helper, "## Exercises\n", helper, "## End\n", helper)
    )
    tags = [cell["metadata"].get("tags") for cell in cells["cells"] if "look" in cell["source"]]
    assert tags == [["mechanism"], ["mechanism", "hide-input"], ["mechanism"]]
    plumbing = [("a = 1", [], []), ("b = 2", [], []), ("lab.close()  # the workers", [], [])]
    (cell,) = build_page(ONE, fake_book.notebook(*plumbing))["cells"]
    assert cell["source"] == "a = 1\n\nb = 2", "neighbouring folds are one; closing is not shown"


def test_provenance_says_what_is_known():
    line = provenance_line(fake_book.PROVENANCE, {})
    assert line.startswith("10 runs · seeds 0–4 · 41.5 CPU-seconds · Example CPU")
    assert "PyTorch 2.13.0" in line and "commit 0123456789abcdef" in line
    assert provenance_line({"runs": 1, "seeds": [3], "commit": ""}, {}) == "1 run · seed 3"
    assert format_seeds([0, 1, 2, 7]) == "0–2, 7"


def test_the_twin_stands_for_a_chapter_that_was_not_executed_here(book: Path):
    whole = staged_files(book, "book")
    executed, built = book / "build/book/book" / f"{TWO}.ipynb", book / "build/claims/book.json"
    claims = json.loads(built.read_text())
    recorded = book / "data" / "ledger" / "book.json"
    recorded.parent.mkdir(parents=True, exist_ok=True)
    recorded.write_text(json.dumps({"schema": 1, **claims}))
    claims["claims"] = {n: c for n, c in claims["claims"].items() if c["chapter"] == ONE}
    built.write_text(json.dumps(claims))
    executed.replace(book / "chapters" / f"{TWO}.ipynb")
    found = staged_files(book, "book")
    assert found == staged_files(book, "book"), "the same twice"
    assert found[f"{TWO}.ipynb"] == whole[f"{TWO}.ipynb"]
    assert found["scoreboard.md"] == whole["scoreboard.md"]


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (f"build/book/book/{TWO}.ipynb", rf"{TWO}.*make book"),
        ("build/claims/book.json", r"claims/book\.json.*make book"),
        ("chapters/*_*.py", r"NN_name\.py"),
    ],
)
def test_what_the_site_lacks_is_named_with_the_way_out(book: Path, missing, said):
    for path in book.glob(missing):
        path.unlink()
    with pytest.raises(Red, match=said):
        build_site(book)


# -- the scoreboard ---------------------------------------------------------------------------
def test_every_claim_has_a_row_and_a_link():
    out = build_scoreboard({"size": "book", "claims": fake_book.CLAIMS}, {ONE: "One", TWO: "Two"})
    for name, claim in fake_book.CLAIMS.items():
        assert f'href="{claim["chapter"]}.html#claim-{name}"' in out
    assert "&lt;b&gt;markup&lt;/b&gt; &amp; all" in out and "<b>markup" not in out
    assert "changes the verdict: 1." in out and "4 measured claims can be tested" in out
    assert out.index(">1 · One<") < out.index(">2 · Two<")
    facets = 'data-chapter="02" data-verdict="not-seen" data-kind="at" data-sort="finding"'
    assert f'{facets} data-weak="yes" data-holm="no"' in out


def test_the_scoreboard_lists_the_verdicts_that_pairs_would_change():
    """Between two samples the scatter hides a difference of 0.1; seed by seed it is constant."""

    def compare(gaps):
        one = [1.0, 2.0, 3.0]
        other = [a + gap for a, gap in zip(one, gaps, strict=True)]
        lead = compare_samples(one, other, Scatter(1.0, 20), pairs=gaps)
        return {"samples": lead.to_dict(), "values": [*lead.values], "verdict": "not-seen"}

    base = next(iter(fake_book.CLAIMS.values())) | {"criterion": "> 0", "sort": "finding"}
    base = {name: of for name, of in base.items() if name not in ("rungs", "counts", "domain")}
    turns = base | compare([0.1, 0.11, 0.09])
    paired = turns | {"samples": turns["samples"] | {"paired": True}, "verdict": "holds"}
    claims = {"a-turns": turns, "a-stays": base | compare([0.9, -0.8, 0.1]), "paired": paired}
    page = build_scoreboard({"claims": claims}, {ONE: "One"})
    part = page[page.index("## Paired and unpaired") :]
    assert "share seeds, 2 are judged unpaired and 1 paired." in part
    assert "Judged the\nother way, 2 would get another verdict:" in part
    row = '<a href="#row-a-turns">a-turns</a> | not seen at this scale (unpaired) | +0.1000 [-1.603'
    assert row in part and "| holds here | +0.1000 [+0.0752, +0.1248] |" in part
    assert '#row-paired">paired</a> | holds here (paired) | +0.1000 [+0.0752' in part
    assert "a-stays</a> |" not in part
    alone = build_scoreboard({"claims": {"a-stays": claims["a-stays"]}}, {ONE: "One"})
    assert "none would get another verdict." in alone
    none = build_scoreboard({"claims": fake_book.CLAIMS}, {ONE: "One"})
    assert "share seeds, 0 are judged unpaired" in none


WAITING = {"at": "2026-03-01T00:00:00+00:00", "probability": 0.8, "waits": ["5 of 20 seeds"]}


def test_the_scoreboard_leads_with_how_many_claims_held_by_when_they_were_written_down():
    base = next(iter(fake_book.CLAIMS.values())) | {"sort": "finding", "lock": None}
    sizes = {LOCKED: (3, 5), LOOKED: (1, 4), SEEN: (9, 11)}
    claims = {
        f"{place}-{i}": base | {"word": word, "verdict": "holds" if i < held else "contradicted"}
        for place, (word, (held, all_)) in enumerate(sizes.items())
        for i in range(all_)
    }
    claims["one"] = base | {"word": SEEN, "verdict": "holds-on-one"}
    claims["out"] = base | {"word": LOCKED, "verdict": "out-of-range"}
    claims["wait"] = base | {"word": None, "verdict": "waits", "lock": WAITING}
    page = build_scoreboard({"claims": claims}, {ONE: "One"})
    table = page[page.index("## Preregistered or not") : page.index("## All verdicts")]
    low, high = binomtest(3, 5).proportion_ci(method="exact")
    for row in (
        f"| preregistered | 5 | 3 | 60% [{low:.0%}, {high:.0%}] |",
        "| preregistered after exploratory runs | 4 | 1 | 25%",
        "| not preregistered | 12 | 10 | 83%",
    ):
        assert row in table
    assert "because preregistered runs are missing: 1." in page
    later = [Forecast(f"later-{i % 2}", 0.5, "authors", "2026-01-01") for i in range(3)]
    known = [Forecast("wait", 0.5, "authors", "2026-01-01")]
    forecast = build_scoreboard({"claims": claims}, {ONE: "One"}, forecasts=[*later, *known])
    assert "are missing: 1, and 2 that no chapter states yet (see the forecasts)." in forecast
    assert page.index(table) < page.index("22 measured claims (")
    assert "runs incomplete:" not in page


def test_the_scoreboard_judges_what_is_the_same_at_one_margin():
    kept = compare_samples([1.0, 1.001, 1.002], [1.004, 1.006, 1.005], Scatter(0.001, 20)).to_dict()
    base = next(iter(fake_book.CLAIMS.values())) | {"lock": None}
    one = base | {"criterion": "in [-0.02, 0.02]", "rungs": {"S": kept}, "samples": kept}
    page = build_scoreboard({"claims": {"a": one}}, {ONE: "One"})
    part = page[page.index("## The same, at one margin") :]
    assert "| in [-0.02, 0.02] | S | +0.0040 [+0.0026, +0.0054] | the same |" in part
    for other in (base, one | {"verdict": "waits", "lock": WAITING}):
        without = build_scoreboard({"claims": {"a": other}}, {ONE: "One"})
        assert "No claim of this build is of this kind." in without  # claims.md links here


def test_readme_and_cover_say_truly_that_preregistered_claims_hold_less_often():
    root = Path(__file__).parents[1]
    claims = load_recorded(root, "book")["claims"].values()

    def count(word):
        of = [c["verdict"] for c in claims if c.get("word") == word and c["sort"] == "finding"]
        judged = [verdict for verdict in of if verdict not in ("out-of-range", "waits")]
        return sum(verdict in HELD for verdict in judged) / len(judged)

    assert count(LOCKED) < count(SEEN)
    for page in (root / "README.md", root / "chapters" / "index.md"):
        assert "hold less often than" in page.read_text()


def test_what_is_contradicted_is_listed_in_words_and_forecasts_are_compared_with_a_coin():
    base = next(iter(fake_book.CLAIMS.values())) | {"chapter": ONE, "said": "It grows."}
    claims = {"a": base | {"verdict": "contradicted", "statement": "It shrinks."},
              "b": base | {"verdict": "holds", "said": "It stays."}}  # fmt: skip
    given = {"verdict": "holds", "word": LOCKED}
    forecasts = [Forecast("a", 0.9, "paper", "2026-01-01", outcome=False, **given),
                 Forecast("b", 0.9, "paper", "2026-01-01", outcome=True, **given),
                 Forecast("b", 0.8, "authors", "2026-01-01", outcome=True, **given)]  # fmt: skip
    page = build_scoreboard({"claims": claims}, {ONE: "One"}, forecasts=forecasts)
    listed = page[page.index("## Contradicted here") : page.index("## By chapter")]
    assert "<li>It grows.<br>It shrinks. " in listed and "It stays." not in listed
    told = page.index("1 of 2 entered for papers held (Brier score 0.41) and 1 of 1 forecast by")
    assert told > page.index("## Forecasts"), "the page begins with the count by word"


def test_recorded_claims_say_when_and_where():
    ledger = {"size": "gpu", "claims": fake_book.CLAIMS}
    ledger["provenance"] = {"date": "2026-05-01", "device": "Example GPU"}
    out = build_scoreboard({"claims": {}}, {ONE: "One"}, [ledger])
    assert "No chapter has stated a claim yet" in out
    assert "*recorded*: 2026-05-01, Example GPU." in out
    assert f"{TWO}.html" not in out, "no link into a chapter that is not there"
    assert all(out.count(f'id="row-gpu-{name}"') == 1 for name in fake_book.CLAIMS)


def test_what_is_not_recorded_says_so():
    titles = {ONE: "One", TWO: "Two", "03_three": "Three"}
    out = build_scoreboard({"claims": {}}, titles, [{"size": "gpu", "claims": fake_book.CLAIMS}])
    assert "Not recorded with this size: Three." in out
    assert "Recorded with size" not in build_scoreboard({"claims": {}}, titles)


def test_only_long_sizes_come_from_the_ledger(book: Path):
    for size in ("book", "gpu-example"):
        path = book / "data" / "ledger" / f"{size}.json"
        fake_book.write_claims(path, size, fake_book.CLAIMS)
    out = staged_files(book, "book")["scoreboard.md"].decode()
    assert "Recorded with size gpu-example" in out
    assert "Recorded with size book" not in out


def test_p_value_is_two_sided():
    claim = fake_book.claim("x", ONE, "holds", [1.0, 2.0, 3.0, 4.0, 5.0])
    assert p_value(claim) == pytest.approx(0.0132356, rel=1e-3)  # t = 4.2426, 4 degrees
    assert p_value(claim | {"criterion": "< 0"}) == p_value(claim), "for or against"
    assert p_value(claim | {"criterion": "in [0, 6]"}) == pytest.approx(0.0066194, rel=1e-3)
    assert p_value(claim | {"sort": "law"}) is None
    assert p_value(claim | {"verdict": "out-of-range"}) is None
    assert p_value(claim | {"values": [3.0], "interval": [3.0, 3.0]}) is None
    assert p_value(claim | {"values": [3.0] * 5, "interval": [3.0, 3.0]}) is None
    assert p_value(claim | {"interval": [2.9, 3.1]}) is None, "not a sample of seeds"
    counted = {"counts": [[5, 5], [0, 5]], "values": [1.0]}
    assert p_value(claim | counted) == pytest.approx(2 / 252)


def test_a_family_is_a_chapter_s_findings():
    sure = [1.0, 1.1, 0.9, 1.0, 1.05]
    claims = {f"01-{i}": fake_book.claim("x", ONE, "holds", [i % 2 - 0.5, 0.1, -0.2, 0.3, 0.4])
              for i in range(30)}  # fmt: skip
    claims["01-sure"] = fake_book.claim("x", ONE, "contradicted", [-v for v in sure])
    claims["02-sure"] = fake_book.claim("x", TWO, "holds", sure)
    assert find_survivors(claims) == {"01-sure", "02-sure"}, "for or against"
    assert {name: len(p) for name, p in compute_p_values(claims).items()} == {ONE: 31, TWO: 1}


def test_a_strip_draws_each_value_zero_the_threshold_and_both_ends():
    strip = draw_strip(fake_book.CLAIMS["02-post-needs-warm-up"])
    assert strip.count("<circle") == 5 and strip.count('class="tick"') == 2
    assert re.findall(r">([^<]+)</text>", strip) == ["0", "0.896", "0.992"]
    places = [float(place) for place in re.findall(r'cx="([\d.]+)"', strip)]
    assert places[0] < places[3] < places[1] < places[4] < places[2], "0.90 0.91 0.95 0.97 0.99"
    far = fake_book.claim("x", ONE, "holds", [9.9, 10.0, 10.1], criterion="> 9")
    assert re.findall(r">([^<]+)</text>", draw_strip(far)) == ["9", "9.75", "10.25"]
    assert draw_strip(fake_book.CLAIMS["02-pre-grows-with-depth"]) == "", "a law has no seeds"


@pytest.mark.parametrize(("sentence", "label"), [
    ("Its loss is {apart:.2f} nats {side} B's.", "improvement →"),
    ("Its share is {apart:.2f} {side} B's.", "lower →"),
    ("Its loss is {mean:.2f} nats higher than B's.", "higher loss →"),
    ("Its loss is {mean:.2f} nats lower than B's.", "lower loss →"),
    ("It raises the test loss by {mean:.2f} nats.", "higher loss →"),
    ("The increase in loss is {mean:.2f} nats larger.", "larger →"),
    ("The exponent is {mean:.2f}.", ""),
])  # fmt: skip
def test_a_strip_s_label_says_what_lies_right_of_zero(sentence: str, label: str):
    claim = fake_book.claim("x", ONE, "holds", [0.9, 1.0, 1.1])
    assert claim_cards.describe_value(claim | {"wording": sentence}) == label


# -- pages of the package ---------------------------------------------------------------------
def test_every_public_module_has_its_place(tmp_path: Path):
    package = tmp_path / "labkit"
    shown, hidden = ("norms/__init__", "norms/layer", "model"), ("norms/_common", "system/pool")
    for name in (*shown, *hidden, "__main__"):
        path = package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('"""Own |x| and `code`.\n\nMore.\n"""\n')
    assert public_modules(package, 2) == {
        "labkit.model": ["labkit.model"],
        "labkit.norms": ["labkit.norms", "labkit.norms.layer"],
    }
    pages = dict(api_pages(tmp_path))
    assert r": Own \|x\| and `code`." in pages["api/index.md"]
    assert "## layer\n" in pages["api/labkit.norms.md"]
    assert set(pages) == {"api/index.md", "api/labkit.model.md", "api/labkit.norms.md"}


def test_no_chapter_calls_what_the_package_s_pages_leave_out():
    for path in (Path(__file__).parents[1] / "chapters").glob("*.py"):
        called = re.findall(r"(?m)^from ((?:labkit|normkernels)[\w.]*) import", path.read_text())
        assert [name for name in called if INTERNAL.match(name)] == [], path.name


def test_a_docstring_is_shown_as_typed():
    import runpy

    conf = runpy.run_path(str(fake_book.REPOSITORY / "chapters" / "conf.py"))
    lines = [
        "Fix |x| with `gain` and *all*.",
        "",
        "    y = g · x / sqrt(|x|² + eps)",
        "",
        "- a_",
        "",
    ]
    conf["plain_docstring"](None, "function", "f", None, None, lines)
    out = "\n".join(lines)
    assert r"Fix \|x\| with ``gain`` and \*all\*." in out
    assert ".. code-block:: text\n\n    y = g · x / sqrt(|x|² + eps)" in out
    assert r"- a\_" in out
    sign = conf["readable_signature"](None, "", "", None, None, "(x: ~jaxtyping.Float)", "torch.T")
    assert sign == ("(x: Float)", "T")


# -- building ---------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    return build_site(fake_book.make(tmp_path_factory.mktemp("site")))


@pytest.mark.slow
def test_the_site_has_its_pages_figures_and_links(built: Path):
    text = (built / f"{ONE}.html").read_text()
    for alt in ("Two loss curves that cross.", "The same for a small CNN.", "A flat line."):
        assert f'alt="{alt}"' in text
    assert 'id="claim-01-cnn-hides-it"' in text
    assert 'title="Ioffe and Szegedy (2015). Batch Normalization: Accelerating' in text
    assert f'href="{TWO}.html#why-warm-up"' in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "Scoreboard" in (built / "scoreboard.html").read_text()
    assert "Xiong" in (built / "references.html").read_text()
    font = "_static/mathjax/MathJax_Main-Regular.woff"
    assert (built / font).is_file() and f'<link rel="preload" href="{font}"' in text
    assert text.count("<mjx-container") == text.count('class="math notranslate') > 0
    assert not re.search(r"<script[^>]*mathjax", text, re.IGNORECASE)


@pytest.mark.slow
def test_only_what_changed_is_read_again(built: Path, capsys, monkeypatch):
    book = built.parents[1]
    untouched = (built / f"{TWO}.html").stat().st_mtime_ns
    path = book / "build" / "book" / "book" / f"{ONE}.ipynb"
    path.write_text(path.read_text().replace("Which axis?", "Which of the axes?"))
    build_site(book)
    assert "Which of the axes?" in (built / f"{ONE}.html").read_text()
    assert (built / f"{TWO}.html").stat().st_mtime_ns == untouched

    monkeypatch.setattr(site_module, "run_sphinx", lambda *_: pytest.fail("nothing changed"))
    capsys.readouterr()
    os.utime(path)
    assert build_site(book) == built
    assert "nothing changed" in capsys.readouterr().out
    (built / "index.html").unlink()
    with pytest.raises(pytest.fail.Exception):
        build_site(book)


def test_a_warning_stays_an_error_until_it_is_mended(book: Path, monkeypatch):
    runs = []

    def failing(source: Path, site: Path) -> None:
        runs.append((source / ".doctrees").is_dir())
        (source / ".doctrees").mkdir(exist_ok=True)
        raise Red("a site has no warnings")

    monkeypatch.setattr(site_module, "run_sphinx", failing)
    for _ in range(2):
        with pytest.raises(Red, match="no warnings"):
            build_site(book)
    assert runs == [False, False], "pages read before the failure must be read again"


@pytest.mark.parametrize(("sort", "mark"), [("law", "✓"), ("finding", "●")])
def test_the_cabinet_marks_a_law_with_a_tick(sort, mark):
    cell = ("claim()", [], [fake_book.card("01-bn-fails-at-batch-2")])
    chapter = read_outline(fake_book.ONE, fake_book.notebook("# BatchNorm", cell))
    chapter.claims["01-bn-fails-at-batch-2"] |= {"sort": sort, "verdict": "holds", "said": "So."}
    shown = mark_claim("01-bn-fails-at-batch-2", {"01": chapter})
    assert {found for found in "✓●" if found in shown} == {mark}
