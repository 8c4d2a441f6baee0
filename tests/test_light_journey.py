"""The journey by rules alone, which is quick: what it counts, what it passes, and what boxes elsewhere do of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from light_sets import photographs

from counterfactory.engine import journey
from counterfactory.engine.content_keys import OF_SOURCES
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.inputs import Inputs
from counterfactory.engine.journey import FEW, Journey, Tally, Trip, in_shards, look, outcome_key_of, step
from counterfactory.engine.meter.meter import Meter, Progress
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.sources.source import Problem, Source
from counterfactory.engine.stages import recording
from counterfactory.engine.suite import Suite, read_metadata, read_run
from counterfactory.engine.suite.outcome import Outcome
from counterfactory.engine.suite.run_record import RunSummary
from counterfactory.engine.suite.session_record import Costs
from counterfactory.engine.suite.status import read_status
from counterfactory.engine.tasks.task import builtin_task
from counterfactory.engine.tasks.user_task import parse_interventions

LIGHT = replace(load_profile("light"), shard_sources=2)
REQUEST = SuiteRequest(builtin_task("classification", ("a", "b")), variants=2, controls=0, edits=(1, 2), seed=3)


@pytest.fixture
def sources(tmp_path: Path) -> Sequence[Source]:
    """Three photographs of two classes."""
    return find_sources(photographs(tmp_path / "photos", range(3)))[0]


def travel(sources: Sequence[Source], path: Path, asked: Journey | None = None, **how: Any) -> RunSummary:
    with Suite.open(path) as suite:
        return (asked or Journey(LIGHT, REQUEST)).run(Inputs(sources), suite, **how)


def test_shards_are_logged_and_passed_the_next_time(
    sources: Sequence[Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, suite = tmp_path / "shards.jsonl", tmp_path / "suite"
    asked = Journey(LIGHT, REQUEST, shard_log=log)
    last: list[dict[str, Progress]] = [{}, {}]
    first = travel(sources, suite, asked, on_progress=lambda now: last[0].update({now.stage: now}))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["done"], line["of"], line["first"]) for line in lines] == [(1, 2, "a/0000"), (2, 2, "b/0001")]
    assert sum(line["accepted"] for line in lines) == first.accepted
    assert sum(line["rejected"] for line in lines) == first.rejected
    assert [first.variants, first.controls + first.rejected_controls, first.sources] == [6, 0, 3]
    monkeypatch.setattr(journey, "step", lambda *_: pytest.fail("a finished shard was not passed"))
    again = travel(sources, suite, asked, on_progress=lambda now: last[1].update({now.stage: now}))
    assert (again.reused, again.accepted, again.painted) == (first.painted, first.accepted, 0)
    for seen in last:
        of_sources = {stage: now for stage, now in seen.items() if stage in OF_SOURCES}
        assert of_sources.keys() >= {"caption", "rewrite"}
        assert seen.keys() - of_sources.keys() >= {"paint", "check"}
        for stage, now in seen.items():
            assert (now.done, now.total) == ((3, 3) if stage in OF_SOURCES else (6, 6))
    assert len(log.read_text().splitlines()) == 2
    status = read_status(suite)
    assert (status.state, status.done, status.passed, status.shards) == ("finished", 2, 2, 2)


def test_a_shard_with_a_picture_that_was_lost_is_taken_again(sources: Sequence[Source], tmp_path: Path) -> None:
    (gone := sources[0].path).rename(tmp_path / "elsewhere.png")
    first = travel(sources, tmp_path / "suite")
    assert [problem.name for problem in first.problems] == ["a/0000"]
    (tmp_path / "elsewhere.png").rename(gone)
    again = travel(sources, tmp_path / "suite")
    assert ([*again.problems], again.variants, again.reused) == ([], 6, first.painted)


def test_a_shard_is_decided_by_what_is_asked_and_by_all_labels(
    sources: Sequence[Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weathers = parse_interventions("weather: rainy, foggy, snowy", "test")
    few = replace(REQUEST, interventions=parse_interventions("weather: rainy", "test"))

    def key(request: SuiteRequest, taken: Sequence[Source], labels_of: Sequence[Source] = ()) -> str:
        with Suite.open(tmp_path / "suite") as suite:
            meter = Meter(lambda _: None, None, memory=lambda: 0)
            run = Journey(LIGHT, request).open_run(suite, library_of(LIGHT), meter, labels_of or sources)
            assert (run.sources, run.pictures) == (len(labels_of or sources), 2 * len(labels_of or sources))
            return outcome_key_of(run, taken)

    plain = key(REQUEST, sources)
    assert plain == key(REQUEST, sources[:2]), "where there is room, other sources change nothing"
    assert key(REQUEST, sources, sources[:2]) != plain, "labels of the one class only"
    assert len({plain, key(few, sources), key(replace(REQUEST, interventions=weathers), sources)}) == 3
    assert key(few, sources) == key(few, sources[:2])
    tight = replace(REQUEST, interventions=weathers)
    assert key(tight, sources) != key(tight, sources[:2])
    monkeypatch.setattr(recording, "LIGHT", 1000)
    assert key(REQUEST, sources) != plain, "light that is drawn otherwise is drawn again"


@pytest.mark.parametrize(
    ("accepted", "rejected", "least", "ends"),
    [(12, 12, 0.5, True), (13, 12, 0.5, False), (0, 23, 0.5, False), (0, 24, 0.0, True), (1, 23, 0.0, False)],
)
def test_a_run_ends_where_hardly_anything_is_accepted(accepted: int, rejected: int, least: float, ends: bool) -> None:
    asked, tally = Journey(LIGHT, REQUEST, least_accepted=least), Tally(Inputs([]), accepted, rejected)
    if not ends:
        asked._require_accepted(Path("my suite"), tally)
        return
    with pytest.raises(CounterfactoryError) as error:
        asked._require_accepted(Path("my suite"), tally)
    awaited = ", and more than 50% are awaited" if least else ""
    assert str(error.value) == (
        f"of the first 24 variants {accepted} were accepted{awaited}: look at them with counterfactory report 'my "
        "suite', correct the weights or the profile's [check], or go on with --anyway"
    )


def test_of_large_shards_the_first_is_small() -> None:
    many: list[Any] = list(range(1000))
    assert [len(shard) for shard in in_shards(many, 10 * FEW)] == [FEW, 240, 240, 240, 240, 16]
    assert len(next(in_shards(many, 10 * FEW - 1))) == 10 * FEW - 1
    assert [len(shard) for shard in in_shards(many[:FEW], 10 * FEW)] == [FEW]


def test_rates_are_kept_of_what_was_asked_and_metrics_go_on(
    sources: Sequence[Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, files = list[dict[str, Any]](), list[float]()
    rates, metrics_file = journey.measured_rates, journey.MetricsFile

    def measured_rates(*args: Any, **more: Any) -> Any:
        kept.append(more)
        return rates(*args, **more)

    def opened(*args: Any, **more: Any) -> Any:
        files.append(more["earlier_device_hours"])
        return metrics_file(*args, **more)

    monkeypatch.setattr(journey, "measured_rates", measured_rates)
    monkeypatch.setattr(journey, "MetricsFile", opened)
    path, metrics = tmp_path / "suite", tmp_path / "metrics" / "now.prom"
    metrics.parent.mkdir()
    travel(sources, path, Journey(LIGHT, replace(REQUEST, baseline="light")), metrics=metrics)
    spent = read_run(path).costs.device_hours["core"]
    assert metrics.is_file()
    gone = travel(sources, path, metrics=metrics, on_progress=lambda _: shutil.rmtree(metrics.parent, True))
    assert kept == [{"baseline": True}, {"baseline": False}]
    assert files == [0.0, spent]
    assert "now.prom" in str(gone.metrics_problem)


class Boxes:
    """Stand for boxes elsewhere: they take all shards but the last, and cost 7 hours."""

    def travel(self, trip: Trip) -> Mapping[int, tuple[Outcome, Sequence[Problem]]]:
        shard = look(trip.run, trip.outcomes, trip.shards[0])
        assert shard.outcome is None
        outcome = step(trip.run, trip.outcomes, shard)
        trip.judge(trip.shards[0], outcome)
        trip.status.shard(trip.shards[0][0].name)
        return {0: (outcome, shard.pictures.problems)}

    def spent(self, own: Costs) -> Costs:
        return replace(own, device_s=7 * 3600.0)

    def cache_problem(self) -> str | None:
        return "a box: its disk is full"


def test_boxes_elsewhere_take_shards_and_their_hours_count(
    sources: Sequence[Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    travel(sources, tmp_path / "here")
    monkeypatch.setattr(journey, "save_rates", lambda *_: pytest.fail("they are other boxes' rates"))
    log = tmp_path / "shards.jsonl"
    asked = Journey(LIGHT, REQUEST, elsewhere=Boxes(), shard_log=log)
    summary = travel(sources, tmp_path / "there", asked)
    assert read_metadata(tmp_path / "there") == read_metadata(tmp_path / "here")
    assert [json.loads(line)["first"] for line in log.read_text().splitlines()] == ["a/0000", "b/0001"]
    assert read_run(tmp_path / "there").costs.device_hours["core"] == pytest.approx(7.0)
    assert summary.variants == 6
    assert summary.cache_problem == "a box: its disk is full"
    (tmp_path / "none").mkdir()
    monkeypatch.setattr(journey, "FEW", 1)
    with pytest.raises(CounterfactoryError, match=r"^of the first \d variants \d were accepted"):
        travel(sources, tmp_path / "none", replace(asked, least_accepted=1.0))
    assert read_status(tmp_path / "none").done == 0, "judged before it counts"
