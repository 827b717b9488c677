"""Draw a figure on a page: its picture, its caption, and a small sign that opens its provenance."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from press.book.facts import Json, join_text, provenance_line

FIGURE = """<figure class="labkit-figure">

```{{raw}} html
{picture}
```

<figcaption>

{caption}

<details class="labkit-provenance"><summary aria-label="Where these numbers come from">i</summary>
{facts}</details></figcaption></figure>"""


def draw_figure(output: Json, build: Mapping[str, Any]) -> str:
    """Write a figure in Markdown: the drawing where the build made one, else the PNG of the twin.

    A drawing stands in the page itself, so that its colours can be the page's.
    """
    about, data = output["metadata"]["labkit"], output["data"]
    if "image/svg+xml" in data:
        picture = join_text(data["image/svg+xml"]).strip()
    else:
        alt = html.escape(" ".join(join_text(data["text/plain"]).split()))
        coded = "".join(join_text(data["image/png"]).split())
        picture = f'<img alt="{alt}" src="data:image/png;base64,{coded}">'
    facts = html.escape(provenance_line(about.get("provenance"), build))
    return FIGURE.format(picture=picture, caption=about["caption"].strip(), facts=facts)
