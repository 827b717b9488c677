"""Deliberate bugs in labkit that a claim of chapter 00 must detect."""

from tests.breaks import Break

BREAKS = [
    Break(
        "ResNet v2's shortcut leaves after the norm",
        "labkit/placements/images.py",
        "        return x + f(torch.relu(N(x)))\n",
        "        return N(x) + f(torch.relu(N(x)))\n",
        "00-designs-meet-their-equations",
    ),
    Break(
        "a residual step without norms forgets its skip",
        "labkit/placements/residual.py",
        '        """Add the output of f for the raw stream."""\n        return x + f(x)\n',
        '        """Add the output of f for the raw stream."""\n        return f(x)\n',
        "00-empty-branches-are-the-identity",
    ),
    Break(
        "He's rule forgets the rectifier's half",
        "labkit/model/stacks.py",
        '    "he": lambda fan_in, fan_out: (2 / fan_in) ** 0.5,\n',
        '    "he": lambda fan_in, fan_out: (1 / fan_in) ** 0.5,\n',
        "00-he-keeps-the-size",
    ),
]
