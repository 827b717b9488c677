"""Answers to the exercises of chapter 03, right and wrong."""

from tests.exercises import Exercise

EXERCISES = [
    Exercise(
        "1",
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
                "def shifted_variance(x):\n    return x.square().mean(-1) - x.mean(-1).square()"
            ): "before anything is known about the mean",
            (
                "def shifted_variance(x):\n"
                "    moved = x - x[..., :1]\n"
                "    return moved.square().mean(-1)"
            ): "of 50 are wrong",
        },
    ),
]
