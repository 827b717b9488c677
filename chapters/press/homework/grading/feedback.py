"""Feedback for a student, as Markdown and as one HTML page: points, and what to improve.

It says what the parts of a private test say, and of the student's own errors what the sandbox lets
through. A student's text may hold anything: it is shown, never obeyed, by a browser.
"""

import html
import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from markdown_it import MarkdownIt

from labkit.system.files import write_whole
from press.homework.grading.file_owner import CANVAS, MOODLE
from press.homework.grading.results import BY_HAND, NOT_GRADED, Result, plain_number
from press.homework.verdicts import NOT_BEGUN

# What Markdown obeys; an underscore inside a word, as in grad_x, is a letter to it.
SPECIAL = re.compile(r"([\\`*\[\]<>&|#~!]|(?<![^\W_])_|_(?![^\W_]))")
NOT_YET = "This question is not graded yet: its test must be fixed first. You lose no points."
TO_MARK = "This question is marked by hand, and has not been marked yet."
UNTOUCHED = "You have not begun this question: the line that you must replace is still there."
FINE = "Everything asked for is right."

STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #8886; padding: .4rem; text-align: left; vertical-align: top; }
td:nth-child(2), th:nth-child(2) { white-space: nowrap; text-align: right; }
td { overflow-wrap: anywhere; }
"""
# Should an escape ever be forgotten, the policy still lets nothing run or load.
PAGE = Template(f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>{STYLE}</style>
</head>
<body>
$body</body>
</html>
""")


def write_feedback(folder: Path, result: Result) -> tuple[Path, Path]:
    """Write folder/STUDENT.md and folder/STUDENT.html."""
    stem = folder / result["student"]
    paths = (stem.with_name(f"{stem.name}.md"), stem.with_name(f"{stem.name}.html"))
    for path, text in zip(paths, (write_markdown(result), write_page(result)), strict=True):
        write_whole(path, text)
    return paths


def write_markdown(result: Result) -> str:
    """Return the feedback as Markdown."""
    lines = [
        f"# {_escape_text(result['title'])}: feedback for {_escape_text(result['student'])}",
        "",
    ]
    lines += [f"**{_describe_total(result)}**", ""]
    if result.get("status"):
        why, *others = map(_escape_text, result["problems"])
        lines += [f"Your file was not graded: {why}.", "", *(f"- {each}" for each in others)]
        return "\n".join([*lines, ""])
    if result["problems"]:
        lines += [
            "About your file:",
            "",
            *(f"- {_escape_text(each)}" for each in result["problems"]),
            "",
        ]
    for each in result["questions"]:
        lines += [f"## {_escape_text(_describe_question(each))}", "", *_explain_question(each)]
        if each["parts"] and each["failure"] != NOT_BEGUN:
            lines += ["| part | points | what to look at |", "| --- | ---: | --- |"]
            rows = [(p["name"], f"{p['points']} of {p['max']}", p["says"]) for p in each["parts"]]
            lines += ["| " + " | ".join(map(_escape_text, row)) + " |" for row in rows]
            lines.append("")
    return "\n".join(lines)


def write_page(result: Result) -> str:
    """Return the feedback as a page without external files or scripts."""
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(write_markdown(result))
    title = html.escape(f"{result['title']}: feedback for {result['student']}")
    return PAGE.substitute(title=title, body=body)


def pack_feedback(results: Sequence[Result], names: Mapping[str, str], path: Path) -> list[str]:
    """Write the feedback as a zip for Canvas or Moodle; return the students who are not in it.

    `names` says what each student's file was called in the download.
    """
    files = {
        each["student"]: _make_returned_file(names.get(each["student"], ""), each)
        for each in results
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in filter(None, files.values()):
            archive.writestr(zipfile.ZipInfo(name), content)
    if any(files.values()):
        write_whole(path, made.getvalue(), 0o600)
    return [student for student, file in files.items() if file is None]


def _make_returned_file(label: str, result: Result) -> tuple[str, str] | None:
    """Return a feedback file's name and content, as the platform of the download wants them.

    Moodle reads the student out of the name's beginning. Canvas shows what comes back under the
    name that the student gave, so that its ending must stay, and what is in it must fit.
    """
    for part in label.split("/"):
        if found := MOODLE.fullmatch(part):
            whose = part.removesuffix(found["file"] or "")
            folder = part != label.rpartition("/")[2]
            return f"{whose}_{'/' if folder else ''}feedback.html", write_page(result)
        if CANVAS.fullmatch(part) and part.endswith(".ipynb"):
            cell = {
                "cell_type": "markdown",
                "id": "feedback",
                "metadata": {},
                "source": write_markdown(result),
            }
            notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
            return part, json.dumps(notebook, indent=1, ensure_ascii=False)
        if CANVAS.fullmatch(part) and part.endswith(".py"):
            return part, "".join(f"# {line}\n" for line in write_markdown(result).split("\n"))
    return None


def _describe_total(result: Result) -> str:
    if result["total"] is not None:
        points = f"{result['total']} of {result['max']} points"
        late = result.get("late")
        return f"{points}, {late} of your points lost because it was late" if late else points
    graded = [each for each in result["questions"] if each["points"] is not None]
    earned, most = (plain_number(sum(each[key] for each in graded)) for key in ("points", "max"))
    return f"{earned} of {most} points so far; {result['max']} when all questions are graded"


def _describe_question(question: dict[str, Any]) -> str:
    if question["points"] is None:
        return f"{question['id']}: not graded yet"
    return f"{question['id']}: {question['points']} of {question['max']} points"


def _explain_question(question: dict[str, Any]) -> list[str]:
    told = {NOT_GRADED: NOT_YET, BY_HAND: TO_MARK, NOT_BEGUN: UNTOUCHED}.get(
        question["failure"], ""
    )
    if question["points"] == question["max"]:
        told = FINE
    if question.get("marked") and question["parts"]:
        told = "These points were given by hand, whatever the parts below say."
    comment = _escape_text(question.get("comment", ""))
    return [line for said in (told, comment) if said for line in (said, "")]


def _escape_text(text: object) -> str:
    """Escape a string so that Markdown shows it literally, on one line: no link, image or table."""
    return SPECIAL.sub(r"\\\1", " ".join(str(text).split())).replace("\\<", "&lt;")
