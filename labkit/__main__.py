"""Make `python -m labkit` the command, which is installed beside the package, not in it."""

import sys
from importlib.metadata import entry_points

(command,) = entry_points(group="console_scripts", name="labkit")
sys.exit(command.load()())
