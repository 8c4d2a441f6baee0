"""The whole journey with the embedded models: what decides a suite's bytes, and what is done again when."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import quick_profile
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from counterfactory.engine import journey
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.inputs import Inputs
from counterfactory.engine.journey import FEW, Journey, in_shards
from counterfactory.engine.judging.recheck import recheck
from counterfactory.engine.meter.meter import Progress
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.profile.referees import RefereeSettings
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.runtime.blob_cache import SWITCH
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.sources.source import Source, load_mask, load_pixels
from counterfactory.engine.suite import Suite, read_metadata, read_run
from counterfactory.engine.suite.run_record import RunSummary
from counterfactory.engine.tasks.user_task import parse_interventions

pytestmark = pytest.mark.usefixtures("shared_plans")

ROOT = Path(__file__).parents[1]
SETTINGS = SuiteRequest(street_task("segmentation"), variants=2, controls=1, edits=(1, 2), seed=3)


@pytest.fixture(scope="module")
def streets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six scenes with masks, two of them wider than high."""
    root = tmp_path_factory.mktemp("streets")
    for index in range(6):
        image, mask = EMBEDDED.draw(EMBEDDED.scene(77, index)).pair
        if index % 3 == 2:
            image, mask = np.tile(image, (1, 2, 1))[:, :192], np.tile(mask, (1, 2))[:, :192]
        for kind, array in (("images", image), ("masks", mask)):
            path = root / kind / f"{index:04d}.png"
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(array).save(path)
    return root


@pytest.fixture(scope="module")
def quick(packed_models: Path) -> Profile:
    return quick_profile(packed_models, steps=3)


def travel(
    profile: Profile,
    settings: SuiteRequest,
    sources: Sequence[Source],
    path: Path,
    on_progress: Callable[[Progress], None] | None = None,
) -> RunSummary:
    with Suite.open(path) as suite:
        return Journey(profile, settings).run(Inputs(sources), suite, on_progress)


