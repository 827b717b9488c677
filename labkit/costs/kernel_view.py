"""Read the fused kernels without Triton: their source, and recorded facts about them.

    kernel_source("rms_norm", "_forward")     the source of a kernel in normkernels
    recorded()                                data/kernels.json: machine code and counted bytes
    benches()                                 data/bench: measurements on GPUs, if any exist
    read_times(one, "rms_norm")               one device's times by provider, at the large sizes
    read_steps()                              data/bench/steps.json: whole training steps on a GPU

    python -m labkit.costs.kernel_view record    make data/kernels.json again; needs Triton (Linux)

Interpreted and compiled Triton cannot share a process, and some machines have no Triton. So two
small programs of normkernels, `machine_code` and `traffic`, run separately; a chapter reads their
output, and a test runs them again and compares.
"""

import ast
import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from labkit.system.files import folder_of

DATA = Path(__file__).resolve().parents[2] / "data"
Steps = dict[tuple[str, int, int, int], dict[tuple[str, str], dict[str, Any]]]
CAPABILITY = 90  # an H100 or H200
# Compiled settings: kernel, values per row, dtype; and, in some, warps per row.
COMPILED = [
    *(f"{k}/{n}/bf16" for k in ("rms_norm", "layer_norm") for n in (1024, 2048, 4096, 8192)),
    *(f"{k}/{n}/bf16" for k in ("rms_norm", "layer_norm") for n in (16384, 32768, 65536)),
    *(f"{k}/4096/bf16" for k in ("add_rms_norm", "dynamic_tanh", "ngpt_update")),
    *(f"{k}/4096/fp32" for k in ("rms_norm", "layer_norm")),
    *(f"rms_norm/8192/bf16/{warps}" for warps in (1, 2, 4, 8, 16, 32)),
]
# Interpreted settings: kernel, rows, values per row, dtype.
INTERPRETED = [
    *(f"{k}/64/4096/fp32" for k in ("rms_norm", "layer_norm", "add_rms_norm", "add_layer_norm")),
    *(f"{k}/64/4096/fp32" for k in ("rms_norm_add_norm", "rms_norm_gated")),
    *(f"{k}/64/4096/fp32" for k in ("dynamic_tanh", "dynamic_erf", "ngpt_update")),
    *(f"{k}/64/4096/bf16" for k in ("rms_norm", "layer_norm")),
    *(f"{k}/4/{n}/fp32" for n in (16384, 65536) for k in ("rms_norm", "layer_norm")),
]
_LISTED = ("rms_norm", 4096, "bf16")  # whose individual instructions are kept


