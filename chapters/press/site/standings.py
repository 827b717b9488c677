"""The page `leaderboard`: the standings that the book's chapters ranked, as they were executed."""

from collections.abc import Mapping

from press.book.facts import Json, join_text, output_kind

INTRO = """# Leaderboard

Recipes on the book's shared ladder: the same text and steps for all, each at its own best learning
rate. One seed chose the rate, on validation text; five others report, on test text. Entries that
share a letter in the column *group* were not told apart, by paired *t* tests over seeds and Holm's
correction for all pairs. A rank inside a group may be chance.

Rank yours. The command takes recipes' names, and a norm from a file of yours; every entry gets the
same budget of training operations. The default pays some eighty steps: enough to see a norm fail,
too few to rank one. `--flops 9e11` is as long as the ladder's first rung.

```bash
labkit leaderboard --starter my_norm.py   # writes a norm to begin with
labkit leaderboard pre pre+my_norm.py
```

How it is made, and what it cannot say, stands in its chapter.
"""
BOX = '<div class="pst-scrollable-table-container">{}</div>'  # the theme's: it scrolls by itself
NONE = "No chapter has ranked recipes yet."


def standings_page(notebooks: Mapping[str, Json], titles: Mapping[str, str]) -> str:
    """Write the page from the executed notebooks."""
    parts = [INTRO]
    for name, notebook in notebooks.items():
        for cell in notebook["cells"]:
            for output in cell.get("outputs", []):
                if output_kind(output) == "standings":
                    table = join_text(output["data"]["text/html"])
                    parts += [f"## From [{titles.get(name, name)}]({name}.ipynb)",
                              f"```{{raw}} html\n{BOX.format(table)}\n```"]  # fmt: skip
    return "\n\n".join(parts if len(parts) > 1 else [INTRO, NONE]) + "\n"
