"""Running statistics of BatchNorm and InstanceNorm agree with torch's."""

import torch
from cases import BATCH_NORMS, INSTANCE_NORMS
from each import each

from labkit import norms

SHAPES = ((8, 6), (5, 6, 3), (4, 6, 3, 2), (2, 6, 2, 3, 2))
OPTIONS = (
    {},
    {"momentum": 0.4},
    {"momentum": None},
    {"track_running_stats": False},
    {"affine": False},
    {"eps": 1e-2},
)


TRACKED = {"affine": True, "track_running_stats": True}
PAIRS = [
    *((norms.BatchNorm, BATCH_NORMS, shape, options) for shape in SHAPES for options in OPTIONS),
    *(
        (norms.InstanceNorm, INSTANCE_NORMS, shape, {**TRACKED, "momentum": momentum})
        for shape in SHAPES[1:]
        for momentum in (0.1, 0.4, None)
    ),
]


@each(pair=PAIRS, dtype=[torch.float32, torch.float64])
def test_running_statistics_are_torchs_over_several_steps(pair, dtype):
    kind, torchs, shape, options = pair
    ours = kind(6, **options, dtype=dtype)
    theirs = torchs[len(shape)](6, **options, dtype=dtype)
    for step in range(5):
        x = (torch.randn(shape) * (1 + step) + step).to(dtype)
        # the same sums, perhaps in another order
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)
        for name, value in theirs.state_dict().items():
            torch.testing.assert_close(ours.state_dict()[name], value, rtol=1e-6, atol=1e-6)
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    ours.eval(), theirs.eval()
    x = torch.randn(shape).to(dtype)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)
    for name, value in ours.state_dict().items():
        assert torch.equal(value, before[name])


@each(shape=SHAPES)
def test_the_function_updates_as_the_module(shape):
    module = norms.BatchNorm(6, momentum=0.3)
    mean, var = torch.zeros(6), torch.ones(6)
    for step in range(4):
        x = (torch.randn(shape) + step).requires_grad_()
        y = norms.batch_norm(x, mean, var, module.weight, module.bias, training=True, momentum=0.3)
        torch.testing.assert_close(y, module(x), rtol=1e-5, atol=1e-5)  # another order of sums
        torch.testing.assert_close(mean, module.running_mean, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(var, module.running_var, rtol=1e-6, atol=1e-6)
        assert not mean.requires_grad and not var.requires_grad, "statistics carry no graph"
    x = torch.randn(shape)
    y = norms.batch_norm(x, mean, var, module.weight, module.bias)
    torch.testing.assert_close(y, module.eval()(x), rtol=1e-5, atol=1e-5)


@each(options=OPTIONS)
def test_on_the_last_axis_batch_and_time_are_pooled(options):
    last = norms.BatchNorm(6, channel_axis=-1, **options)
    plain = norms.BatchNorm(6, **options)
    for _ in range(3):
        x = torch.randn(4, 5, 6)
        # the same kernel on the same rows
        assert torch.equal(last(x), plain(x.reshape(20, 6)).view(x.shape))
    for name, value in plain.state_dict().items():
        assert torch.equal(last.state_dict()[name], value)
    last.eval(), plain.eval()
    one = torch.randn(1, 1, 6)
    if options.get("track_running_stats", True):
        assert torch.equal(last(one), plain(one.view(1, 6)).view(1, 1, 6))


DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def instance(dim, dtype):
    """InstanceNorm on rows of one sample, whose statistics are those of a batch."""
    return norms.InstanceNorm(dim, channel_axis=-1, **TRACKED, dtype=dtype)


@each(
    kind=[norms.BatchNorm, norms.RepBatchNorm, norms.PRepBatchNorm, instance],
    state=DTYPES,
    given=DTYPES,
)
def test_any_floating_input_goes_with_any_floating_state(kind, state, given):
    module = kind(6, dtype=state)
    x = torch.randn(20, 6).to(given)
    plain = kind(6, dtype=torch.float64)
    for _ in range(2):
        y, expected = module(x), plain(x.double())
        assert y.dtype == given
        # one rounding of the result; statistics in float32 at least
        torch.testing.assert_close(
            y.double(), expected, rtol=0.6 * torch.finfo(given).eps, atol=1e-5
        )
    y, expected = module.eval()(x), plain.eval()(x.double())
    # running statistics are stored in the state's precision
    torch.testing.assert_close(
        y.double(), expected, rtol=4 * torch.finfo(state).eps + torch.finfo(given).eps, atol=0.02
    )
