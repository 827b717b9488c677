"""What a new grading changed, for whom, and why: the line that an instructor reads after a mend."""

from dataclasses import dataclass

from press.homework.grading.results import NOT_GRADED, Result

WHY = {"code": "the submission", "test": "the test", "grader": "the grader or its mode"}


@dataclass(frozen=True, order=True)
class Change:
    """One question of one student whose points are not what they were."""

    student: str
    question: str
    before: str
    after: str
    why: str

    def __str__(self) -> str:
        return f"{self.student}: {self.question} {self.before} -> {self.after} ({self.why} changed)"


def changes(before: Result | None, after: Result) -> list[Change]:
    """The questions whose points differ; none for a first grading."""
    if before is None:
        return []
    old = {each["id"]: each for each in before["questions"]}
    # A changed test may ask for other names of the same file.
    same = before.get("sha256") == after.get("sha256")
    found = []
    for new in after["questions"]:
        was = old.pop(new["id"], None)
        told = (_points(was), _points(new))
        if told[0] != told[1]:
            found.append(Change(after["student"], new["id"], *told, _why(was, new, same)))
    for gone, was in old.items():
        found.append(Change(after["student"], gone, _points(was), "gone", "the test"))
    return found


def _points(question: Result | None) -> str:
    if question is None:
        return "none"
    if question["failure"] == NOT_GRADED:
        return NOT_GRADED
    return f"{question['points']}/{question['max']}"


def _why(was: Result | None, new: Result, same_file: bool) -> str:
    if was is None:
        return "the test"
    old, now = was.get("digests") or {}, new.get("digests") or {}
    differing = [
        WHY[key]
        for key in WHY
        if old.get(key) != now.get(key) and not (key == "code" and same_file)
    ]
    return " and ".join(differing) if differing else "the outcome"
