"""Make `python -m press` the command `labkit`, also where nothing is installed."""

import sys

from press.cli import main

sys.exit(main())
