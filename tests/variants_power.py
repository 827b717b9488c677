"""PowerNorm of one batch: wrong ones with their cause, and right ones."""

import torch


def _wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _square(x, mask):
    rows = x.reshape(-1, x.shape[-1]) if mask is None else x[mask]
    return rows.square().mean(0)


def _pn(square=_square, spread=lambda v, e: (v + e).sqrt(), gain=lambda w: w, shift=lambda b: b,
        wide=_wide, centre=lambda x: x, eps=1e-5):  # fmt: skip
    def norm(x, weight=None, bias=None, eps=eps, mask=None):
        h = wide(x)
        y = centre(h) / spread(square(h, mask), eps)
        y = y if weight is None else y * gain(weight)
        return (y if bias is None else y + shift(bias)).to(x.dtype)

    return norm


def _all_positions(x, mask):
    if mask is None:
        return _square(x, None)
    return torch.where(mask[..., None], x, 0.0).reshape(-1, x.shape[-1]).square().mean(0)


def _variance(x, mask):
    rows = x.reshape(-1, x.shape[-1]) if mask is None else x[mask]
    return rows.var(0, correction=0)


def _unbiased(x, mask):
    rows = x.reshape(-1, x.shape[-1]) if mask is None else x[mask]
    return rows.square().sum(0) / max(1, len(rows) - 1)


POWER_WRONG = {
    "each token": (_pn(lambda x, m: x.square().mean(-1, True)), "over the last axis"),
    "whole tensor": (_pn(lambda x, m: x.square().mean()), "over the whole tensor"),
    "each sample": (_pn(lambda x, m: x.square().mean(tuple(range(1, x.ndim - 1)), True)), ""),
    "first axis only": (_pn(lambda x, m: x.square().mean(0)), "over the first axis"),
    "mask ignored": (_pn(lambda x, m: _square(x, None)), "mask is ignored"),
    "mask inverted": (_pn(lambda x, m: _square(x, m if m is None or bool(m.all()) else ~m)),
                      "mask is inverted"),
    "padding counted": (_pn(_all_positions), "their divisor counts it"),
    "variance": (_pn(_variance), "standard deviation divides"),
    "n − 1": (_pn(_unbiased), "divides by n − 1"),
    "sum": (_pn(lambda x, m: _square(x, m) * (x.numel() / x.shape[-1] if m is None else m.sum())),
            "sum of squares"),
    "centred": (_pn(centre=lambda x: x - x.mean(-1, True)), ""),
    "eps outside": (_pn(spread=lambda v, e: v.sqrt() + e), "eps is added outside"),
    "eps not used": (_pn(spread=lambda v, e: v.sqrt()), "eps is not used"),
    "no root": (_pn(spread=lambda v, e: v + e), "root is missing"),
    "other default": (_pn(eps=1e-6), "the default eps is 1e-06"),
    "gain ignored": (_pn(gain=lambda w: 1), "gain is ignored"),
    "1 + gain": (_pn(gain=lambda w: 1 + w), "1 + gain"),
    "shift ignored": (_pn(shift=lambda b: 0), "shift is ignored"),
    "detached": (_pn(lambda x, m: _square(x.detach(), m)), "detached"),
    "half": (_pn(wide=lambda x: x), "half precision"),
}  # fmt: skip


def pn_where(x, weight=None, bias=None, eps=1e-5, mask=None):
    wide = x.double()
    real = torch.ones(x.shape[:-1]).bool() if mask is None else mask
    total = torch.where(real[..., None], wide, 0.0).square().flatten(0, -2).sum(0)
    y = wide * torch.rsqrt(total / real.sum() + eps)
    return (y * (1 if weight is None else weight) + (0 if bias is None else bias)).to(x.dtype)


def pn_no_mask(x, weight=None, bias=None, eps=1e-5):
    rows = _wide(x).reshape(-1, x.shape[-1])
    square = torch.einsum("td,td->d", rows, rows) / len(rows)
    y = _wide(x) / (square + eps) ** 0.5
    return (y * (1 if weight is None else weight) + (0 if bias is None else bias)).to(x.dtype)


POWER_RIGHT = {"by where": pn_where, "without a mask": pn_no_mask, "from pieces": _pn()}
