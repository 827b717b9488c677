"""Answers to the exercises of appendix C, right and wrong."""

from tests.exercises import Exercise

HEAD = "def path(sublayers, name):\n"

EXERCISES = [
    Exercise(
        "1",
        right='yours = {"six blocks": 13**0.5, "48 blocks": 97**0.5, "six, at most": 13}',
        wrong={
            # one sublayer a block
            'yours = {"six blocks": 7**0.5, "48 blocks": 49**0.5, "six, at most": 7}': (
                "Hint: a block has two sublayers"
            ),
            # the embedding forgotten
            'yours = {"six blocks": 12**0.5, "48 blocks": 96**0.5, "six, at most": 12}': (
                "not right yet: six blocks, 48 blocks, six, at most"
            ),
            # lengths that add up where squares do
            'yours = {"six blocks": 13, "48 blocks": 97, "six, at most": 13}': (
                "not right yet: six blocks, 48 blocks"
            ),
        },
    ),
    Exercise(
        "2",
        wrong={
            HEAD + "    return 2 ** (-sublayers / 2)": "not right yet: keel, 12",
            # one factor in place of all of them
            HEAD
            + "    alpha = 1 if name == 'post' else sublayers\n"
            + "    return alpha / (alpha**2 + 1) ** 0.5": "Hint: for Post-Norm",
        },
    ),
    Exercise("3", open_ended=True),
]
