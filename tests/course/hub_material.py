"""The material of the hub's test: a real chapter, and the checks that its kernel performs."""

import shutil
from pathlib import Path

CHAPTER = "00_why_normalize"  # the one that chapters/server.md lets a login open
ROOT = Path(__file__).resolve().parents[2]

LOOK = """
import json
import os
from pathlib import Path

def tried(act, path):
    try:
        return str(act(Path(path)))
    except OSError as error:
        return type(error).__name__

home = Path.home()
other = home.parent / {"alice": "bob", "bob": "alice"}[os.environ["USER"]]
seen = {
    "homes": sorted(path.name for path in home.parent.iterdir()),
    "home": tried(lambda p: list(p.iterdir()), other),
    "secret": tried(Path.read_text, other / "secret.txt"),
    "hashes": tried(Path.read_text, home.parents[1] / "passwords.json"),
    "database": tried(Path.read_bytes, home.parents[1] / "hub.sqlite"),
    "clone": tried(lambda p: list(p.iterdir()), "CLONE/chapters"),
    "write": tried(lambda p: p.write_text("mine"), "MATERIAL/chapters/CHAPTER.py"),
}
owners = sorted({path.stat().st_uid for path in Path("/proc").glob("[0-9]*")})
names = ("LABKIT_SLOTS", "LABKIT_GPU_FRACTION", "CUDA_VISIBLE_DEVICES")
told = {name: os.environ.get(name) for name in names}
(home / "answer.json").write_text(json.dumps({"seen": seen, "owners": owners, "told": told}))
"""


def write(clone: Path) -> None:
    """Write a smaller clone of the book: one of its chapters, its data and its settings."""
    (clone / "chapters").mkdir(parents=True)
    for path in (ROOT / "chapters").glob(f"{CHAPTER}.*"):
        shutil.copy(path, clone / "chapters")
    shutil.copy(ROOT / "pyproject.toml", clone)
    shutil.copytree(ROOT / "data", clone / "data")


def look(clone: Path, material: Path) -> str:
    """Write a file of the checks that a kernel must perform."""
    places = {"CLONE": clone, "MATERIAL": material, "CHAPTER": CHAPTER}
    text = LOOK
    for name, place in places.items():
        text = text.replace(name, str(place))
    return text
