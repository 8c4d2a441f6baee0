"""Edits pictures instead of painting them anew: the source is inverted, its caption edited, everything else kept.

LANCE's editor (Prabhu et al. 2023, arXiv 2305.19164) without its optimisation. A source is taken back to noise once
(models/inversion.py). From there each variant is denoised together with it, taking over its attention where captions
agree (prompt-to-prompt). A guided step leads away from the source's caption instead of an empty one (negative-prompt
inversion, Miyake et al. 2023, arXiv 2305.16807), so that guidance pushes in the direction of the edit alone. With a
control scale ControlNets follow the source's edges, or the profile's hints, in every row, back and forth.

How long self-attention is taken over decides between likeness and edit: of several pictures (edit_search.py) the one
that moved most in the captions' direction is kept, of about equals the one nearest to the source. What encoding and
decoding lose of the source is given back where an edit moved nothing. A control goes the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.opencv import cv2

from ...models.editor import EditorPlans, RowHint
from ...profile.profile import Profile
from ...schedule.evaluations import run_jobs
from ...schedule.overlap import in_chunks
from ...sources.source import Pictures, Source
from ...suite import PaintedRow
from ...variant import Variant
from ..check.clip_scores import score
from ..maps.draw_maps import Maps, MapsOf
from ..run import Run
from .edit_search import EditJob, Editor, SourceEdits, edit_source, is_control
from .paint_variants import TextStates, VariantPicture, control_scale, embed_maps, record_pictures
from .protect import keep_regions

Pixels = NDArray[np.uint8]

# Directions that differ by less are about equal.
_ALIKE = 0.01


def edit_variants(run: Run, variants: Sequence[Variant], maps: MapsOf, pictures: Pictures) -> dict[Variant, PaintedRow]:
    """The suite's rows of the variants' pictures, edited where they are not on record; `maps` are those of sources,
    which are read where the profile follows maps. A variant whose source cannot be read is left out.
    """

    def draw(todo: list[Variant]) -> Iterator[VariantPicture]:
        images = pictures.of(v.source for v in todo if not run.profile.follows_maps or v.source in maps)
        # Pictures of one size share plans and batches.
        shown = sorted((v for v in todo if v.source.key in images), key=lambda v: images[v.source.key].shape)
        for _, same in groupby(shown, key=lambda v: images[v.source.key].shape):
            yield from choose(run, edit_candidates(run, list(same), maps, pictures), images)

    return record_pictures(run, variants, draw)


def edit_candidates(
    run: Run, variants: Sequence[Variant], maps: MapsOf, pictures: Pictures
) -> Iterator[VariantPicture]:
    """All candidates of variants of one size, a variant's together: each takes over another share of self-attention."""
    profile, settings = run.profile, run.profile.invert
    assert settings is not None, "only a profile with [invert] edits sources"
    images = pictures.of(variant.source for variant in variants)
    height, width, _ = images[variants[0].source.key].shape
    text, plans = run.models.clip_text(), run.models.editor_plans(height, width)
    editor = Editor(run.models.sampler(), profile.paint.guidance, settings, text.tokenizer)
    groups = dict[Source, list[Variant]]()
    for variant in variants:
        groups.setdefault(variant.source, []).append(variant)
    captions = [caption for group in groups.values() for caption in _captions(group)]
    states = TextStates(text, captions, on_host=True)  # where rows of the editor are gathered, whatever computes them

    decoded = dict[str, Pixels]()  # of sources whose candidates are still to come

    def jobs() -> Iterator[EditJob]:
        for batch in in_chunks(groups.items(), plans.encoder.plan.batch):
            sources = [source for source, _ in batch]
            latents = plans.encoder.encode(np.stack([images[source.key] for source in sources]))
            if settings.detail_levels:
                decoded.update(zip((source.key for source in sources), plans.decode(latents), strict=True))
            regions = keep_regions(run, sources, pictures)
            hints: Sequence[RowHint | None] = [None] * len(sources)
            if profile.follows_maps:
                hints = row_hints(profile, plans, [maps[source] for source in sources])
            for (_, group), clean, region, hint in zip(batch, latents, regions, hints, strict=True):
                texts = {caption: states.take(caption) for caption in _captions(group)}
                yield edit_source(editor, SourceEdits(clean, group, texts, region, hint))

    swept = chain.from_iterable(edits for _, edits in run_jobs(jobs(), plans.evaluate, profile.paint.batch))
    current = ""
    for batch in in_chunks(swept, plans.decoder.batch):
        shown = plans.decode(np.stack([latents for _, _, latents in batch]))
        for (variant, fraction, _), pixels in zip(batch, shown, strict=True):
            key = variant.source.key
            if current != key:  # a source's candidates come one after the other
                decoded.pop(current, None)
            current = key
            if settings.detail_levels:
                pixels = restore_detail(pixels, decoded[key], images[key], settings.detail_levels)
            yield VariantPicture(variant, pixels, None if is_control(variant) else fraction)


