"""A suite of the painter of light and weather, from a folder of photographs to its rows, with no network anywhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import Street
from PIL import Image
from small_sets import noise

import counterfactory as cf
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.light.drawable import drawn_as
from counterfactory.engine.light.menu import EXCLUSIVE, MENU
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.report.effects_text import evaluation_tables, sides_table
from counterfactory.engine.suite import PictureRow


def photograph(path: Path, seed: int, height: int = 48, width: int = 64) -> Path:
    """A picture of soft blobs, as a photograph has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    small = Image.fromarray(noise(seed, 6, 8))
    small.resize((width, height), Image.Resampling.BICUBIC).save(path)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number, (label, height) in enumerate((("dog", 48), ("dog", 70), ("bus", 48))):
        photograph(tmp_path / "photos" / label / f"{number}.png", number, height)
    return tmp_path / "photos"


def suite_of(photos: Path, out: Path, **options: object) -> cf.FinishedSuite:
    return cf.generate(photos, out=out, profile="light", warn=lambda _: None, **options)  # type: ignore[arg-type]


def pixels(suite: Path, name: str) -> np.ndarray:
    return np.asarray(Image.open(suite / name).convert("RGB"))


def of_kind(rows: tuple[PictureRow, ...] | list[PictureRow], kind: str) -> list[PictureRow]:
    return [row for row in rows if row.kind == kind]


def test_pictures_keep_their_own_size_and_edits_are_of_the_menu(photos: Path, tmp_path: Path) -> None:
    suite = suite_of(photos, tmp_path / "suite", variants=6, edits=(1, 2))
    rows = list(suite.rows)
    assert len(of_kind(rows, "variant")) == 18
    assert {row.kind for row in rows} == {"original", "variant"}
    for row in rows:
        source = pixels(photos, row.origin.path)
        shown = pixels(suite.path, row.file_name)
        assert shown.shape == source.shape
        assert (row.crop.left, row.crop.top, row.crop.width) == (0, 0, source.shape[1])
        assert np.array_equal(shown, source) == (row.kind != "variant")
        assert row.painter == (None if row.kind == "original" else "light")
        assert row.caption == f"a photo of a {row.label}"
    for row in of_kind(rows, "variant"):
        assert 1 <= len(row.edits) <= 2
        assert len(set(row.edit_types)) == len(row.edits)
        for edit in row.edits:
            assert edit.keyword == ""
            assert edit.alternative in MENU[edit.type]
            assert edit.alternative in row.edited_caption


def test_levels_grow_and_the_last_is_the_variant_without_levels(photos: Path, tmp_path: Path) -> None:
    full = of_kind(list(suite_of(photos, tmp_path / "full", variants=1, edits=1, severity=5).rows), "variant")
    suite = suite_of(photos, tmp_path / "graded", variants=3, levels=3, edits=1)
    graded = of_kind(list(suite.rows), "variant")
    for row in full:
        own = sorted((one for one in graded if one.source == row.source), key=lambda one: one.level)
        assert [one.level for one in own] == [1, 2, 3]
        assert own[-1].sha256 == row.sha256
        changes = [one.scores["changed"] for one in own]
        assert changes == sorted(changes)
        assert changes[0] < changes[-1]


def test_light_paints_one_edit_at_level_three_of_five_and_no_control_unless_it_is_told(
    photos: Path, tmp_path: Path
) -> None:
    told = list[str]()
    suite = cf.generate(photos, out=tmp_path / "suite", profile="light", variants=14, controls=2, warn=told.append)
    assert any("no controls" in sentence for sentence in told)
    assert suite.summary is not None
    assert (suite.summary.controls, suite.summary.rejected_controls) == (0, 0)
    variants = of_kind(list(suite.rows), "variant")
    assert {(row.level, row.levels, len(row.edits)) for row in variants} == {(3, 5, 1)}
    assert all(len({row.edits for row in variants if row.source == one}) == 14 for one in {v.source for v in variants})
    graded = suite_of(photos, tmp_path / "graded", variants=70, levels=5)
    third = {row.file_name: row.sha256 for row in graded.rows if row.kind == "original" or row.level == 3}
    assert {row.file_name: row.sha256 for row in suite.rows} == third, "the same pictures, of the same names"
    full = {row.key: row.sha256 for row in suite_of(photos, tmp_path / "full", severity=5).rows}
    assert {row.key: row.sha256 for row in suite_of(photos, tmp_path / "one", levels=1).rows} == full
    assert cf.estimate(photos, profile="light", warn=lambda _: None).controls == 0
    assert cf.estimate(3, profile="light").controls == 0
    (tmp_path / "mine.toml").write_text('extends = "light"\nname = "mine"\n[painter]\nseverity = 1\n')
    mine = {"profile": tmp_path / "mine.toml", "variants": 1, "warn": lambda _: None}
    for more, level in (({}, (1, 5)), ({"severity": 4}, (4, 5)), ({"levels": 1}, (1, 1))):
        rows = cf.plan(photos, **mine, **more).variants  # type: ignore[arg-type]
        assert {(one.level, one.levels) for one in rows} == {level}


