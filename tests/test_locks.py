"""Locks are written before runs, never edited, and compared with claims; forecasts get scores."""

import json
import os
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from claim_call import claim

from labkit.experiments import ladder
from labkit.experiments.card_html import describe_verdict
from labkit.experiments.claims import collect_claims
from labkit.experiments.locks import (
    LOCKED,
    LOOKED,
    SEEN,
    WORDS,
    Lock,
    LockError,
    add_lock,
    find_lock,
    find_time,
    read_commits,
    read_locks,
)
from labkit.experiments.store import Store
from labkit.statistics.pooled import Scatter, compare_samples
from labkit.statistics.proportions import Proportion
from labkit.statistics.recorded import find_survivors, judge_again, p_value
from press import cli
from press.book import forecasts, locking
from press.book.forecasts import Forecast, score_forecasts
from press.book.locking import describe_locks
from press.site.all_predictions import format_scores
from press.site.scoreboard import build_scoreboard

AT, BEFORE, AFTER = (f"2026-0{month}-01T00:00:00+00:00" for month in (3, 2, 4))


def lock(**changed):
    given = {"id": "05-x", "said": "A is better.", "criterion": "> 0", "arms": ("a", "b"),
             "rungs": ("S",), "n": 3, "margin": 0.1, "rate": "vertex", "sort": "ranking",
             "probability": 0.8, "paper": None, "at": AT, "commit": "abc"}  # fmt: skip
    return Lock(**{**given, **changed})


def lead(n=3, since=AFTER, arms=("a", "b"), looked=None):
    one, other = [1.0, 1.01, 0.99, 1.0][:n], [1.2, 1.21, 1.19, 1.2][:n]
    scatter = Scatter(0.01, 20)
    return compare_samples(one, other, scatter, since=since, looked=looked, arms=arms)


def make(values, said="A is better.", criterion="> 0"):
    with collect_claims() as found:
        claim("05-x", "{mean:.2f} on {rung}", values, said=said, source="a test",
              criterion=criterion, kind="at")  # fmt: skip
    return found[0]


@pytest.fixture
def book(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    return tmp_path


def test_a_lock_is_read_as_it_was_written_and_the_last_one_counts(book):
    add_lock(book, lock())
    add_lock(book, lock(probability=0.3, at=AFTER))
    add_lock(book, lock(id="04-x", probability=0.6, at=AFTER))
    assert [one.probability for one in read_locks(book)] == [0.8, 0.6, 0.3], "both stay, by time"
    assert find_lock(book, "05-x").probability == 0.3 and find_lock(book, "05-y") is None


@pytest.mark.parametrize("field, value", [("probability", 0.9), ("criterion", "> -1"), ("n", 5)])
def test_an_edited_lock_is_red(book, field, value):
    path = add_lock(book, lock())
    row = json.loads(path.read_text())
    path.write_text(json.dumps(row | {field: value}) + "\n")
    with pytest.raises(LockError, match=r"row 1 of data/locks/05.jsonl was edited"):
        read_locks(book)
    path.write_text("{}\n")
    with pytest.raises(LockError, match="must be a valid lock"):
        find_lock(book, "05-x")


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, -0.1])
def test_a_probability_lies_between_0_and_1(p):
    with pytest.raises(ValueError, match="above 0 and below 1"):
        lock(probability=p)


@pytest.mark.parametrize(
    ("rungs", "word"),
    [
        ({"S": lead()}, LOCKED),
        ({"S": lead(since=AT)}, LOCKED),
        ({"S": lead(looked=AFTER)}, LOCKED),
        ({"S": lead(looked=BEFORE)}, LOOKED),
        ({"S": lead(since=BEFORE, looked=BEFORE)}, SEEN),
        ({"S": lead(looked=BEFORE), "M": lead()}, LOOKED),
        ({"S": lead(since=BEFORE), "M": lead()}, SEEN),
        ({"S": lead(since=BEFORE)}, SEEN),
        ({"S": lead(since="")}, SEEN),
        ({"S": lead(since=""), "M": lead()}, SEEN),
        ({"S": lead(looked="")}, LOOKED),
        ({"S": lead(looked=""), "M": lead(looked=AFTER)}, LOOKED),
    ],
)
def test_a_card_says_what_of_any_rung_was_seen_before_its_lock(book, rungs, word):
    of = lock(rungs=("S", "M") if len(rungs) > 1 else ("S",))
    add_lock(book, of)
    made = make(rungs)
    card = made.to_html()
    assert made.word == word and f"· {WORDS[word]} (" in card and "p = 0.8" in card
    assert made.to_dict()["lock"]["sum"] == of.compute_sum()


