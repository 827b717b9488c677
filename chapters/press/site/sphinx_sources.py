"""Stage the site's sources, so that Sphinx reads only changed files again.

build/book/<size>/NN_name.ipynb  →  build/site-src/NN_name.ipynb
chapters/{conf.py,index.md,…}       →  build/site-src/
PACKAGES, **/*.py                   →  build/site-src/api/*.md, one page per public module
build/claims/<size>.json         →  build/site-src/scoreboard.md
data/records/*.jsonl             →  build/site-src/runs.md
build/book/<size>/NN_name.ipynb  →  build/site-src/_static/data/NN_name/*.csv
data/*.csv                          →  what guide.py fills into the typed pages
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from labkit.experiments.card_html import find_sentence
from labkit.system.files import code_hash, write_whole
from press.book import ledger, replays
from press.book.asked import LADDER
from press.book.chapters import find_chapters, read_number
from press.book.facts import Json, escape_markdown
from press.book.files import Red, read_json
from press.book.forecasts import list_forecasts
from press.book.keys import read_versions
from press.book.stale import mark_notebook
from press.site import exercises, guide, launch, pyodide
from press.site.figures import list_tables
from press.site.hero import build_top, format_facts
from press.site.links import join_up
from press.site.outline import read_outlines
from press.site.page import build_page
from press.site.scoreboard import build_scoreboard
from press.site.terms import link_terms

# A package, and how many parts of a module's name make its page: labkit.norms, normkernels.
PACKAGES = {"labkit": 2, "kernels/normkernels": 1}
# What no chapter calls, and what belongs to a command: `--help` says what it takes.
INTERNAL = re.compile(
    r"""labkit\.__main__$ | labkit\.system\.(?!root$) | normkernels\.bench\b
    | labkit\.check\.(block_.*|calls|case|compare|exam|formula|gradients|laws|mistakes|precision
                     |probes|running|specs|subject|tasks)$
    | labkit\.convert\.(choose|fastpath|fill|find|read)$
    | labkit\.experiments\.(card_html|engines|filling|memory|records|replay|replicates|reproduce
                           |store)\b""",
    re.VERBOSE,
)
CLAIMS = "claims.json"  # for the search: {page: {anchor: claim and result}}
SITE_SOURCES = (
    "conf.py", "examples/big_run.py", "homework/index.md", "references.bib", *guide.GUIDE,
)  # fmt: skip
BLOCKS = Path("_static") / "blocks"  # the explorer's data
CALL = "labkitBlocks"  # the function of explorer.js that takes a file
TEACHING = ("instructors", "server")  # parts of the page for teachers, which course.md begins
INCLUDE = "\n```{{include}} {}.txt\n:heading-offset: 1\n```\n"


def staged_files(root: Path, size: str) -> dict[str, bytes]:
    """Make the content of every file that Sphinx reads."""
    paths = executed_notebooks(root, size)
    claims = read_claims(root, size, paths)
    files: dict[str, bytes] = {}
    notebooks = {
        name: read_json(path, "delete it and run `make book`") for name, path in paths.items()
    }
    book, stale = read_outlines(notebooks), replays.read_stale(root, size)
    titles = {one.name: one.title for one in book.values()}
    addresses = launch.read_addresses(root)
    for name, notebook in notebooks.items():
        chapter = book[read_number(name)]
        marks, stale_line = mark_notebook(notebook, stale)
        links = launch.draw_links(addresses, name)
        facts = "\n\n".join(filter(None, [format_facts(chapter, notebook, links), stale_line]))
        provenance = claims.get("provenance") or {}
        shown = build_page(name, marks, provenance, claims["claims"], links)
        shown["cells"] = build_top(shown["cells"], chapter.number, facts)
        join_up(shown, chapter, book, root)
        link_terms(shown, chapter, root)
        files[f"{name}.ipynb"] = notebook_bytes(shown)
        files.update(list_tables(name, notebook))
        twin = root / "chapters" / f"{name}.ipynb"
        files[f"notebooks/{name}.ipynb"] = (twin if twin.is_file() else paths[name]).read_bytes()
    chapters = root / "chapters"
    static = [path for path in (chapters / "_static").rglob("*") if path.is_file()]
    for path in [*(chapters / name for name in SITE_SOURCES), *static]:
        files[path.relative_to(chapters).as_posix()] = path.read_bytes()
    for name, script, content in list(script_files(files)):
        del files[name]
        files[script] = content
    for name in guide.GUIDE:
        files[name] = guide.fill_page(files[name].decode(), root, book).encode()
    files["references.md"] = REFERENCES.encode()
    files |= exercises.list_files() | pyodide.list_files()
    recorded = recorded_ledgers(root, size)
    files["scoreboard.md"] = build_scoreboard(
        claims, titles, recorded, list_forecasts(root)
    ).encode()
    files["runs.md"] = guide.fill_page(build_runs_page(root), root, book).encode()
    for part in TEACHING:
        files["course.md"] += INCLUDE.format(part).encode()
        files[f"{part}.txt"] = (chapters / f"{part}.md").read_bytes()
    files.update((name, content.encode()) for name, content in api_pages(root))
    files[CLAIMS] = json.dumps(list_claims(claims["claims"])).encode()
    # Not pages, but what they are made by and of: Sphinx looks again when these change.
    files["versions.json"] = json.dumps(read_versions(root)).encode()
    files["code.json"] = json.dumps({p: code_hash(Path(p).name) for p in PACKAGES}).encode()
    return files


REFERENCES = """# References