def test_values_are_the_same_whoever_paints_a_shard_and_a_plan_shows_them(photos: Path, tmp_path: Path) -> None:
    rows = {row.file_name: row.sha256 for row in suite_of(photos, tmp_path / "a", shard=8).rows}
    assert {row.file_name: row.sha256 for row in suite_of(photos, tmp_path / "b", shard=1).rows} == rows
    plan = cf.plan(photos, profile="light", first=1, warn=lambda _: None)
    assert {variant.key for variant in plan.variants} <= {row.key for row in suite_of(photos, tmp_path / "a").rows}


def test_a_suite_without_controls_is_judged_against_its_originals_and_no_table_names_controls(
    photos: Path, tmp_path: Path
) -> None:
    suite = suite_of(photos, tmp_path / "suite", variants=4)
    answers = {row.file_name: row.label if row.kind == "original" else "dog" for row in suite.rows}
    result = suite.evaluate(answers | {"images/dog/0/0123456789abcdef.png": "dog"})  # a control's of an older suite
    assert result.evaluation.effects.against == "original"
    for table in evaluation_tables(result.evaluation):
        assert "controls" not in (*table.columns, *(row[0] for row in table.rows))
    assert [row[0] for row in sides_table({"model": result.evaluation}).rows] == ["originals", "variants"]
    assert not result.evaluation.effects.by_level, "one level is no curve"
    assert not list((suite.path / "images").rglob("*control*"))
    assert suite.verify().sound


def test_a_seed_decides_and_the_same_command_makes_the_same_bytes_and_draws_nothing_again(
    photos: Path, tmp_path: Path
) -> None:
    def drawn(name: str, **options: object) -> set[str]:
        return {row.sha256 for row in suite_of(photos, tmp_path / name, variants=3, **options).rows}

    first = suite_of(photos, tmp_path / "a", variants=3)
    one = {row.sha256 for row in first.rows}
    assert drawn("two", seed=0, shard=1) == one
    assert drawn("three", seed=1) != one
    files = {row.file_name: row.sha256 for row in first.rows}
    shutil.rmtree(first.path / "images" / "bus")
    again = suite_of(photos, tmp_path / "a", variants=3)
    assert {row.file_name: row.sha256 for row in again.rows} == files
    assert again.summary is not None
    painted = next(stage for stage in again.summary.stages if stage.stage == "paint")
    assert painted.made == 3, "the variants whose files were gone"


