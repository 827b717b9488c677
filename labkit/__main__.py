"""Make `python -m labkit` the command."""

import sys

from labkit.cli import main

sys.exit(main())
