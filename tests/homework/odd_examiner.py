"""An examiner that misbehaves as its task says; a separate module, so that it starts quickly."""

import os
import time
from contextlib import contextmanager


@contextmanager
def odd(settings):
    if settings.get("lost"):
        raise ValueError("there is no sandbox")
    yield _grade


def _grade(task):
    if task["do"] == "die":
        os._exit(7)
    if task["do"] == "hang":
        time.sleep(60)
    if task["do"] == "raise":
        raise KeyError("odd")
    return {"did": task["do"], "pid": os.getpid()}
