"""What JupyterHub reads: the settings named by LABKIT_COURSE, applied."""

import os
from pathlib import Path

from press.course.config import configure
from press.course.settings import read

c = get_config()  # pyright: ignore
configure(c, read(Path(os.environ["LABKIT_COURSE"])))
