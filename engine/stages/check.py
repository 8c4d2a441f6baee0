"""Scores of painted pictures, of which verdicts are made (verdict.py). Most are CLIP's (Radford et al. 2021, arXiv
2103.00020):

    image_text     likeness of the picture to its caption                                  LANCE, arXiv 2305.19164, 3.3
    directional    the change of the pictures along the change of the captions             Gal et al., arXiv 2108.00946
    image_image    likeness of the picture to its source                                   LANCE
    source_text    likeness of the source to its caption                                   LANCE
    nearer         how much liker the picture is to its caption than to the source's       LANCE
    edit           that the picture shows its caption rather than the same with an edit undone, of the worst edit
    label          how much of the probability of its label's class it keeps, zero-shot, of the classes of the set
    layout         how far outlines lie where the mask changes its class (layout.py)       pictures with masks

Its pixels say whether it is a sound picture, and one of its own (quality.py), and whether edits of colours show
(colours.py). Edited captions have scores as texts (text_filters.py), which rewriting measured.

A score that makes no sense for a picture is left out, and no verdict asks for it: "edit" of a control, "label" where
the set has fewer than two classes, "layout" without a mask, "distinct" of a source's first variant, "recoloured" of
edits of other things than colours that the source has.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..schedule.overlap import ahead, behind, in_chunks
from ..sources.pictures import Pictures
from ..sources.source import Source, load_mask
from ..suite import PaintedRow
from ..tasks.undo import undo_edits
from ..variant import Variant
from .colours import Region, Seen, find_colour, recolouring, see
from .desk import Desk
from .layout import Layout, outlined_share
from .quality import SourceLook, Thumbnail, distinctness, look_at_source, quality_scores, thumbnail
from .scores import Floats, edit_scores, label_score, score
from .verdict import CheckSettings

Pixels = NDArray[np.uint8]

# Rounds of batches that are encoded in one go, so that no stream waits for another, nor for the record, after each.
_TOGETHER = 3
# Sources that are kept in mind while their pictures are looked at, and how many are looked at beside each other.
_SOURCES = 16
_LOOKERS = 2


@dataclass(frozen=True)
class Scored:
    """The scores of a picture by name, and those of its edits in their order."""

    scores: Mapping[str, float]
    edits: tuple[float, ...]


class _Look(NamedTuple):
    """A painted picture, what it is compared by, and what its pixels say."""

    pixels: Pixels
    thumbnail: Thumbnail
    scores: dict[str, float]


@dataclass(frozen=True)
class _Asked:
    """What is asked of a picture: the two texts of each edit, its class, its source's control, where it has one, and
    the source's variants before it.
    """

    undone: Sequence[tuple[str, str]]
    place: int | None
    control: Variant | None
    earlier: Sequence[Variant]


def run(
    desk: Desk,
    painted: Mapping[Variant, PaintedRow],
    pictures: Pictures,
    settings: CheckSettings,
    layout: Layout = outlined_share,
) -> dict[Variant, Scored]:
    """The scores of painted pictures, without those whose source's picture cannot be read.

    The label of a variant is compared with its source's first control, where there is one, beside the original.
    """
    asked = _asked(desk, painted)

    def key(variant: Variant) -> str:
        what, control = asked[variant], asked[variant].control
        beside = None if control is None else painted[control].image.sha256
        return desk.recipes.scores_key(
            painted[variant].image.sha256,
            variant.source.key,
            (variant.caption, variant.edits, variant.edited_caption),
            None if what.place is None else (desk.classes.names, beside),
            [painted[other].image.sha256 for other in what.earlier],
        )

    def make(todo: list[Variant]) -> Generator[dict[Variant, object], None, None]:
        images = pictures.of(variant.source for variant in todo)
        shown = {variant: asked[variant] for variant in todo if variant.source.key in images}

        @lru_cache(_SOURCES)
        def seen(source: Source) -> SourceLook:
            return look_at_source(images[source.key])

        @lru_cache(_SOURCES)
        def mask(source: Source, size: tuple[int, int]) -> NDArray[Any]:
            return load_mask(source, size)

        @lru_cache(_SOURCES)
        def in_its_light(source: Source) -> Seen:
            return see(images[source.key])

        @lru_cache(_SOURCES)
        def where(source: Source, colour: str) -> tuple[Region, ...]:
            return find_colour(in_its_light(source), colour)

        def look(variant: Variant) -> _Look:
            pixels, source = desk.suite.load_image(painted[variant]), variant.source
            own = thumbnail(pixels)
            found = quality_scores(pixels, own, seen(source))
            found |= recolouring(pixels, variant.edits, lambda colour: where(source, colour))
            if source.mask_path is not None:
                found["layout"] = layout(pixels, mask(source, pixels.shape[:2]))
            return _Look(pixels, own, found)

        for found in _scored(desk, shown, images, look, settings):
            yield {
                variant: {"scores": dict(scored.scores), "edits": list(scored.edits)}
                for variant, scored in found.items()
            }

    with desk.meter.stage("check"):
        rows = desk.recorded("check", {variant: key(variant) for variant in painted}, make, total=desk.pictures)
    return {variant: Scored(row["scores"], tuple(row["edits"])) for variant, row in rows.items()}


def _asked(desk: Desk, painted: Mapping[Variant, PaintedRow]) -> dict[Variant, _Asked]:
    first = {v.source.key: v for v in painted if v.kind == "control" and v.index == 0}
    found: dict[Variant, _Asked] = {}
    made: dict[str, list[Variant]] = {}
    for variant in sorted(painted, key=lambda one: one.index):
        if variant.kind == "variant":
            made.setdefault(variant.source.key, []).append(variant)
    for variant in painted:
        place = desk.classes.index(variant.source.label)
        compared = variant.kind == "variant" and place is not None
        found[variant] = _Asked(
            undo_edits(variant.caption, variant.edited_caption, variant.edits),
            place,
            first.get(variant.source.key) if compared else None,
            made[variant.source.key][: made[variant.source.key].index(variant)] if variant.kind == "variant" else (),
        )
    return found


def _scored(
    desk: Desk,
    asked: Mapping[Variant, _Asked],
    images: Mapping[str, Pixels],
    look: Callable[[Variant], _Look],
    settings: CheckSettings,
) -> Iterator[dict[Variant, Scored]]:
    """Scores, a batch at a time; each text and each picture is embedded once.

    A source's pictures come together, and those first that others are compared with: its control and earlier variants,
    whether they are to be scored or have been.
    """
    if not asked:
        return
    controls = [what.control for what in asked.values() if what.control is not None]
    earlier = [variant for what in asked.values() for variant in what.earlier]
    places = {key: place for place, key in enumerate(dict.fromkeys(v.source.key for v in asked))}
    needed = dict.fromkeys((*controls, *earlier, *asked))  # the first control before the variants of its number
    in_turn = sorted(needed, key=lambda one: (places[one.source.key], one.index))
    image, text = desk.models.clip_image(), desk.models.clip_text()
    at_once = _TOGETHER * image.plan.at_once
    with closing(ahead(in_turn, look, at_once, _LOOKERS)) as looking:
        # The first pictures are looked at while texts and sources are embedded.
        looked = chain([next(looking)], looking)
        texts = text.embed(t for item in asked.items() for t in _texts(*item))
        originals = dict[str, Floats]()
        for keys in in_chunks(places, at_once):
            originals |= zip(keys, image.encode([images[key] for key in keys]), strict=True)
        painted: dict[Variant, Floats] = {}
        thumbnails: dict[Variant, Thumbnail] = {}
        labelled = any(what.place is not None for what in asked.values())
        classes = desk.classes.embed(text, settings.label_prompt) if labelled else None

        def encoded() -> Iterator[tuple[dict[Variant, _Look], Floats]]:
            for part in in_chunks(looked, at_once):
                looks = {variant: _loaded(found) for variant, found in part}
                yield looks, image.encode([seen.pixels for seen in looks.values()])

        def measure(part: tuple[dict[Variant, _Look], Floats]) -> dict[Variant, Scored]:
            looks, embedded = part
            painted.update(zip(looks, embedded, strict=True))
            thumbnails.update((variant, seen.thumbnail) for variant, seen in looks.items())
            done = {}
            for variant, seen in looks.items():
                if (what := asked.get(variant)) is None:
                    continue
                original, picture = originals[variant.source.key], painted[variant]
                scores = score(original, texts[variant.caption], picture, texts[variant.edited_caption]) | seen.scores
                if what.earlier:
                    others = [thumbnails[other] for other in what.earlier]
                    scores["distinct"] = distinctness(seen.thumbnail, others)
                pairs = [(texts[made], texts[kept]) for made, kept in what.undone]
                edits = edit_scores(picture, pairs, settings.logit_scale)
                if edits:
                    scores["edit"] = min(edits)
                if what.place is not None and classes is not None:
                    beside = [original] if what.control is None else [original, painted[what.control]]
                    scores["label"] = label_score(picture, beside, classes, what.place, settings.logit_scale)
                done[variant] = Scored(scores, tuple(edits))
            return done

        # Beside the network, which works outside of the interpreter.
        for done in behind(encoded(), measure, depth=1):
            if done:
                yield done


def _texts(variant: Variant, asked: _Asked) -> tuple[str, ...]:
    return (variant.caption, variant.edited_caption, *(text for pair in asked.undone for text in pair))


def _loaded(found: _Look | Exception) -> _Look:
    if isinstance(found, Exception):
        raise found
    return found