def test_a_claim_without_a_lock_was_seen_first_and_a_law_has_no_word(book):
    assert make({"S": lead()}).word == SEEN
    add_lock(book, lock())
    with collect_claims() as found:
        claim("05-x", "s", 1.0, source="a test", criterion="> 0", kind="exact")
    assert found[0].word is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"criterion": "> -0.1"}, "criterion '> 0', and the chapter has '> -0.1'"),
        ({"said": "A is worse."}, "was locked on 2026-03-01 with said"),
        ({"values": {"S": lead(arms=("a", "c"))}}, "arms a, b, and the chapter has a, c"),
        ({"values": {"S": lead(4)}}, "n = 3, but the chapter uses 4 seeds at size S"),
    ],
)
def test_a_chapter_that_asks_something_else_than_its_lock_is_refused(book, changed, said):
    add_lock(book, lock())
    given = {"values": {"S": lead()}} | changed
    with pytest.raises(LockError, match=said):
        make(**given)


def test_a_card_shows_a_clearer_sentence_first_and_that_of_its_lock_when_opened(book):
    add_lock(book, lock())
    values, clear = {"S": lead()}, "A reaches a lower loss than B."
    before = make(values)
    assert "Written down" not in before.to_html()
    (book / "data" / "locks" / "wordings.csv").write_text(
        f"sum,sentence\n{lock().compute_sum()},{clear}\n"
    )
    made, original = make(values), "Written down on 2026-03-01 as: A is better."
    assert made.to_dict() == before.to_dict(), "the ledger has the sentence of the lock"
    _, _, opened = made.to_html().partition("</summary>")
    assert f"<b>Claim:</b> {clear}" in opened and original in opened
    assert f"claim: {clear}\n{original}" in str(made)
    page = build_scoreboard(
        {"claims": {"05-x": made.to_dict() | {"chapter": "05", "verdict": "contradicted"}}},
        {"05": "Five"},
    )
    assert f"<li>{clear}<br>" in page, "in the list of contradicted claims"
    assert f"<b>Claim:</b> {clear}<br><b>Result:</b>" in page and page.count(original) == 1
    for changed in ({"said": clear}, {"criterion": "> -0.1"}):
        with pytest.raises(LockError, match="was locked on 2026-03-01 with"):
            make(values, **changed)


@pytest.mark.parametrize("values", [[1.0, 1.1], [1.0, 1.1, 0.9, 1.2], Proportion(2, 4)])
def test_off_the_ladder_a_preregistered_claim_reads_as_many_seeds_as_its_lock_names(book, values):
    add_lock(book, lock(arms=(), rungs=()))
    given = {"source": "a test", "criterion": "> 0", "kind": "at", "said": "A is better."}
    with pytest.raises(LockError, match=r"n = 3, but the chapter uses [24] seeds; use as many"):
        claim("05-x", "{mean:.2f}", values, since=AFTER, **given)
    assert claim("05-x", "{mean:.2f}", values, since=BEFORE, **given).word == SEEN
    one, other = [1.0, 1.01, 0.99, 1.0], [1.2, 1.21, 1.19]
    shares = Proportion(2, 3) - Proportion(1, 4), Proportion(1, 4) - Proportion(2, 3)
    for three in (
        [1.0, 1.1, 0.9], *shares, compare_samples(one, other), compare_samples(other, one)
    ):  # fmt: skip
        assert claim("05-x", "{mean:.2f}", three, since=AFTER, **given).word == LOCKED


def test_a_lock_waits_for_its_seeds_beside_a_first_look_and_is_then_judged_on_its_rungs_alone(book):
    add_lock(book, lock())
    early = {"S": lead(2, since=BEFORE), "M": lead(since=BEFORE)}
    waiting = make(early)
    assert list(waiting.rungs) == ["S", "M"] and waiting.word is None
    assert waiting.to_dict()["lock"]["waits"] == ["2 of 3 seeds evaluated on S"]
    assert (
        "preregistered runs incomplete (criterion of 2026-03-01, forecast p = 0.8): 2 of 3"
        in waiting.to_html()
    )
    made = make({"S": lead(), "M": lead(since=BEFORE)})
    assert list(made.rungs) == ["S"] and made.verdict == "holds-on-one" and made.word == LOCKED
    assert "waits" not in made.to_dict()["lock"]


