"""A shard's way through the stages: the one place that shows the whole.

    caption -> rewrite -> edges -> paint -> check -> metadata

Sources arrive, a suite is filled. Shard by shard, every stage looks up what the ledger has under its content keys,
does what is missing, and records it; so an interrupted run, a repeated one and a changed one are all the same run.
Models are opened when a stage first has work, and a stage that has none opens nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.edges import canny_edges

from .errors import CounterfactoryError
from .interventions import Interventions
from .keys import content_key
from .models.clip import ClipImage, ClipText
from .models.library import Library
from .models.llm import Request
from .profile import Profile
from .record import Report, Result, metadata_row, run_record
from .runtime.genai import GenaiLlm
from .schedule.evaluations import Fill
from .schedule.meter import Meter, Progress
from .source import Problem, Source, load_mask, load_pixels
from .stages.caption import caption_images
from .stages.check import Embedded, score, verdict
from .stages.paint import PaintJob, paint
from .stages.rewrite import Wanted, rewrite
from .suite import Painted, Suite
from .task import Task
from .variant import Variant

__all__ = ["Journey", "JourneySettings", "Progress", "Report"]

T = TypeVar("T")
Image = NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class JourneySettings:
    """What is asked of a suite: the task, variants a source, edits a variant, the seed, the axes allowed."""

    task: Task
    variants: int
    edits: tuple[int, int]
    seed: int
    interventions: Interventions | None = None

    def __post_init__(self) -> None:
        if self.variants < 1:
            raise CounterfactoryError(f"--variants must be at least 1, got {self.variants}")
        if not 1 <= self.edits[0] <= self.edits[1]:
            raise CounterfactoryError(
                f"--edits must be a number or a range such as 1..3, got {self.edits[0]}..{self.edits[1]}"
            )


class Journey:
    """Takes sources to a suite under a profile and settings."""

    def __init__(self, profile: Profile, settings: JourneySettings) -> None:
        self.profile = profile
        self.settings = settings
        self.library = Library(profile.models.path, profile.runtime)

    def run(
        self, sources: Sequence[Source], suite: Suite, on_progress: Callable[[Progress], None] | None = None
    ) -> Report:
        """Bring the suite to what the settings ask for and return what it took.

        Sources whose file has changed or gone since they were found are reported as problems. Raises
        CounterfactoryError for what stops the whole run; what was done by then is kept.
        """
        began = time.monotonic()
        run = _Run(self, suite, len(sources), on_progress or (lambda _: None))
        size = self.profile.shard_sources
        for start in range(0, len(sources), size):
            run.shard(sources[start : start + size])
        suite.write_metadata([metadata_row(result, self.profile) for result in run.results])
        verdicts = [verdict(result.scores, self.profile.check) for result in run.results]
        report = Report(
            sources=len(sources) - len(run.problems),
            variants=len(run.results),
            accepted=verdicts.count(None),
            rejected=len(verdicts) - verdicts.count(None),
            dropped=len(run.dropped),
            painted=run.painted,
            reused=len(run.results) - run.painted,
            problems=tuple(run.problems),
            shortfalls=tuple(run.shortfalls),
            stage_seconds={name: round(seconds, 3) for name, seconds in run.meter.seconds.items()},
            models_load_s=round(run.meter.load_s, 3),
            wall_s=round(time.monotonic() - began, 3),
            cores=self.profile.runtime.threads or os.cpu_count() or 1,
            fill=run.fill.share,
        )
        suite.write_run(run_record(self.profile, self.settings, self.library, report, run.dropped))
        return report


class _Run:
    """One run of a journey: the models that are open, the results so far, and the meter."""

    def __init__(self, journey: Journey, suite: Suite, total: int, on_progress: Callable[[Progress], None]) -> None:
        self.profile, self.settings, self.library = journey.profile, journey.settings, journey.library
        self.suite, self.total, self.meter = suite, total, Meter(on_progress)
        self.results: list[Result] = []
        self.dropped: list[Variant] = []
        self.problems: list[Problem] = []
        self.shortfalls: list[Problem] = []
        self.painted = 0
        self.fill = Fill(self.profile.paint.batch)
        self._models: dict[str, Any] = {}

    def shard(self, sources: Sequence[Source]) -> None:
        """Take a shard through every stage."""
        images = self._read(sources)
        kept = [source for source in sources if source.key in images]
        captions = self._caption(kept, images)
        variants = self._rewrite(kept, captions)
        self.dropped += [v for v in variants if v.dropped is not None]
        standing = [v for v in variants if v.dropped is None]
        rows = self._paint(standing, images)
        scores = self._check(standing, rows, images)
        self.results += [Result(v, rows[v.key], scores[v.key]) for v in standing]

    def _read(self, sources: Sequence[Source]) -> dict[str, Image]:
        """The shard's pictures at the size to paint, by source key."""
        size, images = self.profile.image, {}
        with self.meter.stage("read"):
            for source in sources:
                try:
                    images[source.key] = load_pixels(source, size.short_side, size.multiple, size.max_long_side)
                except CounterfactoryError as error:
                    self.problems.append(Problem(source.name, str(error)))
        return images

    def _caption(self, sources: Sequence[Source], images: Mapping[str, Image]) -> dict[str, str]:
        """Captions by source key."""
        settings = self.profile.caption
        made_by = (self.profile.image, settings, self.library.digest("caption"))
        keys = {source.key: content_key("caption", source.digest, *made_by) for source in sources}
        with self.meter.stage("caption"):
            captions: dict[str, str] = self.suite.get("caption", list(keys.values()))
            todo = {keys[s.key]: images[s.key] for s in sources if keys[s.key] not in captions}
            self.meter.advance("caption", len(sources) - len(todo), self.total)
            for part in _chunks(list(todo.items()), settings.batch):
                blip2 = self._opened("caption", lambda: self.library.blip2(settings.batch))
                texts = caption_images([image for _, image in part], blip2, settings)
                made = {key: text for (key, _), text in zip(part, texts, strict=True)}
                self.suite.put("caption", made)
                captions |= made
                self.meter.advance("caption", len(part), self.total)
        return {source_key: captions[key] for source_key, key in keys.items()}

    def _rewrite(self, sources: Sequence[Source], captions: Mapping[str, str]) -> list[Variant]:
        """The variants that the shard's sources are to have, dropped ones included."""
        settings = self.settings
        wanted = Wanted(settings.variants, settings.edits, settings.seed, settings.interventions)
        with self.meter.stage("rewrite"):
            texts = [captions[source.key] for source in sources]
            rewritten = rewrite(sources, texts, settings.task, self.profile.rewrite, wanted, self._ask)
            self.meter.advance("rewrite", len(sources), self.total)
        for source, result in zip(sources, rewritten, strict=True):
            if result.shortfall:
                self.shortfalls.append(Problem(source.name, result.shortfall))
        return [variant for result in rewritten for variant in result.variants]

    def _ask(self, question: str, requests: Sequence[Request]) -> list[str]:
        """The language model's answers, those on record first."""
        model = self.library.digest("rewrite")
        keys = [content_key("rewrite", question, request, model) for request in requests]
        answers: dict[str, str] = self.suite.get("rewrite", keys)
        todo = [(key, request) for key, request in zip(keys, requests, strict=True) if key not in answers]
        if todo:
            llm: GenaiLlm = self._opened("rewrite", self.library.llm)
            texts = llm.generate([request for _, request in todo])
            made = {key: text for (key, _), text in zip(todo, texts, strict=True)}
            self.suite.put("rewrite", made)
            answers |= made
        return [answers[key] for key in keys]

    def _paint(self, variants: Sequence[Variant], images: Mapping[str, Image]) -> dict[str, dict[str, Any]]:
        """The ledger's rows of painted variants, by variant key."""
        profile, settings = self.profile, self.profile.paint
        made_by = (profile.image, profile.edges, settings, self.library.digest("paint"))
        keys = {v.key: content_key("paint", v.key, *made_by) for v in variants}
        goal = self.total * self.settings.variants
        with self.meter.stage("paint"):
            rows = self.suite.images("paint", list(keys.values()))
            todo = [v for v in variants if keys[v.key] not in rows]
            self.meter.advance("paint", len(variants) - len(todo), goal)
            for same_size in _by_size(todo, images):
                for batch in _chunks_lazily(self._pictures(same_size, images), settings.decode_batch):
                    painted = [self._painted(v, keys[v.key], pixels) for v, pixels in batch]
                    rows |= self.suite.write_images("paint", painted)
                    self.painted += len(painted)
                    self.meter.advance("paint", len(painted), goal)
        return {variant_key: rows[key] for variant_key, key in keys.items()}

    def _pictures(self, variants: Sequence[Variant], images: Mapping[str, Image]) -> Iterator[tuple[Variant, Image]]:
        """Paint variants of one picture size; edges and hint are made once a source, text states once a caption."""
        settings = self.profile.paint
        denoiser = self._opened("paint", lambda: self.library.denoiser(settings.batch, settings.decode_batch))
        text = self._opened("text", lambda: self.library.clip_text(settings.batch))
        height, width = images[variants[0].source.key].shape[:2]
        plans = self._opened(f"paint {width} x {height}", lambda: denoiser.of(height, width))
        source_keys = list(dict.fromkeys(v.source.key for v in variants))
        edges = canny_edges(np.stack([images[key] for key in source_keys]), self.profile.edges)
        hints = dict(zip(source_keys, plans.embed_hints(edges), strict=True))
        captions = list(dict.fromkeys(v.edited_caption for v in variants))
        states, _ = text.encode([settings.negative_prompt, *captions])
        texts = dict(zip(captions, states[1:], strict=True))
        jobs = [PaintJob(v.key, texts[v.edited_caption], hints[v.source.key]) for v in variants]
        for order, pixels in paint(jobs, states[0], plans, settings, self.fill):
            yield variants[order], pixels

    def _painted(self, variant: Variant, key: str, pixels: Image) -> Painted:
        mask = load_mask(variant.source, pixels.shape[:2]) if variant.source.mask_path is not None else None
        return Painted(key, variant.source.name, pixels, mask)

    def _check(
        self, variants: Sequence[Variant], rows: Mapping[str, dict[str, Any]], images: Mapping[str, Image]
    ) -> dict[str, dict[str, float]]:
        """Scores by variant key."""
        batch = self.profile.check.batch
        made_by = (batch, self.library.digest("check"))
        keys = {
            v.key: content_key(
                "check", rows[v.key]["image"]["sha256"], v.source.key, v.caption, v.edited_caption, *made_by
            )
            for v in variants
        }
        goal = self.total * self.settings.variants
        with self.meter.stage("check"):
            scores: dict[str, dict[str, float]] = self.suite.get("check", list(keys.values()))
            todo = [v for v in variants if keys[v.key] not in scores]
            self.meter.advance("check", len(variants) - len(todo), goal)
            sources = list({v.source.key: images[v.source.key] for v in todo}.items())
            seen: dict[str, Floats] = {}
            for part in _chunks(sources, batch):
                seen |= zip(
                    (key for key, _ in part), self._clip_image().encode([image for _, image in part]), strict=True
                )
            captions = list(dict.fromkeys(text for v in todo for text in (v.caption, v.edited_caption)))
            said: dict[str, Floats] = {}
            for words in _chunks(captions, batch):
                said |= zip(words, self._clip_text().encode(words)[1], strict=True)
            for some in _chunks(todo, batch):
                embedded = Embedded(
                    source_image=np.stack([seen[v.source.key] for v in some]),
                    source_text=np.stack([said[v.caption] for v in some]),
                    variant_image=self._clip_image().encode([self.suite.load_image(rows[v.key]) for v in some]),
                    variant_text=np.stack([said[v.edited_caption] for v in some]),
                )
                made = dict(zip((keys[v.key] for v in some), score(embedded), strict=True))
                self.suite.put("check", made)
                scores |= made
                self.meter.advance("check", len(some), goal)
        return {variant_key: scores[key] for variant_key, key in keys.items()}

    def _clip_image(self) -> ClipImage:
        opened: ClipImage = self._opened("check image", lambda: self.library.clip_image(self.profile.check.batch))
        return opened

    def _clip_text(self) -> ClipText:
        opened: ClipText = self._opened("check text", lambda: self.library.clip_text(self.profile.check.batch))
        return opened

    def _opened(self, name: str, opener: Callable[[], Any]) -> Any:
        """A model, opened the first time that it is asked for."""
        if name not in self._models:
            with self.meter.loading():
                self._models[name] = opener()
        return self._models[name]


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _chunks_lazily(items: Iterable[T], size: int) -> Iterator[list[T]]:
    waiting = iter(items)
    while part := list(islice(waiting, size)):
        yield part


def _by_size(variants: Sequence[Variant], images: Mapping[str, Image]) -> Iterator[list[Variant]]:
    """Variants of one picture size together, in order."""
    groups: dict[tuple[int, ...], list[Variant]] = {}
    for variant in variants:
        groups.setdefault(images[variant.source.key].shape[:2], []).append(variant)
    yield from groups.values()