```{bibliography}
:all:
```
"""


def chapter_names(root: Path) -> list[str]:
    """List the names of the chapters, from their sources."""
    if not (names := [chapter.name for chapter in find_chapters(root)]):
        raise Red(
            f"a book must have chapters (chapters/NN_name.py), but {root / 'chapters'} has none"
        )
    return names


def executed_notebooks(root: Path, size: str) -> dict[str, Path]:
    """Find each chapter's executed notebook, or its twin if it was not executed here.

    A twin is of the size book; Red where there is none.
    """
    folder, twins = root / "build" / "book" / size, root / "chapters"
    found = {name: folder / f"{name}.ipynb" for name in chapter_names(root)}
    if size == "book":
        found = {n: p if p.is_file() else twins / p.name for n, p in found.items()}
    missing = [name for name, path in found.items() if not path.is_file()]
    if missing:
        raise Red(
            f"the site needs chapters executed at size {size}, but these are not: "
            f"{', '.join(missing)}; run `make book SIZE={size}`"
        )
    return found


def read_claims(root: Path, size: str, executed: Mapping[str, Path]) -> Json:
    """Read the claims of this build, and the recorded claims of chapters shown by their twins."""
    path = root / "build" / "claims" / f"{size}.json"
    if not path.is_file():
        raise Red(
            f"the scoreboard needs {path.relative_to(root)}, which is missing; run `make book`"
        )
    built, recorded = read_json(path, "run `make book`"), ledger.load_recorded(root, size)
    twins = {n for n, p in executed.items() if p.parent.name == "chapters"}
    shown = {n: claim for n, claim in recorded["claims"].items() if claim["chapter"] in twins}
    return {**built, "claims": shown | built["claims"]}


def list_claims(claims: Mapping[str, Json]) -> dict[str, dict[str, str]]:
    """List by page and anchor the sentence of each claim, and its result."""
    pages: dict[str, dict[str, str]] = {}
    for name, claim in sorted(claims.items()):
        told = filter(None, (find_sentence(claim), claim["statement"]))
        pages.setdefault(claim["chapter"], {})[f"claim-{name}"] = " → ".join(told)
    return pages


def script_files(files: Mapping[str, bytes]) -> Iterator[tuple[str, str, bytes]]:
    """Yield for each staged file of the explorer its name, and name and content of its script.

    A page that was opened from a folder may load a script, and no JSON.
    """
    for name, content in files.items():
        path = Path(name)
        if path.parent == BLOCKS and path.suffix == ".json":
            said = f"{CALL}({json.dumps(path.stem)},{content.decode().rstrip()});\n"
            yield name, path.with_suffix(".js").as_posix(), said.encode()


def recorded_ledgers(root: Path, size: str) -> list[Json]:
    """Read the ledgers of the long sizes, which were recorded elsewhere."""
    paths = sorted((root / "data" / "ledger").glob("gpu*.json"))
    return [read_json(path, "restore it from git") for path in paths if path.stem != size]


# -- the page of all runs ----------------------------------------------------------------------
def build_runs_page(root: Path) -> str:
    """Write the page, or reuse the stored one if records and code are the same."""
    kept, digest = root / "build" / "arms.json", compute_digest(root)
    if kept.is_file():
        with suppress(Red):
            known = read_json(kept, "")
            if known.get("digest") == digest:
                return known["page"]
    from press.site.arms import write_page  # needs torch

    page = write_page(root)
    write_whole(kept, json.dumps({"digest": digest, "page": page}))
    return page


def compute_digest(root: Path) -> str:
    """Hash everything that determines the page: the ladder's records, stored runs, and the code."""
    whole = hashlib.sha256(f"{code_hash()} {code_hash('press')}".encode())
    for path in sorted((root / "data" / "records").glob(f"{LADDER}*.jsonl")):
        whole.update(path.read_bytes())
    for path in sorted((root / ".labkit" / "runs").glob("*.json")):
        whole.update(path.name.encode())
    return whole.hexdigest()


