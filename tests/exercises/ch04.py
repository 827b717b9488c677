"""Answers to the exercises of chapter 04, right and wrong."""

from tests.exercises import Exercise

LOGITS = """def my_logits(q, k, gain_q, gain_k, angles, eps=1e-6):
    def turned(x):
        a, b = x.chunk(2, -1)
        return torch.cat(
            (a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1
        )

    def normed(x):
        return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()

    {lines}
"""
OUTSIDE = LOGITS.replace("(x.square().mean(-1, keepdim=True) + eps).sqrt()",
                         "(x.square().mean(-1, keepdim=True).sqrt() + eps)")  # fmt: skip
CLIP = """def my_clip(w_q, w_k, largest, threshold):
    {lines}
"""

EXERCISES = [
    Exercise(
        "1",
        wrong={
            LOGITS.format(
                lines="return gain_q * normed(turned(q)) @ (gain_k * normed(turned(k))).T / 4"
            ): "Hint: norm (eps under the root), gain, rotation",
            LOGITS.format(
                lines="return turned(gain_q * normed(q)) @ turned(gain_k * normed(k)).T"
            ): "divide by √d_k once",
            OUTSIDE.format(
                lines="return turned(gain_q * normed(q)) @ turned(gain_k * normed(k)).T / 4"
            ): "eps under the root",
            LOGITS.format(lines="return turned(gain_q * normed(q))"): (
                "the answer must have shape (8, 8), got (8, 16)"
            ),
        },
    ),
    Exercise(
        "2",
        right='yours = {"b": 0.5 * math.log(9000), "d_k": 21}',
        wrong={
            # the other keys forgotten to be at −b
            'yours = {"b": math.log(9000), "d_k": 83}': "not right yet: b, d_k. Hint: solve",
            # rounded down
            'yours = {"b": 0.5 * math.log(9000), "d_k": 20}': "not right yet: d_k. Hint: solve",
        },
    ),
    Exercise(
        "3",
        wrong={
            CLIP.format(
                lines="g = (threshold / largest).clamp(max=1).repeat_interleave(4)[:, None]\n"
                "    return w_q * g, w_k * g"
            ): "each matrix takes its square root",
            CLIP.format(
                lines="g = (threshold / largest).sqrt().repeat_interleave(4)[:, None]\n"
                "    return w_q * g, w_k * g"
            ): "Hint: min(1, τ/S) per head",
        },
    ),
    Exercise("4", open_ended=True),
    Exercise("5", open_ended=True),
]
