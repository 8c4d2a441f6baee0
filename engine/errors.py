"""The one exception that a user sees: a sentence that says what was asked, what was found, and what to do."""

from collections.abc import Sequence


class CounterfactoryError(Exception):
    """Something the user can mend; the command line prints it as one sentence and exits with status 2."""


def list_some(items: Sequence[str], most: int) -> str:
    """The first `most` items with commas between, and how many more there are."""
    return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")
