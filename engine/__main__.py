"""`python -m counterfactory.engine` is the command `counterfactory`."""

from .cli.process import run

run()
