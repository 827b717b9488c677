"""Write a homework's rubric as Markdown: each question's parts, their points, what is said."""

from collections.abc import Sequence

from press.homework.private import RubricPart
from press.homework.source import Homework


def markdown(homework: Homework, parts: Sequence[RubricPart]) -> str:
    """Write the rubric: one table a question, in the order of the notebook."""
    total = sum(question.points for question in homework.questions)
    text = [f"# Rubric: {homework.title}", "", homework.about, ""]
    text += [
        f"{total} points, about {homework.minutes} minutes. A part is earned whole or not.",
        "",
    ]
    for question in homework.questions:
        names = ", ".join(f"`{name}`" for name in question.wanted)
        text += [f"## {question.id}: {_points(question.points)}", ""]
        if question.by_hand:
            text += ["Marked by hand. The key has a model answer.", ""]
            continue
        text += [
            f"Graded by the last definition of {names}.",
            "",
            "| part | points | said when it is missed |",
            "| --- | ---: | --- |",
        ]
        text += [
            f"| {_cell(part.name)} | {part.points:g} | {_cell(part.says)} |"
            for part in parts
            if part.question == question.id
        ]
        text.append("")
    return "\n".join(text)


def _points(points: float) -> str:
    return f"{points:g} point{'' if points == 1 else 's'}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
