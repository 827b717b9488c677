"""Shape annotations are correct: jaxtyping and beartype check them while norms and models run.

In a process of its own, because other tests hand over wrong shapes and expect labkit's own words.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.norms import NORMS
from labkit.placements import RECIPES

PROGRAM = """
from jaxtyping import install_import_hook

CHECKED = ("norms", "attention", "placements", "feed_forward", "model", "context", "init", "stacks",
           "vision", "vit", "corpora")
with install_import_hook([f"labkit.{name}" for name in CHECKED], "shape_checker.check_types"):
    import torch
    from labkit import corpora, norms
    from labkit.model import ModelConfig, Transformer, bare, stacks, vision, vit
    from labkit.norms import NORMS, make_norm, rms_norm
    from labkit.placements import RECIPES

checked = 0
for name in NORMS:
    for dtype in (torch.float32, torch.float64):  # float64 has no faster way than the formula
        norm = make_norm(name, 16).to(dtype)
        for mode in (norm.train(), norm.eval()):
            mode(torch.randn(3, 5, 16, dtype=dtype, requires_grad=True)).sum().backward()
    checked += 1
for name in RECIPES:
    for kind in ("decoder", "encoder", "encoder-decoder"):
        try:
            config = ModelConfig(name, dim=16, depth=3, heads=2, vocab=11, context=8, kind=kind)
        except ValueError:
            continue  # not every recipe has every kind
        model = Transformer(config)
        tokens = torch.randint(0, 11, (2, 8))
        given = (tokens, tokens) if kind == "encoder-decoder" else (tokens,)
        padding = torch.ones(2, 8, dtype=torch.bool)
        padding[1, 5:] = name in ("pre", "post")
        model(*given, padding=padding).sum().backward()
        checked += 1
for config in (
    corpora.Text(batch=2, time=8), corpora.Digits(), corpora.FewDigits(images=4),
    corpora.Points(count=6),
):
    next(config.load().train(0))
    checked += 1
for config, shape in (
    (vision.MLPConfig(), (4, 64)), (vision.CNNConfig(), (4, 1, 8, 8)),
    (vit.ViTConfig(), (4, 1, 8, 8)), (stacks.StackConfig(), (4, 64)),
    (bare.BareMLPConfig("batch", ghost=2), (4, 64)),
    (bare.BareMLPConfig("layer"), (4, 64)),
):
    config.build()(torch.randn(shape)).sum().backward()
    checked += 1
print(checked)
try:
    rms_norm(torch.randn(2, 4), torch.ones(3))
except Exception as error:
    print(type(error).__name__)
"""
CHECKER = """
from beartype import BeartypeConf, beartype

check_types = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float, as in PEP 484
"""


@pytest.mark.slow
def test_norms_and_models_run_with_their_annotations_checked(tmp_path: Path):
    (tmp_path / "shape_checker.py").write_text(CHECKER)
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    checked, wrong = done.stdout.split() if done.returncode == 0 else ("0", done.stderr[-3000:])
    assert wrong == "TypeCheckError" and int(checked) > len(NORMS) + len(RECIPES)
