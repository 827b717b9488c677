"""Results of a check: one Law per property, and a Report that prints as a list."""

import html
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from labkit.display import EXERCISE

UNANSWERED = "not answered yet"  # message of the laws for a stub


@dataclass(frozen=True)
class Law:
    """The result for one property of an implementation: whether it holds, and why not.

    `cause` is the likely mistake, empty if the law holds or no known mistake explains the results;
    `message` contains the input, the actual and the expected result.
    """

    name: str
    ok: bool
    cause: str = ""
    message: str = ""


@dataclass(frozen=True, repr=False)
class Report:
    """The result of a check: `ok`, the laws one by one, and notes on what was not tested.

    `ask` makes the task for the site's page, None if a page cannot check it.
    """

    title: str
    laws: tuple[Law, ...]
    notes: tuple[str, ...] = ()
    ask: Callable[[], dict[str, Any] | None] | None = field(default=None, compare=False)

    @property
    def ok(self) -> bool:
        """Return whether every law holds."""
        return bool(self.laws) and all(law.ok for law in self.laws)

    @property
    def failed(self) -> tuple[Law, ...]:
        """List the laws that do not hold, most basic first."""
        return tuple(law for law in self.laws if not law.ok)

    @property
    def causes(self) -> list[str]:
        """List the likely mistakes, each once, in the order of the laws that they break."""
        return list(dict.fromkeys(law.cause for law in self.failed if law.cause))

    @property
    def untouched(self) -> bool:
        """Return whether nothing has been answered yet, so that there is nothing to judge."""
        said = [law.message.rstrip("?") for law in self.laws]
        return bool(said) and all(message.endswith(UNANSWERED) for message in said)

    @property
    def summary(self) -> str:
        """Return one line with the number of laws that hold."""
        if len(self.laws) == 1:
            return f"{self.title}: {'right' if self.ok else 'not yet'}"
        held = len(self.laws) - len(self.failed)
        return f"{self.title}: {held} of {len(self.laws)} laws hold"

    def __str__(self) -> str:
        lines = [f"{_choose_mark(self.ok)} {self.summary}"]
        for law, said_above in self._with_repeats():
            lines.append(f"  {_choose_mark(law.ok)} {law.name}")
            if not law.ok:
                lines.append(f"      {'for the same cause' if said_above else law.message}")
                if law.cause and not said_above:
                    lines.append(f"      Likely cause: {law.cause}.")
        lines += [f"  · {note}" for note in self.notes]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Add the task for the site's page to a notebook's output."""
        asked = None if self.ask is None else self.ask()
        return {} if asked is None else {EXERCISE: asked}

    def _repr_html_(self) -> str:
        if self.untouched:
            text = html.escape(f"{self.title}: {UNANSWERED}")
            return f'<div class="labkit-report"><p>{text}</p></div>'
        items = []
        for law, said_above in self._with_repeats():
            text = f"{_choose_mark(law.ok)} <b>{html.escape(law.name)}</b>"
            if not law.ok:
                text += f": {'for the same cause' if said_above else html.escape(law.message)}"
                if law.cause and not said_above:
                    text += f"<br><i>Likely cause: {html.escape(law.cause)}.</i>"
            items.append(f"<li>{text}</li>")
        items += [f"<li><small>{html.escape(note)}</small></li>" for note in self.notes]
        said = f"{_choose_mark(self.ok)} <b>{html.escape(self.summary)}</b>"
        return (
            f'<div class="labkit-report"><p>{said}</p>'
            f'<ul style="list-style: none">{"".join(items)}</ul></div>'
        )

    def _with_repeats(self) -> list[tuple[Law, bool]]:
        """Pair each law with whether an earlier one failed for the same cause."""
        seen: set[str] = set()
        pairs = []
        for law in self.laws:
            reason = law.cause or law.message
            pairs.append((law, not law.ok and reason in seen))
            if not law.ok:
                seen.add(reason)
        return pairs


def _choose_mark(ok: bool) -> str:
    return "✓" if ok else "✗"
