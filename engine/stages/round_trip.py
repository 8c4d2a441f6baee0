"""The caption round trip: the captioner looks at a painted picture, and what it says is held against what was painted.

    said_label     1 where the captioner still names the label, 0 where it does not      of sources whose caption does
    said_edits     how many of the words that an edit brought it says, a share; of the worst edit

Words that an edit took away count as said where they are gone. The captioner has no part in painting, so that what it
reads is no echo of the caption. It costs as much as captioning the pictures: [check] recaption asks for it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..edit import Edit
from ..schedule.overlap import ahead, in_chunks
from ..suite import PaintedRow
from ..tasks.mentions import mentioned, normalise
from ..tasks.names import ground, names_of
from ..variant import Variant
from .caption import CaptionSettings, caption_images, named_prefix
from .desk import Desk
from .text_filters import changed_words

Pixels = NDArray[np.uint8]
# Words of a phrase that a caption may put otherwise.
_PLACES = ("in", "on", "at", "of", "by", "to", "from", "with", "during")
_SMALL = frozenset({*("a", "an", "the", "its", "it", "is", "are", "and"), *_PLACES})
# Pictures that are read ahead of the network.
_AHEAD = 8


def run(
    desk: Desk, painted: Mapping[Variant, PaintedRow], settings: CaptionSettings
) -> dict[Variant, dict[str, float]]:
    """The scores of painted pictures; captions are kept as those of sources are. Controls have no edit."""
    # A prefix that names the label would put the answer into the captioner's mouth.
    prefix = named_prefix(settings.prefix, None)
    keys = {variant: desk.recipes.caption_key(row.image.sha256, prefix) for variant, row in painted.items()}

    def load(variant: Variant) -> Pixels:
        return desk.suite.load_image(painted[variant])

    def make(todo: list[Variant]) -> Generator[dict[Variant, str], None, None]:
        for part in in_chunks(ahead(todo, load, _AHEAD), settings.batch):
            shown = {variant: _loaded(found) for variant, found in part}
            names = [keys[variant] for variant in shown]
            made = caption_images(list(shown.values()), names, desk.models.blip2(), settings, prefix)
            yield dict(zip(shown, made, strict=True))

    with desk.meter.stage("check"):
        captions: Mapping[Variant, str] = desk.recorded("caption", keys, make)
    return {variant: said(variant, caption) for variant, caption in captions.items()}


def said(variant: Variant, caption: str) -> dict[str, float]:
    """The scores of a picture of which the captioner says `caption`."""
    found = {}
    label = variant.source.label
    if label is not None and ground(variant.caption, names_of(label)):
        found["said_label"] = float(bool(ground(caption, names_of(label))))
    if variant.edits:
        found["said_edits"] = round(min(said_share(edit, caption) for edit in variant.edits), 6)
    return found


def said_share(edit: Edit, caption: str) -> float:
    """The share of an edit's own words that a caption says, or of those that it took away that a caption leaves out."""
    taken, brought = (_content(words) for words in changed_words(edit))
    if brought:
        return len(mentioned(caption, brought)) / len(brought)
    return 1 - len(mentioned(caption, taken)) / len(taken) if taken else 1.0


def _content(words: str) -> Sequence[str]:
    return [word for word in dict.fromkeys(normalise(words).split()) if word not in _SMALL]


def _loaded(found: Pixels | Exception) -> Pixels:
    if isinstance(found, Exception):
        raise found
    return found
