"""Right and wrong answers to the book's exercises: one file chNN.py per chapter: EXERCISES."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Exercise:
    """One exercise of a chapter, found by the cell with the tag "exercise" after its number.

    A source (right, or a key of wrong) takes the place of that cell. The check is the next code
    cell whose last expression is a Report.
    """

    number: str  # "3", as in "**3 (in code).**"
    right: str | None = None  # None: the next cell tagged "solution" holds it, with its own assert
    wrong: dict[str, str] = field(default_factory=dict)  # source -> words its message must hold
    open_ended: bool = False  # nothing to check: the cell must run as it stands
