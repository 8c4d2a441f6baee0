"""Suites that become one, and one that becomes several: the bytes of one run, and contradictions by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from light_sets import make_suite, photographs
from PIL import Image
from refusing import refusal

from counterfactory.engine.cluster.merging import merge_suites, split_suite
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.judging.recheck import recheck
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.suite import Suite, read_metadata, read_run
from counterfactory.engine.suite.by_hand import read_by_hand
from counterfactory.engine.suite.contents import suite_digest
from counterfactory.engine.suite.recorded import recorded_check
from counterfactory.engine.suite.verify import verify_suite

# Edits that are chosen for each source by itself: others share out values among all sources of their run.
ALONE: dict[str, Any] = {"edits": (1, 2)}


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Suites of four photographs, of four others, and of all eight, each made by a run of its own."""
    root = tmp_path_factory.mktemp("days")
    for name, indices in (("first", range(4)), ("second", range(4, 8)), ("both", range(8))):
        make_suite(photographs(root / f"{name}-photos", indices), root / name, **ALONE)
    return {name: root / name for name in ("first", "second", "both")}


def digests(*suites: Path) -> list[str | None]:
    return [suite_digest(suite) for suite in suites]


def test_two_days_are_one_run_and_back(days: dict[str, Path], tmp_path: Path) -> None:
    before = digests(*days.values())
    counted: list[tuple[int, int]] = []
    record = merge_suites([days["first"], days["second"]], tmp_path / "one", lambda *at: counted.append(at))
    assert digests(tmp_path / "one") == before[2:]
    assert verify_suite(tmp_path / "one").sound
    files = len(list((tmp_path / "one").rglob("*.png")))
    assert counted == [(at, files) for at in range(1, files + 1)]
    assert [path.relative_to(days["both"]) for path in sorted(days["both"].rglob("*.png"))] == [
        path.relative_to(tmp_path / "one") for path in sorted((tmp_path / "one").rglob("*.png"))
    ]
    spent = [read_run(days[name]).costs.device_hours["core"] for name in ("first", "second")]  # type: ignore[union-attr]
    assert record.costs.device_hours["core"] == pytest.approx(sum(spent))
    assert record.costs.sessions == 2
    standing, whole = record.standing, read_run(days["both"]).standing  # type: ignore[union-attr]
    assert replace(standing, contents=None) == replace(whole, contents=None)
    names = sorted({row.source for row in read_metadata(days["first"])})
    split_suite(tmp_path / "one", [tmp_path / "a", tmp_path / "b"], names)
    assert digests(tmp_path / "a", tmp_path / "b") == before[:2]
    assert digests(*days.values()) == before, "what was merged stays as it was"


def test_suites_that_shared_out_values_among_their_own_sources_merge_and_are_split_again(
    days: dict[str, Path], tmp_path: Path
) -> None:
    parts = [tmp_path / name for name in ("first", "second")]
    for part in parts:
        make_suite(days[part.name].parent / f"{part.name}-photos", part, variants=5)
    merge_suites(parts, tmp_path / "one")
    assert verify_suite(tmp_path / "one").sound
    rows = {row.file_name: row.sha256 for part in parts for row in read_metadata(part)}
    assert {row.file_name: row.sha256 for row in read_metadata(tmp_path / "one")} == rows
    names = sorted({row.source for row in read_metadata(parts[0])})
    split_suite(tmp_path / "one", [tmp_path / "a", tmp_path / "b"], names)
    assert digests(tmp_path / "a", tmp_path / "b") == digests(*parts)
    whole = make_suite(days["both"].parent / "both-photos", tmp_path / "one", variants=5)
    fresh = make_suite(days["both"].parent / "both-photos", tmp_path / "fresh", variants=5)
    assert whole.digest == fresh.digest