def row_hints(profile: Profile, plans: EditorPlans, maps: Sequence[Maps]) -> list[RowHint]:
    """The hints that sources' rows follow, by their maps."""
    scales = control_scale(profile, plans)
    return [RowHint(embedded, scales) for embedded in embed_maps(profile, plans, maps)]


def restore_detail(edited: Pixels, decoded: Pixels, source: Pixels, levels: float) -> Pixels:
    """An edited picture with what the autoencoder lost of its source, uint8 RGB [H, W, 3] all of them: the whole of it
    where the picture is the `decoded` source, nothing within two pixels of where it is `levels` grey levels from it.
    """
    moved = np.abs(edited.astype(np.float32) - decoded).max(axis=2)
    widest = cv2.dilate(moved, np.ones((5, 5), np.uint8))
    share = np.clip(1 - widest / np.float32(levels), 0, 1)[..., None]
    restored = edited + share * (source.astype(np.float32) - decoded)
    rounded: Pixels = np.clip(np.rint(restored), 0, 255).astype(np.uint8)
    return rounded


def _captions(variants: Sequence[Variant]) -> list[str]:
    return list(dict.fromkeys(c for variant in variants for c in (variant.caption, variant.edited_caption)))


def choose(run: Run, candidates: Iterable[VariantPicture], images: Mapping[str, Pixels]) -> Iterator[VariantPicture]:
    """Of each variant's candidates the one that moved most in its captions' direction."""
    for variant, group in groupby(_score_directions(run, candidates, images), key=lambda pair: pair[0].variant):
        yield best(list(group), images[variant.source.key])


def _score_directions(
    run: Run, candidates: Iterable[VariantPicture], images: Mapping[str, Pixels]
) -> Iterator[tuple[VariantPicture, float]]:
    """Candidates with how far they moved in their captions' direction, a batch at a time."""
    image, text = run.models.clip_image(), run.models.clip_text()
    for batch in in_chunks(candidates, image.plan.batch):
        keys, captions = list(dict.fromkeys(c.variant.source.key for c in batch)), _captions([c.variant for c in batch])
        sources = dict(zip(keys, image.encode([images[key] for key in keys]), strict=True))
        texts = dict(zip(captions, text.encode(captions)[1], strict=True))
        for candidate, seen in zip(batch, image.encode([candidate.pixels for candidate in batch]), strict=True):
            variant = candidate.variant
            before, after = texts[variant.caption], texts[variant.edited_caption]
            yield candidate, score(sources[variant.source.key], before, seen, after)["directional"]


def best(candidates: Sequence[tuple[VariantPicture, float]], source: Pixels) -> VariantPicture:
    """The candidate that moved furthest; of about equals the one nearest to the source's pixels [H, W, 3]."""
    most = max(direction for _, direction in candidates)
    alike = [candidate for candidate, direction in candidates if direction > most - _ALIKE]
    return min(alike, key=lambda candidate: float(np.square(candidate.pixels.astype(np.float32) - source).mean()))
