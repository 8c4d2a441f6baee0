"""Text of suites and data sets, which anybody may have written, for where it could do more than be read."""

from __future__ import annotations

import re
import unicodedata

# What joins letters of some scripts, and parts of emoji.
_JOINERS = "\u200c\u200d"
# What begins a formula in a spreadsheet; full-width signs do so in some.
_COMPUTED = re.compile("[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")


def for_terminal(text: str) -> str:
    """The text with what a terminal would obey written out: control characters but for the end of a line, directions of
    writing, other characters without a shape, halves of surrogate pairs.
    """
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    obeyed = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in ("\n", *_JOINERS)
    return character.encode("unicode_escape").decode() if obeyed else character


def for_spreadsheet(cell: object) -> object:
    """A cell of CSV that a spreadsheet shows and never computes: text that could be a formula has an apostrophe."""
    return f"'{cell}" if isinstance(cell, str) and _COMPUTED.match(cell) else cell
