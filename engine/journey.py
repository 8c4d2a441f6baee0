"""A shard's way through the stages: the one place that shows the whole.

    source ─ caption ─ rewrite ─ edges ─ paint ─ check ─ suite
       └──────────────── original ────────────────────────┘

Sources go through the stages shard by shard (`Journey.step`). Every stage looks up what the suite has under its content
keys, makes what is missing, and records it; so an interrupted run, a repeated one and a changed one are all the same
run. A shard that the same run has finished before is taken from its outcome and goes through no stage. Networks are
opened when a stage first has work. Files are read ahead of the networks and written behind them, a bounded number at a
time; finished rows wait in the ledger, so that memory does not grow with the suite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from .config.networks import library_of
from .config.profile import Profile
from .config.recording import picture_rows, recipes_of, session_costs, session_facts
from .config.worlds import take_known, world_of
from .estimate.estimate import residency_of
from .estimate.measured import measured_rates, save_rates
from .language.chat import prompts_of
from .meter.energy import EnergyMeter
from .meter.memory import memory_of
from .meter.meter import Meter, Progress
from .meter.metrics_file import MetricsFile
from .models.library import Library
from .models.opened import Opened
from .models.referee import open_referee
from .recipes import STAGES, outcome_key
from .schedule.opencv import in_callers_threads
from .schedule.overlap import ahead
from .sources.pictures import Pictures
from .sources.source import Problem, Source
from .stages import caption, check, hints, invert, original, paint, protect, referees, rewrite, round_trip
from .stages.classes import Classes
from .stages.desk import Desk
from .stages.rewrite import Rewritten
from .suite import PaintedRow, PictureRow, Suite
from .suite.outcome import Outcome, Outcomes
from .suite.picture_row import Dropped
from .suite.run_record import RunSummary, Standing, count_verdicts
from .tasks.settings import JourneySettings
from .variant import Variant

__all__ = ["Journey", "JourneySettings", "Plan", "Progress", "RunSummary"]


@dataclass(frozen=True)
class Shard:
    """Sources that travel together, the pictures read so far, and their outcome if they are finished."""

    sources: Sequence[Source]
    pictures: Pictures
    outcome: Outcome | None = None


@dataclass
class Tally:
    """What the shards so far came to, of a run over `sources`, of which so many are `outside_world`."""

    sources: int
    outside_world: int
    accepted: int = 0
    rejected: int = 0
    controls: int = 0
    rejected_controls: int = 0
    dropped: list[Dropped] = field(default_factory=list)
    shortfalls: list[Problem] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def add(self, outcome: Outcome, problems: Sequence[Problem]) -> None:
        """One more shard, and the sources of it that could not be read."""
        self.accepted += outcome.accepted
        self.rejected += outcome.rejected
        self.controls += outcome.controls
        self.rejected_controls += outcome.rejected_controls
        self.dropped += outcome.dropped
        self.shortfalls += outcome.shortfalls
        self.problems += problems

    def standing(self, profile: Profile) -> Standing:
        """What the suite has come to, by the profile's thresholds."""
        return Standing(
            sources=self.sources - len(self.problems),
            accepted=self.accepted,
            rejected=self.rejected,
            controls=self.controls,
            rejected_controls=self.rejected_controls,
            dropped=tuple(self.dropped),
            shortfalls=tuple(self.shortfalls),
            check=asdict(profile.check),
            outside_world=self.outside_world,
        )


