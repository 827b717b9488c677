"""The small book that the hub's test serves: one paired chapter, which trains and looks around."""

import subprocess
import sys
from pathlib import Path

CHAPTER = """# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %%
import json
import os
from pathlib import Path

import torch

from labkit.experiments import Run, sweep
from labkit.norms import rms_norm

answer = {"norm": rms_norm(torch.tensor([3.0, 4.0])).tolist()}

# %%
from labkit import ModelConfig, TrainConfig
from labkit.corpora import Markov

model = ModelConfig(dim=8, depth=1, heads=1, vocab=4, context=8)
run = Run(model, Markov(batch=2, time=8, symbols=4), TrainConfig(steps=2), seed=0)
answer["losses"] = len(sweep([run])[0].losses)

# %%
def tried(act, path):
    try:
        return str(act(Path(path)))
    except OSError as error:
        return type(error).__name__

home = Path.home()
other = home.parent / {"alice": "bob", "bob": "alice"}[os.environ["USER"]]
answer["seen"] = {
    "homes": sorted(path.name for path in home.parent.iterdir()),
    "home": tried(lambda p: list(p.iterdir()), other),
    "secret": tried(Path.read_text, other / "secret.txt"),
    "hashes": tried(Path.read_text, home.parents[1] / "passwords.json"),
    "database": tried(Path.read_bytes, home.parents[1] / "hub.sqlite"),
    "clone": tried(lambda p: list(p.iterdir()), "CLONE/tests"),
    "write": tried(lambda p: p.write_text("mine"), "MATERIAL/chapters/00_short.py"),
}
answer["owners"] = sorted({path.stat().st_uid for path in Path("/proc").glob("[0-9]*")})
names = ("LABKIT_SLOTS", "LABKIT_GPU_FRACTION", "CUDA_VISIBLE_DEVICES")
answer["told"] = {name: os.environ.get(name) for name in names}
whole = home / ".answer"
whole.write_text(json.dumps(answer))
whole.rename(home / "answer.json")
"""

SETTINGS = """
[tool.jupytext]
formats = "ipynb,py:percent"
"""


def write(root: Path, clone: Path, material: Path) -> None:
    """Write a folder that looks like a clone of the book."""
    (root / "chapters").mkdir(parents=True)
    (root / "data").mkdir()
    (root / "data" / "README.md").write_text("no data\n")
    (root / "pyproject.toml").write_text(SETTINGS)
    text = CHAPTER.replace("CLONE", str(clone)).replace("MATERIAL", str(material))
    chapter = root / "chapters" / "00_short.py"
    chapter.write_text(text)
    # The twin, as the book's own chapters have one.
    command = [sys.executable, "-m", "jupytext", "--quiet", "--to", "ipynb", str(chapter)]
    subprocess.run(command, check=True, cwd=root)
