"""Feedback for a student, as Markdown and as one HTML page: points, and what to look at.

It says what the parts of a private test say, and of the student's own errors what the sandbox lets
through. A student's text may hold anything: it is shown, never obeyed, by a browser.
"""

import html
import re
from pathlib import Path
from typing import Any

from labkit.files import write_whole
from press.homework.grading.results import NOT_GRADED, Result, plain

SPECIAL = re.compile(r"([\\`*_\[\]<>&|#~!])")
NOT_YET = "This question is not graded yet: its test must be mended first. You lose no points."
FINE = "Everything asked for is right."

STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #8886; padding: .4rem; text-align: left; vertical-align: top; }
td:nth-child(2), th:nth-child(2) { white-space: nowrap; text-align: right; }
td { overflow-wrap: anywhere; }
"""


def write(folder: Path, result: Result) -> tuple[Path, Path]:
    """Write folder/STUDENT.md and folder/STUDENT.html."""
    stem = folder / result["student"]
    paths = (stem.with_name(f"{stem.name}.md"), stem.with_name(f"{stem.name}.html"))
    for path, text in zip(paths, (markdown(result), page(result)), strict=True):
        write_whole(path, text)
    return paths


def markdown(result: Result) -> str:
    """The feedback as Markdown."""
    lines = [f"# {_plain(result['title'])}: feedback for {_plain(result['student'])}", ""]
    lines += [f"**{_total(result)}**", ""]
    if result["problems"]:
        lines += ["About your file:", "", *(f"- {_plain(each)}" for each in result["problems"]), ""]
    for each in result["questions"]:
        lines += [f"## {_plain(_head(each))}", ""]
        if said := _said(each):
            lines += [said, ""]
        if each["parts"]:
            lines += ["| part | points | |", "| --- | ---: | --- |"]
            lines += ["| " + " | ".join(map(_plain, row)) + " |" for row in _rows(each)]
            lines.append("")
    return "\n".join(lines)


def page(result: Result) -> str:
    """The feedback as a page that needs nothing beside it and runs nothing."""
    title = html.escape(f"{result['title']}: feedback for {result['student']}")
    body = [f"<h1>{title}</h1>", f"<p><strong>{html.escape(_total(result))}</strong></p>"]
    if result["problems"]:
        items = "".join(f"<li>{html.escape(each)}</li>" for each in result["problems"])
        body.append(f"<p>About your file:</p>\n<ul>{items}</ul>")
    for each in result["questions"]:
        body.append(f"<h2>{html.escape(_head(each))}</h2>")
        if said := _said(each):
            body.append(f"<p>{html.escape(said)}</p>")
        if each["parts"]:
            rows = "".join(
                "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>\n"
                for row in _rows(each)
            )
            body.append(
                '<table>\n<tr><th scope="col">part</th><th scope="col">points</th>'
                f'<th scope="col">what to look at</th></tr>\n{rows}</table>'
            )
    # Should an escape ever be forgotten, the policy still lets nothing run or load.
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _total(result: Result) -> str:
    if result["total"] is not None:
        return f"{result['total']} of {result['max']} points"
    graded = [each for each in result["questions"] if each["failure"] != NOT_GRADED]
    earned, most = (plain(sum(each[key] for each in graded)) for key in ("points", "max"))
    return f"{earned} of {most} points so far; {result['max']} when all questions are graded"


def _head(question: dict[str, Any]) -> str:
    if question["failure"] == NOT_GRADED:
        return f"{question['id']}: not graded yet"
    return f"{question['id']}: {question['points']} of {question['max']} points"


def _said(question: dict[str, Any]) -> str:
    if question["failure"] == NOT_GRADED:
        return NOT_YET
    return FINE if question["points"] == question["max"] else ""


def _rows(question: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (each["name"], f"{each['points']} of {each['max']}", each["says"])
        for each in question["parts"]
    ]


def _plain(text: object) -> str:
    """A text in one line that Markdown shows as it is: no link, picture, tag or table in it."""
    return SPECIAL.sub(r"\\\1", " ".join(str(text).split())).replace("\\<", "&lt;")
