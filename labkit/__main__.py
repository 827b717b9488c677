"""Run the command `labkit` as `python -m labkit`; the command is installed outside the package."""

import sys
from importlib.metadata import entry_points

(command,) = entry_points(group="console_scripts", name="labkit")
sys.exit(command.load()())