def kernel_text(module: str, *names: str) -> str:
    """Return the source of functions in one file of normkernels, in the order requested."""
    text = (folder_of("normkernels") / f"{module}.py").read_text(encoding="utf-8")
    lines, found = text.splitlines(), {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found[node.name] = "\n".join(lines[first - 1 : node.end_lineno])
    if missing := set(names) - set(found):
        raise ValueError(f"{module}.py has no {min(missing)!r}; it has {', '.join(found)}")
    return "\n\n\n".join(found[name] for name in names)


def kernel_source(module: str, *names: str) -> Any:
    """Display functions of one file of normkernels, highlighted; Triton is not needed."""
    from IPython.display import Code

    return Code(kernel_text(module, *names), language="python")


def recorded(path: Path | None = None) -> dict[str, Any]:
    """Read data/kernels.json: `versions`, `source`, and the rows `compiled` and `interpreted`."""
    return json.loads((path or DATA / "kernels.json").read_text(encoding="utf-8"))


def benches(folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """Read every recorded GPU benchmark of kernels, by device; empty if there is none."""
    files = sorted((folder or DATA / "bench").glob("*.json"))
    found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return {
        one["provenance"]["device"]: one
        for one in found
        if one.get("schema", 1) == 1 and not one["dry_run"]
    }


def read_times(
    bench: dict[str, Any], kernel: str, way: str = "forward"
) -> dict[tuple[int, int], dict[str, dict[str, float]]]:
    """Return the times of each provider by (rows, values per row), for the large bfloat16 sizes.

    Times are `us` (median), `p20` and `p80` in µs of the device, and `host_us` of the host.
    Providers with wrong results, or without such a kernel, are left out; `copy` inverts every bit
    of the same number of bytes.
    """
    return {
        (one["m"], one["n"]): {
            who: of[way] for who, of in one["providers"].items() if of["status"] == "ok"
        }
        for one in bench["results"].values()
        if one["kernel"] == kernel and one["large"] and one["dtype"] == "bf16"
    }


def read_steps(file: Path | None = None) -> tuple[dict[str, Any], Steps]:
    """Return device and versions, and the rows of each case, of measured training steps.

    A case is a model, its width, and the sequences and tokens of each; its rows have `ms` (median),
    `p20`, `p80` and `peak_bytes` by mode (eager, compile) and provider of norms. Providers with
    wrong results, and missing ones, are left out.

    Raises:
        ValueError: the file is from a dry run.
    """
    file = file or DATA / "bench" / "steps.json"
    found = json.loads(file.read_text(encoding="utf-8"))
    if found["dry_run"]:
        raise ValueError(f"{file.name} must contain measurements, but it is from a dry run")
    cases: Steps = {}
    for row in found["results"].values():
        if row["status"] == "ok":
            case = row["model"], row["width"], row["batch"], row["time"]
            cases.setdefault(case, {})[row["mode"], row["provider"]] = row
    return found["provenance"], cases


def compare_times(
    over: dict[str, float], under: dict[str, float], unit: str = "us"
) -> tuple[float, float, float]:
    """Divide two times on a device: return the ratio of the medians, and its range.

    The ends of the range divide one 20th percentile by the other 80th, and vice versa. `unit` is
    the name of the medians: "us" for kernels, "ms" for steps.
    """
    return over[unit] / under[unit], over["p20"] / under["p80"], over["p80"] / under["p20"]


def source_hash() -> str:
    """Return a hash of the kernels' source, to which the recorded facts refer."""
    files = sorted(folder_of("normkernels").glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def run_program(name: str, *words: str, interpreted: bool = False) -> list[dict[str, Any]]:
    """Run one of the two programs; return a dict for each line that it prints."""
    kept = {key: text for key, text in os.environ.items() if key != "TRITON_INTERPRET"}
    paths = [str(folder_of("normkernels").parent), *filter(None, [kept.get("PYTHONPATH")])]
    environment = {**kept, "PYTHONPATH": os.pathsep.join(paths)}
    if interpreted:
        environment["TRITON_INTERPRET"] = "1"
    command = [sys.executable, "-W", "ignore", "-m", f"normkernels.{name}", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return [json.loads(line) for line in done.stdout.splitlines()]


def compile_all(settings: list[str]) -> list[dict[str, Any]]:
    """Compile the kernels; keep the individual instructions of only one kernel."""
    rows = run_program("machine_code", str(CAPABILITY), *settings)
    for row in rows:
        if (row["case"], row["n"], row["dtype"]) != _LISTED:
            del row["opcodes"]
    return rows


def measure_kernels() -> dict[str, Any]:
    """Compile and interpret all kernels in parallel."""
    from importlib.metadata import version

    with ThreadPoolExecutor(2) as pool:
        counts = pool.submit(run_program, "traffic", *INTERPRETED, interpreted=True)
        rows = pool.submit(compile_all, COMPILED)
        return {
            "versions": {name: version(name) for name in ("triton", "torch", "numpy")},
            "capability": CAPABILITY,
            "source": source_hash(),
            "compiled": rows.result(),
            "interpreted": counts.result(),
        }


def write_record(found: dict[str, Any], path: Path | None = None) -> Path:
    """Write the record, one row per line."""
    path = path or DATA / "kernels.json"
    lines = []
    for key, value in found.items():
        if isinstance(value, list):
            rows = ",\n  ".join(json.dumps(row) for row in value)
            lines.append(f"{json.dumps(key)}: [\n  {rows}\n ]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    path.write_text("{\n " + ",\n ".join(lines) + "\n}\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    if sys.argv[1:] != ["record"]:
        raise SystemExit("give the argument record: python -m labkit.costs.kernel_view record")
    print(f"written: {write_record(measure_kernels()).name}")