@pytest.mark.slow
def test_nothing_of_a_merged_suite_is_painted_again(days: dict[str, Path], tmp_path: Path) -> None:
    merge_suites([days["second"], days["first"]], tmp_path / "one")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "one").rglob("*.png")}
    summary = make_suite(days["both"].parent / "both-photos", tmp_path / "one", **ALONE).summary
    assert (summary.painted, summary.reused) == (0, len([p for p in times if "originals" not in p.parts]))
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert digests(tmp_path / "one") == digests(days["both"])


@pytest.mark.slow
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.integers(0, 7), min_size=1, max_size=7), st.booleans())
def test_any_split_merges_back(days: dict[str, Path], tmp_path_factory: Any, taken: set[int], turned: bool) -> None:
    root = tmp_path_factory.mktemp("split")
    names = sorted({row.source for row in read_metadata(days["both"])})
    parts = [root / "a", root / "b"]
    split_suite(days["both"], parts, [names[at] for at in taken])
    shown = [{row.source for row in read_metadata(part)} for part in parts]
    assert shown == [{names[at] for at in taken}, {name for at, name in enumerate(names) if at not in taken}]
    record = merge_suites(parts[::-1] if turned else parts, root / "back")
    assert digests(root / "back") == digests(days["both"])
    assert record.sessions == read_run(days["both"]).sessions  # type: ignore[union-attr]


@pytest.mark.slow
def test_equal_parts_are_equal(days: dict[str, Path], tmp_path: Path) -> None:
    parts = [tmp_path / str(at) for at in range(3)]
    split_suite(days["both"], parts)
    assert [len({row.source for row in read_metadata(part)}) for part in parts] == [2, 3, 3]
    merge_suites(parts, tmp_path / "back")
    assert digests(tmp_path / "back") == digests(days["both"])


def test_a_source_in_two_suites_is_there_once(days: dict[str, Path], tmp_path: Path) -> None:
    record = merge_suites([days["both"], days["first"]], tmp_path / "one")
    assert digests(tmp_path / "one") == digests(days["both"])
    assert record.standing.sources == 8


def other(days: dict[str, Path], path: Path, **options: Any) -> Path:
    make_suite(days["first"].parent / "second-photos", path, **ALONE | options)
    return path


def edited(suite: Path, path: Path, change: Callable[[Any], None]) -> Path:
    """A copy with another session on record."""
    shutil.copytree(suite, path)
    with Suite.open(path) as opened:
        record = json.loads((path / "run.json").read_text())
        change(record["sessions"][0])
        opened.write_run(type(opened.read_run()).from_json({k: v for k, v in record.items() if k != "sha256"}, "x"))
    return path


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"seed": 3}, "settings.seed is 0 in the first and 3 in the second"),
        ({"variants": 1}, "settings.variants is 2 in the first and 1 in the second"),
        ({"edits": 1}, "settings.edits"),
    ],
)
def test_other_settings_are_refused_by_name(
    days: dict[str, Path], tmp_path: Path, options: dict[str, Any], named: str
) -> None:
    refuse(named, [days["first"], other(days, tmp_path / "other", **options)], tmp_path / "one")


def test_other_weights_profiles_and_thresholds_are_refused_by_name(days: dict[str, Path], tmp_path: Path) -> None:
    first, second = days["first"], days["second"]
    painted = edited(second, tmp_path / "painted", lambda session: session["models"].update(paint="0" * 64))
    refuse("the stage paint was computed by other weights or libraries", [first, painted], tmp_path / "one")
    scaled = edited(second, tmp_path / "scaled", lambda session: session["profile"]["image"].update(own_size=False))
    refuse("profile.image.own_size is True in the first and False in the second", [first, scaled], tmp_path / "one")
    shutil.copytree(second, tmp_path / "strict")
    check = read_run(second).standing.check  # type: ignore[union-attr]
    assert check
    recheck(tmp_path / "strict", load_profile("light").check.having(min_intact=0.3))
    refuse("profile.check.min_intact is 0.93", [first, tmp_path / "strict"], tmp_path / "one")


