"""A shard's way through the stages: the one place that shows the whole.

    source ─ caption ─ rewrite ─ edges ─ paint ─ check ─ suite
       └──────────────── original ────────────────────────┘

Sources go through the stages shard by shard (`step`). Every stage looks up what the suite has under its content
keys, makes what is missing, and records it; so an interrupted run, a repeated one and a changed one are all the same
run. A shard that the same run has finished before is taken from its outcome and goes through no stage. Networks are
opened when a stage first has work. Files are read ahead of the networks and written behind them, a bounded number at a
time; finished rows wait in the ledger, so that memory does not grow with the suite.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from .content_keys import LIGHT, MATRIX, OF_SOURCES, STAGES, outcome_key
from .errors import CounterfactoryError
from .estimate.estimate import residency_of
from .estimate.measured import measured_rates, save_rates
from .files.fill import plain
from .inputs import Inputs
from .meter.cards import read_cards, throttled
from .meter.energy import EnergyMeter
from .meter.memory import memory_of
from .meter.meter import Meter, Progress
from .meter.metrics_file import MetricsFile
from .models.library import Library
from .models.model_pool import ModelPool
from .models.networks import library_of
from .models.referee import open_referee
from .profile.profile import Profile
from .request import SuiteRequest
from .schedule.overlap import in_callers_threads, prefetch
from .sources.domain import world_of
from .sources.source import Pictures, Problem, Source
from .stages.caption_sources import caption_sources, missing_captions
from .stages.check.consult_referees import consult_referees
from .stages.check.recaption import recaption
from .stages.check.score_pictures import score_pictures
from .stages.maps.draw_maps import draw_maps, palettes_of
from .stages.original import keep_originals
from .stages.paint.draw_baselines import draw_baselines
from .stages.paint.paint_variants import unpainted_sources
from .stages.paint.painter_table import PAINTERS
from .stages.recording import ShardResults, content_keys_of, picture_rows, session_costs, session_facts
from .stages.rewrite.rewrite_captions import ShardVariants, rewrite_captions
from .stages.run import Classes, Run
from .suite import PaintedRow, PictureRow, RunRecord, Suite
from .suite.by_hand import ByHand, read_by_hand
from .suite.cells import AcceptedCells, ValueCells, add_cells
from .suite.contents import Contents
from .suite.outcome import Outcome, Outcomes
from .suite.picture_row import DroppedVariant
from .suite.run_record import RunSummary, Standing, count_verdicts
from .suite.session_record import Costs
from .suite.status import StatusFile
from .variant import Variant

# Sources of a first look, and the fewest variants whose verdicts say anything of those to come.
FEW = 24


@dataclass(frozen=True)
class Shard:
    """Sources that travel together, the pictures read so far, and their outcome if they are finished."""

    sources: Sequence[Source]
    pictures: Pictures
    outcome: Outcome | None = None


@dataclass
class Tally:
    """What the shards so far came to, of a run over these inputs."""

    inputs: Inputs
    accepted: int = 0
    rejected: int = 0
    controls: int = 0
    rejected_controls: int = 0
    dropped: list[DroppedVariant] = field(default_factory=list)
    shortfalls: list[Problem] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    cells: tuple[ValueCells, ...] = ()

    def count(self, outcome: Outcome) -> None:
        """The variants of one more shard."""
        self.accepted += outcome.accepted
        self.rejected += outcome.rejected

    def add(self, outcome: Outcome, problems: Sequence[Problem]) -> None:
        """One more shard, and the sources of it that could not be read."""
        self.count(outcome)
        self.controls += outcome.controls
        self.rejected_controls += outcome.rejected_controls
        self.dropped += outcome.dropped
        self.shortfalls += outcome.shortfalls
        self.problems += problems
        self.cells = add_cells(self.cells, outcome.cells or ())

    def judged(self, rows: Iterable[PictureRow], by_hand: ByHand) -> Iterator[PictureRow]:
        """The suite's rows with the verdicts that people gave; afterwards those are what is counted."""
        counts, gathered = Counter[tuple[str, bool]](), AcceptedCells(self.cells)
        for row in map(by_hand.judge, rows):
            counts[row.kind, row.accepted] += 1
            gathered.add(row)
            yield row
        self.accepted, self.rejected = counts["variant", True], counts["variant", False]
        self.controls, self.rejected_controls = counts["control", True], counts["control", False]
        self.cells = gathered.counted()

    @property
    def _lost(self) -> set[str]:
        """The sources of which nothing came; a problem may be one picture's."""
        names = {problem.name for problem in self.problems}
        return {source.name for source in self.inputs.sources if source.name in names} if names else set()

    def standing(self, profile: Profile, contents: Contents) -> Standing:
        """What the suite has come to, by the profile's thresholds, and its bytes."""
        return Standing(
            sources=len(self.inputs.sources) - len(self._lost),
            accepted=self.accepted,
            rejected=self.rejected,
            controls=self.controls,
            rejected_controls=self.rejected_controls,
            dropped=tuple(self.dropped),
            shortfalls=tuple(self.shortfalls),
            check=plain(profile.check),
            outside_world=self.inputs.out_of_domain,
            cells=self.cells or None,
            contents=contents,
            groups=self.inputs.groups,
        )


