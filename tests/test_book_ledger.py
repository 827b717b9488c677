import json

import pytest
from toy_book import card, chapter_text, make_book, pretend

from press import cli
from press.book import build, chapters, ledger, state
from press.book.files import Red


@pytest.fixture
def book(tmp_path, monkeypatch):
    root = make_book(tmp_path, c01_one=chapter_text("01_one"), c02_two=chapter_text("02_two"))
    monkeypatch.chdir(root)
    execute(root, [card("01-mean")], [card("02-mean")])
    return root


def execute(root, one, two):
    """Simulate an execution of the two chapters with these claims."""
    pretend(root, "01_one", *one)
    pretend(root, "02_two", *two)
    joined = ledger.join_claims(
        claim
        for name in ("01_one", "02_two")
        for claim in state.read_state(root, "book", name)["claims"]
    )
    ledger.gather_claims(root, "book", joined)


def recorded(root):
    return json.loads((root / "data" / "ledger" / "book.json").read_text())


@pytest.fixture
def accepted(book, capsys):
    assert cli.main(["book", "check", "claims"]) == 1
    assert 'labkit book accept --all --why "first record"' in capsys.readouterr().out
    assert cli.main(["book", "accept", "--all", "--why", "first record"]) == 0
    capsys.readouterr()
    return book


def test_a_record_makes_the_check_green_and_holds_nothing_volatile(accepted, capsys):
    assert cli.main(["book", "check", "claims"]) == 0
    assert "2 as recorded, 0 red" in capsys.readouterr().out
    entries = recorded(accepted)
    assert entries["provenance"] == ledger.read_provenance()
    assert list(entries["claims"]) == ["01-mean", "02-mean"]
    entry = entries["claims"]["01-mean"]
    assert set(entry) == {*ledger.ENTRY, "why"}
    assert entry["why"] == "first record" and entry["chapter"] == "01_one"
    text = (accepted / "data" / "ledger" / "book.json").read_text()
    assert sum(line.startswith('  "0') for line in text.splitlines()) == 2


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"verdict": "not-seen"}, "verdict changed"),
        ({"values": [2.0, 2.2, 2.1]}, "value moved by more than 0.1"),
        ({"criterion": "> 1"}, "criterion changed"),
        ({"source": "b"}, "source changed"),
        ({"published": 4}, "published changed"),
        ({"kind": "best"}, "kind changed"),
        ({"unit": "turns"}, "unit changed"),
        ({"wording": "Other words {mean:.3f}."}, "statement changed"),
        ({"values": [1.1, 1.1], "seeds": 2}, "seeds changed"),
        ({"verdict": "not-seen", "weak": True}, "verdict changed"),
    ],
)
def test_what_a_claim_says_cannot_change_unseen(accepted, capsys, change, what):
    execute(accepted, [card("01-mean", **change)], [card("02-mean")])
    assert cli.main(["book", "check", "claims"]) == 1
    said = capsys.readouterr().out
    assert f"01-mean: {what}" in said and "02-mean" not in said
    assert "recorded  holds" in said and "now " in said
    assert 'labkit book accept 01-mean --why "…"' in said
    assert cli.main(["book", "accept", "01-mean", "--why", "because"]) == 0
    assert recorded(accepted)["claims"]["01-mean"]["why"] == "because"
    assert recorded(accepted)["claims"]["02-mean"]["why"] == "first record"
    assert cli.main(["book", "check", "claims"]) == 0


def test_new_and_missing_claims_are_red_until_accepted(accepted, capsys):
    execute(accepted, [card("01-mean"), card("01-new")], [])
    assert cli.main(["book", "check", "claims"]) == 1
    said = capsys.readouterr().out
    assert "01-new: new, not recorded" in said
    assert "02-mean: recorded, but no chapter makes it any more" in said
    assert cli.main(["book", "accept", "02-mean", "01-new", "--why", "moved"]) == 0
    assert list(recorded(accepted)["claims"]) == ["01-mean", "01-new"]


