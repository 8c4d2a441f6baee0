"""Which words of a caption a random edit may replace, and by which: what LANCE-R (arXiv 2305.19164) draws from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .difference import words_of
from .words import allowed_alternatives, kept_words, spans

# Words that say how others belong together, or how many there are: replacing one edits nothing that is pictured.
_STOP = frozenset(
    re.findall(
        "[a-z]+",
        "a an the this that these those some any each every no not all both few more most other another such same own "
        "i me my we us our you your he him his she her it its they them their who whom whose which what where when why "
        "how is am are was were be been being has have had having do does did doing can could may might must shall "
        "should will would and but or nor if then than so as because while until about above across after against "
        "along among around at before behind below beneath beside between beyond by down during for from in inside "
        "into near next of off on onto out outside over past through to toward towards under up upon with within "
        "without there here also just only very too again once one two three four five six seven eight nine ten many "
        "much several lot lots",
    )
)
_FEWEST_LETTERS = 3


def random_words(caption: str, keep: Sequence[str]) -> list[str]:
    """The words of a caption, each once, that are no stop words and hold no word of `keep`."""
    fixed = {word.casefold() for word in kept_words(caption, keep)}
    return [word for word in spans(caption, 1, keep) if _is_content(word) and word.casefold() not in fixed]


def blank(caption: str, word: str) -> tuple[str, str]:
    """What stands before a word of a caption and after it, where it stands first.

    Raises ValueError for a word that the caption does not have.
    """
    for candidate in words_of(caption):
        if candidate.text == word:
            return caption[: candidate.start], caption[candidate.end :]
    raise ValueError(f"{caption!r} has no word {word!r}")


def random_alternatives(
    alternatives: Sequence[str], word: str, caption: str, keep: Sequence[str], avoid: Sequence[str]
) -> tuple[str, ...]:
    """Those of the words that may stand in the place of one: no stop words, none that the caption says already, and
    none that the rules of all edits refuse.
    """
    present = {candidate.same for candidate in words_of(caption)}
    new = [candidate for candidate in alternatives if _is_content(candidate) and candidate.casefold() not in present]
    return allowed_alternatives(new, word, keep, avoid)


def _is_content(word: str) -> bool:
    return word.isalpha() and len(word) >= _FEWEST_LETTERS and word.casefold() not in _STOP
