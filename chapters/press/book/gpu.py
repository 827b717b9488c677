"""Pack what an hour on a GPU needs into one folder, and take in what came back.

The machine with the GPU has no network, and its own versions: `THERE` names what it holds. What
else labkit needs goes along as pure-Python wheels, unpacked; then nothing is installed there.
"""

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from labkit.experiments import ladder
from labkit.experiments.records import LADDER, Records, Row, from_row
from labkit.experiments.run import CPU, Run
from labkit.experiments.store import Store
from labkit.system.files import hold_lock, make_slug, write_whole
from labkit.system.provenance import collect_provenance
from labkit.system.units import in_words
from labkit.training import Record

LIMIT = 60 * 2**20  # bytes of the folder
PYTHON = "3.12"  # of the machine with the GPU
FOLDER = Path("build") / "gpu"
BACK = Path("build") / "gpu-back"  # what came back, so that the next folder goes on from there
SOURCES = (
    "labkit",
    "kernels/normkernels",
    "tests/kernels",
    "tests/each.py",
    "data/records",
    "LICENSE",
)
# What the machine holds, or torch, pandas and scikit-learn bring along.
THERE = {
    "torch", "triton", "numpy", "scipy", "pandas", "scikit-learn", "matplotlib", "jaxtyping",
    "tqdm", "filelock", "psutil", "typer", "sympy", "joblib", "packaging",
}  # fmt: skip
PEERS = ("liger-kernel",)  # of the benchmark, pure Python; quack's wheels are too large to bring
START = '''"""Work on an hour on a GPU, for nine minutes; call it again, and it goes on."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "kernels"), str(HERE / "site")]
os.environ["GPU_HOUR_PACK"] = str(HERE)

from labkit.experiments.gpu_hour.__main__ import main  # noqa: E402

sys.exit(main())
'''


# -- pack -----------------------------------------------------------------------------------------
def pack_folder(root: Path, limit: int = LIMIT) -> dict[str, Any]:
    """Make build/gpu anew; ValueError where it would be too large, or a wheel is not pure."""
    folder = root / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    try:
        copy_sources(root, folder)
        wheels = unpack_wheels(root, folder / "site")
        for back in sorted((root / BACK).glob("gpu-hour-*.tar.gz")):
            shutil.copyfile(back, folder / back.name)
        facts: dict[str, Any] = {"commit": collect_provenance()["commit"], "wheels": wheels}
        write_whole(folder / "pack.json", json.dumps(facts, indent=1) + "\n")
        write_whole(folder / "gpu_hour.py", START)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if size > limit:
            raise ValueError(
                f"the folder for a GPU may hold {in_words(limit)}, but it would hold "
                f"{in_words(size)}; leave something out of SOURCES in press/book/gpu.py"
            )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return {**facts, "folder": folder, "bytes": size}


def copy_sources(root: Path, folder: Path) -> None:
    """Copy what git tracks of the sources, as it stands here."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *SOURCES]
    listed = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, folder / name)


def list_lacking(root: Path) -> list[str]:
    """List the pins of what labkit and the benchmark need and the machine has not."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    pins = {name_of(pin): pin for some in extras.values() for pin in some}
    needed = [name_of(row) for row in project["dependencies"]]
    needed += [name for name in PEERS if name in pins]
    return [pins[name] for name in needed if name not in THERE]


def name_of(requirement: str) -> str:
    """Return the name in a requirement, as package indexes write it."""
    name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def unpack_wheels(root: Path, site: Path) -> list[str]:
    """Download the wheels of what is lacking, and of what these need, and unpack them."""
    waiting, known, names = list_lacking(root), set(THERE), list[str]()
    site.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as place:
        while waiting:
            wanted = waiting.pop(0)
            if name_of(wanted) in known:
                continue
            known.add(name_of(wanted))
            wheel = download_wheel(wanted, Path(place) / name_of(wanted))
            if not wheel.name.endswith("-none-any.whl"):
                raise ValueError(
                    f"wheels for a GPU's machine must be pure Python, but {wheel.name} is not; add "
                    f"{name_of(wanted)} to THERE in press/book/gpu.py if the machine has it"
                )
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(site)
                waiting += read_needs(archive)
            names.append(wheel.name)
    return sorted(names)


def download_wheel(requirement: str, place: Path) -> Path:
    """Download one wheel that fits the machine's Python."""
    words = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    words += ["--python-version", PYTHON, "--dest", str(place), requirement]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip() or "no reason").splitlines()[-1]
        raise ValueError(f"pip must find a wheel of {requirement} for Python {PYTHON}: {why}")
    (wheel,) = place.glob("*.whl")
    return wheel


