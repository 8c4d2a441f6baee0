"""`python -m counterfactory.engine` is the command `counterfactory`."""

import sys

from .cli import main

sys.exit(main())
