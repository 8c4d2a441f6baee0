"""What of a caption the painter's text encoder reads: it cuts off what is behind its last token (77 in CLIP's).

Joined captions lose whole sentences instead, the least useful ones; and no edit may lie in what is cut off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from .difference import compare
from .mentions import mentioned

# How many of a caption's characters are read.
Room = Callable[[str], int]


def fit_caption(caption: str, keep: Sequence[str], room: Room) -> str:
    """The caption without the sentences that the encoder has no room for: those with the fewest words of `keep` go
    first, of equal ones the last. A single sentence stays as it is.
    """
    sentences = re.split(r"(?<=[.!?;]) ", caption)
    while len(sentences) > 1 and _is_cut(" ".join(sentences), room):
        useful = [len(mentioned(sentence, keep)) for sentence in sentences]
        least = max(range(len(sentences)), key=lambda i: (-useful[i], i))
        del sentences[least]
    return " ".join(sentences)


def cut_edit(caption: str, edited: str, room: Room) -> str | None:
    """The reason why an edited caption cannot be painted as it is: a word that an edit brings is not read."""
    end = room(edited)
    for word in compare(caption, edited).added:
        if word.end > end:
            return (
                f"the text encoder reads the first {end} of its {len(edited)} characters, and {word.text!r} is behind"
            )
    return None


def _is_cut(caption: str, room: Room) -> bool:
    return room(caption) < len(caption.rstrip(" .!?;"))