@dataclass(frozen=True)
class Plan:
    """The captions of sources and what is to become of them, and the sources that could not be read.

    `cache_problem` says why compiled networks are not kept for the next run.
    """

    captions: Mapping[Source, str]
    rewritten: ShardVariants
    problems: tuple[Problem, ...]
    cache_problem: str | None = None


# Sees what a shard's sources came to.
Judge = Callable[[Sequence[Source], Outcome], None]


@dataclass(frozen=True)
class Trip:
    """What boxes elsewhere are to do: bring the `shards` that are not finished into the run's suite. `judge` sees the
    outcome of every shard, and may end the run.
    """

    run: Run
    outcomes: Outcomes
    shards: Sequence[Sequence[Source]]
    judge: Judge
    status: StatusFile


class Elsewhere(Protocol):
    """Boxes that take shards through the stages."""

    def travel(self, trip: Trip) -> Mapping[int, tuple[Outcome, Sequence[Problem]]]:
        """Bring the shards in. Returns those that are not looked up again, by number, with the sources that could not
        be read.
        """

    def spent(self, own: Costs) -> Costs:
        """What this box and the others took so far."""

    def cache_problem(self) -> str | None:
        """Why a box that worked does not keep what it compiled; None where all do."""


@dataclass(frozen=True)
class Journey:
    """Takes sources to a suite: what the profile's box makes of a request.

    A run ends early where no more than `least_accepted` of its first variants are accepted; None: nobody minds. With
    `elsewhere` shards travel on other boxes, and this one gathers what they came to. `shard_log` gets a line for each.
    """

    profile: Profile
    request: SuiteRequest
    least_accepted: float | None = None
    elsewhere: Elsewhere | None = None
    shard_log: Path | None = None

    def run(
        self,
        inputs: Inputs,
        suite: Suite,
        on_progress: Callable[[Progress], None] | None = None,
        metrics: Path | None = None,
    ) -> RunSummary:
        """Bring the suite to what is asked for and return what it took.

        `metrics` is a file that is kept up to date with the costs so far (see `MetricsFile`). Sources whose file has
        changed or gone since they were found are reported as problems. Raises CounterfactoryError for what stops the
        whole run; what was done by then is kept.
        """
        energy, library = EnergyMeter(), library_of(self.profile)
        stream = self._metrics_file(suite, metrics, energy)
        meter = self._meter(on_progress, stream)
        sources = inputs.sources
        shards = list(in_shards(sources, self.profile.shard_sources))
        with in_callers_threads(), _final_metrics(stream, meter), self._status(suite, len(shards), meter) as status:
            run = self.open_run(suite, library, meter, sources)
            facts = session_facts(run, inputs.record, library.releases())
            with closing(run.models), suite.session(facts, lambda: self._costs(run, energy)) as session:

                def finish(tally: Tally, contents: Contents) -> RunRecord:
                    standing = tally.standing(self.profile, contents)
                    return session.finish(standing, [*inputs.left_out, *tally.problems])

                record = self._travel(run, inputs, shards, status, finish)
        unkept = library.cache_problem if self.elsewhere is None else self.elsewhere.cache_problem()
        summary = RunSummary.of(record, stream.problem if stream else None, unkept)
        if self.elsewhere is None:  # or they would be other boxes' rates
            baseline = self.request.baseline is not None
            save_rates(measured_rates(self.profile, summary, self.request.variants, baseline=baseline))
        return summary

    def plan(self, inputs: Inputs, suite: Suite, on_progress: Callable[[Progress], None] | None = None) -> Plan:
        """What a run would change of these sources: captions and edits, which the suite keeps; nothing is painted.

        Opens the captioner and the language model only. Raises CounterfactoryError for what stops it.
        """
        library, pictures = library_of(self.profile), Pictures(self.profile.image)
        run = self.open_run(suite, library, self._meter(on_progress, None), inputs.sources)
        with in_callers_threads(), closing(run.models):
            captions = caption_sources(run, inputs.sources, pictures)
            rewritten = rewrite_captions(run, captions)
        return Plan(captions, rewritten, tuple(pictures.problems), library.cache_problem)

    def _travel(
        self,
        run: Run,
        inputs: Inputs,
        shards: Sequence[Sequence[Source]],
        status: StatusFile,
        finish: Callable[[Tally, Contents], RunRecord],
    ) -> RunRecord:
        """Take every shard to its outcome, and the suite to its table and the record that `finish` writes."""
        by_hand = read_by_hand(run.suite.path)  # before anything is spent
        tally, outcomes = Tally(inputs), Outcomes(run.suite, outcome_key_of(run, inputs.sources))
        first, gathered = Tally(inputs), dict[int, tuple[Outcome, Sequence[Problem]]]()

        def judge(sources: Sequence[Source], outcome: Outcome) -> None:
            _count_passed(run, sources, outcome)
            first.count(outcome)
            self._require_accepted(run.suite.path, first)

        if self.elsewhere is not None:
            gathered |= self.elsewhere.travel(Trip(run, outcomes, shards, judge, status))
        for at, shard in enumerate(_read(run.meter, prefetch(shards, partial(look, run, outcomes), depth=1))):
            outcome, problems = gathered.get(at, (shard.outcome, shard.pictures.problems))
            if outcome is None:
                self._require_accepted(run.suite.path, tally)
                outcome = step(run, outcomes, shard, tally.cells)
                run.meter.verdicts(outcome.accepted, outcome.rejected)
                status.shard(shard.sources[0].name, accepted=outcome.accepted, rejected=outcome.rejected)
            elif self.elsewhere is None:
                _count_passed(run, shard.sources, outcome)
                status.passed()
            tally.add(outcome, problems)
        rows = tally.judged(outcomes.rows(shards), by_hand)
        return run.suite.write_metadata(rows, lambda contents: finish(tally, contents))

    def _costs(self, run: Run, energy: EnergyMeter) -> Costs:
        costs = session_costs(run, energy)
        return costs if self.elsewhere is None else self.elsewhere.spent(costs)

    def _require_accepted(self, suite: Path, tally: Tally) -> None:
        """Raise CounterfactoryError before more is painted where hardly anything was accepted so far."""
        judged, least = tally.accepted + tally.rejected, self.least_accepted
        if least is None or judged < FEW or tally.accepted > least * judged:
            return
        awaited = f", and more than {least:.0%} are awaited" if least else ""
        raise CounterfactoryError(
            f"of the first {judged:,} variants {tally.accepted:,} were accepted{awaited}: look at them with "
            f"{shlex.join(['counterfactory', 'report', str(suite)])}, correct the weights or the profile's [check], or "
            "go on with --anyway"
        )

    def open_run(self, suite: Suite, library: Library, meter: Meter, sources: Sequence[Source]) -> Run:
        """What the stages work with; no network is opened yet."""
        return Run(
            profile=self.profile,
            request=self.request,
            suite=suite,
            models=ModelPool(library, meter, residency_of(self.profile, library)),
            meter=meter,
            keys=content_keys_of(self.profile, library),
            sources=len(sources),
            pictures=sum(map(self._pictures_of, sources)),
            classes=Classes(source.label for source in sources),
        )

    def _pictures_of(self, source: Source) -> int:
        if source.given is not None:
            return len(source.given.pictures)
        return self.request.variants + self.request.controls

    def _meter(self, on_progress: Callable[[Progress], None] | None, stream: MetricsFile | None) -> Meter:
        on_change = stream.write if stream else None
        return Meter(on_progress or (lambda _: None), on_change, memory=memory_of(self.profile.runtime))

    def _status(self, suite: Suite, shards: int, meter: Meter) -> StatusFile:
        runtime = self.profile.runtime
        hours = partial(meter.device_hours, runtime.devices)
        throttles = (lambda: throttled(read_cards())) if runtime.on_gpu else tuple
        return StatusFile(suite.path, shards, runtime.unit, hours, self.shard_log, meter.moves, throttles)

    def _metrics_file(self, suite: Suite, path: Path | None, energy: EnergyMeter) -> MetricsFile | None:
        if path is None:
            return None
        runtime = self.profile.runtime
        earlier = suite.read_run().costs.device_hours.get(runtime.unit, 0.0)
        cards = read_cards if runtime.on_gpu else tuple
        return MetricsFile(path, devices=runtime.devices, energy=energy, earlier_device_hours=earlier, cards=cards)


