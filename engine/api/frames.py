"""Tables as pandas has them, where it is installed: no part of this package needs it."""

from __future__ import annotations

from types import ModuleType

from ..errors import CounterfactoryError


def pandas() -> ModuleType:
    """The library. Raises CounterfactoryError where it is not installed."""
    try:
        import pandas as library
    except ImportError as error:
        raise CounterfactoryError(
            "a table as pandas needs the package pandas, which is not installed: run `pip install pandas`"
        ) from error
    module: ModuleType = library
    return module
