"""Which runs become one task, in what order, and how many fit into memory."""

from dataclasses import replace

import pytest
import torch

from labkit.corpora import Digits, Text
from labkit.experiments import Run
from labkit.experiments.replicates import (
    NotTogether,
    describe_structure,
    estimate_need,
    group_runs,
    groups,
)
from labkit.experiments.replicates.alike import NUMBERS
from labkit.experiments.replicates.stack import Stack
from labkit.model import ModelConfig
from labkit.model.stacks import StackConfig
from labkit.model.vision import CNNConfig, MLPConfig
from labkit.training import TrainConfig

GPU = "Great GPU"
RUN = Run(ModelConfig(dim=16, depth=1, context=8), Text(4, 8), TrainConfig(3))
# For every field that may differ within a task, another value than its default's.
JOIN = {
    Run: {"seed": 1, "probes": ()},
    ModelConfig: {"init": "xavier", "alpha": (0.7, 0.9)},
    StackConfig: {"init": "scaled"},
    TrainConfig: {
        "lr": 0.1, "betas": (0.5, 0.6), "momentum": 0.5, "weight_decay": 0.1, "warmup": 2,
        "schedule": "linear", "final_lr": 0.5, "clip": 1.0,
    },
}  # fmt: skip
PART = {
    Run: {"model": MLPConfig(), "data": Digits(), "train": TrainConfig(7)},
    ModelConfig: {"recipe": "post", "norm": "derf", "dim": 32, "tie": True, "balance": 0.1},
    StackConfig: {"norm": "batch"},
    TrainConfig: {"steps": 9, "optimizer": "sgd", "precision": "bf16"},
}
BASES = {
    Run: RUN,
    ModelConfig: ModelConfig(dim=16, depth=1, norm="dyt"),
    StackConfig: StackConfig(),
    TrainConfig: TrainConfig(),
}


@pytest.fixture
def plenty(monkeypatch):
    """Give the simulated GPU more memory than any of these runs needs."""
    monkeypatch.setattr(groups, "count_free_bytes", lambda device: 2.0**40)


@pytest.mark.parametrize("kind", BASES)
def test_numbers_join_runs_and_all_else_parts_them(kind):
    assert set(NUMBERS[kind]) == set(JOIN[kind])
    base = BASES[kind]
    for table, same in ((JOIN, True), (PART, False)):
        for name, value in table[kind].items():
            other = replace(base, **{name: value})
            assert (describe_structure(other) == describe_structure(base)) is same, name


@pytest.mark.parametrize("kind", [ModelConfig, StackConfig])
def test_what_joins_runs_changes_tensors_only(kind):
    for name, value in JOIN[kind].items():
        base = BASES[kind]
        Stack([base.build(), replace(base, **{name: value}).build()])  # refuses differences
    more = (("alpha", 0.3),), (("alpha", 0.3), ("bias", False)), ()
    first, second, third = (replace(BASES[ModelConfig], norm_kw=kw) for kw in more)
    Stack([first.build(), third.build()])
    assert describe_structure(first) == describe_structure(third) != describe_structure(second)


def test_runs_stand_in_order_and_parts_are_even(monkeypatch, plenty):
    monkeypatch.setenv("LABKIT_REPLICATES", "3")
    runs = [replace(RUN, seed=seed, train=TrainConfig(n)) for seed in range(5) for n in (3, 4)]
    found = group_runs(runs, GPU)
    assert [len(task) for task in found] == [2, 3, 2, 3]
    assert [run.seed for run in found[0] + found[1]] == list(range(5))
    assert {run.train.steps for run in found[0] + found[1]} == {3}
    assert sorted(map(repr, sum(found, ()))) == sorted(map(repr, runs))
    assert group_runs(runs, GPU) == found
    monkeypatch.setenv("LABKIT_REPLICATES", "1")
    assert group_runs(runs, GPU) == [(run,) for run in runs]


