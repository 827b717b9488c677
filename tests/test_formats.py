"""Number formats agree with torch's casts and with values computed by hand."""

import math

import pytest
import torch

from labkit.formats import (
    FORMATS,
    emulate_nvfp4,
    measure_signal_to_noise,
    round_to_format,
    scale_to_format,
    sum_in_format,
)

DTYPES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "e5m2": torch.float8_e5m2,
    "e4m3": torch.float8_e4m3fn,
}
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def many_numbers() -> torch.Tensor:
    """Draw numbers of every magnitude of the formats, including ties and limits."""
    x = torch.randn(20_000) * 2.0 ** torch.randint(-30, 18, (20_000,))
    ties = torch.arange(-4096, 4097) / 256
    ends = torch.tensor([0.0, -0.0, 65504, 65519, 65520, 57344, 61439, 61440, 2.0**-24, 2.0**-25])
    return torch.cat([x, ties, ends, -ends, 2.0**-25 + ends[-2:] * 1e-3])


@pytest.mark.parametrize("name", FORMATS)
def test_rounding_takes_the_nearest_multiple_of_the_distance_between_neighbours(name):
    kind, x = FORMATS[name], many_numbers().double()
    power = x.abs().clamp(min=kind.smallest_normal).log2().floor()
    distance = 2.0 ** (power - kind.significant + 1)
    nearest = (x / distance).round() * distance
    nearest[nearest.abs() > kind.largest] = kind.overflow
    assert torch.equal(round_to_format(x, name).abs().double(), nearest.abs())
    assert torch.equal(round_to_format(x, name).signbit(), x.signbit())
    assert not round_to_format(x.requires_grad_(), name).requires_grad, "a step has no slope"


@pytest.mark.parametrize("name", DTYPES)
def test_ends_of_formats_are_torchs(name):
    told = torch.finfo(DTYPES[name])
    kind = FORMATS[name]
    assert (kind.largest, kind.smallest_normal, kind.bits) == (told.max, told.tiny, told.bits)
    assert 2.0 ** (1 - kind.significant) == told.eps
    assert round_to_format(torch.tensor(kind.smallest), name).item() == kind.smallest
    assert round_to_format(torch.tensor(kind.smallest / 2), name).item() == 0


def test_what_is_too_large_is_infinite_or_saturates():
    huge = torch.tensor([1e30, -1e30, math.inf])
    assert round_to_format(huge, "float16").tolist() == [math.inf, -math.inf, math.inf]
    assert round_to_format(huge[:2], "e4m3").tolist() == [448, -448]
    assert round_to_format(huge[:2], "e2m1").tolist() == [6, -6]
    assert round_to_format(torch.tensor(math.nan), "e5m2").isnan()


def test_e2m1_has_eight_sizes_and_ties_go_to_even():
    x = torch.linspace(-7, 7, 2801)
    assert sorted({abs(v) for v in round_to_format(x, "e2m1").tolist()}) == E2M1
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    assert round_to_format(ties, "e2m1").tolist() == [0, 1, 1, 2, 2, 4, 4]


def test_one_scale_makes_the_largest_value_exact():
    x = torch.tensor([1000.0, 3.0, 0.001])
    assert scale_to_format(x, "e4m3")[0].item() == pytest.approx(1000, rel=1e-6)
    assert scale_to_format(x, "e4m3")[2].item() == 0  # 2⁻⁹ · 1000/448 is the smallest step
    assert scale_to_format(torch.zeros(3), "e4m3").tolist() == [0, 0, 0]


def test_nvfp4_by_hand():
    # Largest 12 at t = 12 / 2688: the first block's scale is 448 t = 2, the second's 448 t / 12.
    x = torch.zeros(32)
    x[0], x[1], x[2], x[16], x[17] = 12.0, 5.1, 0.4, 1.0, 0.3
    got = emulate_nvfp4(x)
    assert got[[0, 1, 2]].tolist() == pytest.approx([12, 6, 0], rel=1e-6)  # 5.1 / 2 = 2.55 → 3
    scale = 12 / 2688 * 36  # 448 / 12 = 37.3 lies between 36 and 40
    assert got[[16, 17]].tolist() == pytest.approx([6 * scale, 2 * scale], rel=1e-6)


def test_nvfp4_does_not_care_for_the_size_of_a_tensor():
    x = torch.randn(8, 64)
    assert torch.allclose(emulate_nvfp4(1024 * x), 1024 * emulate_nvfp4(x))
    assert emulate_nvfp4(torch.zeros(2, 16)).abs().max() == 0
    with pytest.raises(ValueError, match="a multiple of 16"):
        emulate_nvfp4(torch.randn(4, 20))


def test_a_running_sum_of_ones_stops_at_two_to_the_p():
    ones = torch.ones(1, 300)
    assert sum_in_format(ones, "bfloat16").item() == 256  # 256 + 1 is a tie, and 256 is even
    assert sum_in_format(ones, "e4m3").item() == 16
    assert sum_in_format(ones, "float32").item() == 300


def test_signal_to_noise_by_hand():
    exact = torch.tensor([[3.0, 4.0], [1.0, 0.0]])
    rounded = torch.tensor([[3.0, 4.5], [1.0, 0.0]])
    assert measure_signal_to_noise(exact, rounded).tolist() == [20.0, math.inf]
    with pytest.raises(ValueError, match="the same shape"):
        measure_signal_to_noise(exact, rounded[0])


def test_unknown_formats_are_refused():
    with pytest.raises(ValueError, match="did you mean 'e4m3'"):
        round_to_format(torch.ones(1), "e4m4")