def test_what_the_pictures_of_a_source_share_is_done_once(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from counterfactory.engine.stages.paint import paint_light
    from counterfactory.engine.suite import suite as suites

    opened, encoded, decoded = list[object](), list[object](), list[object]()
    for module, name, calls in (
        (paint_light, "open_photograph", opened),
        (suites, "encode_picture", encoded),
        (suites, "read_png", decoded),
    ):
        work = getattr(module, name)
        monkeypatch.setattr(module, name, lambda data, calls=calls, work=work: calls.append(data) or work(data))
    suite_of(photos, tmp_path / "suite", variants=4)
    assert len(opened) == 3
    assert len(encoded) == 3 * (1 + 4)
    assert not decoded, "the checks look at what was written just now"


def test_a_protected_class_keeps_its_pixels(tmp_path: Path) -> None:
    photograph(tmp_path / "set" / "images" / "1.png", 1)
    mask = np.zeros((48, 64), np.uint8)
    mask[:, 32:] = 3
    (tmp_path / "set" / "masks").mkdir()
    Image.fromarray(mask).save(tmp_path / "set" / "masks" / "1.png")
    suite = suite_of(tmp_path / "set", tmp_path / "suite", task="segmentation", variants=2, protect=["3"], edits=1)
    source = pixels(tmp_path / "set" / "images", "1.png")
    for row in of_kind(list(suite.rows), "variant"):
        shown = pixels(suite.path, row.file_name)
        assert np.array_equal(shown[:, 33:], source[:, 33:])
        assert not np.array_equal(shown[:, :16], source[:, :16])
        assert row.mask is not None
        assert np.array_equal(np.asarray(Image.open(suite.path / row.mask)), mask)


def test_depth_is_followed(tmp_path: Path) -> None:
    photograph(tmp_path / "photos" / "dog" / "1.png", 1)
    depth = np.full((48, 64), 60_000, np.uint16)
    depth[:, :32] = 5_000
    (tmp_path / "depth" / "dog").mkdir(parents=True)
    Image.fromarray(depth).save(tmp_path / "depth" / "dog" / "1.png")
    options = {"variants": 1, "edits": 1, "interventions": {"weather": ["foggy"]}}
    flat = suite_of(tmp_path / "photos", tmp_path / "flat", **options)
    deep = suite_of(tmp_path / "photos", tmp_path / "deep", depth=tmp_path / "depth", **options)

    def change(suite: cf.FinishedSuite) -> np.ndarray:
        (row,) = of_kind(list(suite.rows), "variant")
        return np.abs(pixels(suite.path, row.file_name).astype(int) - pixels(suite.path, row.original)).mean(axis=2)

    ratio = change(deep)[:, 40:].mean() / change(deep)[:, :24].mean()
    assert ratio > 1.5 * change(flat)[:, 40:].mean() / change(flat)[:, :24].mean(), "fog is thicker where it is far"


@pytest.mark.parametrize(
    ("label", "gone", "kept"),
    [
        ("heavy rain", {"weather"}, {"time", "light", "camera"}),
        ("night", {"time", "light"}, {"weather", "camera"}),
        ("sunny", {"weather", "time"}, {"light", "camera"}),
        ("clear_sky", {"weather", "camera"}, {"time", "light"}),
        ("sharp", {"camera"}, {"weather", "time", "light"}),
        ("snow leopard", set(), {"weather", "time"}),
        ("7", set(), {"weather", "time", "light", "camera"}),
    ],
)
def test_no_edit_makes_the_label_false(
    label: str, gone: set[str], kept: set[str], tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    photograph(tmp_path / "photos" / label / "1.png", 1)
    told: list[str] = []
    plan = cf.plan(tmp_path / "photos", profile="light", variants=12, edits=1, warn=told.append)
    types = {edit.type for variant in plan.variants for edit in variant.edits}
    assert types.isdisjoint(gone)
    assert types >= kept
    assert not any("gets no variants" in line or "get no variants" in line for line in told)
    assert [f"of {label}" in line for line in told if "these labels" in line] == [True] * bool(gone)
    assert all(edit.alternative != "snowy" or "snow" not in label for one in plan.variants for edit in one.edits)


def test_what_never_meets_meets_in_no_variant_and_is_named_where_nothing_is_left(photos: Path, tmp_path: Path) -> None:
    values = {"time": ["night", "sunset"], "light": ["glare"], "weather": ["fog", "in the rain"]}
    plan = cf.plan(photos, profile="light", variants=9, edits=(1, 3), interventions=values, warn=lambda _: None)
    drawn = [frozenset(drawn_as(edit.type, edit.alternative) for edit in one.edits) for one in plan.variants]
    assert not any(pair <= values for pair in EXCLUSIVE for values in drawn)
    assert {frozenset(("at sunset", "in glare")), frozenset(("at night", "rainy"))} <= set(drawn)
    told: list[str] = []
    out, apart = tmp_path / "suite", {"time": ["night"], "light": ["glare"]}
    cf.generate(photos, out=out, profile="light", variants=1, edits=2, interventions=apart, warn=told.append)
    assert any("at night" in line and "glare" in line for line in told)


def test_words_are_drawn_as_what_they_mean() -> None:
    weathers = {"in the fog": "foggy", "Heavy rain": "rainy", "sunny": None, "snowy": "snowy"}
    assert {words: drawn_as("weather", words) for words in weathers} == weathers
    assert (drawn_as("time", "night"), drawn_as("time", "in the morning")) == ("at night", None)
    assert drawn_as("colour", "red") is None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"interventions": {"colour": ["red"]}}, "'colour: red' is nothing that a painter of light and weather can"),
        ({"interventions": {"weather": ["foggy", "sandstorm"]}}, "'weather: sandstorm' is nothing that"),
        ({"baseline": "light"}, "goes with another painter: light draws it already"),
        ({"types": "types.toml"}, "types"),
        ({"severity": 6}, r"--severity is 1 \(faint\) to 5 \(full\), got 6"),
        ({"severity": 0}, "severity is a whole number from 1, got 0"),
        ({"severity": 2, "levels": 1}, "--severity 2 and --levels 1 contradict: give one"),
    ],
)
def test_what_light_cannot_do_is_refused_before_anything_is_made(
    options: dict[str, object], told: str, photos: Path, tmp_path: Path
) -> None:
    if "types" in options:
        text = '[[types]]\nname = "lens"\nmeaning = "the lens"\nexamples = ["a dog -> a dog, wide"]\n'
        (tmp_path / "types.toml").write_text(text)
        options = {"types": tmp_path / "types.toml"}
    with pytest.raises(CounterfactoryError, match=told):
        suite_of(photos, tmp_path / "suite", **options)
    assert not (tmp_path / "suite").exists()


