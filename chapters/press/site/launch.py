"""Links that open a chapter where it runs: pyproject.toml has their addresses, [tool.labkit.launch].

    hub = "https://hub.example.edu/hub/user-redirect/git-pull?repo=…&urlpath=lab/tree/…/{chapter}.ipynb"
    colab = "https://colab.research.google.com/github/OWNER/REPOSITORY/blob/main/chapters/{chapter}.ipynb"
    codespaces = "https://codespaces.new/OWNER/REPOSITORY"

{chapter} stands for the name of a chapter's file. An address that is not there draws no link.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path

NAMES = {"hub": "the course's hub", "colab": "Colab", "codespaces": "Codespaces"}


def read_addresses(root: Path) -> dict[str, str]:
    """Read the addresses that are configured; raise ValueError for one of no known place."""
    path = root / "pyproject.toml"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = tomllib.loads(text).get("tool", {}).get("labkit", {}).get("launch", {})
    if unknown := set(found) - set(NAMES):
        raise ValueError(
            f"[tool.labkit.launch] has {', '.join(NAMES)}; got {', '.join(sorted(unknown))}"
        )
    return {name: address for name, address in found.items() if address}


def draw_links(addresses: Mapping[str, str], chapter: str) -> str:
    """Write the links to one chapter, in Markdown; empty where there are none."""
    return ", ".join(
        f"[{NAMES[name]}](<{addresses[name].replace('{chapter}', chapter)}>)"
        for name in NAMES
        if name in addresses
    )
