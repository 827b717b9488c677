"""The private half of a released homework: its tests, probes, variants and rubric, as one JSON.

It never reaches a student, and a worker never sees it: the grader alone reads it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

SCHEMA = 1
WAY_OUT = "release the homework again with `labkit homework release`"


@dataclass(frozen=True)
class Question:
    """A question as the grader needs it: the test's source, and the names that it uses.

    One without a test is marked by hand.
    """

    id: str
    points: int
    test: str
    wanted: tuple[str, ...]


@dataclass(frozen=True)
class RubricPart:
    """A part of a question's points: its name, and the message if it is not earned."""

    question: str
    name: str
    points: float
    says: str


@dataclass(frozen=True)
class Private:
    """Everything that is needed to grade a homework.

    `packages` are what a submission may import; `variants` is {NAME: "draw.…(…)"} (see
    press.homework.variants); `students` are the roster's ids, none where all get the same numbers.
    `digest` is the sha256 of all but the students: it changes with any test, not with the class.
    """

    homework: str
    title: str
    packages: tuple[str, ...]
    questions: tuple[Question, ...]
    probes: str
    variants: Mapping[str, str]
    rubric: tuple[RubricPart, ...]
    seed: int
    students: tuple[str, ...] = ()
    digest: str = ""

    def seal(self) -> "Private":
        """Return a copy with its digest."""
        told = json.dumps(asdict(replace(self, students=(), digest="")), sort_keys=True)
        return replace(self, digest=hashlib.sha256(told.encode()).hexdigest())

    def to_json(self) -> str:
        """Return the JSON: equal bytes for equal homeworks."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1, ensure_ascii=False) + "\n"


def match_names(name: str, names: Iterable[str]) -> list[str]:
    """List the homeworks that match a name: hw1_norms, or hw1 for short."""
    return [each for each in names if name in (each, each.partition("_")[0])]


def load_private(path: Path) -> Private:
    """Read a private file; ValueError if it is damaged, edited by hand or of another schema."""
    try:
        told = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"{path} must be the private JSON file of a homework, but cannot be read ({error}); "
            f"{WAY_OUT}"
        ) from error
    if not isinstance(told, dict) or told.get("schema") != SCHEMA:
        actual = told.get("schema") if isinstance(told, dict) else type(told).__name__
        raise ValueError(f"{path} must have schema {SCHEMA}, got {actual!r}; {WAY_OUT}")
    try:
        found = _build_private(told)
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{path} must have all parts of a private file, but one is missing or wrong "
            f"({error}); {WAY_OUT}"
        ) from error
    if found.seal().digest != found.digest:
        raise ValueError(
            f"a private file must not change after its release, but {path} did: its digest "
            f"differs; edit the source and {WAY_OUT}"
        )
    return found


def _build_private(told: dict[str, Any]) -> Private:
    plain = {
        key: told[key] for key in ("homework", "title", "probes", "variants", "seed", "digest")
    }
    return Private(
        packages=tuple(told["packages"]),
        questions=tuple(
            Question(**{**each, "wanted": tuple(each["wanted"])}) for each in told["questions"]
        ),
        students=tuple(told["students"]),
        rubric=tuple(RubricPart(**each) for each in told["rubric"]),
        **plain,
    )


def find_private_file(release: Path, homework: str | None = None) -> Path:
    """Return the private file of a release: DIR/private/HW.json, the only one or the one named."""
    there = sorted((release / "private").glob("*.json"))
    stems = [path.stem for path in there]
    stems = stems if homework is None else match_names(homework, stems)
    found = [path for path in there if path.stem in stems]
    if len(found) != 1:
        names = ", ".join(path.stem for path in there)
        raise ValueError(
            f"{release} must be what `labkit homework release --out` wrote, with one homework"
            f"{f' {homework!r}' if homework else ''}; it has {names or 'none'}"
            f"{'; name one with --homework' if names and not homework else ''}"
        )
    return found[0]
