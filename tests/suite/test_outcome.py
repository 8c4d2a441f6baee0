"""What a shard came to: found only when all that made it is as it was, and worth exactly the shard."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from picture_rows import picture_row
from test_journey import SETTINGS, contents, quick, streets, travel  # noqa: F401 (two are fixtures)

from counterfactory.engine import journey as journey_module
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.sources.source import Problem, Source
from counterfactory.engine.suite import Suite
from counterfactory.engine.suite.ledger import Ledger
from counterfactory.engine.suite.outcome import DroppedVariant, Outcome, Outcomes

ROWS = [picture_row(0), picture_row(1, scores={}, reason="too dark")]
FILES = {"images/a.png": 3, "masks/a.png": 2}
OUTCOME = Outcome(1, 1, 2, 3, FILES, (DroppedVariant("a", 2, "ä", "as it was"),), (Problem("b", "too short"),))


def sources(*names: str) -> list[Source]:
    return [Source(name, name, Path(name), (8, 8), None, None, f"digest of {name}", f"key of {name}") for name in names]


def with_files(suite: Suite) -> Path:
    _, done = suite._store.place({path: bytes(size) for path, size in OUTCOME.files.items()})
    suite.ledger.put_stages(done)
    return suite.path


def test_found_is_what_was_kept(tmp_path: Path) -> None:
    with Suite.open(tmp_path) as suite:
        Outcomes(suite, "x").keep(sources("a", "b"), OUTCOME, ROWS, finished=True)
        with_files(suite)
    with Suite.open(tmp_path) as suite:
        outcomes = Outcomes(suite, "x")
        assert outcomes.find(sources("a", "b")) == OUTCOME
        assert outcomes.find(sources("b", "a")) is None
        assert outcomes.find(sources("a")) is None
        assert outcomes.find([sources("a")[0], replace(sources("b")[0], key="another")]) is None
        assert Outcomes(suite, "y").find(sources("a", "b")) is None
        assert list(outcomes.rows([sources("a", "b"), sources("a", "b")])) == ROWS * 2


def writes(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


@pytest.mark.parametrize("path", list(OUTCOME.files))
@pytest.mark.parametrize("harm", [Path.unlink, *map(writes, (b"longer", b"", b"abc", b"ab"))])
def test_a_file_that_is_missing_or_has_other_bytes_undoes_it(tmp_path: Path, path: str, harm: Any) -> None:
    with Suite.open(tmp_path) as suite:
        Outcomes(suite, "x").keep(sources("a"), OUTCOME, ROWS, finished=True)
        harm(with_files(suite) / path)
        assert Outcomes(suite, "x").find(sources("a")) is None


def test_the_last_one_kept_counts_and_an_unfinished_one_is_not_found(tmp_path: Path) -> None:
    with Suite.open(tmp_path) as suite:
        with_files(suite)
        outcomes = Outcomes(suite, "x")
        outcomes.keep(sources("a"), OUTCOME, ROWS, finished=True)
        outcomes.keep(sources("a"), replace(OUTCOME, accepted=0), ROWS[1:], finished=False)
        assert outcomes.find(sources("a")) is None
        assert list(outcomes.rows([sources("a")])) == ROWS[1:]


def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stages of all lookups from now on."""
    stages: list[str] = []
    real = Ledger.get

    def get(ledger: Ledger, stage: str, keys: Sequence[str]) -> dict[str, Any]:
        stages.append(stage)
        return real(ledger, stage, keys)

    monkeypatch.setattr(Ledger, "get", get)
    return stages


@pytest.mark.slow
@pytest.mark.usefixtures("shared_plans")
def test_a_finished_shard_goes_through_no_stage_and_gives_the_same_suite(
    streets: Path,  # noqa: F811
    quick: Profile,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    profile, found, path = replace(quick, shard_sources=2), find_sources(streets)[0][:3], tmp_path / "s"
    first = travel(profile, SETTINGS, found, path)
    made, told = contents(path), json.loads((path / "run.json").read_text())
    (path / "metadata.parquet").unlink()
    stages = looked_up(monkeypatch)
    again = travel(profile, SETTINGS, found, path)
    assert {stage for stage in stages if not stage.startswith("suite/")} == {"shard", "shard/rows"}
    assert contents(path) == made
    assert json.loads((path / "run.json").read_text())["standing"] == told["standing"]
    for name in ("sources", "variants", "accepted", "rejected", "dropped", "problems", "shortfalls"):
        assert getattr(again, name) == getattr(first, name), name
    assert {cost.stage: cost.items for cost in again.stages} == {cost.stage: cost.items for cost in first.stages}
    assert (again.painted, again.reused) == (0, first.variants + first.controls + first.rejected_controls)
    # Code that chooses edits otherwise asks for each result: no other key has its rules.
    stages.clear()
    monkeypatch.setattr(journey_module, "outcome_key", lambda *made_by: "another")
    assert travel(profile, SETTINGS, found, path).painted == 0
    assert {"caption", "rewrite", "check"} <= set(stages)
    assert contents(path) == made


@pytest.mark.slow
@pytest.mark.usefixtures("shared_plans")
def test_a_shard_with_a_problem_is_tried_again(streets: Path, quick: Profile, tmp_path: Path) -> None:  # noqa: F811
    found = find_sources(streets)[0][:2]
    moved = tmp_path / "moved.png"
    away = [replace(found[0], path=moved), found[1]]
    assert len(travel(quick, SETTINGS, away, tmp_path / "s").problems) == 1
    moved.write_bytes(found[0].path.read_bytes())
    report = travel(quick, SETTINGS, away, tmp_path / "s")
    assert report.problems == ()
    assert report.painted > 0
