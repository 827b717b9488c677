"""A sweep's time is known before it starts, and what does not fit is left out openly."""

import contextlib
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_runs import LANGUAGE, TINY, make_older, make_stale, record

from labkit.experiments import budget, durations, timings
from labkit.experiments.budget import estimate, within
from labkit.experiments.durations import format_duration, parse_duration
from labkit.experiments.kinds import kind_of
from labkit.experiments.queries.entries import scan
from labkit.experiments.store import Store
from labkit.experiments.timings import Timings


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store in which a run of TINY's kind takes 2 seconds; nothing is timed by itself."""
    stand_in(monkeypatch, nothing_is_timed)
    store = Store(tmp_path)
    for seed in range(3):
        store.put(replace(TINY, seed=seed), record(cpu_seconds=[1.9, 2.0, 2.2][seed]))
    return store


def nothing_is_timed(run):
    raise RuntimeError("this test times nothing")


def stand_in(monkeypatch, timed) -> None:
    """Put a function in the place of the worker that times a few steps."""
    monkeypatch.setattr(budget, "stopwatch", lambda device: contextlib.nullcontext(timed))


def seeds(*numbers: int, base=TINY) -> list:
    return [replace(base, seed=seed) for seed in numbers]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m", 600), ("90", 90), ("90s", 90), ("1h30m", 5400), ("2 d", 172800), ("1.5h", 5400),
     (" 1D 2h ", 93600), ("0", 0), ("1e3", 1000), (12, 12), (0.5, 0.5), (".5m", 30)],
)  # fmt: skip
def test_a_duration_is_read_as_seconds(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "soon", "-1", "-5m", "10 minutes", "1h-3m", "m", "inf", "nan", "5m5m", math.inf, -1.0],
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match=r"a duration is a number of seconds.* got "):
        parse_duration(text)


@settings(deadline=None, derandomize=True)
@given(st.integers(0, 10**7))
def test_a_duration_that_is_written_reads_as_itself_but_for_its_small_units(seconds):
    text = format_duration(seconds).replace("min", "m")
    two_units = {"d": 3600, "h": 60}.get(next((u for u in "dhm" if u in text), ""), 1)
    assert 0 <= seconds - parse_duration(text) < two_units


@settings(deadline=None, derandomize=True)
@given(st.dictionaries(st.sampled_from("dhms"), st.integers(0, 999), min_size=1))
def test_units_add_up(parts):
    text = " ".join(f"{count}{unit}" for unit, count in parts.items())
    assert parse_duration(text) == sum(durations.UNITS[unit] * n for unit, n in parts.items())


def test_alike_runs_say_what_a_run_takes(store):
    found = estimate([*seeds(*range(7)), *seeds(3)], store, slots=2)
    assert found.seconds == pytest.approx(4 * 2.0 / 2)  # three are stored, one is named twice
    assert (found.missing, found.unknown) == (4, 0)
    assert found.low < found.seconds < found.high
    assert str(found) == "about 4 s for 4 runs, on 2 idle slots: 4 as alike runs took"


def test_a_sweep_takes_no_less_than_its_longest_run(store):
    assert estimate(seeds(9), store, slots=8).seconds == pytest.approx(2.0)


def test_what_is_stored_takes_nothing(store, monkeypatch):
    monkeypatch.setattr(budget, "scan", None)  # nor is the rest of the store read for it
    found = estimate(seeds(0, 1, 2), store, 2, measure=True)
    assert (found.seconds, found.missing) == (0, 0)
    assert str(found) == "nothing to train: every run is stored"


def test_another_rate_is_alike_and_another_norm_is_near(store):
    rate = replace(TINY, train=replace(TINY.train, lr=0.5, weight_decay=0.1), seed=8)
    norm = replace(TINY, model=replace(TINY.model, norm="none"))
    found = estimate([rate, norm], store, 1)
    assert found.basis == "on 1 idle slot: 1 as alike runs took, 1 scaled from the nearest"
    assert found.seconds == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("change", "factor"),
    [
        ({"train": replace(TINY.train, steps=6)}, 2),
        ({"model": replace(TINY.model, depth=4)}, 4),
        ({"model": replace(TINY.model, width=16)}, 2),
        ({"data": replace(TINY.data, batch=64)}, 2),
    ],
)
def test_the_nearest_run_counts_by_the_ratio_of_sizes(store, change, factor):
    found = estimate([replace(TINY, **change)], store, 1)
    assert found.seconds == pytest.approx(2.0 * factor)
    assert found.low <= 0.7 * found.seconds and found.high >= 1.4 * found.seconds
    assert "(between " in str(found)


