"""Paints variants: the edited caption over the source's edges, or what else keeps its layout (maps/draw_maps.py).

Every variant starts from noise of its own key, and steps that add noise draw it from that key too. A guided step asks
the denoiser for two rows, with and without the text, and combines them by classifier-free guidance (Ho & Salimans 2022,
arXiv 2207.12598, eq. 6); a step without guidance, which counts most on part of the way only (Kynkäänniemi et al. 2024,
arXiv 2404.07724), asks for one. Rows of many variants share a batch; nothing of one enters another.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...keys import generator
from ...models.clip import ClipText
from ...models.denoiser import DenoiserRow, Evaluated, PaintPlans
from ...models.editor import EditorPlans
from ...models.sampler import Sampler
from ...profile.paint import PaintSettings
from ...profile.profile import Profile
from ...schedule.evaluations import Job, run_jobs
from ...schedule.overlap import in_chunks
from ...sources.source import Pictures, Problem, Source
from ...suite import NewPicture, PaintedRow, Provenance
from ...variant import Variant
from ..maps.draw_maps import Maps, MapsOf
from ..run import Recipe, Run, load_ahead, picture_of
from .protect import ProtectedRegion, keep_regions

Floats = NDArray[np.float32]
Pixels = NDArray[np.uint8]
Shape = tuple[int, int, int]
# A variant's way from noise to latents [C, h, w].
Denoising = Job[DenoiserRow, Evaluated, Any]
# Makes a variant's picture of its source's, or says what prevents it.
PaintOne = Callable[[Variant, Pixels], Pixels | Problem]
# The share of the edited caption's states below which the pocket's pictures show nothing of it, as measured.
_FAINTEST = 0.4


@dataclass(frozen=True)
class VariantPicture:
    """A variant's new picture, uint8 RGB [H, W, 3], and its share of the source's self-attention as in PaintedRow."""

    variant: Variant
    pixels: NDArray[np.uint8]
    self_attention: float | None = None


def unpainted_sources(run: Run, variants: Sequence[Variant]) -> list[Source]:
    """The sources of variants whose picture is not on record, or no longer on the disk; each once."""
    return list(dict.fromkeys(variant.source for variant in run.missing("paint", _keys(run, variants))))


def paint_variants(
    run: Run, variants: Sequence[Variant], maps: MapsOf, pictures: Pictures
) -> dict[Variant, PaintedRow]:
    """The suite's rows of the variants' pictures, painted over the maps of their sources where they are not on record.

    A variant that has neither picture nor maps is left out. `pictures` are the sources' own; [protect] keeps a part of
    them.
    """

    def draw(todo: list[Variant]) -> Iterator[VariantPicture]:
        # Pictures of one size share plans and batches.
        ready = sorted((v for v in todo if v.source in maps), key=lambda v: _size(maps[v.source]))
        return (VariantPicture(ready[i], pixels) for i, pixels in _paint_ready(run, ready, maps, pictures))

    return record_pictures(run, variants, draw)


def record_pictures(
    run: Run, variants: Sequence[Variant], draw: Callable[[list[Variant]], Iterator[VariantPicture]]
) -> dict[Variant, PaintedRow]:
    """The suite's rows of the variants' pictures: those on record, and those that `draw` yields, which are written
    `decode_batch` at a time, a server's one by one, while the next ones are drawn.
    """
    keys = _keys(run, variants)
    # What a server made may have been paid for: each is on record before the next is waited for.
    together = 1 if run.profile.painter_kind == "server" else run.profile.paint.decode_batch

    def new(drawn: VariantPicture) -> tuple[Variant, NewPicture]:
        variant = drawn.variant
        more = {"self_attention": drawn.self_attention, "provenance": provenance_of(run.profile, variant)}
        return variant, picture_of(variant.source, keys[variant], drawn.pixels, **more)

    def make(todo: list[Variant]) -> Generator[dict[Variant, PaintedRow], None, None]:
        yield from run.written("paint", draw(todo), new, together)

    with run.meter.stage("paint"):
        return run.recorded("paint", keys, Recipe(make), counted=True)


def one_by_one(
    pictures: Pictures, todo: Sequence[Variant], paint_one: PaintOne, parallel: tuple[int, int]
) -> Iterator[VariantPicture]:
    """Variants' pictures, each made by itself of its source's, uint8 RGB [H, W, 3], so many ahead and so many at once
    (`parallel`); what prevents one becomes a problem of `pictures`. A source that cannot be read has none.
    """
    images = pictures.of(variant.source for variant in todo)
    readable = [variant for variant in todo if variant.source.key in images]
    for variant, painted in load_ahead(readable, lambda one: paint_one(one, images[one.source.key]), *parallel):
        if isinstance(painted, Problem):
            pictures.problems.append(painted)
        else:
            yield VariantPicture(variant, painted)


def provenance_of(profile: Profile, variant: Variant) -> Provenance | None:
    """What a variant's picture says of itself: one without an edit of light, and what others painted, say nothing."""
    painter = profile.painter_kind
    if painter == "given" or (painter == "light" and not variant.edits):
        return None
    if painter == "light":
        return Provenance(variant.key, "algorithmicallyEnhanced")
    whole = painter == "diffusion" and profile.protect is None
    return Provenance(variant.key, "trainedAlgorithmicMedia" if whole else "compositeWithTrainedAlgorithmicMedia")


