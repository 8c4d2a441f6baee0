"""Edits pictures instead of painting them anew: the source is inverted, its caption edited, everything else kept.

LANCE's editor (Prabhu et al. 2023, arXiv 2305.19164) without its optimisation. A source is encoded and taken back to
noise once (models/inversion.py). From there each variant is denoised beside it, taking over the source's attention
where captions agree (prompt-to-prompt), and what the two rows differ by is all that changes. A guided step leads away
from the source's caption instead of an empty one (negative-prompt inversion, Miyake et al. 2023, arXiv 2305.16807), so
that guidance pushes in the direction of the edit and leaves the source alone. With a control scale ControlNets follow
the source's edges, or the profile's hints, in every row, back and forth.

How long self-attention is taken over decides between likeness and edit: of several pictures (stages/sweep.py) the one
that moved most in the captions' direction is kept, of about equals the one nearest to the source. What encoding and
decoding lose of the source is given back where an edit moved nothing. A control goes the same way: it is what the
editor does to a picture whose caption nobody changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.opencv import cv2

from ..models.clip import ClipImage, ClipText
from ..models.editor import EditorPlans, RowHint
from ..models.sampler import Sampler
from ..schedule.evaluations import run_jobs
from ..schedule.overlap import in_chunks
from ..sources.pictures import Pictures
from ..sources.source import Source
from ..suite import PaintedRow
from ..variant import Variant
from .desk import Desk
from .hints import Maps
from .paint import Drawn, Keep, PaintSettings, control_scale, embed_maps, record
from .scores import score
from .sweep import EditJob, Editor, InvertSettings, Swept, edit_source
from .text_states import TextStates

Pixels = NDArray[np.uint8]

# Directions that differ by less are about equal.
_ALIKE = 0.01


def require_invertible(paint: PaintSettings, settings: InvertSettings) -> None:
    """Raise ValueError for settings of painting that an inversion has no use for, or no room in."""
    if paint.sampler.kind != "ddim":
        kind = paint.sampler.kind
        raise ValueError(f'[invert] goes with kind = "ddim" in [paint.sampler], got "{kind}": only its steps go back')
    if paint.streams != 1:
        raise ValueError(f"[invert] goes with streams = 1 in [paint], got {paint.streams}: rows share batches")
    if paint.negative_prompt:
        raise ValueError(
            f'[invert] guides away from the source\'s caption: negative_prompt = "" in [paint], got '
            f'"{paint.negative_prompt}"'
        )
    if paint.batch < 1 + len(settings.fractions):
        raise ValueError(
            f"[invert] tries {len(settings.fractions)} fractions beside the source in one batch: [paint] batch of at "
            f"least {1 + len(settings.fractions)}, got {paint.batch}"
        )


def rows_per_source(paint: PaintSettings, settings: InvertSettings) -> int:
    """Evaluations that the inversion of a source costs."""
    return len(settings.edited(paint.sampler.steps)) * (1 + settings.rounds)


def rows_per_variant(paint: PaintSettings, settings: InvertSettings) -> int:
    """Evaluations that a variant costs, with the source's row beside it."""
    steps = paint.sampler.steps
    parted = ((len(settings.parted(i, steps)), paint.guidance.guides(i, steps)) for i in settings.edited(steps))
    return sum(1 + rows * (1 + guided) for rows, guided in parted)


def run(
    desk: Desk,
    variants: Sequence[Variant],
    pictures: Pictures,
    paint: PaintSettings,
    settings: InvertSettings,
    keep: Keep | None = None,
    maps: Mapping[Source, Maps] | None = None,
    weights: Sequence[float] | None = None,
) -> dict[Variant, PaintedRow]:
    """The suite's rows of the variants' pictures, edited where they are not on record; `keep` says what of their
    sources variants keep, `maps` are those of sources where they are followed, of the edges, or of each hint with its
    weight. A variant whose source cannot be read is left out.
    """

    def draw(todo: list[Variant]) -> Iterator[Drawn]:
        images = pictures.of(v.source for v in todo if maps is None or v.source in maps)
        # Pictures of one size share plans and batches.
        shown = sorted((v for v in todo if v.source.key in images), key=lambda v: images[v.source.key].shape)
        for _, same in groupby(shown, key=lambda v: images[v.source.key].shape):
            edited = edit(desk, list(same), images, paint, settings, keep, maps, weights)
            for one in choose(desk, edited, images):
                control = one.variant.edited_caption == one.variant.caption  # of which nothing was tried
                yield Drawn(one.variant, one.pixels, None if control else one.fraction)

    return record(desk, variants, draw, paint.decode_batch)


@dataclass(frozen=True)
class Candidate:
    """A variant's picture, uint8 RGB [H, W, 3], with self-attention taken over on a share of the steps."""

    variant: Variant
    fraction: float
    pixels: Pixels


