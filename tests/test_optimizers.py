"""labkit's optimizers are torch's, to the bit, and training imports no compiler."""

import subprocess
import sys

import pytest
import torch

from labkit import optimizers

RULES = {
    "AdamW": {"lr": 0.01, "betas": (0.9, 0.98), "weight_decay": 0.1, "fused": True},
    "SGD": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1},
}


@pytest.mark.parametrize("name", RULES)
def test_steps_are_torchs_to_the_bit(name):
    start = torch.randn(4, 5)
    ends = []
    for module in (torch.optim, optimizers):
        weight = start.clone().requires_grad_()
        optimizer = getattr(module, name)([weight], **RULES[name])
        for step in range(1, 4):
            optimizer.zero_grad(set_to_none=True)
            assert weight.grad is None
            (weight * step).sin().sum().backward()
            optimizer.step()
        ends.append(weight.detach())
    assert torch.equal(*ends)
    assert not torch.equal(start, ends[0])


def test_training_imports_no_compiler():
    # In a process of its own: another test may have imported it here.
    program = """
import sys
from labkit.corpora import Text
from labkit.experiments.run import Run, execute
from labkit.model import ModelConfig
from labkit.training import TrainConfig
model = ModelConfig(dim=8, depth=1, heads=1, context=8)
for optimizer in ("adamw", "sgd", "muon"):
    train = TrainConfig(steps=2, optimizer=optimizer, clip=1.0)
    record = execute(Run(model, Text(batch=2, time=8, held_out=32), train))
    assert len(record.losses) == 2
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr
