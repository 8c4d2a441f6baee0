"""The one exception that a user sees: a sentence that says what was asked, what was found, and what to do."""


class CounterfactoryError(Exception):
    """Something the user can mend; the command line prints it as one sentence and exits with status 2."""