def test_a_claim_that_waits_has_no_verdict_no_test_and_no_weakness(book):
    add_lock(book, lock())
    entry = make({"S": lead(2, since=BEFORE)}).to_dict() | {"chapter": "05"}
    assert (entry["verdict"], entry["weak"], entry["only"]) == ("waits", False, None)
    assert judge_again(entry) == ("waits", None, False) and p_value(entry) is None
    assert find_survivors({"05-x": entry}) == set()
    assert describe_verdict(entry) == "runs incomplete"


def test_a_lock_is_as_old_as_the_later_of_its_row_and_its_commit(book):
    one = lock()
    add_lock(book, one)
    commits = book / "data" / "locks" / "committed.csv"
    given = {"S": lead()}
    assert find_time(book, one) == AT and make(given).word == LOCKED
    commits.write_text(f"sum,committed\n{one.compute_sum()},2026-03-01T01:00:00+02:00\n")
    assert find_time(book, one) == AT, "a commit is no earlier than its row"
    commits.write_text(f"sum,committed\n{one.compute_sum()},2027-01-01T00:00:00+00:00\n")
    assert make(given).word == SEEN and find_time(book, lock(at=AFTER)) == AFTER


def test_the_times_of_commits_are_read_off_git_once(book):
    run = partial(subprocess.run, cwd=book, check=True, capture_output=True)
    add_lock(book, lock())
    assert locking.write_commits(book, check=False) == [], "no repository"
    run(["git", "init", "-q"])
    assert locking.write_commits(book, check=False) == [], "nothing is committed"
    run(["git", "add", "."])
    when = {"GIT_COMMITTER_DATE": "2026-05-01T12:00:00+0200"}
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    run(["git", *name, "commit", "-qm", "one"], env={**os.environ, **when})
    add_lock(book, lock(at=AFTER))
    assert locking.write_commits(book, check=True) and read_commits(book) == {}
    assert locking.write_commits(book, check=False) == ["the commits' times of locks"]
    assert read_commits(book) == {lock().compute_sum(): "2026-05-01T10:00:00+00:00"}
    assert locking.write_commits(book, check=True) == []


def test_every_recorded_lock_has_the_time_of_its_commit():
    root = Path(__file__).parents[1]
    times, locks = read_commits(root), read_locks(root)
    assert times.keys() <= {one.compute_sum() for one in locks}
    last = max(times.values())
    assert [one.id for one in locks if one.compute_sum() not in times and one.at < last] == []


def test_a_lock_may_name_its_seeds_rung_by_rung(book):
    add_lock(book, lock(rungs=("S", "M"), n=(3, 2)))
    assert find_lock(book, "05-x").count_seeds("M") == 2
    assert make({"S": lead(), "M": lead(1)}).to_dict()["lock"]["waits"] == [
        "1 of 2 seeds evaluated on M"
    ]
    assert make({"S": lead(), "M": lead(2)}).verdict == "holds"
    with pytest.raises(ValueError, match="one for each of its rungs, got n = 3, 2 for S"):
        lock(n=(3, 2))
    with pytest.raises(ValueError, match="at least two seeds, got n = 3, 1"):
        lock(rungs=("S", "M"), n=(3, 1))


def test_a_lock_may_ask_for_pairs_and_other_rows_stay_as_they_were(book):
    """Seed by seed the difference is 0.2 each time; between two samples the scatter hides it."""
    noisy = [1.0, 2.0, 3.0], [1.2, 2.19, 3.21]
    gaps = [b - a for a, b in zip(*noisy, strict=True)]
    given = {
        "S": compare_samples(*noisy, Scatter(1.0, 20), since=AFTER, arms=("a", "b"), pairs=gaps)
    }
    add_lock(book, lock())
    assert "paired" not in lock().to_row() and make(given).verdict == "not-seen"
    add_lock(book, lock(paired=True))
    found = read_locks(book)
    assert [one.paired for one in found] == [False, True]
    made = make(given)
    assert made.verdict == "holds-on-one" and made.interval[1] < 0.3
    says = "3 seeds, paired; 95 % interval [0.175, 0.225]; unpaired, pooled standard deviation: "
    assert says + "0.2 [-1.5, 1.9];" in str(made)
    with pytest.raises(LockError, match="paired comparison, but the chapter gives one sample"):
        make([0.1, 0.2, 0.3])
    bare = compare_samples(*noisy, Scatter(1.0, 20), arms=("a", "b"), pairs=gaps)
    given = {"said": "A is better.", "source": "a test", "criterion": "> 0", "kind": "at"}
    assert claim("05-x", "{mean:.2f}", bare, **given).verdict == "holds", "without rungs, too"
    with pytest.raises(ValueError, match="compared in pairs, but this lock has no arms"):
        lock(arms=(), rungs=(), paired=True)