def test_together_on_a_gpu_alone_on_a_cpu_unless_somebody_says_otherwise(monkeypatch, plenty):
    runs = [replace(RUN, seed=seed) for seed in range(70)]
    assert [len(t) for t in group_runs(runs, GPU)] == [35, 35]
    assert [len(t) for t in group_runs(runs[:3])] == [1, 1, 1]
    monkeypatch.setenv("LABKIT_REPLICATES", "2")
    assert (
        [len(t) for t in group_runs(runs[:4])]
        == [len(t) for t in group_runs(runs[:4], GPU)]
        == [2, 2]
    )
    monkeypatch.setenv("LABKIT_REPLICATES", "auto")
    assert len(group_runs(runs[:3])) == 3
    for wrong in ("many", "0"):
        monkeypatch.setenv("LABKIT_REPLICATES", wrong)
        with pytest.raises(
            ValueError, match="LABKIT_REPLICATES must be a whole number of at least 1, or auto"
        ):
            group_runs(runs)


def test_memory_bounds_how_many_train_together(monkeypatch):
    runs = [replace(RUN, seed=seed) for seed in range(6)]
    room = {GPU: 2.5 * estimate_need(RUN), "cpu": 3.5 * estimate_need(RUN)}
    monkeypatch.setattr(groups, "count_free_bytes", lambda device: room[device])
    monkeypatch.setenv("LABKIT_REPLICATES", "6")
    assert [len(task) for task in group_runs(runs, GPU)] == [2, 2, 2]
    assert [len(task) for task in group_runs(runs)] == [3, 3]
    monkeypatch.setattr(groups, "count_free_bytes", lambda device: 0.0)
    assert [len(task) for task in group_runs(runs, GPU)] == [1] * 6


def test_of_a_gpu_that_is_not_here_no_memory_is_free(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert groups.count_free_bytes(GPU) == 0.0 < groups.count_free_bytes()
    runs = [replace(RUN, seed=seed) for seed in range(3)]
    assert group_runs(runs, GPU) == [(run,) for run in runs]


def test_free_memory_is_a_share_of_what_there_is(monkeypatch):
    pages = {"SC_AVPHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr("os.sysconf", pages.__getitem__)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (10**9, 10**10))
    assert groups.count_free_bytes() == groups.SHARE * 4096 * 1000
    assert groups.count_free_bytes(GPU) == groups.SHARE * 10**9


@pytest.mark.parametrize("changes", [{"experts": 2}, {"norm": "power"}, {"norm": "prep-batch"}])
def test_models_that_cannot_be_batched_are_tasks_of_their_own(changes, plenty):
    run = replace(RUN, model=replace(RUN.model, **changes))
    with pytest.raises(NotTogether, match="vmap does not support this model"):
        estimate_need(run)
    assert len(group_runs([run, replace(run, seed=1)], GPU)) == 2


def test_the_estimate_counts_parameters_and_what_the_backward_pass_needs():
    state = torch.get_rng_state()
    small, wide = estimate_need(RUN), estimate_need(replace(RUN, model=replace(RUN.model, dim=32)))
    parameters = sum(p.numel() for p in RUN.model.build().parameters())
    assert small > 6 * 4 * parameters
    assert 1.5 * small < wide < 4 * small
    longer = estimate_need(replace(RUN, data=Text(16, 8)))
    assert small < longer < 4 * small
    torch.set_rng_state(state)


@pytest.mark.parametrize(
    "run",
    [
        RUN,
        replace(RUN, model=replace(RUN.model, recipe="ngpt")),
        replace(RUN, model=replace(RUN.model, qk_clip=1.0)),
        Run(CNNConfig(width=4, depth=1), Digits(4), TrainConfig(2, optimizer="sgd")),
        Run(StackConfig("pre", "batch", width=8), Digits(4), TrainConfig(2)),
    ],
)
def test_every_model_of_the_book_can_be_rehearsed_without_numbers(run):
    state = torch.get_rng_state()
    assert estimate_need(run) > 0
    assert torch.equal(torch.get_rng_state(), state)
