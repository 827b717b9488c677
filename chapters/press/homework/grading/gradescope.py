"""A zip for Gradescope that grades one homework by itself: labkit's sources, the private tests.

setup.sh          builds the environment when the zip is uploaded
run_autograder    grades one submission, in the restricted mode, and writes results.json
requirements.txt  the versions that are installed here
private/HW.json   the private tests; for root alone
lib/labkit, lib/press, lib/normkernels
"""

import importlib.metadata
import io
import sys
import zipfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from labkit.system.files import folder_of, write_whole
from press.homework.private import load_private
from press.homework.sandbox.mount_plan import list_needed

VISIBILITIES = ("visible", "after_due_date", "after_published", "hidden")
OURS = "norm-lab-book"  # what the packages are installed as
PACKAGES = ("labkit", "press", "normkernels")
# The packages of a homework that are other distributions'; what is not here has its own name.
DISTRIBUTIONS = {"sklearn": "scikit-learn"}
NOT_SHIPPED = ("__pycache__",)

SETUP = """#!/usr/bin/env bash
# Build the environment that run_autograder uses; needs Python 3.11 or later, 3.11 to 3.13 tried.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
apt-get update
apt-get install -y libseccomp2
python=""
for one in python3.13 python3.12 python3.11; do
  if command -v "$one" > /dev/null; then python="$one"; break; fi
done
if [ -z "$python" ]; then
  apt-get install -y python3.11 python3.11-venv
  python=python3.11
fi
"$python" -m venv "$root/venv"
# For PyTorch's smaller build without CUDA, set PIP_EXTRA_INDEX_URL here, as labkit's README says.
"$root/venv/bin/python" -m pip install -r "$root/source/requirements.txt"
chmod -R go-rwx "$root/source/private"
"""

RUN = """#!/usr/bin/env bash
# Grade /autograder/submission and write /autograder/results/results.json.
set -euo pipefail
root="$(cd "$(dirname "$0")" && pwd)"
# What students hand in and the tests are no worker's to read.
chmod -R go-rwx "$root/source/private" "$root/submission"
export PYTHONPATH="$root/source/lib" OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE
exec "$root/venv/bin/python" -m press.homework.grading.on_gradescope "$root" VISIBILITY
"""


def build_autograder(private_path: Path, out: Path, visibility: str = "visible") -> Path:
    """Write the zip whole; the same homework and labkit give the same bytes.

    Raises a ValueError for an unknown visibility or when a package needed is not installed here.
    """
    if visibility not in VISIBILITIES:
        raise ValueError(
            f"unknown visibility {visibility!r}; choose one of {', '.join(VISIBILITIES)}"
        )
    private = load_private(private_path)
    files: dict[str, bytes] = {
        "setup.sh": SETUP.encode(),
        "run_autograder": RUN.replace("VISIBILITY", visibility).encode(),
        "requirements.txt": list_requirements(private.packages).encode(),
        f"private/{private.homework}.json": private_path.read_bytes(),
    }
    for name, folder in _find_packages():
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            if path.is_file() and not set(inside.parts) & set(NOT_SHIPPED):
                files[f"lib/{name}/{inside.as_posix()}"] = path.read_bytes()
    # So that labkit is known there as an installed package, with what it depends on.
    about = _find_distribution()
    files[f"lib/norm_lab_book-{about.version}.dist-info/METADATA"] = (
        about.read_text("METADATA") or ""
    ).encode()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            member = zipfile.ZipInfo(name)  # its date is 1980: the bytes say nothing of today
            member.compress_type = zipfile.ZIP_DEFLATED
            runs = name in ("setup.sh", "run_autograder")
            member.external_attr = (0o100755 if runs else 0o100644) << 16
            archive.writestr(member, files[name])
    write_whole(out, content.getvalue())
    return out


def list_requirements(packages: Iterable[str]) -> str:
    """What to install, in the versions of here: labkit's needs, and what a homework may import."""
    names = {*list_needed(_find_distribution()), "pyseccomp"}
    for package in packages:
        name = DISTRIBUTIONS.get(package, package)
        if package not in sys.stdlib_module_names and name not in PACKAGES:
            names.add(name)
    lines = []
    for name in sorted(names):
        try:
            # +cpu and its like name a build that not every index has.
            lines.append(f"{name}=={importlib.metadata.version(name).partition('+')[0]}")
        except importlib.metadata.PackageNotFoundError as error:
            raise ValueError(
                f"the zip installs {name} in the version of here, but it is not installed; "
                f"install {name} first"
            ) from error
    return "\n".join(lines) + "\n"


def _find_distribution() -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution(OURS)
    except importlib.metadata.PackageNotFoundError as error:
        raise ValueError(
            f"the zip needs to know what {OURS} depends on, but it is not installed here; "
            "run `make setup`, or install it with pip"
        ) from error


def _find_packages() -> Iterable[tuple[str, Path]]:
    for name in PACKAGES:
        with suppress(ModuleNotFoundError):  # normkernels, where labkit lies alone
            yield name, folder_of(name)
