"""``python -m quantgate`` is the command line."""

import sys

from quantgate.cli import main

sys.exit(main())