def test_the_range_spans_what_the_neighbours_say(store):
    store.put(replace(TINY, model=replace(TINY.model, norm="none")), record(cpu_seconds=20))
    found = estimate([replace(TINY, model=replace(TINY.model, norm="layer"))], store, 1)
    assert found.low <= 2 and found.high == pytest.approx(20)
    assert 2 < found.seconds < 20


def test_runs_of_older_code_count_and_those_of_another_device_do_not(store):
    make_stale(store, seeds(0)[0])
    make_older(store.path(seeds(1)[0]))
    store.put(seeds(20)[0], record(None, cpu_seconds=0.01))  # it stopped early
    make_stale(store, seeds(2)[0], device="Another GPU")
    took = Timings(scan(store.folder).entries)
    expected = took.of(kind_of(TINY.to_dict()))
    assert expected is not None and expected.seconds == pytest.approx((1.9 + 2.0) / 2)


def test_an_older_description_that_lacks_a_field_is_alike(store):
    older = TINY.to_dict()
    older["model"] = {k: v for k, v in older["model"].items() if k != "norm_eps"}
    assert kind_of(older).alike == kind_of(TINY.to_dict()).alike
    assert kind_of(replace(TINY, probes=()).to_dict()).alike != kind_of(older).alike


def test_on_a_gpu_a_share_of_the_task_s_time_counts(store):
    gpu = Store(store.folder.parents[1], "A GPU")
    gpu.put(TINY, record(cpu_seconds=9.0), seconds=8.0, together=4)
    assert estimate(seeds(5), gpu, 1).seconds == pytest.approx(2.0)


def test_where_nothing_is_known_it_says_so(store):
    found = estimate([*seeds(5), LANGUAGE], store, 1)
    assert (found.unknown, found.missing) == (1, 2)
    assert str(found).endswith("; of 1 nothing is known")
    assert str(estimate([LANGUAGE], store, 1)).startswith("1 runs, and nothing is known")
    with pytest.raises(ValueError, match="Train one run of each unknown kind first"):
        within([LANGUAGE], store, 1, "10d")


def test_what_is_unlike_everything_is_timed_and_stands_for_its_neighbours(store, monkeypatch):
    asked = []
    stand_in(monkeypatch, lambda run: asked.append(run) or 7.0)
    strange = seeds(0, 1, 2, base=LANGUAGE)
    assert estimate(strange, store, 1).unknown == 3 and asked == [], "only a budget is worth it"
    assert within(strange, store, 1, "21s") == strange
    assert [run.model for run in asked] == [LANGUAGE.model]
    found = estimate(strange, store, 1, measure=True)
    assert found.seconds == pytest.approx(21.0)
    assert found.basis == "on 1 idle slot: 3 timed for a few steps"


def test_timing_is_bounded(store, monkeypatch):
    clock = iter(range(0, 1000, 3))  # every look at it, three seconds have gone by
    monkeypatch.setattr(budget.time, "monotonic", lambda: next(clock))
    stand_in(monkeypatch, lambda run: 7.0)
    train = LANGUAGE.train
    far = [replace(LANGUAGE, train=replace(train, steps=steps)) for steps in (800, 2, 40)]
    monkeypatch.setattr(budget, "CALIBRATION", 2.0)
    found = estimate(far, store, 1, measure=True)
    assert found.basis.endswith("1 timed for a few steps, 2 guessed from unlike runs")
    assert found.seconds == pytest.approx(7.0 * (1 + 20 + 400))  # the smallest was timed


