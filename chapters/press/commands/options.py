"""What several commands share: options, and a command whose options take several words."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import BadParameter, Option
from typer.core import TyperCommand

Size = Annotated[Literal["book", "gpu"], Option(help="the size of the runs")]
Only = Annotated[
    list[str] | None, Option(metavar="NAME...", help="these chapters, by name or number")
]
Homework = Annotated[str | None, Option(help="the homework's name, if there are several")]
Engine = Annotated[str | None, Option(help="where runs train: processes (default), serial, ray")]
Address = Annotated[str | None, Option(help="the address of the cluster, for the engine ray")]

AN_OPTION = re.compile(r"-[^\d.]")  # a negative number is none


def sources() -> dict[str, Path]:
    """Find the book's homeworks, by name."""
    from press.book.chapters import find_root

    return {path.stem: path for path in sorted((find_root() / "chapters/homework").glob("hw*.py"))}


class Several(TyperCommand):
    """A command; its options that show `NAME...` take all words up to the next option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words; typer itself supports only one word per option."""
        options = [one for one in self.params if str(one.metavar).endswith("...")]
        several = {name for one in options for name in one.opts if AN_OPTION.match(name)}
        return super().parse_args(ctx, repeat_options(args, several))


def repeat_options(words: list[str], several: set[str]) -> list[str]:
    """Rewrite `--only 03 05` as `--only 03 --only 05`. Raise if no word follows."""
    repeated, option = [], ""
    for word, following in pairwise([*words, "--"]):
        if word in several:
            option = word
            if AN_OPTION.match(following):
                raise BadParameter("at least one word must follow it", param_hint=f"'{option}'")
            continue
        if AN_OPTION.match(word):
            option = ""
        repeated += [option, word] if option else [word]
    return repeated
