"""Which norms do the layers of published models have? A census of the pinned transformers.

    python -m tests.norm_census      writes data/papers/norm-census.csv, and norm-parity.csv

Of every file models/FAMILY/modeling_*.py that defines a class named …ForCausalLM or …LMHeadModel
the classes named …Layer or …Block are read: which norms does an assignment in them construct? "rms"
where a name holds RMSNorm, "layer" where it holds LayerNorm. But some classes are called LayerNorm
and are none, as T5's: where the file's own class takes a root and subtracts nothing, it is "rms".
"decoder" or "other" says what transformers registers (models/auto/modeling_auto.py): a decoder is
there for causal language modelling, and neither for masked tokens nor for sequence to sequence, of
text or of speech. BESIDE_AN_ENCODER are the decoders of models whose encoder is another one, for
images or texts, which the registry does not tell.

Layers that only wrap a norm of another class, as BERT's do, count as "none found"; a family may
have towers for images or sound beside its decoder, and then both.
"""

import ast
import csv
import io
import re
from collections.abc import Collection
from pathlib import Path

COLUMNS = ("family", "norms", "kind")
BESIDE_AN_ENCODER = {"git", "musicgen", "musicgen_melody", "trocr"}
OTHER_USES = ("MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ")
HEAD = re.compile(r"^class \w*(ForCausalLM|LMHeadModel)\b", re.MULTILINE)
PARTS = re.compile(r"(Layer|Block)$")
RMS, LAYER = re.compile(r"RMSNorm"), re.compile(r"LayerNorm")
FILE = Path(__file__).resolve().parents[1] / "data" / "papers" / "norm-census.csv"


def count_families(models: Path) -> dict[str, str]:
    """Count the families with a language model's head: rms, layer, both or none found."""
    found: dict[str, set[str]] = {}
    for path in sorted(models.glob("*/modeling_*.py")):
        text = path.read_text("utf-8")
        if HEAD.search(text):
            classes = [c for c in ast.parse(text).body if isinstance(c, ast.ClassDef)]
            kinds = found.setdefault(path.parent.name, set())
            misnamed = find_misnamed(classes)
            for one in classes:
                kinds |= list_norms(one, misnamed) if PARTS.search(one.name) else set()
    words = {frozenset(): "none found", frozenset({"rms", "layer"}): "both"}
    return {name: words.get(frozenset(kinds)) or kinds.pop() for name, kinds in found.items()}


def find_decoders(models: Path) -> set[str]:
    """Return the families that are registered as decoders only."""
    registered = read_pairs(models / "auto" / "modeling_auto.py")
    folders = read_pairs(models / "auto" / "auto_mappings.py")["SPECIAL_MODEL_TYPE_TO_MODULE_NAME"]

    def families(use: str) -> set[str]:
        types = registered[f"MODEL_FOR_{use}_MAPPING_NAMES"]
        return {folders.get(one, one).replace("-", "_") for one in types}

    others = set[str]().union(*map(families, OTHER_USES))
    return families("CAUSAL_LM") - others - BESIDE_AN_ENCODER


def read_pairs(path: Path) -> dict[str, dict[str, str]]:
    """Read a file's constants NAME = OrderedDict([(key, value), ...]); values as they are typed."""
    found = {}
    for node in ast.parse(path.read_text("utf-8")).body:
        value = getattr(node, "value", None)
        if isinstance(node, ast.Assign) and isinstance(value, ast.Call) and value.args:
            (name,), pairs = node.targets, getattr(value.args[0], "elts", [])
            found[ast.unparse(name)] = {
                ast.literal_eval(pair.elts[0]): ast.unparse(pair.elts[1]).strip("'\"")
                for pair in pairs
                if isinstance(pair, ast.Tuple)
            }
    return found


def find_misnamed(classes: list[ast.ClassDef]) -> set[str]:
    """List the classes called LayerNorm that take a root and subtract nothing: RMSNorms."""
    found = set()
    for one in classes:
        nodes = list(ast.walk(one))
        rooted = "rsqrt" in {name_call(node) for node in nodes if isinstance(node, ast.Call)}
        if LAYER.search(one.name) and rooted and not any(isinstance(n, ast.Sub) for n in nodes):
            found.add(one.name)
    return found


def list_norms(part: ast.ClassDef, misnamed: Collection[str] = ()) -> set[str]:
    """List the kinds of norms that assignments in a class construct."""
    kinds = set()
    for node in ast.walk(part):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            name = name_call(node.value)
            rms = RMS.search(name) or name in misnamed
            kinds |= {"rms"} if rms else {"layer"} if LAYER.search(name) else set()
    return kinds


def name_call(call: ast.Call) -> str:
    """Return the last part of a call's name: Linear of nn.Linear(8)."""
    called = call.func
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def write_census(models: Path) -> str:
    """Write the census as a table."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    decoders = find_decoders(models)
    rows.writerow(COLUMNS)
    for family, norms in count_families(models).items():
        rows.writerow([family, norms, "decoder" if family in decoders else "other"])
    return text.getvalue()


if __name__ == "__main__":
    import transformers

    from tests import norm_parity

    models = Path(transformers.__file__).parent / "models"
    FILE.write_text(write_census(models), encoding="utf-8")
    norm_parity.FILE.write_text(norm_parity.write_parity(models), encoding="utf-8")
