"""Publish the outputs of a cell (claims, figures, costs), which the build reads again.

(The build reads the runs and the code that a chapter used from .labkit/asked.)

An output is a bundle of MIME types, as in Jupyter. Its metadata contains {"labkit": {"kind":
…}} and the facts of that kind; the build reads these and never the pixels or the text.

    kind        shown by        facts
    claim       claim(…)        id; the claim itself is in the bundle, under CLAIM
    figure      plots           name, caption, data (the numbers drawn), provenance; its text is
                                the alt
    slider      plots           the same
    caption     plots           none: the words below a figure
    standings   leaderboard     none
    volatile    Lab             cpu_seconds, runs, stored, keys: a line that no page or twin keeps

The report of an exercise's check has no kind: its bundle has the page's task, under EXERCISE.
"""

from collections.abc import Mapping
from typing import Any

CLAIM = "application/vnd.labkit.claim+json"
EXERCISE = "application/vnd.labkit.exercise+json"


def publish_bundle(bundle: Mapping[str, Any], kind: str, **facts: Any) -> None:
    """Show one output in a notebook; outside a notebook, print its text."""
    if not in_notebook():
        print(bundle["text/plain"])
        return
    from IPython.display import display

    metadata: dict[str, Any] = {"labkit": {"kind": kind, **facts}}
    if "image/png" in bundle:  # where nbconvert looks for alt text
        metadata["image/png"] = {"alt": bundle["text/plain"]}
    display(dict(bundle), raw=True, metadata=metadata)


def in_notebook() -> bool:
    """Return whether IPython runs this code; without IPython labkit prints text."""
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return False
    return get_ipython() is not None
