"""Chapter 03: answers right and wrong."""

from tests.exercises import Exercise

EXERCISES = [
    Exercise(
        "1",
        'yours = {"rms": 5, "variance": 24.75, "last entry": -1.6}',
        {
            # the standard deviation taken for the root mean square
            'yours = {"rms": 24.75**0.5, "variance": 24.75, "last entry": -8.5 / 24.75**0.5}': (
                "not right yet: rms, last entry"
            ),
            # the mean square taken for the variance
            'yours = {"rms": 5, "variance": 25, "last entry": -1.6}': "not right yet: variance",
            'yours = {"rms": 5, "variance": 24.75, "last entry": 1.6}': "rms² = mean² + variance",
        },
    ),
    Exercise(
        "2",
        'yours = {"spacing": 2, "bfloat16": 0, "float16": 1}',
        {
            'yours = {"spacing": 4, "bfloat16": 0, "float16": 1}': "2⁷ steps in bfloat16",
            'yours = {"spacing": 2, "bfloat16": 2, "float16": 1}': "not right yet: bfloat16",
            'yours = {"spacing": 2, "bfloat16": 0, "float16": 0}': "not right yet: float16",
        },
    ),
    Exercise(
        "3",
        None,
        {
            (
                "def my_rms_norm(x, weight=None, eps=1e-6):\n"
                "    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)\n"
                "    return y if weight is None else y * weight"
            ): "half precision",
            (
                "def my_rms_norm(x, weight=None, eps=1e-6):\n"
                "    wide = x.to(torch.promote_types(x.dtype, torch.float32))\n"
                "    y = wide / (wide.square().mean(-1, keepdim=True).sqrt() + eps)\n"
                "    return (y if weight is None else y * weight.to(y.dtype)).to(x.dtype)"
            ): "eps is added outside the root",
            (
                "def my_rms_norm(x, weight=None, eps=1e-6):\n"
                "    wide = x.to(torch.promote_types(x.dtype, torch.float32))\n"
                "    wide = wide - wide.mean(-1, keepdim=True)\n"
                "    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)\n"
                "    return (y if weight is None else y * weight.to(y.dtype)).to(x.dtype)"
            ): "the mean is subtracted; RMS norm keeps it",
        },
    ),
    Exercise(
        "4",
        None,
        {
            # the gain multiplies at the end, as if J and diag(w) could be exchanged
            (
                "def pull_back(x, w, g, eps=1e-6):\n"
                "    r = (x.square().mean(-1, keepdim=True) + eps).sqrt()\n"
                "    hat = x / r\n"
                "    back = (g - hat * (hat * g).mean(-1, keepdim=True)) / r\n"
                "    return w * back, (g * hat).sum(0)"
            ): "not right yet: x. Hint: the gain meets g first",
            # every token has a gradient of the gain of its own
            (
                "def pull_back(x, w, g, eps=1e-6):\n"
                "    r = (x.square().mean(-1, keepdim=True) + eps).sqrt()\n"
                "    hat, h = x / r, w * g\n"
                "    return (h - hat * (hat * h).mean(-1, keepdim=True)) / r, g * hat"
            ): "not right yet: gain",
            # the denominator is taken for a constant
            (
                "def pull_back(x, w, g, eps=1e-6):\n"
                "    r = (x.square().mean(-1, keepdim=True) + eps).sqrt()\n"
                "    return w * g / r, (g * x / r).sum(0)"
            ): "not right yet: x",
        },
    ),
    Exercise(
        "5",
        None,
        {
            (
                "def shifted_variance(x):\n    return x.square().mean(-1) - x.mean(-1).square()"
            ): "before anything is known of the mean",
            (
                "def shifted_variance(x):\n"
                "    moved = x - x[..., :1]\n"
                "    return moved.square().mean(-1)"
            ): "of 50 not right",
        },
    ),
    Exercise("7", open_ended=True),
]
