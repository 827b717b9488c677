"""PowerNorm against its authors' algorithm, written out in numpy, over many training calls."""

import numpy as np
import torch
from each import each

from labkit import norms

DIM, GROUPS, DECAY = 6, 2, 0.9


class Reference:
    """One PowerNorm layer, token by token and feature by feature, in float64."""

    def __init__(self, warmup: int):
        self.warmup, self.t, self.eps = warmup, 0, 1e-5
        self.phi, self.e = np.ones(DIM), np.zeros(DIM)
        draw = np.random.default_rng(1)
        self.weight, self.bias = draw.normal(size=DIM), draw.normal(size=DIM)

    def scaled(self, x: np.ndarray) -> np.ndarray:
        out = np.empty_like(x)
        size = DIM // GROUPS
        for i, token in enumerate(x):
            for g in range(GROUPS):
                part = token[g * size : (g + 1) * size]
                rms = np.sqrt(sum(v * v for v in part) / size + self.eps)
                out[i, g * size : (g + 1) * size] = part / rms
        return out

    def train(self, x: np.ndarray, real: np.ndarray, dy: np.ndarray):
        """One training call and its backward pass: y, dx, dweight, dbias."""
        s = self.scaled(x)
        self.t += 1
        v = np.array([sum(s[real, j] ** 2) / real.sum() for j in range(DIM)])
        z = s / np.sqrt((v if self.t <= self.warmup else self.phi) + self.eps)
        if self.t < self.warmup:
            self.phi = self.phi * (self.t - 1) / self.t + v / self.t
        self.phi = DECAY * self.phi + (1 - DECAY) * v
        g = self.weight * dy
        g = g - (1 - DECAY) * self.e * z
        self.e = self.e + (g * z).mean(axis=0)  # padding too
        ds = g / np.sqrt(v + self.eps)
        dx = np.empty_like(x)
        size = DIM // GROUPS
        for i, token in enumerate(x):
            for k in range(GROUPS):
                at = slice(k * size, (k + 1) * size)
                part, d = token[at], ds[i, at]
                r = np.sqrt(sum(part**2) / size + self.eps)
                dx[i, at] = d / r - part * sum(d * part) / (size * r**3)
        return self.weight * z + self.bias, dx, (dy * z).sum(axis=0), dy.sum(axis=0)

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return self.weight * self.scaled(x) / np.sqrt(self.phi + self.eps) + self.bias


def layer_like(reference: Reference, dtype=torch.float64) -> norms.PowerNorm:
    layer = norms.PowerNorm(DIM, groups=GROUPS, warmup=reference.warmup, dtype=dtype)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(reference.weight))
        layer.bias.copy_(torch.from_numpy(reference.bias))
    return layer


@each(
    warmup=[0, 1, 2, 4, 100],
    masked=[False, True],
    dtype=[torch.float64, torch.float32],
)
def test_seven_training_calls_are_the_authors_algorithm(warmup, masked, dtype):
    reference = Reference(warmup)
    layer = layer_like(reference, dtype)
    draw = np.random.default_rng(0)
    # float32: seven calls of a running mean and of an error that feeds on itself
    close = {"rtol": 0, "atol": 1e-12 if dtype == torch.float64 else 2e-5}
    for step in range(7):
        x = draw.normal(size=(4, 5, DIM)) * (1 + step) + step
        dy = draw.normal(size=x.shape)
        mask = torch.ones(4, 5, dtype=torch.bool)
        if masked:
            mask[1, 3:], mask[2, 1:] = False, False
        leaf = torch.from_numpy(x).to(dtype).requires_grad_()
        y = layer(leaf, mask=mask) if masked else layer(leaf)
        layer.zero_grad()
        y.backward(torch.from_numpy(dy).to(dtype))
        flat = [a.reshape(20, DIM) for a in (x, dy)]
        wanted = reference.train(flat[0], mask.flatten().numpy(), flat[1])
        actual = [y.view(20, DIM), leaf.grad.view(20, DIM), layer.weight.grad, layer.bias.grad]
        for ours, theirs in zip(actual, wanted, strict=True):
            torch.testing.assert_close(ours.detach().double(), torch.from_numpy(theirs), **close)
        for buffer, value in ((layer.running_square, reference.phi), (layer.error, reference.e)):
            torch.testing.assert_close(buffer.double(), torch.from_numpy(value), **close)
        assert int(layer.calls) == step + 1
    layer.eval()
    x = draw.normal(size=(3, DIM))
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    y = layer(torch.from_numpy(x).to(dtype))
    torch.testing.assert_close(y.double(), torch.from_numpy(reference.evaluate(x)), **close)
    for name, value in layer.state_dict().items():
        assert torch.equal(value, before[name])


def test_the_function_leaves_padding_out_too():
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    mask = torch.rand(3, 4) < 0.6
    y = norms.power_norm(x, mask=mask)
    v = x[mask].square().mean(0)
    torch.testing.assert_close(y, x / (v + 1e-5).sqrt(), rtol=1e-12, atol=0)


def test_two_backward_passes_through_two_forward_passes_are_allowed():
    layer = norms.PowerNorm(4)
    first, second = layer(torch.randn(3, 4)), layer(torch.randn(3, 4))
    (first.sum() + second.sum()).backward()  # one layer used twice, as in a tied model
    assert layer.weight.grad is not None and layer.weight.grad.isfinite().all()
