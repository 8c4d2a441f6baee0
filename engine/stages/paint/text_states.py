"""Text states of many captions, each encoded once and released after its last use.

States are large, a quarter of a megabyte per caption at full size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ...models.clip import ClipText


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
        states = self._states[caption]
        self._uses[caption] -= 1
        if not self._uses[caption]:
            del self._states[caption]
        return states
