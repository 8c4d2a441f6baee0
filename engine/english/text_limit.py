"""Fits captions to the painter's text encoder, which cuts off everything behind its last token (77 in CLIP's).

Joined captions lose whole sentences instead, the least useful ones; and no edit may lie in what is cut off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from .difference import compare
from .mentions import mentioned

# How many of a caption's characters are read.
TextLimit = Callable[[str], int]


def fit_caption(caption: str, keep: Sequence[str], text_limit: TextLimit) -> str:
    """The caption without the sentences that do not fit the encoder: those with the fewest words of `keep` go
    first, of equal ones the last. A single sentence stays as it is.
    """
    sentences = re.split(r"(?<=[.!?;]) ", caption)
    while len(sentences) > 1 and _is_cut(" ".join(sentences), text_limit):
        useful = [len(mentioned(sentence, keep)) for sentence in sentences]
        least = max(range(len(sentences)), key=lambda i: (-useful[i], i))
        del sentences[least]
    return " ".join(sentences)


def cut_edit(caption: str, edited: str, text_limit: TextLimit) -> str | None:
    """The reason why an edited caption cannot be painted as it is, a word of an edit that is cut off; None if all are
    read.
    """
    end = text_limit(edited)
    for word in compare(caption, edited).added:
        if word.end > end:
            return (
                f"the text encoder reads the first {end} of its {len(edited)} characters, and {word.text!r} is behind"
            )
    return None


def _is_cut(caption: str, text_limit: TextLimit) -> bool:
    return text_limit(caption) < len(caption.rstrip(" .!?;"))