@pytest.mark.parametrize(
    ("change", "red"),
    [
        ({"values": [2.0, 2.2, 2.1]}, False),
        ({"verdict": "not-seen"}, True),
        ({"verdict": "not-seen", "weak": True}, False),
        ({"criterion": "> 1"}, True),
    ],
)
def test_on_another_machine_only_a_verdict_or_a_promise_is_red(accepted, capsys, change, red):
    path = accepted / "data" / "ledger" / "book.json"
    entries = recorded(accepted)
    entries["provenance"]["cpu"] = "Another CPU"
    path.write_text(json.dumps(entries))
    execute(accepted, [card("01-mean", **change)], [card("02-mean")])
    assert cli.main(["book", "check", "claims"]) == int(red)
    assert ("warning" in capsys.readouterr().out) == (not red)
    cli.main(["book", "accept", "01-mean", "--why", "new machine"])
    entries = recorded(accepted)
    assert entries["provenance"]["cpu"] == "Another CPU"
    assert entries["claims"]["01-mean"]["recorded_on"] == ledger.read_provenance()
    assert "recorded_on" not in entries["claims"]["02-mean"]


def test_an_id_that_comes_twice_is_refused(book):
    claims = [{**card("a"), "chapter": name, "cell": "x"} for name in ("01_one", "02_two")]
    with pytest.raises(Red, match="'a' occurs twice \\(in 01_one and 02_two\\)"):
        ledger.join_claims(claims)


def test_a_chapter_edited_since_it_ran_is_red_and_cannot_be_accepted(accepted, capsys):
    source = accepted / "chapters" / "01_one.py"
    source.write_text(source.read_text() + "# more\n")
    assert cli.main(["book", "check", "claims"]) == 1
    assert "01_one: changed since it was executed" in capsys.readouterr().out
    assert cli.main(["book", "accept", "01-mean", "--why", "x"]) == 1
    assert "executed after its last change" in capsys.readouterr().err
    assert cli.main(["book", "accept", "--all", "--why", "x"]) == 1
    assert "--all needs chapters" in capsys.readouterr().err
    assert "01-mean" in recorded(accepted)["claims"]


def test_a_long_size_is_recorded_chapter_by_chapter(accepted, capsys, monkeypatch):
    monkeypatch.setattr(ledger, "LONG", ("book",))
    execute(accepted, [card("01-mean")], [card("02-mean", verdict="not-seen")])
    source = accepted / "chapters" / "01_one.py"
    source.write_text(source.read_text() + "# more\n")
    assert cli.main(["book", "accept", "--all", "--why", "x"]) == 0
    assert "left out, not executed after the last change: 01_one" in capsys.readouterr().out
    claims = recorded(accepted)["claims"]
    assert claims["02-mean"]["verdict"] == "not-seen" and claims["01-mean"]["why"] != "x"


@pytest.mark.parametrize("text", ["{", '{"schema": 1}', '{"schema": 2, "claims": {}}', "[]"])
def test_a_damaged_ledger_is_named_with_the_way_out_and_left_alone(accepted, capsys, text):
    path = accepted / "data" / "ledger" / "book.json"
    path.write_text(text)
    assert cli.main(["book", "check", "claims"]) == 1
    said = capsys.readouterr().err
    assert str(path) in said and "git checkout -- data/ledger/book.json" in said
    assert cli.main(["book", "accept", "--all", "--why", "x"]) == 1
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["01-mean", "--why", "  "], "must have a reason"),
        (["--why", "x"], "--all"),
        (["01-mean", "--all", "--why", "x"], "--all"),
        (["03-none", "--why", "x"], "there is no claim '03-none'; choose one of 01-mean"),
    ],
)
def test_accept_refuses_misuse(book, capsys, words, rule):
    assert cli.main(["book", "accept", *words]) == 2
    assert rule in capsys.readouterr().err
    assert not (book / "data").exists()


def test_check_without_a_build_says_to_build(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(make_book(tmp_path, c01_one=chapter_text("01_one")))
    assert cli.main(["book", "check", "claims"]) == 1
    assert "run `make book SIZE=book`" in capsys.readouterr().err


def test_a_build_with_nothing_to_run_still_holds_claims_against_the_ledger(accepted, capsys):
    path = accepted / "data" / "ledger" / "book.json"
    path.write_text(path.read_text().replace('"values": [1.0, ', '"values": [7.0, ', 1))
    for chapter in chapters.find_chapters(accepted):
        chapter.twin.write_text("")
    assert build.build_chapters(accepted) == 1
    assert "01-mean: value moved" in capsys.readouterr().out