def test_detection_and_unlabelled_sets_are_taken_as_they_are(tmp_path: Path) -> None:
    photograph(tmp_path / "set" / "1.png", 1)
    task = tmp_path / "task.toml"
    task.write_text('name = "any"\nsentence = "say what it shows"\nprotect = []\nprotect_label = false\n')
    suite = suite_of(tmp_path / "set", tmp_path / "suite", task_file=task, variants=2)
    assert {row.caption for row in suite.rows} == {"a photo"}
    assert len(of_kind(list(suite.rows), "variant")) == 2


def test_the_profile_runs_no_network_and_reads_no_table_of_one(tmp_path: Path) -> None:
    light = load_profile("light")
    assert (light.by_rule, light.painter_kind) == (True, "light")
    file, batch = tmp_path / "mine.toml", '[check]\nbatch = 8\nlabel_prompt = "a {label}"\nlogit_scale = 9.0\n'
    for text, told in (
        ('[llm]\nbackend = "openvino"\nmodel = "llm"\nstyle = "pocket"\n', r"reads no \[llm\]: take it out"),
        ("[check]\nmin_image_text = 0.1\n", "a network measures that, and the profile has none"),
        (batch, "key 'check.batch' is read by networks"),
        ("[image]\nshort_side = 512\n", "own_size = true leaves pictures as they are"),
        ('[painter]\nkind = "oil"\n', "'painter.kind' cannot be 'oil'"),
    ):
        file.write_text(f'extends = "light"\nname = "mine"\n{text}')
        with pytest.raises(CounterfactoryError, match=told):
            load_profile(str(file))
    file.write_text('extends = "pocket"\nname = "mine"\nwithout = ["llm"]\n')
    with pytest.raises(CounterfactoryError, match=r"the table \[llm\] is missing: a painter of kind 'diffusion'"):
        load_profile(str(file))


@pytest.mark.slow
def test_a_baseline_keeps_what_its_variant_keeps(street: Street, tmp_path: Path) -> None:
    options = {"interventions": {"time": ["at night"]}, "edits": 1, "variants": 1, "task": "segmentation"}
    painted = {"out": tmp_path / "suite", "profile": "pocket", "baseline": "light", "protect": ["0"]}
    suite = cf.generate(street.root, warn=lambda _: None, **painted, **options)
    baselines = of_kind(list(suite.rows), "baseline")
    assert baselines
    for row in baselines:
        assert row.mask is not None
        drawn, original = pixels(suite.path, row.file_name), pixels(suite.path, row.original)
        mask = np.asarray(Image.open(suite.path / row.mask))
        assert np.array_equal(drawn[mask == 0], original[mask == 0])
        assert not np.array_equal(drawn, original)