def contents(path: Path) -> dict[str, str]:
    """Digests of all that belongs to a suite; the ledger and run.json hold what varies (order, costs)."""
    files = [f for f in path.rglob("*") if f.is_file() and f.suffix in (".png", ".parquet")]
    return {str(f.relative_to(path)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


@pytest.fixture(scope="module")
def finished(
    streets: Path, quick: Profile, shared_plans: None, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, RunSummary]:
    """An uninterrupted run."""
    path = tmp_path_factory.mktemp("suite") / "whole"
    return path, travel(quick, SETTINGS, find_sources(streets)[0], path)


def test_a_suite_is_complete(finished: tuple[Path, RunSummary], streets: Path) -> None:
    path, report = finished
    rows = read_metadata(path)
    assert report.sources == 6
    variants = [row for row in rows if row.kind == "variant"]
    assert len(variants) == report.variants == report.accepted + report.rejected
    assert [row.source for row in rows if row.kind == "original"] == sorted({row.source for row in variants})
    assert [row.source for row in rows if row.kind == "control"] == sorted({row.source for row in variants})
    assert report.painted == len(rows) - report.sources == report.variants + report.controls + report.rejected_controls
    assert report.variants + report.dropped + len(report.shortfalls) >= 6 * 2
    assert report.variants >= 8, "the language model lost most variants"
    for row in variants:
        image, source = Image.open(path / row.file_name), Image.open(streets / "images" / f"{row.source}.png")
        assert image.size == source.size
        mask = np.asarray(Image.open(path / str(row.mask)))
        np.testing.assert_array_equal(mask, np.asarray(Image.open(streets / "masks" / f"{row.source}.png")))
        assert row.edited_caption != row.caption
        for edit in row.edits:
            assert edit.keyword in row.caption
    pictures = [np.asarray(Image.open(path / row.file_name)) for row in rows]
    assert min(picture.std() for picture in pictures) > 5, "a picture is flat"
    assert len({row.edited_caption for row in variants}) > len(variants) // 2


def test_originals_are_what_the_painter_saw_and_controls_its_own_caption(
    finished: tuple[Path, RunSummary], streets: Path, quick: Profile
) -> None:
    path, _ = finished
    sources, size = {source.name: source for source in find_sources(streets)[0]}, quick.image
    rows = read_metadata(path)
    for row in rows:
        source = sources[row.source]
        pixels = load_pixels(source, size)
        np.testing.assert_array_equal(np.asarray(Image.open(path / row.original)), pixels)
        assert (row.origin.path, row.origin.sha256) == (source.file, source.digest)
        (control,) = [other for other in rows if other.source == row.source and other.kind == "control"]
        assert row.control == control.file_name
        assert control.caption == control.edited_caption == row.caption
        assert control.edits == ()
        assert not np.array_equal(np.asarray(Image.open(path / control.file_name)), pixels)
        np.testing.assert_array_equal(np.asarray(Image.open(path / str(row.mask))), load_mask(source, pixels.shape[:2]))


@pytest.mark.slow
def test_more_controls_paint_nothing_anew_and_none_are_a_choice(streets: Path, quick: Profile, tmp_path: Path) -> None:
    sources = find_sources(streets)[0][:2]
    first = travel(quick, SETTINGS, sources, tmp_path / "s")
    more = travel(quick, replace(SETTINGS, controls=3), sources, tmp_path / "s")
    assert more.painted == 4
    rows = [row for row in read_metadata(tmp_path / "s") if row.kind == "control"]
    assert [row.number for row in rows] == [0, 1, 2] * 2
    assert len({(tmp_path / "s" / row.file_name).read_bytes() for row in rows}) == 6, "each has noise of its own"
    none = travel(quick, replace(SETTINGS, controls=0), sources, tmp_path / "s")
    assert (none.painted, none.controls, none.variants) == (0, 0, first.variants)
    assert {row.control for row in read_metadata(tmp_path / "s")} == {None}


def test_a_plan_is_what_a_run_then_paints(
    finished: tuple[Path, RunSummary], streets: Path, quick: Profile, tmp_path: Path
) -> None:
    with Suite.open(tmp_path / "plan") as suite:
        plan = Journey(quick, SETTINGS).plan(Inputs(find_sources(streets)[0]), suite)
    planned = [(v.source.name, v.index, v.caption, v.edits, v.edited_caption) for v in plan.rewritten.variants]
    rows = [row for row in read_metadata(finished[0]) if row.kind != "original"]
    assert sorted(planned, key=str) == sorted(
        ((row.source, row.number, row.caption, row.edits, row.edited_caption) for row in rows), key=str
    )
    assert len(planned) > 8
    assert not list((tmp_path / "plan").rglob("*.png"))


@pytest.mark.slow
@pytest.mark.parametrize(("shard", "backward"), [(1, False), (100, True)])
def test_shards_and_order_leave_the_bytes_alone(
    finished: tuple[Path, RunSummary], streets: Path, quick: Profile, tmp_path: Path, shard: int, backward: bool
) -> None:
    sources = find_sources(streets)[0]
    travel(replace(quick, shard_sources=shard), SETTINGS, sources[::-1] if backward else sources, tmp_path / "other")
    assert contents(tmp_path / "other") == contents(finished[0])


@pytest.fixture
def again(finished: tuple[Path, RunSummary], tmp_path: Path) -> tuple[Path, RunSummary]:
    """A copy of the finished suite to go on with, and what the run that made it came to."""
    return Path(shutil.copytree(finished[0], tmp_path / "again")), finished[1]


def test_nothing_is_done_twice(again: tuple[Path, RunSummary], streets: Path, quick: Profile) -> None:
    path, first = again
    before = contents(path)
    report = travel(quick, SETTINGS, find_sources(streets)[0], path)
    hours = [cost.devices * cost.wall_s / 3.6 / first.accepted for cost in (first, report)]
    assert report.suite.sessions == 2
    assert report.device_hours_per_1k_accepted == pytest.approx(sum(hours))
    assert report.session_device_hours_per_1k_accepted == pytest.approx(hours[1])
    assert (report.painted, report.models_load_s) == (0, 0.0)
    assert report.reused == first.painted
    assert contents(path) == before


def test_a_teacher_makes_no_other_suite(
    again: tuple[Path, RunSummary], streets: Path, quick: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, first = again
    monkeypatch.setattr(journey, "step", lambda *_: pytest.fail("a finished shard was not passed"))
    report = travel(replace(quick, teacher="a10g"), SETTINGS, find_sources(streets)[0], path)
    assert report.reused == first.painted


def test_changes_reuse_what_they_leave_as_it_was(streets: Path, quick: Profile, tmp_path: Path) -> None:
    """More variants, another threshold, another paint setting: no model opens that has nothing to do."""
    sources = find_sources(streets)[0][:3]
    first = travel(quick, replace(SETTINGS, variants=1), sources, tmp_path / "s")
    more = travel(quick, SETTINGS, sources, tmp_path / "s")
    assert more.reused == first.painted
    assert more.painted == more.variants - first.variants > 0
    strict = replace(quick, check=quick.check.having(min_image_text=1.0))
    none = travel(strict, SETTINGS, sources, tmp_path / "s")
    assert (none.painted, none.accepted, none.models_load_s) == (0, 0, 0.0)
    painted = contents(tmp_path / "s")
    repaint = replace(quick, paint=replace(quick.paint, guidance=replace(quick.paint.guidance, scale=3.5)))
    # Captions and edits are on record: the models that would make them again stay closed.
    again = travel(repaint, SETTINGS, sources, tmp_path / "s")
    assert again.painted == more.painted + more.reused
    opened = {use.plan for use in again.plans if use.loads}
    assert opened == {"hint", "denoiser", "vae_decoder"} | {"clip_text", "clip_image"}
    # And the first setting's pictures come back from the shelf, byte for byte.
    back = travel(strict, SETTINGS, sources, tmp_path / "s")
    assert back.painted == 0
    assert {k: v for k, v in contents(tmp_path / "s").items() if not k.startswith("superseded")} == painted


def test_edited_captions_are_scored_as_texts_and_thresholds_on_them_hold_later_too(
    streets: Path, quick: Profile, tmp_path: Path
) -> None:
    sources, path = find_sources(streets)[0][:1], tmp_path / "s"
    segmenter = RefereeSettings("masks", "counterfactory.engine.pocket.judges:segment_streets", 4, EMBEDDED.classes)
    looked_at = replace(quick, check=replace(quick.check, recaption=True), referees=(segmenter,))
    read = replace(looked_at, rewrite=replace(quick.rewrite, perplexity=True))
    assert travel(read, SETTINGS, sources, path).variants == SETTINGS.variants
    scores = {row.kind: row.scores.keys() & {"perplexity", "perplexity_ratio"} for row in read_metadata(path)}
    assert scores == {"original": set(), "control": set(), "variant": {"perplexity", "perplexity_ratio"}}
    variants = [row for row in read_metadata(path) if row.kind == "variant"]
    for row in variants:
        assert {"said_edits", "miou", "recall", "recall_road"} - row.scores.keys() == set()
    strict = read.check.having(max_perplexity=1.0)
    assert recheck(path, strict).accepted == 0
    assert all("reads badly" in (row.reason or "") for row in read_metadata(path) if row.kind == "variant")
    none = travel(replace(read, check=strict), SETTINGS, sources, path)
    assert (none.variants, none.dropped, none.controls) == (0, SETTINGS.variants, 0), "nothing of it is painted"


@pytest.mark.slow
def test_a_damaged_picture_is_painted_again(streets: Path, quick: Profile, tmp_path: Path) -> None:
    sources = find_sources(streets)[0][:2]
    travel(quick, SETTINGS, sources, tmp_path / "s")
    before = contents(tmp_path / "s")
    victims = sorted((tmp_path / "s" / "images").rglob("*.png"))[:2]
    victims[0].unlink()
    victims[1].write_bytes(victims[1].read_bytes()[:100])
    report = travel(quick, SETTINGS, sources, tmp_path / "s")
    assert report.painted == 2
    assert contents(tmp_path / "s") == before


@pytest.mark.slow
def test_interventions_bound_the_edits(streets: Path, quick: Profile, tmp_path: Path) -> None:
    wanted = parse_interventions("weather: rainy, snowy\ntime: night", "test")
    settings = replace(SETTINGS, interventions=wanted, edits=(1, 1))
    travel(quick, settings, find_sources(streets)[0][:3], tmp_path / "s")
    edits = [edit for row in read_metadata(tmp_path / "s") for edit in row.edits]
    assert edits
    assert {(e.type, e.alternative) for e in edits} <= {("weather", "rainy"), ("weather", "snowy"), ("time", "night")}


@pytest.mark.parametrize("variants", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_every_value_is_painted_once_and_a_verdict_by_hand_outlives_runs(
    streets: Path, quick: Profile, tmp_path: Path, variants: int
) -> None:
    """Whether all values fit or not: in one go, shard by shard, and resumed."""
    wanted, sources = parse_interventions("weather: rainy, snowy\ntime: night", "test"), find_sources(streets)[0]
    settings = replace(SETTINGS, interventions=wanted, edits=(1, 1), variants=variants, controls=0)
    travel(quick, settings, sources, tmp_path / "s")
    whole = contents(tmp_path / "s")
    travel(replace(quick, shard_sources=2), settings, sources, tmp_path / "by two")
    assert contents(tmp_path / "by two") == whole
    record = read_run(tmp_path / "s")
    cells, rows = record.standing.cells or (), read_metadata(tmp_path / "s")
    assert [one.cell for one in cells] == [("weather", "rainy"), ("weather", "snowy"), ("time", "night")]
    brought = [(row.source, edit.type) for row in rows if row.repeat == 0 for edit in row.edits]
    assert sum(one.painted for one in cells) == len(brought)
    for one in cells:
        assert one.painted + sum(map(len, one.empty.values())) == len(sources)
        assert one.accepted <= one.painted <= one.possible
        assert variants < 3 or one.painted == one.possible >= 4
    (counted, *_) = [one for one in cells if one.accepted]
    victims = [row.file_name for row in rows if row.accepted and row.edits and row.edits[0].type == counted.type]
    recheck(tmp_path / "s", quick.check, [(name, "exclude", "") for name in victims])
    again = travel(quick, settings, sources, tmp_path / "s")
    excluded = {row.file_name for row in read_metadata(tmp_path / "s") if row.reason == "excluded by hand"}
    assert excluded == set(victims)
    assert again.painted == 0
    assert [one.accepted for one in again.cells or () if one.type == counted.type] == [0] * len(
        wanted.values(counted.type)
    )
    assert again.accepted == sum(row.accepted for row in read_metadata(tmp_path / "s") if row.kind == "variant")


def test_a_source_that_changes_under_way_fails_alone(streets: Path, quick: Profile, tmp_path: Path) -> None:
    sources = find_sources(streets)[0][:2]
    gone = replace(sources[0], path=tmp_path / "gone.png")
    report = travel(quick, SETTINGS, [gone, sources[1]], tmp_path / "s")
    assert [problem.name for problem in report.problems] == [gone.name]
    assert {row.source for row in read_metadata(tmp_path / "s")} == {sources[1].name}


def test_a_missing_model_is_named(streets: Path, quick: Profile, tmp_path: Path) -> None:
    elsewhere = replace(quick, models=ModelPaths(str(tmp_path)))
    with pytest.raises(CounterfactoryError, match=r"blip2_vision\.xml is missing"):
        travel(elsewhere, SETTINGS, find_sources(streets)[0], tmp_path / "s")


KILLED = """
import sys
from pathlib import Path
from test_journey import SETTINGS, travel, quick_profile, replace, find_sources
profile = replace(quick_profile(Path(sys.argv[3]), 3), shard_sources=2)
travel(profile, SETTINGS, find_sources(Path(sys.argv[1]))[0], Path(sys.argv[2]), lambda p: print(p, flush=True))
"""


@pytest.mark.slow
@pytest.mark.parametrize("least", [10])
def test_killed_at_any_moment_the_suite_comes_out_the_same(
    finished: tuple[Path, RunSummary], streets: Path, packed_models: Path, tmp_path: Path, least: int
) -> None:
    """SIGKILL at random points, `least` times and more, then once to the end."""
    path = tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, str(streets), str(path), str(packed_models)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), *filter(None, sys.path)]),
        SWITCH: str(tmp_path / "compiled"),  # what is kept there dies with the run, too
    }
    chance = random.Random(5)
    kills = runs = 0
    for _ in range(40):
        runs += 1
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        # Die some lines of progress on, and a moment later, so that every run gets somewhere and none gets far.
        for _ in range(chance.randint(1, 5)):
            process.stdout.readline()
        time.sleep(chance.uniform(0, 0.3))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        process.stdout.close()
        if kills >= least:
            break
    assert kills >= least, f"the run was over before it could be killed {least} times"
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert contents(path) == contents(finished[0])
    record = read_run(path)
    assert len(record.sessions) == runs + 1, "every run that showed progress had begun a session"
    assert sum(session.finished for session in record.sessions) == runs + 1 - kills
    assert record.costs.device_hours["core"] > record.sessions[-1].costs.device_hours


@given(st.integers(0, 900), st.integers(1, 600))
def test_shards_hold_all_sources_in_order_and_of_many_the_first_are_few(count: int, size: int) -> None:
    shards = list(in_shards(list(range(count)), size))  # type: ignore[arg-type]
    assert [one for shard in shards for one in shard] == list(range(count))
    assert all(0 < len(shard) <= size for shard in shards)
    if count > size >= 10 * FEW:
        assert len(shards[0]) == FEW
