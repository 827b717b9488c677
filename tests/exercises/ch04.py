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
CLIP = """def my_clip(w_q, w_k, largest, threshold):
    {lines}
"""

EXERCISES = [
    Exercise(
        "1",
        right='yours = {"raw": 2, "ten times": 20, "rms": 2 / 3, "cosine": 1 / 3}',
        wrong={
            # without the scale
            'yours = {"raw": 4, "ten times": 40, "rms": 4 / 3, "cosine": 1 / 3}': (
                "not right yet: raw, ten times, rms. Hint: both mean squares are 3"
            ),
            # the norm taken for unit length
            'yours = {"raw": 2, "ten times": 20, "rms": 1 / 6, "cosine": 1 / 3}': (
                "not right yet: rms. Hint: both mean squares are 3"
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
            LOGITS.format(
                lines="return gain_q * normed(turned(q)) @ (gain_k * normed(turned(k))).T / 4"
            ): "Hint: norm, gain, rotation, in this order",
            LOGITS.format(
                lines="return turned(gain_q * normed(q)) @ turned(gain_k * normed(k)).T"
            ): "divide by √d_k once",
            LOGITS.format(lines="return turned(gain_q * normed(q))"): (
                "an answer of shape (8, 8) is wanted, got (8, 16)"
            ),
        },
    ),
    Exercise(
        "4",
        wrong={
            CLIP.format(
                lines="g = (threshold / largest).clamp(max=1).repeat_interleave(4)[:, None]\n"
                "    return w_q * g, w_k * g"
            ): "each matrix takes its square root",
            CLIP.format(
                lines="g = (threshold / largest).sqrt().repeat_interleave(4)[:, None]\n"
                "    return w_q * g, w_k * g"
            ): "Hint: γ = min(1, τ/S) per head",
        },
    ),
    Exercise(
        "5",
        right='yours = {"logit": 44.07, "capped": 35.36}',
        wrong={
            'yours = {"logit": 27.5, "capped": 25}': "Hint: the slope is 1 − tanh²",
            'yours = {"logit": 44.07, "capped": 44.07}': "not right yet: capped",
        },
    ),
    Exercise("6", open_ended=True),
    Exercise("7", open_ended=True),
]
