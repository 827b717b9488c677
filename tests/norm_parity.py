"""In which order does each norm of the pinned transformers round? A table.

    python -m tests.norm_census      writes data/papers/norm-parity.csv, beside the census

The classes are those whose names end in RMSNorm or LayerNorm, but for a suffix such as Gated, and
those that are decorated for the kernel hub as an RMSNorm (`hub`). Each is built with WIDTH
features and random gains, and compared bit for bit with the functions of ORDERS: bfloat16 and
float32 values with gains of the same dtype, and `mixed`, bfloat16 values with float32 gains. The
`order` is the first that agrees in bfloat16 or, if there is none, in float32. Where something
differs, `why` says so.
"""

import ast
import csv
import inspect
import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from normkernels import formulas, nn
from normkernels.nn import find_order

from labkit.convert.read import Reading, read_norm

from .peers import peer

FILE = Path(__file__).resolve().parents[1] / "data" / "papers" / "norm-parity.csv"
COLUMNS = ("module", "class", "hub", "order", "bfloat16", "float32", "mixed", "why")
WIDTH = 16
SIZES = {"hidden_size", "dim", "normalized_shape", "size", "c_in", "num_channels", "group_size"}
BARE = Reading("rms", -1, (WIDTH,))  # a norm without parameters
NORM = re.compile(r"(?<!Stable)(?<!Dropout)(R[Mm][Ss]|Layer)Norm(Gated|1P|2d|Zero(_Final)?)?$")
DTYPES = {  # of values and of gains
    "bfloat16": (torch.bfloat16, torch.bfloat16),
    "float32": (torch.float32, torch.float32),
    "mixed": (torch.bfloat16, torch.float32),
}


def native_layer_norm(x, weight=None, bias=None, *, eps):
    """Compute torch's own LayerNorm, whose sums have another order than the formula's."""
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


ORDERS = nn.ORDERS | {"layer_norm": formulas.layer_norm, "F.layer_norm": native_layer_norm}


def list_classes(models: Path) -> Iterator[tuple[str, str, str]]:
    """List module, class and name in the hub of every norm in the modeling files."""
    for path in sorted(models.glob("*/modeling_*.py")):
        for one in ast.parse(path.read_text("utf-8")).body:
            if isinstance(one, ast.ClassDef):
                names = [ast.unparse(decorator) for decorator in one.decorator_list]
                hub = re.search(r"use_kernel_forward_from_hub\('(\w*Norm\w*)'\)", " ".join(names))
                if hub or NORM.search(one.name):
                    yield f"{path.parent.name}.{path.stem}", one.name, hub[1] if hub else ""


def build_norm(kind: type[torch.nn.Module]) -> torch.nn.Module:
    """Build a norm over WIDTH features, from sizes or from a small configuration."""
    names = inspect.signature(kind).parameters
    given: dict[str, Any] = {name: WIDTH for name in names if name in SIZES}
    if "config" in names:
        given["config"] = SimpleNamespace(hidden_size=WIDTH, eps=1e-6)
    return kind(WIDTH) if "args" in names and not given else kind(**given)


def compare_class(kind: type[torch.nn.Module]) -> dict[str, str]:
    """Return the order in which a class rounds, and where it agrees; or why none does."""
    inputs = [p for p in inspect.signature(kind.forward).parameters.values() if p.kind < 2]
    if len(inputs) > 2:  # self, the rows, and more
        return {"why": f"it also takes {inputs[2].name}"}
    try:
        norm = build_norm(kind)
    except (TypeError, AttributeError):
        return {"why": "it is not built from a size alone"}
    reading = read_norm(norm)
    if isinstance(reading, str) and not [*norm.parameters(), *norm.buffers()]:
        reading = BARE
    if isinstance(reading, str):
        return {"why": reading.partition(";")[0]}
    if reading.axis == 1:
        return {"why": "it normalizes axis 1, not the last one"}
    if reading.start == 0 and reading.key == "layer":
        return {"why": f"LayerNorm with gain 1 + {reading.gain}, for which there is no kernel"}
    agreed = {name: list_dtypes(norm, function, reading.eps) for name, function in ORDERS.items()}
    order = max(ORDERS, key=lambda name: ("bfloat16" in agreed[name], len(agreed[name])))
    cells = {dtype: "yes" if dtype in agreed[order] else "no" for dtype in DTYPES}
    if not agreed[order]:
        return cells | {"why": "the last digit differs in float32, too"}
    return cells | {"order": order, "why": "it rounds elsewhere" * ("no" in cells.values())}


def list_dtypes(norm: torch.nn.Module, function: Any, eps: float | None) -> list[str]:
    """List the dtypes with which a norm and a function agree bit for bit."""
    return [
        name
        for name, (values, gains) in DTYPES.items()
        if find_order(norm.to(gains), torch.empty(WIDTH, dtype=values), {"": function}, eps)
        is not None
    ]


def write_parity(models: Path) -> str:
    """Write the table."""
    text = io.StringIO()
    rows = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    rows.writeheader()
    for module, name, hub in list_classes(models):
        kind = getattr(peer(f"transformers.models.{module}"), name)
        rows.writerow({"module": module, "class": name, "hub": hub} | compare_class(kind))
    return text.getvalue()


def summarize(rows: list[dict[str, str]]) -> list[str]:
    """Count classes for the hub and others, by order, as rows of a Markdown table."""

    def label(row: dict[str, str]) -> str:
        if not row["order"]:
            return "second input" if "also takes" in row["why"] else "none of these"
        return f"`{row['order']}`" if row["bfloat16"] == "yes" else "in float32 only"

    counts = Counter((label(row), bool(row["hub"])) for row in rows)
    labels = [f"`{name}`" for name in ORDERS] + ["in float32 only", "second input", "none of these"]
    return [f"| {name} | {counts[name, True]} | {counts[name, False]} |" for name in labels]
