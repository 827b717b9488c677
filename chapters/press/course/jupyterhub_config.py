"""JupyterHub's configuration file: applies the settings named by LABKIT_COURSE."""

import os
from pathlib import Path

from press.course.config import configure
from press.course.settings import read

c = get_config()  # noqa: F821 (JupyterHub hands it in)
configure(c, read(Path(os.environ["LABKIT_COURSE"])))
