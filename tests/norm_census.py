"""Which norms do the layers of published models have? A census of the pinned transformers.

    python -m tests.norm_census      writes data/papers/norm-census.csv

Of every file models/FAMILY/modeling_*.py that defines a class named …ForCausalLM or …LMHeadModel
the classes named …Layer or …Block are read: which norms does an assignment in them construct? "rms"
where a name holds RMSNorm (or is T5LayerNorm, which is one), "layer" where it holds LayerNorm.
Layers that only wrap a norm of another class, as BERT's do, count as "none found"; a family may
have towers for images or sound beside its decoder, and then both.
"""

import ast
import csv
import io
import re
from pathlib import Path

COLUMNS = ("family", "norms")
HEADS, PARTS = re.compile(r"(ForCausalLM|LMHeadModel)$"), re.compile(r"(Layer|Block)$")
RMS, LAYER = re.compile(r"RMSNorm|^T5LayerNorm$"), re.compile(r"LayerNorm")
FILE = Path(__file__).resolve().parents[1] / "data" / "papers" / "norm-census.csv"


def count_families(models: Path) -> dict[str, str]:
    """Return for each family with a language model's head: rms, layer, both or none found."""
    found: dict[str, set[str]] = {}
    for path in sorted(models.glob("*/modeling_*.py")):
        classes = [
            c for c in ast.parse(path.read_text("utf-8")).body if isinstance(c, ast.ClassDef)
        ]
        if any(HEADS.search(one.name) for one in classes):
            kinds = found.setdefault(path.parent.name, set())
            for one in classes:
                kinds |= list_norms(one) if PARTS.search(one.name) else set()
    words = {frozenset(): "none found", frozenset({"rms", "layer"}): "both"}
    return {name: words.get(frozenset(kinds)) or kinds.pop() for name, kinds in found.items()}


def list_norms(part: ast.ClassDef) -> set[str]:
    """Name the kinds of norms that assignments in a class construct."""
    kinds = set()
    for node in ast.walk(part):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            called = node.value.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            kinds |= {"rms"} if RMS.search(name) else {"layer"} if LAYER.search(name) else set()
    return kinds


def write_census(models: Path) -> str:
    """Write the census as a table."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerows([COLUMNS, *count_families(models).items()])
    return text.getvalue()


if __name__ == "__main__":
    import transformers

    FILE.write_text(write_census(Path(transformers.__file__).parent / "models"), encoding="utf-8")