def refuse(named: str, suites: Sequence[Path], out: Path) -> None:
    with pytest.raises(CounterfactoryError) as refused:
        merge_suites(suites, out)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not out.exists(), "refused before anything is written"


def test_two_pictures_of_one_name_are_refused(days: dict[str, Path], tmp_path: Path) -> None:
    photos = photographs(tmp_path / "photos", range(4))
    file = sorted(photos.rglob("*.png"))[0]
    Image.fromarray(255 - np.asarray(Image.open(file))).save(file)
    make_suite(photos, tmp_path / "clash", **ALONE)
    refuse("is another picture, label or mask in each", [days["first"], tmp_path / "clash"], tmp_path / "one")


def test_a_damaged_file_stops_the_merge_and_is_named(days: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(days["second"], tmp_path / "rotten")
    file = sorted((tmp_path / "rotten" / "images").rglob("*.png"))[2]
    data = bytearray(file.read_bytes())
    data[-20] ^= 1
    file.write_bytes(data)
    with refusal(rf"{file.name} is not as it was written: counterfactory verify"):
        merge_suites([days["first"], tmp_path / "rotten"], tmp_path / "one")
    assert not (tmp_path / "one" / "metadata.parquet").exists()
    file.unlink()
    shutil.copy(days["second"] / file.relative_to(tmp_path / "rotten"), file)
    merge_suites([days["first"], tmp_path / "rotten"], tmp_path / "one")  # goes on where it was
    assert digests(tmp_path / "one") == digests(days["both"])


def test_what_people_decided_comes_along_and_contradictions_are_refused(days: dict[str, Path], tmp_path: Path) -> None:
    check = recorded_check(days["first"])
    for name in ("first", "second", "both"):
        shutil.copytree(days[name], tmp_path / name)
    pictures = [next(row for row in read_metadata(days[n]) if row.kind == "variant") for n in ("first", "second")]
    for name, picture in zip(("first", "second"), pictures, strict=True):
        recheck(tmp_path / name, check, [(picture.file_name, "exclude", "ugly")])
    merge_suites([tmp_path / "first", tmp_path / "second"], tmp_path / "one")
    hands = read_by_hand(tmp_path / "one").pictures
    assert set(hands) == {picture.file_name for picture in pictures}
    excluded = {row.file_name for row in read_metadata(tmp_path / "one") if row.reason == "excluded by hand: ugly"}
    assert excluded == set(hands)
    split_suite(tmp_path / "one", [tmp_path / "a", tmp_path / "b"], [pictures[0].source])
    assert set(read_by_hand(tmp_path / "a").pictures) == {pictures[0].file_name}
    recheck(tmp_path / "both", check, [(pictures[0].file_name, "accept", "")])
    refuse(
        "is accepted by hand in one suite and excluded in", [tmp_path / "both", tmp_path / "first"], tmp_path / "two"
    )


def test_what_cannot_be_merged_or_split_is_said(days: dict[str, Path], tmp_path: Path) -> None:
    first, both = days["first"], days["both"]
    refuse("at least two suites, each named once", [first, first], tmp_path / "one")
    with refusal("is a finished suite already: name a new folder"):
        merge_suites([first, days["second"]], both)
    (tmp_path / "empty").mkdir()
    refuse("holds no finished suite", [first, tmp_path / "empty"], tmp_path / "one")
    assert list((tmp_path / "empty").iterdir()) == []
    outs = [tmp_path / str(at) for at in range(9)]
    for asked, names, sentence in (
        (outs, None, "which make 2 to 8 suites, not 9"),
        (outs[:2], ["nobody"], "has no sources of the names nobody"),
        (outs[:3], ["a/0000"], "part a suite in two"),
    ):
        with refusal(sentence):
            split_suite(both, asked, names)
    with Suite.open(tmp_path / "held"):
        shutil.copy(first / "metadata.parquet", tmp_path / "held")
        with refusal("in use by process"):
            merge_suites([first, tmp_path / "held"], tmp_path / "one")
