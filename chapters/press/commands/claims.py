"""`labkit claims`: preregister claims before the runs that decide them, and list the locks."""

from typing import Annotated, Literal

from typer import Argument, Option, Typer

app = Typer(name="claims", help="Preregister claims, forecast their verdicts, and see the scores.")

Asked = Annotated[
    list[str], Argument(metavar="ID=P", help="a claim, and the probability that it will hold")
]


@app.command("lock")
def lock_claims(
    claims: Asked,
    said: Annotated[str | None, Option(help="the sentence (default: as recorded)")] = None,
    criterion: Annotated[str | None, Option(help='such as "> 0" (default: as recorded)')] = None,
    arms: Annotated[
        list[str] | None, Option("--arm", metavar="ARM", help="one of the two arms, on the ladder")
    ] = None,
    rungs: Annotated[str | None, Option(metavar="S,M", help="the rungs, on the ladder")] = None,
    n: Annotated[
        str | None,
        Option("--n", metavar="20,10", help="number of evaluation seeds, or one per rung"),
    ] = None,
    margin: Annotated[
        float | None, Option(help="the smallest difference that so many seeds detect")
    ] = None,
    paired: Annotated[
        bool | None,
        Option(help="compare runs with the same seed in pairs (default: yes, on the ladder)"),
    ] = None,
    rate: Annotated[str | None, Option(help="how the learning rate is found")] = None,
    sort: Annotated[Literal["ranking", "law-like"] | None, Option(help="the kind of claim")] = None,
    paper: Annotated[float | None, Option(help="the probability entered for the source")] = None,
    mine: Annotated[bool, Option("--mine", help="a forecast of your own: no lock")] = False,
) -> None:
    """Preregister claims before the runs that decide them; a lock never changes."""
    from press.book import chapters, locking

    root, asked = chapters.find_root(), locking.parse_asked(claims)
    if mine:
        lines = locking.forecast_claims(root, asked)
    else:
        given = {
            "said": said, "criterion": criterion, "n": n, "margin": margin, "rate": rate,
            "sort": sort, "paper": paper, "paired": paired,
            "arms": arms,
            "rungs": rungs.split(",") if rungs else None,
        }  # fmt: skip
        lines = locking.lock_claims(root, asked, given)
    print("\n".join(lines))


@app.command("locks")
def list_locks() -> None:
    """List the locks with the verdict of each, and the scores of the forecasts."""
    from press.book import chapters, locking

    print(locking.describe_locks(chapters.find_root()))
