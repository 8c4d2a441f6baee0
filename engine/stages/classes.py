"""The classes of a set's labels, as texts that CLIP compares pictures with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..english.label_names import label_words
from ..profile.caption import LABEL

if TYPE_CHECKING:  # commands that open no network should not load a runtime
    from ..models.clip import ClipText

Floats = NDArray[np.float32]


class Classes:
    """The distinct classes that labels name; none where they name fewer than two.

    A class is called by the words of its label (`label_words`); labels without words, such as numbers of classes, say
    nothing to CLIP and are no classes. Texts are embedded when they are first asked for, once a run.
    """

    def __init__(self, labels: Iterable[str | None] = ()) -> None:
        called = sorted({name for label in labels if (name := _class_name(label))})
        self.names: tuple[str, ...] = tuple(called) if len(called) > 1 else ()
        self._embedded: dict[str, Floats] = {}

    def index(self, label: str | None) -> int | None:
        """The place of a label's class in `names`; None where it is none of them."""
        name = _class_name(label)
        return self.names.index(name) if name in self.names else None

    def embed(self, text: ClipText, prompt: str) -> Floats:
        """Unit embeddings [K, E] of `prompt` with each class in place of "{label}"."""
        if prompt not in self._embedded:
            prompts = [prompt.replace(LABEL, name) for name in self.names]
            vectors = text.embed(prompts)
            self._embedded[prompt] = np.stack([vectors[phrase] for phrase in prompts])
        return self._embedded[prompt]


def _class_name(label: str | None) -> str:
    words = ", ".join(label_words(label)) if label is not None else ""
    return "" if words.isdigit() else words
