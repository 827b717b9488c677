"""Exercises of appendix E, HybridNorm's tables: right answers and typical wrong ones."""

from tests.exercises import Exercise

HEAD = "def my_pre_post(x, attention, feed_forward, norm_attention, norm_feed_forward):\n"
BLOCK = HEAD + "    y = x + attention(norm_attention(x))\n"
ATTENTION_HEAD = """eye = torch.eye(4).tolist()
my_head = {"x": torch.eye(4)[:2].tolist(), "q": eye, "k": eye, "v": eye, "out": eye}"""

EXERCISES = [
    Exercise(
        "1",
        right='yours = {"E = 0": 0.111, "E = 0.8": 0.292}',
        wrong={
            # the floor forgotten; the logarithms' base mixed up
            'yours = {"E = 0": 0.111, "E = 0.8": 0.111}': "not right yet: E = 0.8",
            'yours = {"E = 0": 0.154, "E = 0.8": 0.405}': "the ratio of sizes is 4",
        },
    ),
    Exercise(
        "2",
        wrong={
            BLOCK + "    return y + feed_forward(norm_feed_forward(y))": "carries the raw stream",
            BLOCK + "    return norm_feed_forward(y + feed_forward(y))": "this is Post-Norm",
            HEAD
            + "    x = norm_attention(x)\n    y = x + attention(x)\n"
            + "    return y + feed_forward(norm_feed_forward(y))": "post-pre",
        },
    ),
    Exercise("3", wrong={ATTENTION_HEAD: "opposite tokens"}),
    Exercise("4", open_ended=True),
]
