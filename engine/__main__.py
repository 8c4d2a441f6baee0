"""`python -m counterfactory.engine` is the command `counterfactory`."""

import sys

from .cli.arguments import main

sys.exit(main())
