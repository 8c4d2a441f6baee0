"""Scores of painted pictures, from which verdicts follow (verdict.py). Most are CLIP's (Radford et al. 2021, arXiv
2103.00020):

    image_text     likeness of the picture to its caption                                  LANCE, arXiv 2305.19164, 3.3
    directional    the change of the pictures along the change of the captions             Gal et al., arXiv 2108.00946
    image_image    likeness of the picture to its source                                   LANCE
    source_text    likeness of the source to its caption                                   LANCE
    nearer         how much better the picture fits its caption than the source's          LANCE
    edit           that the picture shows its caption rather than the same with an edit undone, of the worst edit
    label          how much of the probability of its label's class it keeps, zero-shot, of the classes of the set
    layout         how far outlines lie where the mask changes its class (quality.py)      pictures with masks

Others are of its pixels: quality.py, visibility.py, registration.py, colours.py, kept.py. A score that makes no sense
for a picture is left out, and no verdict asks for it: "edit" of a control, "label" where the set has fewer than two
classes, "layout" without a mask, "distinct" of a source's first variant, "recoloured" of edits of other things than
colours that the source has, "kept" where no caption names a colour, "visible" where the source shows next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...english.replacing import undo_edits
from ...files.fill import fits
from ...schedule.overlap import in_chunks, once_each, write_behind
from ...sources.shapes import fit_boxes
from ...sources.source import Pictures, Source, load_mask
from ...variant import Variant
from ..run import Painted, Recipe, Run, load_ahead
from .clip_scores import Floats, edit_scores, label_score, score
from .colours import find_colour, recolouring, source_colours
from .kept import find_things, kept_score
from .quality import Thumbnail, distance, look_at_source, outlined_share, quality_scores, small_outlines, thumbnail
from .registration import registration_scores, source_map
from .visibility import SourceSight, see_source, visibility_scores

Pixels = NDArray[np.uint8]

# Rounds of batches that are encoded in one go, so that no stream waits for another, nor for the record, after each.
_TOGETHER = 3
# Sources that are cached while their pictures are looked at, and how many are looked at in parallel.
_SOURCES = 16
_LOOKERS = 2
# Pictures whose scores go on record together.
_RECORDED = 8


@dataclass(frozen=True)
class PictureScores:
    """The scores of a picture by name, and those of its edits in their order."""

    scores: Mapping[str, float]
    edits: tuple[float, ...]


class _Look(NamedTuple):
    """A painted picture, its thumbnail, and the scores of its pixels."""

    pixels: Pixels
    thumbnail: Thumbnail
    scores: dict[str, float]


@dataclass(frozen=True)
class _Question:
    """What a picture is compared with: each edit's two texts, its class, its source's control, and variants before."""

    undone: Sequence[tuple[str, str]]
    place: int | None
    control: Variant | None
    earlier: Sequence[Variant]


def score_pictures(run: Run, painted: Painted, pictures: Pictures) -> dict[Variant, PictureScores]:
    """The scores of painted pictures, without those whose source's picture cannot be read. The label of a variant is
    compared with the original and, where there is one, with its source's first control.
    """
    questions = _questions(run, painted)

    def key(variant: Variant) -> str:
        question, control = questions[variant], questions[variant].control
        control_sha256 = None if control is None else painted[control].image.sha256
        return run.keys.scores_key(
            painted[variant].image.sha256,
            variant.source.truth_key,
            (variant.caption, variant.edits, variant.edited_caption),
            None if question.place is None else (run.classes.names, control_sha256),
            [painted[other].image.sha256 for other in question.earlier],
        )

    def make(todo: list[Variant]) -> Generator[dict[Variant, object], None, None]:
        images = pictures.of(variant.source for variant in todo)
        answerable = {variant: questions[variant] for variant in todo if variant.source.key in images}
        look = _looker(run, painted, images)
        if answerable and run.profile.by_rule:
            seen = ((v, {"scores": one.scores, "edits": []}) for v, one in _looks(answerable, look, _LOOKERS))
            yield from map(dict, in_chunks((pair for pair in seen if pair[0] in answerable), _RECORDED))
        elif answerable:
            for batch in _Comparison(run, answerable, images).scores(look):
                yield {v: {"scores": dict(scored.scores), "edits": list(scored.edits)} for v, scored in batch.items()}

    def sound(variant: Variant, row: Any) -> bool:
        return fits(PictureScores, row) and len(row["edits"]) in (0, len(variant.edits))

    with run.meter.stage("check"):
        rows = run.recorded("check", {variant: key(variant) for variant in painted}, Recipe(make, sound), counted=True)
    return {variant: PictureScores(row["scores"], tuple(row["edits"])) for variant, row in rows.items()}


def _questions(run: Run, painted: Painted) -> dict[Variant, _Question]:
    first = {v.source.key: v for v in painted if v.kind == "control" and v.index == 0}
    variants: dict[str, list[Variant]] = {}
    for variant in sorted(painted, key=lambda v: v.index):
        if variant.kind == "variant":
            variants.setdefault(variant.source.key, []).append(variant)
    questions: dict[Variant, _Question] = {}
    for variant in painted:
        own, place = variants.get(variant.source.key, []), run.classes.index(variant.source.label)
        compared = variant.kind == "variant" and place is not None
        questions[variant] = _Question(
            undo_edits(variant.caption, variant.edited_caption, variant.edits),
            place,
            first.get(variant.source.key) if compared else None,
            own[: own.index(variant)] if variant.kind == "variant" else (),
        )
    return questions


def _looks(
    questions: Mapping[Variant, _Question], look: Callable[[Variant], _Look], ahead: int
) -> Generator[tuple[Variant, _Look], None, None]:
    """The pictures in question and those that they are compared with, whether these are to be scored or have been: a
    source's together, its first control before the variants of its number, and earlier variants before later ones.
    """
    controls = [question.control for question in questions.values() if question.control is not None]
    earlier = [variant for question in questions.values() for variant in question.earlier]
    places = {key: at for at, key in enumerate(dict.fromkeys(v.source.key for v in questions))}
    needed = dict.fromkeys((*controls, *earlier, *questions))
    in_turn = sorted(needed, key=lambda variant: (places[variant.source.key], variant.index))
    thumbnails: dict[Variant, Thumbnail] = {}
    with closing(load_ahead(in_turn, look, ahead, _LOOKERS)) as looking:
        for variant, seen in looking:
            thumbnails[variant] = seen.thumbnail
            if variant in questions and (others := questions[variant].earlier):
                seen.scores["distinct"] = min(distance(seen.thumbnail, thumbnails[other]) for other in others)
            yield variant, seen


def _looker(run: Run, painted: Painted, images: Mapping[str, Pixels]) -> Callable[[Variant], _Look]:
    """Scores the pixels of painted pictures against those of their sources (the modules beside this one). What the
    pictures of a source share is computed once.
    """
    quality = once_each(lambda source: look_at_source(images[source.key]), _SOURCES)
    mask = once_each(load_mask, _SOURCES)
    light = once_each(lambda source: source_colours(images[source.key]), _SOURCES)
    outlines = once_each(lambda source: source_map(small_outlines(images[source.key])), _SOURCES)
    things = once_each(lambda source, masked: find_things(light(source), masked and mask(source, masked)), _SOURCES)
    sights = once_each(
        lambda source, masked: _sight(source, images[source.key], masked and mask(source, masked)), _SOURCES
    )
    coloured = once_each(lambda source, colour: find_colour(light(source), colour), _SOURCES)

    def look(variant: Variant) -> _Look:
        pixels, source = run.suite.load_image(painted[variant]), variant.source
        own = thumbnail(pixels)
        scores = quality_scores(pixels, own, quality(source))
        masked = None if source.mask_path is None else pixels.shape[:2]
        scores |= visibility_scores(pixels, sights(source, masked))
        scores |= recolouring(pixels, variant.edits, lambda colour: coloured(source, colour))
        scores |= kept_score(pixels, variant.caption, variant.edits, lambda: things(source, masked))
        own_outlines = small_outlines(pixels)
        scores |= registration_scores(own_outlines, outlines(source))
        if source.mask_path is not None:
            scores["layout"] = outlined_share(own_outlines, mask(source, pixels.shape[:2]))
        return _Look(pixels, own, scores)

    return look


def _sight(source: Source, pixels: Pixels, mask: NDArray[Any] | None) -> SourceSight:
    """What a source's picture shows of its boxes, else of its mask, else in its middle."""
    boxes, _ = fit_boxes(source.things, *source.size, pixels.shape[:2])
    return see_source(pixels, boxes, mask)