def edit(
    desk: Desk,
    variants: Sequence[Variant],
    images: Mapping[str, Pixels],
    paint: PaintSettings,
    settings: InvertSettings,
    keep: Keep | None = None,
    maps: Mapping[Source, Maps] | None = None,
    weights: Sequence[float] | None = None,
) -> Iterator[Candidate]:
    """All candidates of variants whose sources have one size, a variant's together; `images` by the sources' keys,
    `maps` and `weights` as in `run`.
    """
    height, width, _ = images[variants[0].source.key].shape
    text, plans = desk.models.clip_text(), desk.models.editor_plans(height, width)
    editor = Editor(Sampler(paint.sampler), paint.guidance, settings, text.tokenizer)
    groups = dict[Source, list[Variant]]()
    for variant in variants:
        groups.setdefault(variant.source, []).append(variant)
    asked = [caption for group in groups.values() for caption in _captions(group)]
    states = TextStates(text, asked, on_host=True)  # where rows of the editor are gathered, whatever computes them

    decoded = dict[str, Pixels]()  # of sources whose candidates are still to come

    def jobs() -> Iterator[EditJob]:
        for some in in_chunks(groups.items(), plans.encoder.plan.batch):
            sources = [source for source, _ in some]
            latents = plans.encoder.encode(np.stack([images[source.key] for source in sources]))
            if settings.detail_levels:
                decoded.update(zip((source.key for source in sources), plans.decode(latents), strict=True))
            kept = keep(sources) if keep is not None else [None] * len(sources)
            hints: Sequence[RowHint | None] = [None] * len(sources)
            if maps is not None:
                hints = row_hints(plans, sources, maps, paint.control_scale, weights)
            for (_, group), clean, region, hint in zip(some, latents, kept, hints, strict=True):
                yield edit_source(editor, clean, group, {c: states.take(c) for c in _captions(group)}, region, hint)

    def swept() -> Iterator[Swept]:
        for _, found in run_jobs(jobs(), plans.evaluate, paint.batch):
            yield from found

    current: str | None = None
    for some in in_chunks(swept(), plans.decoder.batch):
        shown = plans.decode(np.stack([latents for _, _, latents in some]))
        for (variant, fraction, _), pixels in zip(some, shown, strict=True):
            key = variant.source.key
            if current is not None and current != key:  # a source's candidates come one after the other
                decoded.pop(current, None)
            current = key
            if settings.detail_levels:
                pixels = restore_detail(pixels, decoded[key], images[key], settings.detail_levels)
            yield Candidate(variant, fraction, pixels)


def row_hints(
    plans: EditorPlans,
    sources: Sequence[Source],
    maps: Mapping[Source, Maps],
    scale: float,
    weights: Sequence[float] | None = None,
) -> list[RowHint]:
    """What rows of the sources follow of their maps, at a control scale."""
    scales = control_scale(plans, scale, weights)
    return [RowHint(one, scales) for one in embed_maps(plans, [maps[source] for source in sources], weights)]


def restore_detail(edited: Pixels, decoded: Pixels, source: Pixels, levels: float) -> Pixels:
    """An edited picture with what the autoencoder lost of its source, uint8 RGB [H, W, 3] all of them: the whole of it
    where the picture is the `decoded` source, nothing within two pixels of where it is `levels` grey levels from it.
    """
    moved = np.abs(edited.astype(np.float32) - decoded).max(axis=2)
    widest = cv2.dilate(moved, np.ones((5, 5), np.uint8))
    share = np.clip(1 - widest / np.float32(levels), 0, 1)[..., None]
    found = edited + share * (source.astype(np.float32) - decoded)
    rounded: Pixels = np.clip(np.rint(found), 0, 255).astype(np.uint8)
    return rounded


def _captions(variants: Sequence[Variant]) -> list[str]:
    """The captions of a source's variants, each once."""
    return list(dict.fromkeys(c for variant in variants for c in (variant.caption, variant.edited_caption)))


def choose(desk: Desk, candidates: Iterable[Candidate], images: Mapping[str, Pixels]) -> Iterator[Candidate]:
    """Of each variant's candidates the one that moved most in its captions' direction."""
    looked = _looked(candidates, images, desk.models.clip_image(), desk.models.clip_text())
    for variant, group in groupby(looked, key=lambda one: one[0].variant):
        yield best(list(group), images[variant.source.key])


def _looked(
    candidates: Iterable[Candidate], images: Mapping[str, Pixels], image: ClipImage, text: ClipText
) -> Iterator[tuple[Candidate, float]]:
    """Candidates with how far they moved in their captions' direction, a batch at a time."""
    for some in in_chunks(candidates, image.plan.batch):
        keys, captions = list(dict.fromkeys(c.variant.source.key for c in some)), _captions([c.variant for c in some])
        sources = dict(zip(keys, image.encode([images[key] for key in keys]), strict=True))
        texts = dict(zip(captions, text.encode(captions)[1], strict=True))
        for one, seen in zip(some, image.encode([one.pixels for one in some]), strict=True):
            variant = one.variant
            before, after = texts[variant.caption], texts[variant.edited_caption]
            yield one, score(sources[variant.source.key], before, seen, after)["directional"]


def best(candidates: Sequence[tuple[Candidate, float]], source: Pixels) -> Candidate:
    """The candidate with the greatest number, and of those with about as great ones the nearest to the source's pixels
    [H, W, 3].
    """
    most = max(direction for _, direction in candidates)
    alike = [candidate for candidate, direction in candidates if direction > most - _ALIKE]
    return min(alike, key=lambda candidate: float(np.square(candidate.pixels.astype(np.float32) - source).mean()))
