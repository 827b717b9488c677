"""Deliberate bugs in labkit that appendix A, skips before norms, must detect."""

from labkit.corpora import Digits
from labkit.experiments import Run
from labkit.model.stacks import StackConfig
from labkit.training import TrainConfig
from tests.breaks import Break

BREAKS = [
    Break(
        idea="a gate on the shortcut alone closes the branch as well",
        path="labkit/placements/shortcuts.py",
        old="torch.relu((1 - self.close(x)) * x + N(f(x)))",
        new="torch.relu((1 - self.close(x)) * (x + N(f(x))))",
        claim="A-shortcuts-meet-their-equations",
    ),
    Break(
        idea="a halved shortcut halves the stream and leaves the branch whole",
        path="labkit/placements/shortcuts.py",
        old="torch.relu((x + N(f(x))) / 2)",
        new="torch.relu(x / 2 + N(f(x)))",
        claim="A-shortcuts-meet-their-equations",
    ),
    Break(
        idea="attention forgets its causal mask",
        path="labkit/attention/multihead.py",
        old="is_causal=causal, scale=scale",
        new="is_causal=False, scale=scale",
        claim="A-skips-do-not-leak",
    ),
    Break(
        idea="a gate's bias starts at 0: half of the shortcut is closed",
        path="labkit/placements/shortcuts.py",
        old="first_bias = -6.0",
        new="first_bias = 0.0",
        run=Run(
            StackConfig("exclusive-gate", "batch", width=8),
            Digits(batch=8),
            TrainConfig(steps=8, lr=0.01, optimizer="sgd"),
        ),
    ),
]
