"""Paints variants: the edited caption over the source's edges, or what else keeps its layout (hints.py).

Every variant starts from noise of its own key and goes through the sampler's steps; steps that add noise draw it from
that key too. A guided step asks the denoiser for two rows, with and without the text, and combines them by
classifier-free guidance (Ho & Salimans 2022, arXiv 2207.12598, eq. 6); guidance counts most on part of the way only
(Kynkäänniemi et al. 2024, arXiv 2404.07724), and a step without it asks for one. Rows of many variants share a batch;
nothing of one enters another.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..keys import generator
from ..models.denoiser import DenoiserRow, PaintPlans
from ..models.editor import EditorPlans
from ..models.hints import scales_of
from ..models.sampler import Sampler, SamplerSettings
from ..schedule.evaluations import Job, run_jobs
from ..schedule.overlap import behind, in_chunks
from ..sources.source import Source, load_mask
from ..suite import Painted, PaintedRow
from ..variant import Variant
from .desk import Desk, Find
from .hints import Maps
from .protect import Kept
from .severity import text_of
from .text_states import TextStates

Floats = NDArray[np.float32]
Shape = tuple[int, int, int]
# What variants keep of each of some sources of one picture size; None for nothing.
Keep = Callable[[Sequence[Source]], Sequence[Kept | None]]

# Guidance is in the weights of an LCM (Luo et al. 2023, section 4.2); LCM-LoRA's authors go up to 2 on top.
_MAX_LCM_SCALE = 2.0
# Batches of pictures that may wait to be written.
_BEHIND = 2


@dataclass(frozen=True)
class GuidanceSettings:
    """How strongly the text is followed, and when: `scale` is w of the guidance equation, 1 for none.

    Step i of n is guided while start <= i / n < stop: 0 and 1 guide every step, two equal numbers none.
    """

    scale: float
    start: float
    stop: float

    def __post_init__(self) -> None:
        if self.scale < 1:
            raise ValueError(f"[paint.guidance] scale starts at 1 (no guidance), got {self.scale}")
        if not 0 <= self.start <= self.stop <= 1:
            raise ValueError(
                f"[paint.guidance] start and stop are shares of the steps, 0 <= start <= stop <= 1, "
                f"got {self.start} and {self.stop}"
            )

    def guides(self, step: int, steps: int) -> bool:
        """Whether step `step` (0 first) of `steps` is guided."""
        return self.scale != 1 and self.start <= step / steps < self.stop


@dataclass(frozen=True)
class PaintSettings:
    """How variants are painted. `batch` rows share an evaluation, `decode_batch` pictures a decode.

    `streams` evaluations go on side by side, each on its share of the cores. `denoiser` names the plan that is
    evaluated: "denoiser", or another form of it in the same folder, such as "denoiser_int8". `control_scale` weighs the
    edges, 1 as trained.
    """

    sampler: SamplerSettings
    guidance: GuidanceSettings
    denoiser: str
    control_scale: float
    negative_prompt: str
    batch: int
    streams: int
    decode_batch: int

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w+", self.denoiser):
            raise ValueError(f"[paint] denoiser is the name of a plan, such as 'denoiser', got {self.denoiser!r}")
        if self.batch < 1 or self.decode_batch < 1:
            raise ValueError(f"[paint] needs batches of at least 1, got {self.batch} and {self.decode_batch}")
        if self.streams < 1:
            raise ValueError(f"[paint] streams starts at 1, got {self.streams}")
        if self.sampler.kind == "lcm" and self.guidance.scale > _MAX_LCM_SCALE:
            raise ValueError(
                f"[paint.guidance] scale with an lcm sampler is 1 (none) to {_MAX_LCM_SCALE:g}, got "
                f"{self.guidance.scale:g}: such weights were distilled with guidance in them"
            )
        if self.control_scale < 0:
            raise ValueError(f"[paint] control_scale cannot be negative, got {self.control_scale}")

    @property
    def rows_per_variant(self) -> int:
        """Evaluations of the denoiser that one variant costs."""
        steps = self.sampler.steps
        return steps + sum(self.guidance.guides(i, steps) for i in range(steps))


@dataclass(frozen=True)
class Drawn:
    """A variant's new picture, uint8 RGB [H, W, 3], and as in PaintedRow what was kept of the source's attention."""

    variant: Variant
    pixels: NDArray[np.uint8]
    self_attention: float | None = None


def unpainted_sources(desk: Desk, variants: Sequence[Variant]) -> list[Source]:
    """The sources of variants whose picture is not on record, or no longer on the disk; each once."""
    missing = desk.missing(_keys(desk, variants), _find(desk))
    return list(dict.fromkeys(variant.source for variant in missing))


def run(
    desk: Desk,
    variants: Sequence[Variant],
    maps: Mapping[Source, Maps],
    settings: PaintSettings,
    weights: Sequence[float] | None = None,
    keep: Keep | None = None,
) -> dict[Variant, PaintedRow]:
    """The suite's rows of the variants' pictures, painted over the maps of their sources where they are not on record;
    `weights` are those of the maps, None where edges alone are followed; `keep` says what of their sources variants
    keep. A variant that has neither picture nor maps is left out.
    """

    def draw(todo: list[Variant]) -> Iterator[Drawn]:
        # Pictures of one size share plans and batches.
        drawn = sorted((v for v in todo if v.source in maps), key=lambda v: _size(maps[v.source]))
        return (Drawn(drawn[i], pixels) for i, pixels in _pictures(desk, drawn, maps, settings, weights, keep))

    return record(desk, variants, draw, settings.decode_batch)


def record(
    desk: Desk,
    variants: Sequence[Variant],
    draw: Callable[[list[Variant]], Iterator[Drawn]],
    at_once: int,
) -> dict[Variant, PaintedRow]:
    """The suite's rows of the variants' pictures: those on record, and those that `draw` yields, which
    are written `at_once` at a time, beside what draws.
    """
    keys = _keys(desk, variants)

    def make(todo: list[Variant]) -> Generator[dict[Variant, PaintedRow], None, None]:
        yield from behind(in_chunks(draw(todo), at_once), write, _BEHIND)

    def write(batch: Sequence[Drawn]) -> dict[Variant, PaintedRow]:
        rows = desk.suite.write_images("paint", [_painted(one, keys[one.variant]) for one in batch])
        return {one.variant: rows[keys[one.variant]] for one in batch}

    with desk.meter.stage("paint"):
        # Files and their rows are written together, so that there is nothing left to keep.
        return desk.recorded("paint", keys, make, find=_find(desk), keep=lambda rows: None, total=desk.pictures)


def _find(desk: Desk) -> Find:
    return lambda keys: desk.suite.images("paint", keys)


def _keys(desk: Desk, variants: Sequence[Variant]) -> dict[Variant, str]:
    return {variant: desk.recipes.picture_key(variant.key) for variant in variants}


def _pictures(
    desk: Desk,
    variants: Sequence[Variant],
    maps: Mapping[Source, Maps],
    settings: PaintSettings,
    weights: Sequence[float] | None,
    keep: Keep | None,
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Positions and pictures of variants as they finish; hints are embedded once per source, texts once per caption."""
    if not variants:
        return
    text = desk.models.clip_text()
    texts = TextStates(text, [v.edited_caption for v in variants if v.level == v.levels])
    ends = [caption for v in variants if v.level < v.levels for caption in (v.caption, v.edited_caption)]
    graded = TextStates(text, ends, on_host=True)
    (negative,) = desk.models.clip_text().encode_states([settings.negative_prompt])

    def jobs() -> Iterator[PaintJob]:
        of_sources = ((source, list(group)) for source, group in groupby(variants, key=lambda v: v.source))
        for size, same in groupby(of_sources, key=lambda group: _size(maps[group[0]])):
            plans = desk.models.paint_plans(*size)
            scale = control_scale(plans, settings.control_scale, weights)
            for some in in_chunks(same, plans.hint.batch):
                sources = [source for source, _ in some]
                hints = embed_maps(plans, [maps[source] for source in sources], weights)
                kept = keep(sources) if keep is not None else [None] * len(sources)
                for (_, group), hint, region in zip(some, hints, kept, strict=True):
                    for variant in group:
                        if variant.level == variant.levels:
                            states = texts.take(variant.edited_caption)
                        else:
                            states = plans.put_text(_graded_states(variant, graded))
                        yield PaintJob(variant.noise_key, states, hint, plans, control_scale=scale, kept=region)

    yield from paint(jobs(), negative, settings)