def in_shards(sources: Sequence[Source], size: int) -> Iterator[Sequence[Source]]:
    """The sources `size` at a time. The first are few where that is many: their pictures are judged before thousands
    are painted.
    """
    start = FEW if size >= 10 * FEW and len(sources) > FEW else 0
    if start:
        yield sources[:start]
    yield from (sources[at : at + size] for at in range(start, len(sources), size))


def look(run: Run, outcomes: Outcomes, sources: Sequence[Source]) -> Shard:
    """A shard that is finished, or else the pictures that its captions need; runs while the shard before it travels."""
    sources = tuple(sources)  # which may lie on the disk
    pictures, outcome = Pictures(run.profile.image), outcomes.find(sources)
    if outcome is None:
        pictures.of(missing_captions(run, sources))
    return Shard(sources, pictures, outcome)


def step(run: Run, outcomes: Outcomes, shard: Shard, before: Sequence[ValueCells] = ()) -> Outcome:
    """Take a shard through every stage; `before` are the cells of the shards before it."""
    pictures = shard.pictures
    captions = caption_sources(run, shard.sources, pictures)
    originals = keep_originals(run, captions, pictures)
    rewritten = rewrite_captions(run, captions, before)
    needed = unpainted_sources(run, rewritten.variants) if run.profile.follows_maps else []
    maps = draw_maps(run, captions, needed, pictures)
    painted = PAINTERS[run.profile.painter_kind](run, rewritten.variants, maps, pictures)
    scored = score_pictures(run, painted, pictures)
    others = _other_scores(run, painted, rewritten)
    baselines = draw_baselines(run, list(scored), pictures)
    results = ShardResults(captions, originals, painted, scored, others, baselines)
    return _settle(outcomes, shard, rewritten, results, picture_rows(run.profile, results))