class _Comparison:
    """Compares pictures with their captions, sources and controls, by CLIP's embeddings: each is embedded once."""

    def __init__(self, run: Run, questions: Mapping[Variant, _Question], images: Mapping[str, Pixels]) -> None:
        self._settings, self._questions, self._images = run.profile.check, questions, images
        self._image, self._text, self._label_classes = run.models.clip_image(), run.models.clip_text(), run.classes
        self._at_once = _TOGETHER * self._image.plan.at_once
        self._texts: Mapping[str, Floats] = {}
        self._originals: dict[str, Floats] = {}
        self._classes: Floats | None = None
        self._painted: dict[Variant, Floats] = {}

    def scores(self, look: Callable[[Variant], _Look]) -> Iterator[dict[Variant, PictureScores]]:
        """The scores of all pictures, a batch at a time."""
        with closing(_looks(self._questions, look, self._at_once)) as looking:
            # The first pictures are looked at while texts and sources are embedded.
            chunks = in_chunks(chain([next(looking)], looking), self._at_once)
            self._embed_questions()
            embedded = ((dict(part), self._image.encode([look.pixels for _, look in part])) for part in chunks)
            # Scores are computed while the network runs, which happens outside of the interpreter.
            for batch in write_behind(embedded, self._measure, depth=1):
                if batch:
                    yield batch

    def _embed_questions(self) -> None:
        self._texts = self._text.embed(
            text
            for variant, question in self._questions.items()
            for text in (variant.caption, variant.edited_caption, *chain.from_iterable(question.undone))
        )
        for keys in in_chunks(dict.fromkeys(variant.source.key for variant in self._questions), self._at_once):
            self._originals |= zip(keys, self._image.encode([self._images[key] for key in keys]), strict=True)
        if any(question.place is not None for question in self._questions.values()):
            self._classes = self._label_classes.embed(self._text, self._settings.label_prompt)

    def _measure(self, part: tuple[dict[Variant, _Look], Floats]) -> dict[Variant, PictureScores]:
        looks, embedded = part
        self._painted.update(zip(looks, embedded, strict=True))
        asked = self._questions
        return {one: self._score(one, asked[one], look) for one, look in looks.items() if one in asked}

    def _score(self, variant: Variant, question: _Question, look: _Look) -> PictureScores:
        original, picture = self._originals[variant.source.key], self._painted[variant]
        texts, scale = self._texts, self._settings.logit_scale
        scores = score(original, texts[variant.caption], picture, texts[variant.edited_caption]) | look.scores
        edits = edit_scores(picture, [(texts[edited], texts[undone]) for edited, undone in question.undone], scale)
        if edits:
            scores["edit"] = min(edits)
        if question.place is not None and self._classes is not None:
            compared = [picture, original]
            if question.control is not None:
                compared.append(self._painted[question.control])
            scores["label"] = label_score(compared, self._classes, question.place, scale)
        return PictureScores(scores, tuple(edits))