def _graded_states(variant: Variant, texts: TextStates) -> Floats:
    return text_of(variant, texts.take(variant.caption), texts.take(variant.edited_caption))


def embed_maps(plans: PaintPlans | EditorPlans, maps: Sequence[Maps], weights: Sequence[float] | None) -> Sequence[Any]:
    """Hint embeddings of sources by their maps, as `plans` take them; `weights` as in `run`."""
    by_hint = [None if one[0] is None else np.stack(one) for one in zip(*maps, strict=True)]
    if weights is not None:
        return plans.embed_several(by_hint, weights)
    (edges,) = by_hint
    assert edges is not None, "edges alone have no weight"
    return plans.embed_hints(edges)


def control_scale(
    plans: PaintPlans | EditorPlans, scale: float, weights: Sequence[float] | None
) -> float | tuple[float, ...]:
    """The control scale of rows: one, or one for each ControlNet of the denoiser."""
    return scale if weights is None else scales_of(scale, weights, plans.hints_apart)


def _size(maps: Maps) -> tuple[int, int]:
    """(height, width) in pixels of a source's maps."""
    height, width = next(found.shape[:2] for found in maps if found is not None)
    return height, width


def _painted(one: Drawn, key: str) -> Painted:
    source, pixels = one.variant.source, one.pixels
    mask = load_mask(source, pixels.shape[:2]) if source.mask_path is not None else None
    return Painted(key, source.name, pixels, mask, self_attention=one.self_attention)