def _keys(run: Run, variants: Sequence[Variant]) -> dict[Variant, str]:
    return {variant: run.keys.picture_key(variant.key) for variant in variants}


def _paint_ready(
    run: Run, variants: Sequence[Variant], maps: MapsOf, pictures: Pictures
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Positions and pictures of variants as they finish; hints are embedded once per source, texts once per caption."""
    if not variants:
        return
    settings, text = run.profile.paint, run.models.clip_text()
    texts = TextStates(text, [v.edited_caption for v in variants if v.level == v.levels])
    faint = [caption for v in variants if v.level < v.levels for caption in (v.caption, v.edited_caption)]
    graded = TextStates(text, faint, on_host=True)
    (negative,) = text.encode_states([settings.negative_prompt])

    def jobs() -> Iterator[PaintJob]:
        of_sources = ((source, list(group)) for source, group in groupby(variants, key=lambda v: v.source))
        for size, same in groupby(of_sources, key=lambda group: _size(maps[group[0]])):
            plans = run.models.paint_plans(*size)
            scale = control_scale(run.profile, plans)
            for batch in in_chunks(same, plans.hint.batch):
                sources = [source for source, _ in batch]
                hints = embed_maps(run.profile, plans, [maps[source] for source in sources])
                regions = keep_regions(run, sources, pictures)
                for (_, group), hint, region in zip(batch, hints, regions, strict=True):
                    for variant in group:
                        if variant.level == variant.levels:
                            states = texts.take(variant.edited_caption)
                        else:
                            ends = (graded.take(caption) for caption in (variant.caption, variant.edited_caption))
                            states = plans.put_text(text_of(variant, *ends))
                        yield PaintJob(variant.noise_key, states, hint, plans, control_scale=scale, region=region)

    yield from paint(jobs(), negative, settings, run.models.sampler())


def embed_maps(profile: Profile, plans: PaintPlans | EditorPlans, maps: Sequence[Maps]) -> Sequence[Any]:
    """Hint embeddings of sources by their maps, as `plans` take them."""
    by_hint = [None if of_hint[0] is None else np.stack(of_hint) for of_hint in zip(*maps, strict=True)]
    if profile.hint_weights is not None:
        return plans.embed_several(by_hint, profile.hint_weights)
    (edges,) = by_hint
    assert edges is not None, "edges alone have no weight"
    return plans.embed_hints(edges)


def control_scale(profile: Profile, plans: PaintPlans | EditorPlans) -> float | tuple[float, ...]:
    """The control scale of rows: one, or one for each ControlNet of the denoiser."""
    scale, weights = profile.paint.control_scale, profile.hint_weights
    return tuple(scale * weight for weight in weights) if weights is not None and plans.hints_apart else scale


def _size(maps: Maps) -> tuple[int, int]:
    """(height, width) in pixels of a source's maps."""
    height, width = next(hint_map.shape[:2] for hint_map in maps if hint_map is not None)
    return height, width


@dataclass(frozen=True)
class PaintJob:
    """One variant to paint: the key of its noise, its text states [T, D], and its source's hint embedding [D, h, w].

    `plans` are those of its picture's size, and text and hint lie where they take them; `control_scale` differs from
    the settings' where the denoiser has several ControlNets. `region` is what the variant keeps of its source.
    """

    key: str
    text: Any
    hint: Any
    plans: PaintPlans
    control_scale: float | tuple[float, ...] | None = None
    region: ProtectedRegion | None = None


def paint(
    jobs: Iterable[PaintJob], negative: Any, settings: PaintSettings, sampler: Sampler | None = None
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Paint jobs of any picture sizes; yields (position in `jobs`, uint8 RGB [H, W, 3]) as pictures finish.

    `negative` is the text states [T, D] of the negative prompt, where the plans take them. `jobs` are drawn as room for
    them comes up; pictures of one size are decoded `decode_batch` at a time. Without a `sampler` the settings say all.
    """
    plans: dict[Shape, PaintPlans] = {}
    way = sampler or Sampler(settings.sampler)

    def denoising() -> Iterator[Denoising]:
        for job in jobs:
            plans[job.plans.latent_shape] = job.plans
            yield _denoise(job, negative, way, settings)

    def evaluate(rows: Sequence[DenoiserRow]) -> Sequence[Evaluated]:
        return plans[_shape(rows[0].latents)].evaluate(rows)

    # Of each decode the positions of its pictures, and what waits for them.
    decoding: deque[tuple[list[int], Callable[[], list[NDArray[np.uint8]]]]] = deque()

    def finish(left: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """The pictures of the earliest decodes, so that `left` stay under way."""
        while len(decoding) > left:
            orders, pictures = decoding.popleft()
            yield from zip(orders, pictures(), strict=True)

    waiting: dict[Shape, dict[int, Any]] = {}
    rows = settings.batch * settings.streams
    for order, latents in run_jobs(denoising(), evaluate, rows, lambda row: (_shape(row.latents), row.deep is None)):
        shape = _shape(latents)
        same = waiting.setdefault(shape, {})
        same[order] = latents
        if len(same) == settings.decode_batch:
            del waiting[shape]
            decoding.append((list(same), plans[shape].decode(list(same.values()))))
            yield from finish(plans[shape].behind)
    for shape, same in waiting.items():
        decoding.append((list(same), plans[shape].decode(list(same.values()))))
    yield from finish(0)


def _denoise(job: PaintJob, negative: Any, sampler: Sampler, settings: PaintSettings) -> Denoising:
    """One variant's way from noise to latents [C, h, w]; each row is a group of its own."""

    def draw(purpose: str) -> Floats:
        return generator(job.key, purpose).standard_normal(job.plans.latent_shape, np.float32)

    noise, region, steps = draw("noise"), job.region, len(sampler.timesteps)
    variant = job.plans.begin(noise, sampler)
    scale = settings.control_scale if job.control_scale is None else job.control_scale
    deep: list[Any] = [None, None]  # of the rows with and without the text
    for (i, timestep), whole in zip(enumerate(sampler.timesteps.tolist()), settings.whole_steps, strict=True):
        guided = settings.guidance.guides(i, steps)
        texts = [job.text, negative] if guided else [job.text]
        kept = [None, None] if whole else deep
        outputs = yield [
            [DenoiserRow(variant.latents, timestep, text, job.hint, scale, features)]
            for text, features in zip(texts, kept, strict=False)
        ]
        evaluated = [output for (output,) in outputs]
        deep = [output.deep for output in evaluated] if whole else deep
        # Keyed by the step, so that an interrupted or reordered run draws the same.
        fresh = draw(f"lcm {i}") if sampler.adds_noise(i) else None
        predictions = [output.prediction for output in evaluated]
        variant.step(i, predictions, settings.guidance.scale if guided else None, fresh)
        if region is not None and region.settings.holds(i, steps):
            variant.blend(sampler.noised(i + 1, region.latents, noise), region.share)
    return variant.latents


def _shape(latents: Any) -> Shape:
    channels, height, width = latents.shape
    return channels, height, width


class TextStates:
    """The states of captions, each encoded once and released after its last use, for they are large: a quarter of a
    megabyte per caption at full size. Takes the captions that will be asked for, one for each use, in about that order.
    Their states lie where the denoiser takes them, or `on_host`.
    """

    def __init__(self, text: ClipText, captions: Sequence[str], *, on_host: bool = False) -> None:
        self._batch = text.plan.at_once
        self._encode = (lambda batch: list(text.encode(batch)[0])) if on_host else text.encode_states
        self._uses = Counter(captions)
        self._line = list(dict.fromkeys(captions))
        self._states: dict[str, Any] = {}

    def take(self, caption: str) -> Any:
        """States [T, D] of a caption, for one of its uses. As many captions as go through the encoder together are
        encoded when one is missing. Raises KeyError for a caption that has no use left.
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