def test_a_paired_lock_waits_for_seeds_that_both_arms_have(book):
    """Five seeds and ten others have no seed in common, so there are no pairs and no verdict."""
    add_lock(book, lock(paired=True, rungs=("S", "M"), n=(3, 2)))
    apart = lead(since=AFTER)
    waiting = make({"S": apart})
    assert waiting.to_dict()["lock"]["waits"] == [
        "0 of 3 seeds evaluated on S",
        "0 of 2 seeds evaluated on M",
    ]
    assert "unpaired" in str(waiting)
    three = replace(apart, pairs=(0.2, 0.19, 0.21))
    two = replace(apart, pairs=(0.2, 0.19))
    waiting = make({"S": two, "M": two})
    assert waiting.to_dict()["lock"]["waits"] == ["2 of 3 seeds evaluated on S"]
    assert waiting.rungs["S"].paired, "what has shared seeds is shown in pairs before, too"
    assert make({"S": three, "M": two}).verdict == "holds"


def test_a_forecast_counts_once_its_lock_waits_no_more(book, monkeypatch):
    add_lock(book, lock())
    ledger = {"05-x": {"verdict": "holds", "word": SEEN, "lock": {"waits": ["2 of 3 seeds"]}}}
    monkeypatch.setattr(forecasts, "load_recorded", lambda root, size: {"claims": ledger})
    assert forecasts.list_forecasts(book)[0].outcome is None
    ledger["05-x"] = {"verdict": "holds", "word": LOCKED, "lock": {}}
    assert forecasts.list_forecasts(book)[0].outcome is None, "this lock is none of the claim's"
    ledger["05-x"]["lock"] = {"sum": lock().compute_sum()}
    assert forecasts.list_forecasts(book)[0].outcome is True
    add_lock(book, lock(at=AFTER))
    assert forecasts.list_forecasts(book)[0].outcome is None, "the card is another lock's"


def test_a_papers_forecast_that_it_never_made_is_not_scored(book, monkeypatch):
    add_lock(book, lock(paper=0.9))
    assert [one.by for one in forecasts.list_forecasts(book)] == ["authors", "paper"]
    (book / "data" / "locks" / "withdrawn.csv").write_text("id,why\n05-x,it says nothing\n")
    assert [one.by for one in forecasts.list_forecasts(book)] == ["authors"]
    assert forecasts.read_withdrawn(book) == {"05-x": "it says nothing"}
    assert "not the paper's  05-x: it says nothing" in describe_locks(book)
    of = {"sum": lock(paper=0.9).compute_sum()}
    ledger = {"05-x": {"verdict": "holds", "word": LOCKED, "lock": of}}
    monkeypatch.setattr(forecasts, "load_recorded", lambda root, size: {"claims": ledger})
    scores = format_scores(book)
    assert "the authors" in scores and "for the papers" not in scores
    assert scores.endswith("- `05-x`: it says nothing")


def test_what_is_withdrawn_was_locked_as_a_papers_and_has_a_reason():
    root = Path(__file__).parents[1]
    locked = {one.id for one in read_locks(root) if one.paper is not None}
    withdrawn = forecasts.read_withdrawn(root)
    assert withdrawn and withdrawn.keys() <= locked and all(withdrawn.values())


