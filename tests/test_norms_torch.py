"""Drop-in for torch's modules: state in both directions, constructor arguments, defaults."""

import pytest
import torch
import torch.nn.functional as F
from cases import CASES, DIM, close, truth, with_parameters
from each import each
from torch import nn

from labkit import norms

TWINS = [case for case in CASES.values() if case.torch_module]


@pytest.mark.parametrize("case", TWINS, ids=[case.norm for case in TWINS])
@each(shape=lambda case: case.shapes, dtype=[torch.float64, torch.float32])
def test_state_goes_from_torch_to_labkit_and_back(case, shape, dtype):
    x = (torch.randn(shape) + 0.5).to(dtype)
    theirs = with_parameters(case.torch_module(1e-5, shape).to(dtype), case.draw(dtype))
    ours = case.module(1e-5).to(dtype)
    ours.load_state_dict(theirs.state_dict())
    again = case.torch_module(1e-5, shape).to(dtype)
    again.load_state_dict(ours.state_dict())
    for training in (True, False):
        for module in (ours, theirs, again):
            module.train(training)
        wanted = theirs(x)
        # sums in another order
        room = 16 * torch.finfo(dtype).eps * max(1.0, float(wanted.detach().abs().max()))
        torch.testing.assert_close(ours(x), wanted, rtol=0, atol=room)
        torch.testing.assert_close(again(x), wanted, rtol=0, atol=room)


MADE_LIKE = {
    "layer": (norms.LayerNorm, nn.LayerNorm, [
        (DIM,), ((3, 4),), (DIM, 1e-3), (DIM, 1e-3, False), (DIM, 1e-3, True, False)]),
    "rms": (norms.RMSNorm, nn.RMSNorm, [(DIM,), ((3, 4),), (DIM, 1e-3), (DIM, 1e-3, False)]),
    "batch": (norms.BatchNorm, nn.BatchNorm1d, [
        (DIM,), (DIM, 1e-3), (DIM, 1e-3, 0.3), (DIM, 1e-3, None), (DIM, 1e-3, 0.1, False),
        (DIM, 1e-3, 0.1, True, False)]),
    "instance": (norms.InstanceNorm, nn.InstanceNorm1d, [
        (DIM,), (DIM, 1e-3), (DIM, 1e-3, 0.3, True), (DIM, 1e-3, 0.3, True, True),
        (DIM, 1e-3, 0.3, False, True)]),
    "group": (norms.GroupNorm, nn.GroupNorm, [
        (3, DIM), (1, DIM, 1e-3), (DIM, DIM, 1e-3, False)]),
}  # fmt: skip


@each(made=[(norm, a) for norm, row in MADE_LIKE.items() for a in row[2]])
def test_constructor_arguments_mean_what_they_mean_in_torch(made):
    norm, arguments = made
    ours_type, theirs_type, _ = MADE_LIKE[norm]
    ours, theirs = ours_type(*arguments), theirs_type(*arguments)
    assert {k: v.shape for k, v in ours.state_dict().items()} == {
        k: v.shape for k, v in theirs.state_dict().items()
    }
    tail = arguments[0] if isinstance(arguments[0], tuple) else (DIM,)
    tail = (*tail, 6) if norm == "instance" else tail
    x = 1e-2 * torch.randn(5, *tail)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)  # sums in another order
    assert ours.eps == theirs.eps


def test_rms_norm_without_eps_uses_the_machine_epsilon_of_its_computation():
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        used = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
        x = (torch.randn(5, DIM, dtype=torch.float64) * used**0.5).to(dtype)
        for y in (
            norms.rms_norm(x, None, None),
            norms.RMSNorm(DIM, dtype=dtype)(x),
            F.rms_norm(x, (DIM,)),
        ):
            close(y, truth(CASES["rms"], x, {}, used), dtype)
