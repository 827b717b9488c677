"""The release: one version, two licences, a wheel that works outside the clone, CI."""

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_place_that_names_the_version_names_the_same():
    version, cited = PROJECT["version"], yaml.safe_load(text(".github/CITATION.cff"))
    newest = re.search(r"(?m)^## ([\d.]+) \((.*)\)$", text(".github/CHANGELOG.md"))
    assert newest and newest[1] == str(cited["version"]) == version
    assert newest[2] == str(cited["date-released"])
    assert re.findall(r"Version ([\d.]+\d)", text("README.md")) == [version]


def test_the_citation_has_what_its_format_requires():
    cited = yaml.safe_load(text(".github/CITATION.cff"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert cited["cff-version"] == "1.2.0" and cited["type"] == "software"
    assert [set(author) for author in cited["authors"]] == [{"name"}]
    assert cited["title"] in text("README.md") and cited["license"] == ["MIT", "CC-BY-4.0"]


def test_what_a_reader_of_the_release_reads_first_fits_on_one_screen():
    for name in (".github/CHANGELOG.md", ".github/CONTRIBUTING.md"):
        assert len(text(name).splitlines()) <= 45, name
        links = re.findall(r"\]\(([^)#:]+)\)", text(name))
        assert not [link for link in links if not (ROOT / ".github" / link).exists()]


def test_both_licences_are_named_where_a_reader_looks():
    assert PROJECT["license"] == "MIT AND CC-BY-4.0"
    assert text("LICENSE").startswith("MIT License")
    assert "CC BY 4.0" in text("chapters/LICENSE")
    pdf = "chapters/press/site/pdf.py"
    for page in ("README.md", "chapters/conf.py", pdf, ".github/CONTRIBUTING.md"):
        assert "MIT" in text(page) and "CC BY 4.0" in text(page), page


def test_ci_of_the_code_host_runs_what_ci_runs():
    workflow = yaml.safe_load(text(".github/workflows/ci.yml"))
    assert {"push", "pull_request"} <= set(workflow[True])  # YAML 1.1 reads `on` as true
    (job,) = workflow["jobs"].values()
    assert ".ci/run" in [step.get("run") for step in job["steps"]]
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert job["container"].startswith(f"python:{oldest}-")


OUTSIDE = """
import json, labkit, normkernels
print(json.dumps([labkit.__file__, normkernels.__file__]))
"""


@pytest.mark.slow
def test_the_wheel_installs_elsewhere_and_runs_the_readmes_example(tmp_path):
    """Install into a new environment, which uses the dependencies of this one."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        head = HeaderParser().parsestr(archive.read(metadata).decode())
    assert head["Version"] == PROJECT["version"]
    assert head["License-Expression"] == "MIT AND CC-BY-4.0"
    assert head.get_all("License-File") == ["LICENSE", "chapters/LICENSE"]
    packages = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert packages == {"labkit", "normkernels", "press"}

    home = tmp_path / "elsewhere"
    venv.create(home / "env", with_pip=False, symlinks=True)
    (site,) = (home / "env").glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "-t", str(site)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    dependencies = [path for path in sys.path if path.endswith("site-packages")]
    (site / "dependencies.pth").write_text("\n".join(dependencies))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(code: str) -> str:
        command = [str(home / "env/bin/python"), "-c", code]
        done = subprocess.run(command, cwd=home, env=clean, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert all(Path(file).is_relative_to(site) for file in json.loads(run(OUTSIDE)))
    (example,) = re.findall(r"```python\n(.*?)```", text("README.md"), re.S)
    assert "Likely cause: eps is added outside the root" in run(example)
