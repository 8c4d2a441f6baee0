"""A shard's way through the stages: the one place that shows the whole.

    source ─ caption ─ rewrite ─ edges ─ paint ─ check ─ suite

Sources go through the stages shard by shard (`Journey.step`). Every stage looks up what the suite has under its content
keys, makes what is missing, and records it; so an interrupted run, a repeated one and a changed one are all the same
run. A shard that the same run has finished before is taken from its outcome and goes through no stage. Networks are
opened when a stage first has work. Files are read ahead of the networks and written behind them, a bounded number at a
time; finished rows wait in the ledger, so that memory does not grow with the suite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .config.networks import library_of
from .config.profile import Profile
from .estimate.estimate import residency_of
from .estimate.measured import measured_rates, save_rates
from .language.chat import prompts_of
from .meter.energy import EnergyMeter, peak_memory_bytes
from .meter.machine import this_machine
from .meter.meter import Meter, Progress
from .meter.metrics_file import MetricsFile
from .models.opened import Opened
from .recipes import STAGES, Recipes, outcome_key
from .runtime.opening import arithmetic
from .schedule.overlap import ahead
from .sources.pictures import Pictures
from .sources.source import Problem, Source
from .stages import caption, check, edges, paint, rewrite
from .stages.desk import Desk
from .stages.rewrite import Rewritten
from .suite import PaintedRow, Suite, VariantRow
from .suite.outcome import Outcome, Outcomes
from .suite.run_record import Report, Standing
from .suite.session import Costs, SessionFacts
from .suite.variant_row import Dropped
from .tasks.settings import JourneySettings
from .variant import Variant

__all__ = ["Journey", "JourneySettings", "Progress", "Report"]


@dataclass(frozen=True)
class Shard:
    """Sources that travel together, the pictures read so far, and their outcome if they are finished."""

    sources: Sequence[Source]
    pictures: Pictures
    outcome: Outcome | None = None


@dataclass
class Tally:
    """What the shards so far came to."""

    accepted: int = 0
    rejected: int = 0
    dropped: list[Dropped] = field(default_factory=list)
    shortfalls: list[Problem] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def add(self, outcome: Outcome, problems: Sequence[Problem]) -> None:
        """One more shard, and the sources of it that could not be read."""
        self.accepted += outcome.accepted
        self.rejected += outcome.rejected
        self.dropped += outcome.dropped
        self.shortfalls += outcome.shortfalls
        self.problems += problems


@dataclass(frozen=True)
class Journey:
    """Takes sources to a suite under a profile and settings."""

    profile: Profile
    settings: JourneySettings

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
        stream = self._metrics_file(suite, metrics, energy)
        meter = Meter(on_progress or (lambda _: None), stream.write if stream else None)
        size, tally = self.profile.shard_sources, Tally()
        shards = [sources[start : start + size] for start in range(0, len(sources), size)]
        with _final_metrics(stream, meter):
            desk, outcomes = self._open(suite, meter, len(sources), len(shards))
            with suite.session(self._facts(desk), lambda: self._costs(meter, energy)) as session:
                self._travel(desk, outcomes, shards, tally)
                record = session.finish(self._standing(desk, tally), tally.problems)
        report = Report.of(record, stream.problem if stream else None)
        save_rates(measured_rates(self.profile, report, self.settings.variants))
        return report

    def _travel(self, desk: Desk, outcomes: Outcomes, shards: Sequence[Sequence[Source]], tally: Tally) -> None:
        """Take every shard to its outcome, and the suite to its table."""
        for shard in _read(desk.meter, ahead(shards, lambda some: self.look(desk, outcomes, some), depth=1)):
            outcome = _pass(desk, shard) or self.step(desk, outcomes, shard)
            desk.meter.verdicts(outcome.accepted, outcome.rejected)
            tally.add(outcome, shard.pictures.problems)
        desk.suite.write_metadata(outcomes.rows(shards))

    def look(self, desk: Desk, outcomes: Outcomes, sources: Sequence[Source]) -> Shard:
        """A shard that is finished, or else the pictures that its captions need; runs beside the shard before it."""
        pictures = Pictures(self.profile.image)
        outcome = outcomes.find(sources)
        if outcome is None:
            pictures.of(caption.missing(desk, sources))
        return Shard(sources, pictures, outcome)

    def step(self, desk: Desk, outcomes: Outcomes, shard: Shard) -> Outcome:
        """Take a shard through every stage."""
        profile, pictures = self.profile, shard.pictures
        captions = caption.run(desk, shard.sources, pictures, profile.caption)
        rewritten = rewrite.run(desk, captions, profile.rewrite, self.settings, prompts_of(profile.llm.style))
        maps = edges.run(desk, captions, paint.unpainted_sources(desk, rewritten.variants), pictures, profile.edges)
        painted = paint.run(desk, rewritten.variants, maps, profile.paint)
        scores = check.run(desk, painted, pictures, profile.check)
        return self._settle(outcomes, shard, rewritten, painted, scores)

    def _settle(
        self,
        outcomes: Outcomes,
        shard: Shard,
        rewritten: Rewritten,
        painted: Mapping[Variant, PaintedRow],
        scores: Mapping[Variant, Mapping[str, float]],
    ) -> Outcome:
        """Keep what a shard came to."""
        kept = [variant for variant in rewritten.variants if variant in scores]
        table = [_variant_row(variant, painted[variant], scores[variant], self.profile) for variant in kept]
        accepted = sum(row.accepted for row in table)
        outcome = Outcome(
            accepted=accepted,
            rejected=len(table) - accepted,
            files={file.path: file.bytes for variant in kept for file in painted[variant].files},
            dropped=[Dropped(v.source.name, v.index, v.edited_caption, v.dropped or "") for v in rewritten.dropped],
            shortfalls=rewritten.shortfalls,
        )
        # A picture that could not be read may be there the next time.
        outcomes.keep(shard.sources, outcome, table, finished=not shard.pictures.problems)
        return outcome

    def _open(self, suite: Suite, meter: Meter, sources: int, shards: int) -> tuple[Desk, Outcomes]:
        """What the stages work with, and the outcomes of finished shards; no network is opened yet."""
        profile, library = self.profile, library_of(self.profile)
        recipes = Recipes(
            image=profile.image,
            caption=profile.caption,
            sampling=profile.llm.sampling,
            edges=profile.edges,
            paint=profile.paint,
            text=profile.text,
            check_batch=profile.check.batch,
            makers={stage: library.digest(stage) for stage in STAGES},
        )
        models = Opened(library, meter, residency_of(profile, library))
        desk = Desk(suite, models, meter, recipes, sources, sources * self.settings.variants)
        return desk, Outcomes(suite, outcome_key(profile, self.settings, recipes.makers))

    def _metrics_file(self, suite: Suite, path: Path | None, energy: EnergyMeter) -> MetricsFile | None:
        if path is None:
            return None
        runtime = self.profile.runtime
        earlier = suite.read_run().costs.device_hours.get(runtime.unit, 0.0)
        return MetricsFile(path, devices=runtime.devices, energy=energy, earlier_device_hours=earlier)

    def _facts(self, desk: Desk) -> SessionFacts:
        return SessionFacts(
            profile=asdict(self.profile),
            settings=asdict(self.settings),
            models={str(stage): maker for stage, maker in desk.recipes.makers.items()},
            precision=arithmetic(self.profile.runtime),
            versions=library_of(self.profile).releases(),
            machine=this_machine(),
        )

    def _costs(self, meter: Meter, energy: EnergyMeter) -> Costs:
        runtime, stages = self.profile.runtime, meter.costs()
        return Costs(
            wall_s=round(meter.elapsed_s, 3),
            devices=runtime.devices,
            device=runtime.unit,
            painted=sum(cost.made for cost in stages if cost.stage == "paint"),
            peak_memory_bytes=peak_memory_bytes(),
            energy_j=energy.joules(),
            stages=stages,
            plans=meter.plans(),
        )

    def _standing(self, desk: Desk, tally: Tally) -> Standing:
        return Standing(
            sources=desk.sources - len(tally.problems),
            accepted=tally.accepted,
            rejected=tally.rejected,
            dropped=tuple(tally.dropped),
            shortfalls=tuple(tally.shortfalls),
            check=asdict(self.profile.check),
        )


@contextmanager
def _final_metrics(stream: MetricsFile | None, meter: Meter) -> Iterator[None]:
    """Whatever ends a run, its metrics say how far it came."""
    try:
        yield
    finally:
        if stream is not None:
            stream.write(meter, final=True)


def _read(meter: Meter, shards: Iterator[tuple[Sequence[Source], Shard | Exception]]) -> Iterator[Shard]:
    """The shards as they have been looked at; waiting for one is reading."""
    while True:
        with meter.stage("read"):
            _, shard = next(shards, (None, None))
        if isinstance(shard, Exception):
            raise shard
        if shard is None:
            return
        yield shard


def _pass(desk: Desk, shard: Shard) -> Outcome | None:
    """The outcome of a shard that is finished; its stages count as done."""
    if shard.outcome is not None:
        for stage in STAGES:
            of_sources = stage in ("caption", "rewrite", "edges")
            items, total = (len(shard.sources), desk.sources) if of_sources else (shard.outcome.variants, desk.variants)
            desk.meter.advance(stage, items, total)
    return shard.outcome


def _variant_row(variant: Variant, row: PaintedRow, scores: Mapping[str, float], profile: Profile) -> VariantRow:
    """A variant's row of the table; its verdict follows from the stored scores and the profile's thresholds."""
    guidance = profile.paint.guidance
    return VariantRow(
        file_name=row.image.path,
        sha256=row.image.sha256,
        source=variant.source.name,
        label=variant.source.label,
        mask=None if row.mask is None else row.mask.path,
        caption=variant.caption,
        edited_caption=variant.edited_caption,
        edits=variant.edits,
        variant=variant.index,
        seed=variant.seed,
        steps=profile.paint.sampler.steps,
        guidance_scale=guidance.scale,
        guidance_start=guidance.start,
        guidance_stop=guidance.stop,
        scores=scores,
        reason=check.verdict(scores, profile.check),
        source_key=variant.source.key,
        variant_key=variant.key,
    )