def test_the_command_locks_lists_and_refuses(book, monkeypatch, capsys):
    monkeypatch.chdir(book)
    (book / "chapters").mkdir()
    (book / "pyproject.toml").touch()
    said = ["--said", "A is better.", "--criterion", "> 0", "--n", "5"]
    assert cli.main(["claims", "lock", "07-new=0.6", *said]) == 0
    assert "07-new: locked, p = 0.6, in data/locks/07.jsonl" in capsys.readouterr().out
    assert cli.main(["claims", "lock", "07-new=0.7", *said]) == 0
    assert "in addition to its earlier lock" in capsys.readouterr().out
    assert cli.main(["claims", "locks"]) == 0
    assert "0.70  07-new: not judged" in capsys.readouterr().out
    for words, why in (
        (["07-other=0.5"], "no claim '07-other' is recorded"),
        (["07-new=1.0", *said], "above 0 and below 1"),
        (["07-new"], "07-new=0.7; got '07-new'"),
        (["07-new=0.5", *said, "--arm", "pre", "--arm", "qk"], "must name both arms and rungs"),
        (
            ["07-new=0.5", *said, "--arm", "pre", "--arm", "nope", "--rungs", "S"],
            "unknown arm 'nope'",
        ),
    ):
        assert cli.main(["claims", "lock", *words]) == 2
        assert why in " ".join(capsys.readouterr().err.split())
    assert len(read_locks(book)) == 2, "what was refused wrote nothing"
    arms = ["--arm", "pre", "--arm", "qk", "--rungs", "S"]
    assert cli.main(["claims", "lock", "08-new=0.5", *said, *arms, "--paired"]) == 0
    assert find_lock(book, "08-new").paired and not find_lock(book, "07-new").paired
    assert cli.main(["claims", "lock", "08-new=0.5", *said]) == 2
    assert "a new lock of '08-new' must name arms and rungs" in capsys.readouterr().err
    assert find_lock(book, "08-new").arms == ("pre", "qk"), "it is still there"
    assert cli.main(["claims", "lock", "08-new=0.5", *said, *arms]) == 0
    assert find_lock(book, "08-new").paired, "on the ladder that is the default"
    assert cli.main(["claims", "lock", "08-new=0.5", *said, *arms, "--no-paired"]) == 0
    assert not find_lock(book, "08-new").paired
    same = ["--said", "They tie.", "--n", "5", *arms, "--criterion"]
    assert cli.main(["claims", "lock", "08-tie=0.5", *same, "in [-0.02, 0.02]"]) == 2
    assert "a margin of 0.01 nats" in " ".join(capsys.readouterr().err.split())
    assert cli.main(["claims", "lock", "08-tie=0.5", *same, "in [-0.01, 0.01]"]) == 0
    assert cli.main(["claims", "lock", "07-new=0.2", "--mine"]) == 0
    assert len(read_locks(book)) == 6 and (book / ".labkit/forecasts.jsonl").is_file()


def test_forecasts_are_scored_by_forecaster_and_sort():
    def made(p, outcome, by="authors", word=LOCKED, sort="ranking"):
        return Forecast("x", p, by, AT, sort, outcome, "holds", word)

    scores = score_forecasts(
        [made(0.9, True), made(0.7, False), made(0.5, None), made(0.99, True, word=SEEN),
         made(0.2, False, by="you", word=SEEN), made(0.9, False, by="paper"),
         made(0.9, False, word=LOOKED)]
    )  # fmt: skip
    assert len(scores) == 4
    by = {(one.by, one.sort): one for one in scores if one.word != LOOKED}
    assert by["authors", "ranking"].brier == pytest.approx((0.01 + 0.49) / 2)
    assert by["authors", "ranking"].count == 2, "what was seen first proves no foresight"
    assert by["you", "ranking"].brier == pytest.approx(0.04)
    assert by["paper", "ranking"].brier == pytest.approx(0.81)
    (apart,) = [one for one in scores if one.word == LOOKED]
    assert apart.count == 1 and apart.brier == pytest.approx(0.81)
    assert by["authors", "ranking"].bins == ((0.6, 0.8, 1, 0), (0.8, 1.0, 1, 1))


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ((), ""),
        (("tuning",), f"; {WORDS[LOOKED]}: there already are runs of pre on S, qk on S"),
        (
            ("tuning", "report"),
            f"; {WORDS[SEEN]}: there already are evaluation runs of pre on S, qk on S",
        ),
    ],
)
def test_a_lock_says_at_once_what_its_card_will_say(book, monkeypatch, there, said):
    monkeypatch.setattr(ladder.MethodRuns, "strict_finals", ["report"])
    monkeypatch.setattr(ladder.MethodRuns, "every", ["tuning", "report"])
    read = dict.fromkeys(there, 1).get
    monkeypatch.setattr(Store, "read_record", lambda self, run: read(run))
    assert locking._warn(book, lock(arms=("pre", "qk"))) == said
    assert locking._warn(book, lock(arms=(), rungs=())) == ""
