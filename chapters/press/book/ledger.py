"""Keep the ledger of claims, and compare it with what the chapters claim now.

data/ledger/<size>.json   recorded, committed; changes only through `labkit book accept`
build/claims/<size>.json  what the executed chapters say
"""

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from labkit.display import CLAIM
from labkit.system.files import hold_lock, make_slug, write_whole
from labkit.system.processor import name_processor
from press.book import state
from press.book.compare import EXACT, Finding, compare_claims, same_machine, side_by_side
from press.book.files import Red, read_json

Claims = dict[str, dict[str, Any]]
LONG = ("gpu",)  # sizes that nobody runs in one sitting
ENTRY = (
    *("sort", "said", "statement", "wording", "numbers", "source", "published", "domain"),
    *("values", "counts", "interval", "criterion", "effect", "predicted", "kind"),
    *("samples", "rungs", "runs", "only", "word", "lock", "lacking", "unit", "tried"),
    *("verdict", "weak", "tolerance", "seeds"),
    "chapter",
)


@cache
def read_provenance(size: str = "book") -> dict[str, str]:
    """Return the device, the CPU model and the versions that produced a ledger's values."""
    return {
        "device": name_device(size),
        "cpu": name_processor(),
        "python": platform.python_version(),
        "torch": version("torch").partition("+")[0],  # its CPU and CUDA builds count as one
    }


def name_device(size: str) -> str:
    """Return the class of devices on which the runs of a size train."""
    if size != "gpu":
        return "cpu"
    from labkit.experiments.lab import device_of  # needs torch

    return device_of(size)


def recorded_path(root: Path, size: str) -> Path:
    """Return the path of a size's ledger; the size gpu has one for each kind of device."""
    if size == "gpu":
        size = f"{size}-{make_slug(name_device(size))}"
    return root / "data" / "ledger" / f"{size}.json"


def built_path(root: Path, size: str) -> Path:
    """Return the path where the build collects a size's claims."""
    return root / "build" / "claims" / f"{size}.json"


def collect_claims(notebook: Mapping[str, Any], chapter: str) -> list[dict[str, Any]]:
    """Read the claims that a chapter's executed notebook published."""
    found = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            card = output.get("data", {}).get(CLAIM)
            if card is not None:
                card = json.loads(card) if isinstance(card, str) else card
                found.append({**card, "chapter": chapter, "cell": cell["id"]})
    return found


def join_claims(claims: Iterable[Mapping[str, Any]]) -> Claims:
    """Merge claims by id; ids must be unique in the whole book."""
    joined: Claims = {}
    for claim in claims:
        name = claim["id"]
        if name in joined:
            places = " and ".join(sorted({joined[name]["chapter"], claim["chapter"]}))
            raise Red(
                f"a claim's id must be unique, but {name!r} occurs twice (in {places}); rename one"
            )
        joined[name] = {
            key: claim.get(key) if key in EXACT else round_numbers(claim.get(key)) for key in ENTRY
        }
    return joined


def gather_claims(root: Path, size: str, claims: Claims) -> None:
    """Write the claims of the executed chapters, for the check and for the scoreboard."""
    about: dict[str, Any] = {**read_provenance(size)}
    if size in LONG:  # recorded once, so it says when
        about["date"] = date.today().isoformat()
    write_whole(built_path(root, size), as_text(size, about, claims))


