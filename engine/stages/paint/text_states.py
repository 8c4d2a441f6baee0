"""Text states that variants are made by: each caption encoded once, and released after its last use.

Below its last level a variant of graded severity is made by states between those of the source's own caption and those
of the edited one, with nothing else changed. States are large, a quarter of a megabyte per caption at full size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...models.clip import ClipText
from ...variant import Variant

Floats = NDArray[np.float32]

# The share of the edited caption's states below which the pocket's pictures show nothing of it, as measured.
_FAINTEST = 0.4


class TextStates:
    """Takes the captions that will be asked for, one for each use, in about that order. Their states lie where the
    denoiser takes them, or `on_host`.
    """

    def __init__(self, text: ClipText, captions: Sequence[str], *, on_host: bool = False) -> None:
        self._batch = text.plan.at_once
        self._encode = (lambda batch: list(text.encode(batch)[0])) if on_host else text.encode_states
        self._uses = Counter(captions)
        self._line = list(dict.fromkeys(captions))
        self._states: dict[str, Any] = {}

    def take(self, caption: str) -> Any:
        """States [T, D] of a caption, for one of its uses.

        As many captions as go through the encoder together are encoded when one is missing.
        Raises KeyError for a caption that has no use left.
        """
        if not self._uses[caption]:
            raise KeyError(caption)
        while caption not in self._states:
            part, self._line = self._line[: self._batch], self._line[self._batch :]
            self._states.update(zip(part, self._encode(part), strict=True))
        self._uses[caption] -= 1
        return self._states[caption] if self._uses[caption] else self._states.pop(caption)


def text_of(variant: Variant, plain: Floats, edited: Floats) -> Floats:
    """What a variant is made by, of the states [T, D] of its source's caption and of its edited one: at its last level
    the latter, below it a share of the way, in even steps above `_FAINTEST`.
    """
    if variant.level == variant.levels:
        return edited
    share = _FAINTEST + (1 - _FAINTEST) * variant.level / variant.levels
    return plain + np.float32(share) * (edited - plain)