@dataclass(frozen=True)
class Plan:
    """The captions of sources and what is to become of them, and the sources that could not be read.

    `cache_problem` says why compiled networks are not kept for the next run.
    """

    captions: Mapping[Source, str]
    rewritten: Rewritten
    problems: tuple[Problem, ...]
    cache_problem: str | None = None


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
        data: Mapping[str, Any] | None = None,
    ) -> RunSummary:
        """Bring the suite to what the settings ask for and return what it took.

        `metrics` is a file that is kept up to date with the costs so far (see `MetricsFile`), `data` what the suite's
        record is to say of the data set (`DataSet.record`). Sources whose file has changed or gone since they were
        found are reported as problems, and so are those outside of what the models know (see `take_known`). Raises
        CounterfactoryError for what stops the whole run; what was done by then is kept.
        """
        sources, strange = take_known(self.profile, sources, anything=self.settings.anything)
        sources, unmapped = hints.take_mapped(self.profile.hints, self.profile.depth, sources)
        sources, unlabelled = protect.take_labelled(self.profile.protect, sources)
        energy = EnergyMeter()
        stream = self._metrics_file(suite, metrics, energy)
        taken = memory_of(self.profile.runtime)
        meter = Meter(on_progress or (lambda _: None), stream.write if stream else None, memory=taken)
        size, library = self.profile.shard_sources, library_of(self.profile)
        shards = [sources[start : start + size] for start in range(0, len(sources), size)]
        with in_callers_threads(), _final_metrics(stream, meter):
            desk = self._open(suite, library, meter, sources)
            facts = session_facts(self.profile, self.settings, data or {}, desk.recipes, library)
            costs = suite.session(facts, lambda: session_costs(self.profile, meter, energy))
            with closing(desk.models), costs as session:
                tally = self._travel(desk, shards)
                problems = [*strange, *unmapped, *unlabelled, *tally.problems]
                record = session.finish(tally.standing(self.profile), problems)
        summary = RunSummary.of(record, stream.problem if stream else None, _unkept(library))
        save_rates(measured_rates(self.profile, summary, self.settings.variants))
        return summary

    def plan(
        self, sources: Sequence[Source], suite: Suite, on_progress: Callable[[Progress], None] | None = None
    ) -> Plan:
        """What a run would change of these sources: captions and edits, which the suite keeps; nothing is painted.

        Opens the captioner and the language model only. Raises CounterfactoryError for what stops it.
        """
        meter = Meter(on_progress or (lambda _: None), None, memory=memory_of(self.profile.runtime))
        library = library_of(self.profile)
        desk = self._open(suite, library, meter, sources)
        pictures = Pictures(self.profile.image)
        with in_callers_threads(), closing(desk.models):
            captions = caption.run(desk, sources, pictures, self.profile.caption, self.settings.task)
            rewritten = self._rewrite(desk, captions)
        return Plan(captions, rewritten, tuple(pictures.problems), _unkept(library))

    def _travel(self, desk: Desk, shards: Sequence[Sequence[Source]]) -> Tally:
        """Take every shard to its outcome, and the suite to its table."""
        tally = Tally(desk.sources, sum(source.known_world is False for shard in shards for source in shard))
        palettes = [palette.key for palette in hints.palettes_of(self.profile.hints)]
        looking = [referee.digest() for referee in self.profile.referees or ()]
        decided_by = (self.profile.decisive, world_of(self.profile), *palettes, *looking)
        outcomes = Outcomes(desk.suite, outcome_key(decided_by, self.settings, desk.classes.names, desk.recipes.makers))
        for shard in _read(desk.meter, ahead(shards, lambda some: self.look(desk, outcomes, some), depth=1)):
            outcome = _pass(desk, shard) or self.step(desk, outcomes, shard)
            desk.meter.verdicts(outcome.accepted, outcome.rejected)
            tally.add(outcome, shard.pictures.problems)
        desk.suite.write_metadata(outcomes.rows(shards))
        return tally

    def look(self, desk: Desk, outcomes: Outcomes, sources: Sequence[Source]) -> Shard:
        """A shard that is finished, or else the pictures that its captions need; runs beside the shard before it."""
        pictures = Pictures(self.profile.image)
        outcome = outcomes.find(sources)
        if outcome is None:
            pictures.of(caption.missing(desk, sources, self.profile.caption))
        return Shard(sources, pictures, outcome)

    def step(self, desk: Desk, outcomes: Outcomes, shard: Shard) -> Outcome:
        """Take a shard through every stage."""
        profile, pictures = self.profile, shard.pictures
        captions = caption.run(desk, shard.sources, pictures, profile.caption, self.settings.task)
        originals = original.run(desk, captions, pictures)
        rewritten = self._rewrite(desk, captions)
        painted = self._make_pictures(desk, captions, rewritten.variants, pictures)
        scores = check.run(desk, painted, pictures, profile.check)
        beside = self._look_again(desk, painted, rewritten)
        table = picture_rows(profile, captions, originals, painted, scores, beside)
        return self._settle(outcomes, shard, rewritten, table, _files(originals, painted, table))

    def _make_pictures(
        self, desk: Desk, captions: Mapping[Source, str], variants: Sequence[Variant], pictures: Pictures
    ) -> dict[Variant, PaintedRow]:
        """The variants' pictures, by the profile's editor: sources inverted and edited, or painted over their maps."""
        profile = self.profile
        unpainted = paint.unpainted_sources(desk, variants) if profile.follows_maps else []
        maps = hints.run(desk, captions, unpainted, pictures, profile.edges, profile.hints)
        keep = None if profile.protect is None else partial(protect.keep, desk, pictures, profile.protect)
        weights = None if profile.hints is None else [hint.weight for hint in profile.hints]
        if profile.invert is not None:
            followed = maps if profile.follows_maps else None
            return invert.run(desk, variants, pictures, profile.paint, profile.invert, keep, followed, weights)
        return paint.run(desk, variants, maps, profile.paint, weights, keep)

    def _look_again(
        self, desk: Desk, painted: Mapping[Variant, PaintedRow], rewritten: Rewritten
    ) -> Mapping[Variant, Mapping[str, float]]:
        """Scores beside the check stage's own: of texts, of the captioner, and of referees, as the profile asks."""
        found: dict[Variant, dict[str, float]] = {v: dict(rewritten.scores.get(v, {})) for v in painted}
        if self.profile.check.recaption:
            for variant, said in round_trip.run(desk, painted, self.profile.caption, self.profile.check.reads).items():
                found[variant] |= said
        if self.profile.referees:
            opener = partial(open_referee, runtime=self.profile.runtime)
            for variant, seen in referees.run(desk, painted, self.profile.referees, opener).items():
                found[variant] |= seen
        return found

    def _rewrite(self, desk: Desk, captions: Mapping[Source, str]) -> Rewritten:
        """What captions become, in a run and in a plan of it alike."""
        profile, prompts = self.profile, prompts_of(self.profile.llm.style)
        tables = (profile.grounding, profile.check, profile.random_words)
        return rewrite.run(desk, captions, profile.rewrite, self.settings, prompts, *tables)

    def _settle(
        self,
        outcomes: Outcomes,
        shard: Shard,
        rewritten: Rewritten,
        table: Sequence[PictureRow],
        files: Mapping[str, int],
    ) -> Outcome:
        """Keep what a shard came to: `table`'s rows, which name `files` (bytes by path)."""
        outcome = Outcome(
            **count_verdicts(table),
            files=files,
            dropped=[Dropped(v.source.name, v.index, v.edited_caption, v.dropped or "") for v in rewritten.dropped],
            shortfalls=rewritten.shortfalls,
        )
        # A picture that could not be read may be there the next time.
        outcomes.keep(shard.sources, outcome, table, finished=not shard.pictures.problems)
        return outcome

    def _open(self, suite: Suite, library: Library, meter: Meter, sources: Sequence[Source]) -> Desk:
        """What the stages work with; no network is opened yet."""
        recipes = recipes_of(self.profile, library)
        models = Opened(library, meter, residency_of(self.profile, library))
        pictures = self.settings.variants + self.settings.controls
        classes = Classes(source.label for source in sources)
        return Desk(suite, models, meter, recipes, len(sources), len(sources) * pictures, classes)

    def _metrics_file(self, suite: Suite, path: Path | None, energy: EnergyMeter) -> MetricsFile | None:
        if path is None:
            return None
        runtime = self.profile.runtime
        earlier = suite.read_run().costs.device_hours.get(runtime.unit, 0.0)
        return MetricsFile(path, devices=runtime.devices, energy=energy, earlier_device_hours=earlier)


def _unkept(library: Library) -> str | None:
    """Why compiled networks are not kept for the next run; None where they are, or nobody wants them to be."""
    return library.blobs.problem if library.blobs is not None else None


def _files(
    originals: Mapping[Source, PaintedRow], painted: Mapping[Variant, PaintedRow], table: Sequence[PictureRow]
) -> dict[str, int]:
    """Bytes by path of the files that belong to a table."""
    named = {name for row in table for name in row.files}
    kept = [file for row in (*originals.values(), *painted.values()) for file in row.files]
    return {file.path: file.bytes for file in kept if file.path in named}


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
            items, total = (len(shard.sources), desk.sources) if of_sources else (shard.outcome.painted, desk.pictures)
            desk.meter.advance(stage, items, total)
    return shard.outcome