def _other_scores(
    run: Run, painted: Mapping[Variant, PaintedRow], rewritten: ShardVariants
) -> Mapping[Variant, Mapping[str, float]]:
    """Scores beside the check stage's own: of texts, of the captioner, and of referees, as the profile asks."""
    scores = {variant: dict(rewritten.scores.get(variant, {})) for variant in painted}
    looks = []
    if run.profile.check.recaption:
        looks.append(recaption(run, painted))
    if run.profile.referees:
        looks.append(consult_referees(run, painted, partial(open_referee, runtime=run.profile.runtime)))
    for look_scores in looks:
        for variant, of_variant in look_scores.items():
            scores[variant] |= of_variant
    return scores


def _settle(
    outcomes: Outcomes, shard: Shard, rewritten: ShardVariants, results: ShardResults, table: Sequence[PictureRow]
) -> Outcome:
    """Keep what a shard came to: the table's rows and the files that they name."""
    outcome = Outcome(
        **count_verdicts(table),
        files=_files(results, table),
        dropped=tuple(
            DroppedVariant(v.source.name, v.index, v.edited_caption, v.dropped or "") for v in rewritten.dropped
        ),
        shortfalls=tuple(rewritten.shortfalls),
        cells=rewritten.cells or None,
    )
    # A picture that could not be read may be there the next time.
    outcomes.keep(shard.sources, outcome, table, finished=not shard.pictures.problems)
    return outcome


def outcome_key_of(run: Run, sources: Sequence[Source]) -> str:
    """Names all that decides what a shard of these sources comes to; see content_keys."""
    palettes = [palette.key for palette in palettes_of(run.profile.hints)]
    referees = [referee.digest() for referee in run.profile.referees or ()]
    decided_by: tuple[object, ...] = (run.profile.decisive, world_of(run.profile), *palettes, *referees)
    if run.request.interventions is not None:
        decided_by += ("matrix", MATRIX)
    if run.keys.painter is not None:
        decided_by += ("painter", run.keys.painter)
    if run.request.baseline is not None:
        decided_by += ("baseline", LIGHT)
    if not run.request.has_room:  # which values a source has depends on the sources before it
        decided_by += ([source.key for source in sources],)
    return outcome_key(decided_by, run.request, run.classes.names, run.keys.makers)


def _files(results: ShardResults, table: Sequence[PictureRow]) -> dict[str, int]:
    """Bytes by path of the files that belong to a table."""
    named = {name for row in table for name in row.files}
    pictures = (*results.originals.values(), *results.painted.values(), *results.baselines.values())
    files = [file for row in pictures for file in row.files]
    return {file.path: file.bytes for file in files if file.path in named}


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


def _count_passed(run: Run, sources: Sequence[Source], outcome: Outcome) -> None:
    """The stages of a shard that is finished count as done."""
    for stage in STAGES:
        run.advance(stage, len(sources) if stage in OF_SOURCES else outcome.painted)
    run.meter.verdicts(outcome.accepted, outcome.rejected)