def read_needs(archive: zipfile.ZipFile) -> list[str]:
    """List what a wheel needs, its extras aside."""
    (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
    lines = archive.read(name).decode().partition("\n\n")[0].splitlines()
    needs = [line.removeprefix("Requires-Dist: ") for line in lines if "Requires-Dist: " in line]
    return [need for need in needs if "extra ==" not in need]


# -- take -----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Taken:
    """What an archive brought."""

    device: str
    runs: int  # that are new in the records
    left_out: int  # that the ladder does not ask for
    files: list[Path]  # that were written in data/bench
    kernels: Path | None  # the one of the kernels


def take_archive(root: Path, path: Path) -> Taken:
    """Put what came back where 09 and the ladder read it, with where it comes from.

    data/bench/DEVICE.json         the kernels, as `make bench-kernels` writes them
    data/bench/hours/DEVICE.json   versions, gpu-test, 64 replicates against one, the control
    data/records/ladder.jsonl   rows of the ladder; their provenance names the device

    Raises:
        ValueError: it is a rehearsal, or data/bench has measurements of other versions.
    """
    with tempfile.TemporaryDirectory() as place:
        with tarfile.open(path) as archive:
            archive.extractall(place, filter="data")
        base = Path(place)
        state = read_part(base / "state.json")
        if not state or state["rehearsal"]:
            raise ValueError(f"{path.name} must be of an hour on a GPU, but it is of a rehearsal")
        device = state["who"]["device"]
        bench = read_part(base / "bench.json")
        there = root / "data" / "bench" / f"{make_slug(device)}.json"
        if bench and there.exists():
            old = read_part(there)["provenance"]
            if differ := [k for k, v in old.items() if bench["provenance"].get(k) != v]:
                raise ValueError(
                    f"{there.name} was measured with something else ({', '.join(differ)}), and "
                    "results are never mixed: move it away first"
                )
        with hold_lock(root / ".labkit" / "record.lock"):
            runs, left_out = take_rows(root, base)
        files = []
        if bench:
            write_whole(there, (base / "bench.json").read_text(encoding="utf-8"))
            files.append(there)
        hour = {**state, "gpu-test": sum_up_tests(read_part(base / "gpu-test.json")),
                "replicates": read_part(base / "replicates.json"),
                "control": read_part(base / "control.json"),
                "check": read_part(base / "check.json")}  # fmt: skip
        files.append(there.parent / "hours" / there.name)
        write_whole(files[-1], json.dumps(hour, indent=1, ensure_ascii=False) + "\n")
    (root / BACK).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, root / BACK / f"gpu-hour-{make_slug(device)}.tar.gz")
    return Taken(device, runs, left_out, files, there if bench else None)


def read_part(path: Path) -> dict[str, Any]:
    """Read a file of an archive; nothing where the hour did not come so far."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def sum_up_tests(tests: dict[str, Any]) -> dict[str, Any]:
    """Count the outcomes of the laws, and tell what failed."""
    done = tests.get("done", {})
    count = {word: 0 for word in ("passed", "failed", "skipped")}
    for one in done.values():
        count[one["outcome"]] += 1
    failed = {name: one["reason"].partition("\n")[0] for name, one in done.items()
              if one["outcome"] == "failed"}  # fmt: skip
    return {**count, "failures": failed, "source": tests.get("stamp", "")}


def take_rows(root: Path, base: Path) -> tuple[int, int]:
    """Add the rows that the ladder asks for to its file; count them, and those left out."""
    came, records, store = Records(base), Records(root), Store(root)
    rows: dict[str, Row] = {}
    for name in came.list_names():
        rows |= came.load_rows(name)  # which refuses what was edited
    for key, row in rows.items():
        if row["provenance"]["device"] == CPU or Run.from_dict(row["run"]).key() != key:
            raise ValueError(f"the record {key} must be of its run and of a GPU, and is not")
    fresh = {key: row for key, row in rows.items() if store.find_row(key) is None}

    @cache
    def read(run: Run) -> Record | None:
        row = fresh.get(run.key())
        return store.read_record(run) if row is None else from_row(row)

    asked = {
        run.key()
        for rung, arm in product(ladder.CLIMBED, ladder.ARMS)
        for run in ladder.list_all_runs(rung, arm, read)
    }
    kept = {key: row for key, row in fresh.items() if key in asked}
    records.write_rows(LADDER, (records.load_rows(LADDER) | kept).values())
    return len(kept), len(fresh) - len(kept)
