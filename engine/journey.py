"""A shard's way through the stages: the one place that shows the whole.

    caption -> rewrite -> edges -> paint -> check -> metadata

Sources arrive, a suite is filled. Shard by shard, every stage looks up what the ledger has under its content keys,
does what is missing, and records it; so an interrupted run, a repeated one and a changed one are all the same run.
A shard that was finished before by the same run is taken from its outcome and goes through no stage.
Models are opened when a stage first has work, and a stage that has none opens nothing. Files are read ahead of the
models and written behind them, a bounded number at a time; finished rows wait in the ledger, so that memory does not
grow with the suite.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .config.profile import Profile
from .errors import CounterfactoryError
from .estimate.estimate import plan_holding
from .estimate.measured import measured_rates, save_rates
from .keys import content_key
from .language.chat import prompts
from .language.request import Request
from .meter.energy import EnergyMeter, peak_memory_bytes
from .meter.meter import Meter, Progress
from .meter.metrics_file import MetricsFile
from .models.library import STAGES, Library
from .models.opened import Opened
from .schedule.overlap import Behind, ahead, in_chunks
from .schedule.residency import Residency
from .sources.pictures import Image, Pictures
from .sources.source import Problem, Source, load_mask
from .stages.caption import caption_images
from .stages.checker import Checker
from .stages.painter import Painter
from .stages.rewrite import Wanted, rewrite
from .suite import Painted, Suite, files_of
from .suite.outcome import Outcome, Outcomes, program_key
from .suite.run_record import Report, Result, dropped_row, metadata_row, run_record
from .tasks.interventions import Interventions
from .tasks.task import Task
from .variant import Variant

__all__ = ["Journey", "JourneySettings", "Progress", "Report"]

Floats = NDArray[np.float32]

# Batches of pictures that may wait to be written.
_BEHIND = 2


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
        self.library = Library(profile)

    def run(
        self,
        sources: Sequence[Source],
        suite: Suite,
        on_progress: Callable[[Progress], None] | None = None,
        metrics: Path | None = None,
    ) -> Report:
        """Bring the suite to what the settings ask for and return what it took.

        `metrics` is a file that is kept up to date with the costs so far (see `MetricsFile`). Sources whose file has
        changed or gone since they were found are reported as problems. Raises CounterfactoryError for what stops the
        whole run; what was done by then is kept.
        """
        energy = EnergyMeter()
        stream = None if metrics is None else MetricsFile(metrics, devices=self.profile.runtime.devices, energy=energy)
        # Energy counters wrap around: somebody has to read them now and then.
        meter = Meter(on_progress or (lambda _: None), stream.write if stream else lambda _: energy.joules())
        size = self.profile.shard_sources
        with _last_word(stream, meter):
            run = _Run(self, suite, len(sources), meter)
            shards = [sources[start : start + size] for start in range(0, len(sources), size)]
            looked_at = ahead(shards, run.look, depth=1)
            while (shard := run.next_shard(looked_at)) is not None:
                run.take(shard)
            suite.write_metadata(run.outcomes.rows(shards))
        report = run.report(energy, stream.problem if stream else None)
        save_rates(measured_rates(self.profile, report, self.settings.variants))
        suite.write_run(run_record(self.profile, self.settings, self.library, report, run.dropped))
        return report


@contextmanager
def _last_word(stream: MetricsFile | None, meter: Meter) -> Iterator[None]:
    """Whatever ends a run, its metrics say how far it came."""
    try:
        yield
    finally:
        if stream is not None:
            stream.write(meter, final=True)


@dataclass(frozen=True)
class _Shard:
    """Sources that travel together, their outcome if they are finished, their captions' keys, the captions on record,
    and the pictures read so far.
    """

    sources: Sequence[Source]
    outcome: Outcome | None
    keys: dict[str, str]
    captions: dict[str, str]
    pictures: Pictures


class _Run:
    """One run of a journey: the models that are open, what it found out about all shards, and the meter."""

    def __init__(self, journey: Journey, suite: Suite, total: int, meter: Meter) -> None:
        self.profile, self.settings, self.library = journey.profile, journey.settings, journey.library
        self.suite, self.meter, self.total = suite, meter, total
        self.goal = total * journey.settings.variants
        shards = -(-total // self.profile.shard_sources)
        self.models = Opened(self.library, self.profile, meter, _residency(self.profile, self.library, shards))
        self._asked = False
        digests = [self.library.digest(stage) for stage in STAGES]
        self.outcomes = Outcomes(suite, content_key(self.profile, self.settings, digests, program_key()))
        self.dropped: list[Mapping[str, Any]] = []
        self.problems: list[Problem] = []
        self.shortfalls: list[Problem] = []
        self.variants = self.painted = 0
        self._painter, self._checker = Painter(self.models, self.profile), Checker(self.models)

    def look(self, sources: Sequence[Source]) -> _Shard:
        """Look up what a shard came to or, where it is not finished, its captions, and read the pictures that lack one;
        runs beside the shard before it.
        """
        if outcome := self.outcomes.find(sources):
            return _Shard(sources, outcome, {}, {}, Pictures(self.profile.image))
        made_by = (self.profile.image, self.profile.caption, self.library.digest("caption"))
        keys = {source.key: content_key("caption", source.digest, *made_by) for source in sources}
        captions: dict[str, str] = self.suite.get("caption", list(keys.values()))
        pictures = Pictures(self.profile.image)
        pictures.of(source for source in sources if keys[source.key] not in captions)
        return _Shard(sources, None, keys, captions, pictures)

    def next_shard(self, shards: Iterator[tuple[Sequence[Source], _Shard | Exception]]) -> _Shard | None:
        """The next shard, once it was looked at; None at the end."""
        with self.meter.stage("read"):
            _, shard = next(shards, (None, None))
        if isinstance(shard, Exception):
            raise shard
        return shard

    def take(self, shard: _Shard) -> None:
        """Bring a shard to its outcome, and add that to the suite."""
        outcome = self._found(shard.outcome, len(shard.sources)) if shard.outcome else self._made(shard)
        self.variants += outcome.variants
        self.meter.verdicts(outcome.accepted, outcome.rejected)
        self.dropped += outcome.dropped
        self.shortfalls += outcome.shortfalls
        self.problems += shard.pictures.problems

    def _found(self, outcome: Outcome, sources: int) -> Outcome:
        for stage in ("caption", "rewrite"):
            self.meter.advance(stage, sources, self.total)
        for stage in ("paint", "check"):
            self.meter.advance(stage, outcome.variants, self.goal)
        return outcome

    def _made(self, shard: _Shard) -> Outcome:
        """Take a shard through every stage."""
        captions = self._caption(shard)
        variants, shortfalls = self._rewrite([s for s in shard.sources if s.key in captions], captions)
        standing = [v for v in variants if v.dropped is None]
        embeds: dict[str, Floats] = {}
        rows = self._paint(standing, shard.pictures, embeds)
        scores = self._check([v for v in standing if v.key in rows], rows, shard.pictures, embeds)
        results = [Result(v, rows[v.key], scores[v.key]) for v in standing if v.key in scores]
        table = [metadata_row(result, self.profile) for result in results]
        accepted = sum(row["verdict"] == "accepted" for row in table)
        outcome = Outcome(
            accepted=accepted,
            rejected=len(table) - accepted,
            files={file["path"]: file["bytes"] for result in results for file in files_of(result.row)},
            dropped=[dropped_row(v) for v in variants if v.dropped is not None],
            shortfalls=shortfalls,
        )
        # A picture that could not be read may be there the next time.
        self.outcomes.keep(shard.sources, outcome, table, finished=not shard.pictures.problems)
        return outcome

    def _caption(self, shard: _Shard) -> dict[str, str]:
        """Captions by source key."""
        settings, captions = self.profile.caption, shard.captions
        with self.meter.stage("caption"):
            todo = [source for source in shard.sources if shard.keys[source.key] not in captions]
            self.meter.advance("caption", len(shard.sources) - len(todo), self.total)
            images = shard.pictures.of(todo)
            if images:
                self.models.enter("caption")
            for part in in_chunks(images.items(), settings.batch):
                keys = [shard.keys[key] for key, _ in part]
                texts = caption_images([image for _, image in part], keys, self.models.blip2(), settings)
                made = dict(zip(keys, texts, strict=True))
                self.suite.put("caption", made)
                captions.update(made)
                self.meter.advance("caption", len(part), self.total, made=len(part))
        return {key: captions[content] for key, content in shard.keys.items() if content in captions}

    def _rewrite(self, sources: Sequence[Source], captions: Mapping[str, str]) -> tuple[list[Variant], list[Problem]]:
        """The variants that the shard's sources are to have, dropped ones included, and the sources that have fewer."""
        settings = self.settings
        wanted = Wanted(settings.variants, settings.edits, settings.seed, settings.interventions)
        self._asked = False
        with self.meter.stage("rewrite"):
            texts = [captions[source.key] for source in sources]
            rewritten = rewrite(
                sources, texts, settings.task, self.profile.rewrite, wanted, self._ask, prompts(self.profile.llm.style)
            )
            self.meter.advance("rewrite", len(sources), self.total, made=len(sources))
        pairs = zip(sources, rewritten, strict=True)
        shortfalls = [Problem(source.name, result.shortfall) for source, result in pairs if result.shortfall]
        return [variant for result in rewritten for variant in result.variants], shortfalls

    def _ask(self, question: str, requests: Sequence[Request]) -> list[str]:
        """The language model's answers, those on record first."""
        made_by = (self.library.digest("rewrite"), self.profile.llm.sampling)
        keys = [content_key("rewrite", question, request, *made_by) for request in requests]
        answers: dict[str, str] = self.suite.get("rewrite", keys)
        todo = [(key, request) for key, request in zip(keys, requests, strict=True) if key not in answers]
        if todo:
            if not self._asked:
                self.models.enter("rewrite")
            self._asked = True
            llm = self.models.llm()
            before, began = llm.usage, time.perf_counter()
            texts = llm.generate([request for _, request in todo])
            spent = time.perf_counter() - began
            # Its running batch is the runtime's own affair: no capacity, so it does not count for the fill.
            self.meter.work("rewrite", "llm").add(len(todo), 0, spent)
            used = llm.usage - before
            self.meter.tokens("rewrite", used.prompt_tokens, used.generated_tokens)
            made = {key: text for (key, _), text in zip(todo, texts, strict=True)}
            self.suite.put("rewrite", made)
            answers |= made
        return [answers[key] for key in keys]

    def _paint(
        self, variants: Sequence[Variant], pictures: Pictures, embeds: dict[str, Floats]
    ) -> dict[str, dict[str, Any]]:
        """The ledger's rows of painted variants, by variant key; adds the text embeddings that came up."""
        profile = self.profile
        made_by = (profile.image, profile.edges, profile.paint, self.library.digest("paint"))
        keys = {v.key: content_key("paint", v.key, *made_by) for v in variants}
        with self.meter.stage("paint"):
            rows = self.suite.images("paint", list(keys.values()))
            todo = [v for v in variants if keys[v.key] not in rows]
            self.meter.advance("paint", len(variants) - len(todo), self.goal)
            images = pictures.of(v.source for v in todo)
            todo = [v for v in todo if v.source.key in images]
            if todo:
                self.models.enter("paint")

            def write(batch: Sequence[tuple[Variant, Image]]) -> None:
                painted = [_painted(variant, keys[variant.key], pixels) for variant, pixels in batch]
                rows.update(self.suite.write_images("paint", painted))

            with Behind(write, _BEHIND) as writer:
                for batch in in_chunks(self._painter.paint(todo, images, embeds), profile.paint.decode_batch):
                    writer.put(batch)
                    self.painted += len(batch)
                    self.meter.advance("paint", len(batch), self.goal, made=len(batch))
        return {variant_key: rows[key] for variant_key, key in keys.items() if key in rows}

    def _check(
        self,
        variants: Sequence[Variant],
        rows: Mapping[str, dict[str, Any]],
        pictures: Pictures,
        embeds: dict[str, Floats],
    ) -> dict[str, dict[str, float]]:
        """Scores by variant key."""
        made_by = (self.profile.check.batch, self.profile.paint.batch, self.library.digest("check"))
        keys = {
            v.key: content_key(
                "check", rows[v.key]["image"]["sha256"], v.source.key, v.caption, v.edited_caption, *made_by
            )
            for v in variants
        }
        with self.meter.stage("check"):
            scores: dict[str, dict[str, float]] = self.suite.get("check", list(keys.values()))
            todo = [v for v in variants if keys[v.key] not in scores]
            self.meter.advance("check", len(variants) - len(todo), self.goal)
            images = pictures.of(v.source for v in todo)
            todo = [v for v in todo if v.source.key in images]
            if todo:
                self.models.enter("check")
            for some in self._checker.scores(todo, images, embeds, lambda v: self.suite.load_image(rows[v.key])):
                made = {keys[variant_key]: found for variant_key, found in some.items()}
                self.suite.put("check", made)
                scores |= made
                self.meter.advance("check", len(some), self.goal, made=len(some))
        return {variant_key: scores[key] for variant_key, key in keys.items() if key in scores}

    def report(self, energy: EnergyMeter, metrics_problem: str | None) -> Report:
        """What the run did and took."""
        meter = self.meter
        return Report(
            sources=self.total - len(self.problems),
            variants=self.variants,
            accepted=meter.accepted,
            rejected=meter.rejected,
            dropped=len(self.dropped),
            painted=self.painted,
            reused=self.variants - self.painted,
            problems=tuple(self.problems),
            shortfalls=tuple(self.shortfalls),
            stages=meter.costs(),
            plans=meter.plans(),
            wall_s=round(meter.elapsed_s, 3),
            devices=self.profile.runtime.devices,
            device=self.profile.runtime.unit,
            peak_memory_bytes=peak_memory_bytes(),
            energy_j=energy.joules(),
            metrics_problem=metrics_problem,
        )


def _residency(profile: Profile, library: Library, shards: int) -> Residency | None:
    """Which plans are open when, where the profile's memory does not hold all of them."""
    if not profile.runtime.memory_gb:
        return None
    holding = plan_holding(profile, library, round(profile.runtime.memory_gb * 1e9), shards)
    if holding.timeline is None:
        raise CounterfactoryError(holding.problem)
    return Residency(holding.timeline)


def _painted(variant: Variant, key: str, pixels: Image) -> Painted:
    mask = load_mask(variant.source, pixels.shape[:2]) if variant.source.mask_path is not None else None
    return Painted(key, variant.source.name, pixels, mask)
