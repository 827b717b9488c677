"""Read a homework's source as cells with their line numbers, tags and roles."""

from collections.abc import Iterator

from press.book.percent import TextCell, cells_of

OF_A_QUESTION = ("solution", "test", "probe", "answer")
ROLES = ("homework", "variant", *OF_A_QUESTION)
WITH_POINTS = ("test", "answer")


class Cell(TextCell):
    """One cell of a homework, and what its tags say of it."""

    @property
    def role(self) -> str:
        """Return the role of the cell; "" if everybody gets it unchanged."""
        return next((r for r in ROLES for tag in self.tags if tag.partition(":")[0] == r), "")

    @property
    def question(self) -> str:
        """Return the question to which a solution, a test, a probe or an answer belongs."""
        return next(iter(self._read_tags(OF_A_QUESTION)), "")

    @property
    def points(self) -> int | None:
        """Return the points of a test, or of an answer that is marked by hand."""
        told = next(iter(self._read_tags(("points",))), "")
        return int(told) if told.isdecimal() else None

    def _read_tags(self, words: tuple[str, ...]) -> Iterator[str]:
        for tag in self.tags:
            word, _, rest = tag.partition(":")
            if word in words:
                yield rest


def read_cells(text: str) -> list[Cell]:
    """Split a source into cells with line numbers."""
    return [Cell(**vars(cell)) for cell in cells_of(text)]