@dataclass(frozen=True)
class PaintJob:
    """One variant to paint: the key of its noise, its text states [T, D], and its source's hint embedding [D, h, w].

    `plans` are those of its picture's size, and text and hint lie where they take them; `steps` differs from the
    settings' where a variant wants its own number, `control_scale` where the denoiser has several ControlNets. `kept`
    is what the variant keeps of its source.
    """

    key: str
    text: Any
    hint: Any
    plans: PaintPlans
    steps: int | None = None
    control_scale: float | tuple[float, ...] | None = None
    kept: Kept | None = None


def paint(jobs: Iterable[PaintJob], negative: Any, settings: PaintSettings) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Paint jobs of any picture sizes; yields (position in `jobs`, uint8 RGB [H, W, 3]) as pictures finish.

    `negative` is the text states [T, D] of the negative prompt, where the plans take them. `jobs` are drawn as room for
    them comes up; pictures of one size are decoded `decode_batch` at a time.
    """
    plans: dict[Shape, PaintPlans] = {}
    sampler_of = lru_cache(lambda steps: Sampler(replace(settings.sampler, steps=steps)))

    def denoising() -> Iterator[Job[DenoiserRow, Any, Any]]:
        for job in jobs:
            plans[job.plans.latent_shape] = job.plans
            steps = settings.sampler.steps if job.steps is None else job.steps
            yield _denoise(job, negative, sampler_of(steps), settings)

    def evaluate(rows: Sequence[DenoiserRow]) -> Sequence[Any]:
        return plans[_shape(rows[0].latents)].evaluate(rows)

    rows = settings.batch * settings.streams
    waiting: dict[Shape, dict[int, Any]] = {}
    decoding: deque[_Decoding] = deque()
    for order, latents in run_jobs(denoising(), evaluate, rows, lambda row: _shape(row.latents)):
        shape = _shape(latents)
        same = waiting.setdefault(shape, {})
        same[order] = latents
        if len(same) == settings.decode_batch:
            decoding.append(_decode(waiting.pop(shape), plans[shape]))
            yield from _finished(decoding, plans[shape].behind)
    for shape, same in waiting.items():
        decoding.append(_decode(same, plans[shape]))
    yield from _finished(decoding, 0)


def _denoise(job: PaintJob, negative: Any, sampler: Sampler, settings: PaintSettings) -> Job[DenoiserRow, Any, Any]:
    """One variant's way from noise to latents [C, h, w]; each row is a group of its own."""
    noise, kept = _noise(job, "noise"), job.kept
    variant = job.plans.begin(noise, sampler)
    scale = settings.control_scale if job.control_scale is None else job.control_scale
    for i, timestep in enumerate(sampler.timesteps.tolist()):
        guided = settings.guidance.guides(i, len(sampler.timesteps))
        texts = [job.text, negative] if guided else [job.text]
        rows = [DenoiserRow(variant.latents, timestep, text, job.hint, scale) for text in texts]
        outputs = yield [[row] for row in rows]
        # Keyed by the step, so that an interrupted or reordered run draws the same.
        fresh = _noise(job, f"lcm {i}") if sampler.adds_noise(i) else None
        variant.step(i, [output for (output,) in outputs], settings.guidance.scale if guided else None, fresh)
        if kept is not None and kept.settings.holds(i, len(sampler.timesteps)):
            variant.blend(sampler.noised(i + 1, kept.latents, noise), kept.share)
    return variant.latents


def _noise(job: PaintJob, purpose: str) -> Floats:
    return generator(job.key, purpose).standard_normal(job.plans.latent_shape, np.float32)


def _shape(latents: Any) -> Shape:
    channels, height, width = latents.shape
    return channels, height, width


@dataclass(frozen=True)
class _Decoding:
    """Pictures under way: their positions, and what waits for them."""

    orders: Sequence[int]
    finish: Callable[[], list[NDArray[np.uint8]]]


def _decode(waiting: Mapping[int, Any], plans: PaintPlans) -> _Decoding:
    return _Decoding(list(waiting), plans.decode(list(waiting.values())))


def _finished(decoding: deque[_Decoding], left: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """The pictures of the earliest decodes, so that `left` stay under way."""
    while len(decoding) > left:
        earliest = decoding.popleft()
        yield from zip(earliest.orders, earliest.finish(), strict=True)