# -- pages of the package ---------------------------------------------------------------------
def public_modules(package: Path, depth: int) -> dict[str, list[str]]:
    """List the pages of a package: the first `depth` parts of a module's name give its page."""
    pages: dict[str, list[str]] = {}
    for path in sorted(package.rglob("*.py")):
        parts = [package.name, *path.relative_to(package).with_suffix("").parts]
        if parts[-1] == "__init__":
            parts.pop()
        if len(parts) < depth or any(part.startswith("_") for part in parts):
            continue
        top, name = ".".join(parts[:depth]), ".".join(parts)
        if not INTERNAL.match(name):
            pages.setdefault(top, []).append(name)
    return {top: sorted(names) for top, names in pages.items()}


def first_sentence(path: Path) -> str:
    """Read the first paragraph of a module's docstring without importing it."""
    source = path if path.is_file() else path.parent / path.stem / "__init__.py"
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    sentence = " ".join(docstring.split("\n\n")[0].split())
    parts = re.split(r"(`[^`]+`)", sentence)
    return "".join(p if p.startswith("`") else escape_markdown(p) for p in parts)


def api_pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield name and text of each page of the package's reference, and of their index."""
    rows, toctree = "", ""
    for package, depth in PACKAGES.items():
        for top, names in public_modules(root / package, depth).items():
            path = (root / package).parent / (top.replace(".", "/") + ".py")
            rows += f"[{top}]({top}.md)\n: {first_sentence(path)}\n\n"
            toctree += f"{top}\n"
            sections = (
                ("" if name == top else f"## {name.removeprefix(top + '.')}\n\n")
                + f"```{{eval-rst}}\n.. automodule:: {name}\n   :ignore-module-all:\n```\n"
                for name in names
            )
            yield f"api/{top}.md", f"# {top}\n\n" + "\n".join(sections)
    intro = "Everything that a chapter calls, from the docstrings of `labkit` and `normkernels`."
    listed = f"```{{toctree}}\n:hidden:\n\n{toctree}```\n" if toctree else ""
    yield "api/index.md", f"# The package\n\n{intro}\n\n{rows}{listed}"


def write_files(folder: Path, files: Mapping[str, bytes]) -> tuple[list[str], list[str]]:
    """Make a folder contain exactly these files; return the changed names and the removed names."""
    changed = []
    for name, content in files.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            changed.append(name)
    present = (p for p in folder.rglob("*") if p.is_file())
    names = [p.relative_to(folder).as_posix() for p in present]
    removed = [n for n in names if n not in files and not n.startswith(".")]
    for name in removed:
        (folder / name).unlink()
    return changed, removed


def notebook_bytes(notebook: Json) -> bytes:
    """Serialize a notebook in the same way every time."""
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True).encode()
