"""Links that open a chapter in a running environment: a course's hub, Colab, Binder, Codespaces.

Two addresses in pyproject.toml decide which there are. Repository, in [project.urls], is the book's
address on GitHub, whose notebooks the three services open. The hub's own address is `hub` in
[tool.labkit.launch]; {chapter} stands in it for the name of a chapter's file. Without an address
there is no link.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

NAMES = {
    "hub": "the course's hub",
    "colab": "Colab",
    "binder": "Binder",
    "codespaces": "Codespaces",
}
SERVICES = {
    "colab": "https://colab.research.google.com/github/{name}/blob/HEAD/chapters/{chapter}.ipynb",
    "binder": "https://mybinder.org/v2/gh/{name}/HEAD?labpath=chapters/{chapter}.ipynb",
    "codespaces": "https://codespaces.new/{name}",
}
GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?")


def read_addresses(root: Path) -> dict[str, str]:
    """Read the configured addresses; raise ValueError for any key but hub."""
    path = root / "pyproject.toml"
    tables = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    found = tables.get("tool", {}).get("labkit", {}).get("launch", {})
    if unknown := set(found) - {"hub"}:
        raise ValueError(
            f"[tool.labkit.launch] may have only the key hub, got {', '.join(sorted(unknown))}; "
            "remove it"
        )
    addresses = {name: address for name, address in found.items() if address}
    repository = tables.get("project", {}).get("urls", {}).get("Repository", "")
    if match := GITHUB.fullmatch(repository):
        for name, address in SERVICES.items():
            addresses[name] = address.replace("{name}", match[1])
    return addresses


def draw_links(addresses: Mapping[str, str], chapter: str) -> str:
    """Write the links to one chapter, in Markdown; empty if there are none."""
    return ", ".join(
        f"[{NAMES[name]}](<{addresses[name].replace('{chapter}', chapter)}>)"
        for name in NAMES
        if name in addresses
    )
