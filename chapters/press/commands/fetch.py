"""`labkit fetch`: get the two programs that come from npm."""

from typing import Annotated, Literal

from typer import Argument, Typer

from press.course import proxy
from press.site import pyodide

app = Typer()


@app.command("fetch")
def fetch_program(
    program: Annotated[Literal["pyodide", "proxy"], Argument()],
) -> None:
    """Fetch a program from npm, once: Pyodide for the site's pages, or a course's proxy."""
    if program == "pyodide":
        print(pyodide.fetch_pyodide())
        return
    proxy.install_proxy()
    print(" ".join(proxy.find_proxy()))
