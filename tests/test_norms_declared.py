"""The fields of `Facts` that a norm's class declares are true of it."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from cases import CASES, NUMBERS

from labkit.experiments.replicates import NotTogether, describe_structure, train_together
from labkit.experiments.replicates.alike import refuse_differences
from labkit.model import ModelConfig
from labkit.norms import NORMS, facts, make_norm
from labkit.plots.looks import choose_looks
from labkit.probes.norm_maps import norm_maps
from labkit.training import TrainConfig, train

DIM = 16
PER_TOKEN = [norm for norm in NORMS if facts(norm).scope == "token"]
# A schedule of one call: after it, PRepBN is the batch norm that it ends as.
OPTIONS = {"prep-batch": {"steps": 1}}
SMALL = ModelConfig(dim=DIM, depth=1, heads=2, vocab=11, context=8)


@pytest.mark.parametrize("norm", NORMS)
def test_the_scope_is_what_the_result_of_a_token_depends_on(norm):
    module = make_norm(norm, DIM, **OPTIONS.get(norm, {}))
    x = torch.randn(4, 6, DIM)
    module(x), module(x)
    other = x.clone()
    other[0, 0] = 100 * torch.randn(DIM)
    moved = (copy.deepcopy(module)(x) != copy.deepcopy(module)(other)).any(dim=-1)
    assert moved[0, 0]
    actual = "batch" if moved[1:].any() else "sample" if moved[0, 1:].any() else "token"
    assert actual == facts(norm).scope


def change(value):
    """Return a different number for an option of the norm."""
    return 2 * value or 1 if isinstance(value, int) else (value or 2.0) / 2


@pytest.mark.parametrize(("norm", "option", "value"), NUMBERS)
def test_first_values_are_the_options_that_only_tensors_hold(norm, option, value):
    one, other = make_norm(norm, DIM), make_norm(norm, DIM, **{option: change(value)})
    try:
        refuse_differences([one, other])
        together = True
    except NotTogether:
        together = False
    assert together is (option in facts(norm).first_values)
    changed = replace(SMALL, norm=norm, norm_kw=((option, change(value)),))
    same = describe_structure(changed) == describe_structure(replace(SMALL, norm=norm))
    assert same is together


@pytest.mark.parametrize("norm", [norm for norm, case in CASES.items() if case.has_eps])
def test_an_eps_stands_where_the_norm_declares_it(norm):
    torch.manual_seed(0)
    x = torch.randn(4, 6, DIM, dtype=torch.float64)

    def size(eps: float, scale: float = 1e-9) -> float:  # so small that only eps divides it
        module = make_norm(norm, DIM, eps=eps, **OPTIONS.get(norm, {})).double()
        return module(scale * x).norm().item()

    roots = 2 if norm == "power" else 1  # it divides by that of a group, then by that of a feature
    power = math.log(size(1e-4) / size(1e-2)) / math.log(1e2) / roots  # of 1/eps
    declared = facts(norm).eps_place
    told = (
        f"the class declares eps {declared!r} (eps_place); the slope at 0 goes as eps^-{power:.2f}"
    )
    assert power == pytest.approx(0.5 if declared == "inside the root" else 1, abs=0.02), told
    ignored = size(1e-4, scale=1) == pytest.approx(size(1e-2, scale=1), rel=1e-9)
    told = f"the class declares eps {declared!r} (eps_place); a larger token ignores it: {ignored}"
    assert ignored == (declared == "least length"), told
    told = f"cases.py: the row's slope is not the module's, which goes as eps^-{power:.2f}"
    ratio = CASES[norm].slope(1e-4) / CASES[norm].slope(1e-2)
    assert ratio == pytest.approx(1e2**power, rel=0.1), told


@pytest.mark.parametrize("norm", NORMS)
def test_a_gain_starts_at_one_as_declared(norm):
    weight = getattr(make_norm(norm, DIM), "weight", None)
    if weight is not None and weight.numel() == DIM:
        assert (weight == facts(norm).start).all()


@pytest.mark.parametrize("norm", PER_TOKEN)
def test_a_norm_of_a_token_has_a_map(norm):
    model = replace(SMALL, norm=norm).build()
    rows = norm_maps(model, torch.arange(8)[None])
    assert len(rows) == (0 if norm == "none" else 3)


@pytest.mark.parametrize("norm", PER_TOKEN)
def test_a_norm_of_a_token_trains_in_replicates_as_it_does_alone(norm):
    config, steps = replace(SMALL, norm=norm), TrainConfig(steps=3)
    records = {}
    for way in ("alone", "together"):
        models, batches = [], []
        for seed in (0, 1):
            torch.manual_seed(seed)
            models.append(config.build().double())
            tokens = torch.randint(11, (3, 2, 4, 8))
            batches.append([(inputs, targets) for inputs, targets in tokens])
        if way == "together":
            records[way] = train_together(models, batches, [steps] * 2, [[], []])
        else:
            pairs = zip(models, batches, strict=True)
            records[way] = [train(model, some, steps, progress=False) for model, some in pairs]
    for alone, together in zip(records["alone"], records["together"], strict=True):
        assert together.losses == pytest.approx(alone.losses, rel=1e-9)


@pytest.mark.parametrize("norm", NORMS)
def test_a_norm_looks_like_no_other(norm):
    looks = choose_looks(NORMS)
    own = looks.pop(norm)
    assert (own.marker, own.dash) not in {(look.marker, look.dash) for look in looks.values()}