def test_a_damaged_record_counts_as_missing(store):
    path = store.path(seeds(1)[0])
    path.write_text(path.read_text()[:100])
    with pytest.warns(UserWarning, match="is damaged"):
        found = estimate(seeds(0, 1, 2), store, 2)
    assert (found.missing, found.seconds) == (1, pytest.approx(2.05))


def test_runs_with_other_probes_or_far_other_sizes_are_only_guessed_from(store):
    for unlike in (
        replace(TINY, probes=("test",)),
        replace(TINY, train=replace(TINY.train, steps=300)),
    ):
        found = estimate([unlike], store, 1)
        assert found.basis.endswith("1 guessed from unlike runs")
        assert found.high >= 10 * found.seconds and found.low <= 0.1 * found.seconds
    assert found.unknown == 0


def test_a_few_steps_are_timed_in_a_process_of_their_own_and_leave_no_trace(tmp_path, monkeypatch):
    """What cannot train there is unknown, and no fault."""
    store, inside = Store(tmp_path), []
    monkeypatch.setattr(
        "labkit.experiments.engines.task.execute", lambda *_, **__: inside.append(1)
    )
    before = torch.random.get_rng_state()
    long = replace(LANGUAGE, train=replace(LANGUAGE.train, steps=1000))
    bad = replace(TINY, probes=("residual-rms",))  # a perceptron has no residual stream
    found = estimate([bad, long], store, 1, measure=True)
    assert found.basis.endswith("1 timed for a few steps") and 0.05 < found.seconds < 600
    assert (found.unknown, found.missing, inside) == (1, 2, [])
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not store.folder.exists()


def grid(counts: tuple[int, ...] = (5, 5)) -> list:
    """Two arms that are alike in time."""
    arms = [replace(TINY, train=replace(TINY.train, lr=lr)) for lr in (0.1, 0.2)]
    return [r for arm, n in zip(arms, counts, strict=True) for r in seeds(*range(n), base=arm)]


def test_what_fits_is_handed_back(store, capsys):
    assert within(grid(), store, 2, "10s") == grid()
    assert within(seeds(0, 1), store, 2, 0) == seeds(0, 1), "stored runs fit into any budget"
    assert capsys.readouterr().out == ""


def test_what_does_not_fit_is_refused_with_what_it_needs(store):
    with pytest.raises(ValueError, match=r"needs about 10 s.*the budget is 9 s\. Raise it, shrink"):
        within(grid(), store, 2, "9s")


def test_shrinking_leaves_out_the_highest_seeds_in_every_arm(store, capsys):
    kept = within(grid(), store, 2, "7s", shrink=True)
    assert kept == [run for run in grid() if run.seed < 3]
    said = capsys.readouterr().out
    assert (
        "4 of 10 runs left out, those of seed 3, 4 in every arm; the rest takes about 6 s" in said
    )


def test_every_arm_keeps_a_seed(store):
    with pytest.raises(ValueError, match="no more seeds can be left out"):
        within(grid(), store, 2, "1s", shrink=True)
    # the second arm has but seed 0 and 7
    odd = [run for run in grid((5, 5)) if run.train.lr == 0.1]
    odd += seeds(7, base=replace(TINY, train=replace(TINY.train, lr=0.2)))
    with pytest.raises(ValueError, match="no more seeds can be left out"):
        within(odd, store, 1, "11s", shrink=True)


@settings(deadline=None, derandomize=True)
@given(st.floats(0.1, 30), st.integers(1, 4))
def test_what_is_kept_fits_and_one_seed_more_would_not(allowed, slots):
    times = {run.key(): timings.Time(2.0, 1.9, 2.2, "alike") for run in grid()}
    runs = {run.key(): run for run in grid()}

    def takes(count: int) -> float:
        return max(2.0 * 2 * count / slots, 2.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "_times", lambda *_, **__: (times, runs))
        try:
            kept = within(grid(), None, slots, allowed, shrink=True)  # pyright: ignore
        except ValueError:
            assert takes(1) > allowed
            return
    count = len(kept) // 2
    assert takes(count) <= allowed and (count == 5 or takes(count + 1) > allowed)
    assert {run.seed for run in kept} == set(range(count))
