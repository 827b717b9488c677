"""Links that open a chapter where it runs: on a hub, in Colab, in Codespaces.

Their addresses stand in pyproject.toml, in [tool.labkit.launch], as hub, colab and codespaces.
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