def as_text(size: str, about: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
    """Format claims sorted, one per line, so that changes give a readable diff."""
    lines = [f"  {_dump_json(name)}: {_dump_json(claims[name])}" for name in sorted(claims)]
    body = "{\n" + ",\n".join(lines) + "\n }" if lines else "{}"
    return (
        f'{{\n "schema": 1,\n "size": {_dump_json(size)},\n "provenance": {_dump_json(about)},\n'
        f' "claims": {body}\n}}\n'
    )


def load_ledger(path: Path, way_out: str) -> dict[str, Any]:
    """Read a ledger, or report what is wrong with it."""
    ledger = read_json(path, way_out)
    if not isinstance(ledger, dict) or not isinstance(ledger.get("claims"), dict):
        raise Red(f"{path} must be a ledger with claims, but has none; {way_out}")
    if ledger.get("schema") != 1:
        raise Red(f"{path} must have schema 1, but has {ledger.get('schema')!r}; {way_out}")
    return ledger


def load_recorded(root: Path, size: str) -> dict[str, Any]:
    """Read the recorded ledger; an empty one before the first recording."""
    path = recorded_path(root, size)
    if not path.is_file():
        return {"schema": 1, "size": size, "provenance": {}, "claims": {}}
    return load_ledger(
        path, f"take it back from version control: git checkout -- {path.relative_to(root)}"
    )


def recorded_elsewhere(root: Path, size: str) -> bool:
    """Return whether the ledger comes from another kind of machine, whose times differ."""
    there = load_recorded(root, size)["provenance"]
    return bool(there) and not same_machine(read_provenance(size), there)


def load_built(root: Path, size: str) -> dict[str, Any]:
    """Read the claims of the executed chapters."""
    path = built_path(root, size)
    if not path.is_file():
        raise Red(
            f"the ledger needs executed chapters, but none has been executed with size {size} "
            f"yet; run `make book SIZE={size}`"
        )
    return load_ledger(path, f"remove it and run `labkit book build --size {size}`")


def list_findings(
    root: Path, size: str, absent: Sequence[str]
) -> tuple[list[Finding], dict[str, Any], dict[str, Any]]:
    """Compare the ledger with the build, leaving out chapters that were not executed."""
    recorded, built = load_recorded(root, size), load_built(root, size)
    return compare_claims(recorded, built, absent), recorded, built


def check_ledger(root: Path, size: str, absent: Sequence[str] | None = None) -> int:
    """Print where the chapters' claims differ from the ledger; return 1 if one needs attention.

    Chapters in `absent` are left out; by default, those that changed since they ran are red.
    """
    stale = state.list_stale(root, size) if absent is None else []
    for name in stale:
        print(f"red     {name}: changed since it was executed, or never was; run `make book`")
    absent = stale if absent is None else absent
    found, recorded, built = list_findings(root, size, absent)
    path = recorded_path(root, size)
    if not path.is_file() and found:
        print(f"claims: {len(found)} made, none recorded: there is no {path.relative_to(root)} yet")
        print(f'    record them: labkit book accept --all{_format_flag(size)} --why "first record"')
        return 1
    for finding in found:
        print(side_by_side(finding, recorded["claims"], built["claims"]))
        if finding.red:
            print(f'    accept: labkit book accept {finding.name}{_format_flag(size)} --why "…"')
    red = sum(finding.red for finding in found)
    others = {name for name, claim in built["claims"].items() if claim["chapter"] in absent}
    same = len(built["claims"].keys() - others - {finding.name for finding in found})
    print(f"claims: {same} as recorded, {red} red, {len(found) - red} to look at")
    return 1 if red or stale else 0


def accept_claims(root: Path, size: str, ids: Sequence[str] | None, why: str) -> int:
    """Record claims as they are now, with the reason; None means all that differ.

    In a long size chapters are recorded as they get done; else all must be there first.
    """
    if not why.strip():
        raise ValueError('a change of the ledger must have a reason, got none; add --why "…"')
    with hold_lock(root / ".labkit" / f"ledger-{size}.lock"):
        stale = state.list_stale(root, size)
        found, recorded, built = list_findings(root, size, stale)
        differing = {finding.name for finding in found}
        if ids is None and stale and size in LONG:
            print(f"left out, not executed after the last change: {', '.join(stale)}")
        elif ids is None and stale:
            raise Red(
                "--all needs chapters that were executed after their last change, but "
                f"{', '.join(stale)} changed since; run `make book`"
            )
        names = sorted(differing) if ids is None else list(ids)
        for name in names:
            chapter = (built["claims"].get(name) or recorded["claims"].get(name, {})).get("chapter")
            if chapter in stale:
                raise Red(
                    f"a claim's chapter must be executed after its last change, but {chapter} of "
                    f"{name} changed since; run `make book`"
                )
            if name not in differing and name not in built["claims"]:
                listing = ", ".join(sorted(differing)) or "none"
                raise ValueError(
                    f"only a claim that differs can be accepted, but there is no claim {name!r}; "
                    f"choose one of {listing}"
                )
        about = built["provenance"]
        claims = recorded["claims"]
        for name in names:
            if name not in built["claims"]:
                claims.pop(name)
                print(f"  {name}: removed")
                continue
            claims[name] = {**built["claims"][name], "why": why.strip()}
            if claims.keys() - set(names) and about != recorded["provenance"]:
                claims[name]["recorded_on"] = about
            print(f"  {name}: {claims[name]['verdict']}")
        if not claims.keys() - set(names):
            recorded["provenance"] = about
        path = recorded_path(root, size)
        write_whole(path, as_text(size, recorded["provenance"], claims))
        print(f"{path.relative_to(root)}: {len(names)} accepted, {len(claims)} claims")
    return 0


def round_numbers(value: Any) -> Any:
    """Round every number in a value to six significant digits, the precision of a claim."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [round_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: round_numbers(item) for key, item in value.items()}
    return value


def _dump_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _format_flag(size: str) -> str:
    return "" if size == "book" else f" --size {size}"
