"""`counterfactory import`: anybody's edited pictures become a suite with checks, effects and a page."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Command
from numpy.typing import NDArray
from PIL import Image
from profiles import profile_with
from streets import save_picture, write_streets

import counterfactory as cf
from counterfactory.engine.edit import Edit
from counterfactory.engine.meter.meter import Progress
from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.suite import PictureRow, Suite, mask_path, read_metadata, read_run

SOURCES = 8


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> cf.FinishedSuite:
    """A suite of street scenes with masks, under other weather and light, and the table of its pairs: pairs.csv."""
    root = tmp_path_factory.mktemp("light")
    write_streets(root / "street", SOURCES)
    made = cf.generate(root / "street", out=root / "suite", profile="light", edits=1, variants=4, warn=lambda _: None)
    assert (made.summary.accepted, made.summary.controls) == (4 * SOURCES, 0)
    # As another painter would give them, with controls: here the sources themselves.
    kinds = {"original": "control"}
    write(root / "suite" / "pairs.csv", [pair_of(row) | {"kind": kinds.get(row.kind, row.kind)} for row in made.rows])
    return made


def pair_of(row: PictureRow) -> dict[str, Any]:
    """What a table of pairs says of a suite's picture."""
    edits = [
        f"{e.type}: {e.keyword} -> {e.alternative}" if e.keyword else f"{e.type}: {e.alternative}" for e in row.edits
    ]
    return {
        "original": row.original,
        "edited": row.file_name,
        "edit": "; ".join(edits),
        "caption": row.caption,
        "edited_caption": row.edited_caption,
        "label": row.label,
        "mask": mask_path(row.original),
        "kind": row.kind,
    }


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def model(pictures: NDArray[np.uint8]) -> list[str]:
    """A careless classifier: by the brightness of the middle."""
    bright = pictures[:, 32:96, 32:96].mean(axis=(1, 2, 3))
    return [("bus", "car", "truck")[int(value) % 3] for value in bright]


def contents(path: Path) -> dict[str, str]:
    """Digests of all that belongs to a suite, but for the ledger and the record of costs."""
    files = [file for file in path.rglob("*") if file.suffix in (".png", ".parquet")]
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def imported(pairs: Path, out: Path, **options: Any) -> tuple[cf.FinishedSuite, list[str]]:
    told: list[str] = []
    suite = cf.import_pairs(pairs, out=out, warn=told.append, **options)
    return suite, told


def by_pixels(suite: cf.FinishedSuite) -> Mapping[tuple[str, str], PictureRow]:
    """Rows by what their pictures show; what painted ones say of their maker is not compared."""
    pictures = ((row, np.asarray(Image.open(suite.path / row.file_name))) for row in suite.rows)
    return {(row.kind, hashlib.sha256(pixels.tobytes()).hexdigest()): row for row, pixels in pictures}


def test_a_suite_of_another_painter_s_pictures_has_the_same_effects(light: cf.FinishedSuite, tmp_path: Path) -> None:
    suite, told = imported(light.path / "pairs.csv", tmp_path / "suite")
    assert [sentence[:10] for sentence in told] == ["masks hold"]
    assert (suite.summary.accepted, suite.summary.rejected, suite.summary.controls) == (4 * SOURCES, 0, SOURCES)
    facts = read_run(suite.path).sessions[0].facts
    assert (facts.data["layout"], facts.profile["painter"]["kind"]) == ("pairs of pictures", "given")
    assert (facts.settings["variants"], facts.settings["controls"]) == (4, 1)
    before, after = by_pixels(light), by_pixels(suite)
    before = {**before, **{("control", of): row for (kind, of), row in before.items() if kind == "original"}}
    assert before.keys() == after.keys(), "every picture, pixel for pixel"
    assert len(before) == 6 * SOURCES
    for key, row in after.items():
        own = before[key]
        assert (row.edits, row.caption, row.edited_caption, row.label) == (
            *(own.edits, own.caption, own.edited_caption, own.label),
        )
        assert row.painter == (None if row.kind == "original" else "given")
        assert own.scores == row.scores or row.kind == "control"
    theirs, ours = (cf.evaluate(one.path, model).evaluation for one in (light, suite))
    assert theirs.effects.by_type == ours.effects.by_type
    assert theirs.effects.by_value == ours.effects.by_value
    assert any(effect.value for effect in ours.effects.by_type)
    assert theirs.variants == ours.variants
    page = cf.report(suite, predictions=model).page.read_text(encoding="utf-8")
    assert all(row.file_name.rpartition("/")[2] in page for row in suite.rows)
    assert suite.check(suite.settings()).turned == 0
    assert suite.check(suite.settings(thresholds={"check.min_changed": 0.9})).turned == 4 * SOURCES


def test_an_interrupted_import_goes_on_to_the_same_bytes(
    light: cf.FinishedSuite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = imported(light.path / "pairs.csv", tmp_path / "whole", shard=3)
    really, left = Suite.write_images, [5]

    def some(suite: Suite, *args: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return really(suite, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Suite, "write_images", some)
        with pytest.raises(KeyboardInterrupt):
            imported(light.path / "pairs.csv", tmp_path / "suite", shard=3)
    assert not (tmp_path / "suite" / "metadata.parquet").exists()
    suite, _ = imported(light.path / "pairs.csv", tmp_path / "suite", shard=3)
    assert contents(suite.path) == contents(whole.path)
    assert 0 < suite.summary.painted < 5 * SOURCES


def test_a_changed_file_is_taken_anew_and_nothing_else(light: cf.FinishedSuite, tmp_path: Path) -> None:
    shutil.copytree(light.path, tmp_path / "pairs")
    suite, _ = imported(tmp_path / "pairs" / "pairs.csv", tmp_path / "suite", shard=2)
    before = contents(suite.path)
    again, _ = imported(tmp_path / "pairs" / "pairs.csv", tmp_path / "suite", shard=2)
    assert again.summary.painted == 0
    assert contents(suite.path) == before
    first = next(row for row in light.rows if row.kind == "variant")
    pixels = np.array(Image.open(tmp_path / "pairs" / first.file_name))
    pixels[:9] = 77
    Image.fromarray(pixels).save(tmp_path / "pairs" / first.file_name)
    changed, _ = imported(tmp_path / "pairs" / "pairs.csv", tmp_path / "suite", shard=2)
    assert changed.summary.painted == 1
    after = contents(suite.path)
    gone, new = (
        {name for name in one.keys() - other.keys() if name.startswith("images")}
        for one, other in ((before, after), (after, before))
    )
    assert len(gone) == len(new) == 1
    np.testing.assert_array_equal(np.array(Image.open(suite.path / new.pop())), pixels)


def zoomed(pixels: NDArray[np.uint8], times: float) -> NDArray[np.uint8]:
    """What an editor gives that does not hold the camera still."""
    height, width = pixels.shape[:2]
    x, y = width * (1 - 1 / times) / 2, height * (1 - 1 / times) / 2
    image = Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC, box=(x, y, width - x, height - y))
    return np.asarray(image)


def test_pictures_that_moved_or_stayed_the_same_are_rejected_with_the_reason(
    light: cf.FinishedSuite, tmp_path: Path
) -> None:
    original = next(row for row in light.rows if row.kind == "original")
    pixels = np.array(Image.open(light.path / original.file_name))
    darker = np.asarray(pixels * 0.6, np.uint8)
    given = {"zoomed": zoomed(darker, 1.08), "moved": np.roll(darker, 5, axis=1), "same": pixels, "darker": darker}
    given["control"] = pixels
    other = next(row for row in light.rows if row.kind == "original" and row.source != original.source)
    given["another"] = np.array(Image.open(light.path / other.file_name))
    for name, array in given.items():
        save_picture(tmp_path / "pairs" / "edited" / "bus" / "a" / f"{name}.png", array)
    save_picture(tmp_path / "pairs" / "originals" / "bus" / "a.png", pixels)
    suite, told = imported(tmp_path / "pairs", tmp_path / "suite")
    reasons = {row.edits[0].alternative if row.edits else row.kind: row.reason for row in suite.rows}
    assert reasons["zoomed"] is not None
    assert reasons["zoomed"].startswith("the picture has moved against its source: in_place ")
    assert (reasons["moved"] or "").startswith("the picture has moved against its source")
    assert (reasons["another"] or "").startswith(("the picture has moved", "outlines are not its source's"))
    assert (reasons["same"] or "").startswith("nearly the same as its source: changed 0.000 is below")
    assert reasons["darker"] is reasons["control"] is reasons["original"] is None
    assert "edited pictures lie as edited/NAME/EDIT: 6" in told
    assert {row.edits for row in suite.rows if row.edits} >= {(Edit("other", "", "zoomed"),)}


def test_captions_alone_say_what_was_edited(light: cf.FinishedSuite, tmp_path: Path) -> None:
    first, second, third, *_ = (pair_of(row) | {"edit": ""} for row in light.rows if row.kind == "variant")
    first |= {"caption": "a red bus by day", "edited_caption": "a blue bus by night"}
    second |= {"original": first["original"], "caption": "", "edited_caption": "a bus, in fog"}
    third |= {"original": first["original"], "caption": "", "edited_caption": "", "edit": "object: a tree -> a lamp"}
    suite, _ = imported(write(light.path / "captions.csv", [first, second, third]), tmp_path / "suite")
    told = {(row.edits, row.edited_caption) for row in suite.rows if row.kind == "variant"}
    assert told == {
        ((Edit("other", "red day", "blue night"),), "a blue bus by night"),
        ((Edit("other", "red by day", "in fog"),), "a bus, in fog"),
        ((Edit("object", "a tree", "a lamp"),), "a red bus by day, a lamp"),
    }
    assert {row.caption for row in suite.rows} == {"a red bus by day"}


def test_levels_and_repeats(light: cf.FinishedSuite, tmp_path: Path) -> None:
    rows = [row for row in light.rows if row.kind == "variant"][:4]
    pairs = [pair_of(row) | {"original": rows[0].original, "edit": "weather: foggy"} for row in rows]
    for pair, level in zip(pairs, (1, 2, "", 2), strict=True):
        pair |= {"level": level, "edited_caption": ""}
    suite, _ = imported(write(light.path / "levels.csv", pairs), tmp_path / "suite")
    variants = [row for row in suite.rows if row.kind == "variant"]
    assert [(row.level, row.levels, row.repeat) for row in variants] == [(1, 2, 0), (2, 2, 0), (2, 2, 1), (2, 2, 2)]


def test_the_command_says_what_is_missing(light: cf.FinishedSuite, tmp_path: Path, run: Command) -> None:
    rows = [pair_of(row) | {"caption": "", "edited_caption": ""} for row in light.rows if row.kind == "variant"]
    rows[0] |= {"edited": "none.png"}
    rows[1] |= {"edit": "foggy"}
    rows[2] |= {"edit": ""}
    pairs = write(light.path / "little.csv", rows)
    status, out, err = run("import", pairs, "--out", tmp_path / "suite", "--json")
    told, data = " ".join(err.split()), json.loads(out)
    assert status == 1
    assert "skipped little.csv:3: the edit 'foggy' has an unknown form" in told
    assert "skipped none.png: there is no file" in told
    assert f"1 of {len(rows) - 1} pairs say no edit and count as 'other: edited'" in told
    assert f"{SOURCES} of {SOURCES} originals have no caption" in told
    assert f"{SOURCES} of {SOURCES} originals have no control" in told
    assert data["variants"] == len(rows) - 2
    assert len(data["problems"]) == 2
    assert {row.caption for row in read_metadata(tmp_path / "suite")} == {
        f"a photo of a {row.label}" for row in light.rows
    }
    status, out, err = run("import", pairs, "--out", tmp_path / "suite")
    assert (status, "look at it with: counterfactory report" in out) == (1, True)


def test_masks_go_along(light: cf.FinishedSuite, tmp_path: Path) -> None:
    suite, _ = imported(light.path / "pairs.csv", tmp_path / "suite", task="segmentation")
    theirs = by_pixels(light)
    for key, row in by_pixels(suite).items():
        kind = key[0].replace("control", "original"), key[1]
        own, other = (path / str(of.mask) for path, of in ((suite.path, row), (light.path, theirs[kind])))
        np.testing.assert_array_equal(np.array(Image.open(own)), np.array(Image.open(other)))
        assert row.kind == "original" or "layout" in row.scores


def test_an_original_without_a_picture_that_can_be_used(light: cf.FinishedSuite, tmp_path: Path) -> None:
    rows = [pair_of(row) for row in light.rows if row.kind == "variant"]
    one = rows[0]["original"]
    for row in rows:
        row |= {"edited": "none.png"} if row["original"] == one else {}
    suite, told = imported(write(light.path / "one.csv", rows), tmp_path / "suite")
    assert [short.reason for short in suite.summary.shortfalls] == ["it has no edited picture that can be used"]
    assert len({row.source for row in suite.rows}) == SOURCES - 1
    assert any("none.png" in sentence for sentence in told)


def test_a_file_that_goes_while_the_run_travels_costs_itself_alone(light: cf.FinishedSuite, tmp_path: Path) -> None:
    shutil.copytree(light.path, tmp_path / "pairs")
    gone = [row for row in light.rows if row.kind == "variant"][:4]  # all of one source
    changed = [row for row in light.rows if row.kind == "variant"][5]

    def meddle(progress: Progress) -> None:
        if progress.stage == "caption":
            for row in gone:
                (tmp_path / "pairs" / row.file_name).unlink(missing_ok=True)
            shutil.copy(tmp_path / "pairs" / changed.original, tmp_path / "pairs" / changed.file_name)

    suite, told = imported(tmp_path / "pairs" / "pairs.csv", tmp_path / "suite", on_progress=meddle)
    assert (suite.summary.sources, suite.summary.variants, len(suite.problems)) == (SOURCES, 4 * SOURCES - 5, 5)
    assert (
        f"skipped {changed.file_name}: the file has changed since the run began; run again to use the new one" in told
    )
    again, _ = imported(tmp_path / "pairs" / "pairs.csv", tmp_path / "suite")
    assert [(row.reason or "")[:15] for row in again.rows if row.kind == "variant"].count("nearly the same") == 1


def test_what_is_refused(light: cf.FinishedSuite, tmp_path: Path) -> None:
    rows = [pair_of(row) | {"mask": ""} for row in light.rows if row.kind == "variant"]
    pairs = write(light.path / "maskless.csv", rows)
    for options, message in (
        ({"profile": "light"}, r"profile light paints by itself: .* takes one with \[painter\] kind = \"given\""),
        ({"profile": "none"}, "no profile 'none'"),
        ({"task": "segmentation"}, "segmentation needs masks"),
        ({"classes": ["tram"]}, "the set has no class 'tram'"),
        ({"sample": 1, "per_class": 1}, "contradict"),
    ):
        with pytest.raises(cf.CounterfactoryError, match=message):
            cf.import_pairs(pairs, out=tmp_path / "suite", warn=lambda _: None, **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"import_pairs\(\) has no option 'variants'"):
        cf.import_pairs(pairs, out=tmp_path / "suite", variants=5)  # type: ignore[call-arg]
    for verb in (cf.generate, cf.plan, cf.estimate):
        more = {"out": tmp_path / "suite"} if verb is cf.generate else {}
        with pytest.raises(cf.CounterfactoryError, match="profile given paints nothing: counterfactory import"):
            verb(light.path / "originals", profile="given", **more)  # type: ignore[operator]
    folder = tmp_path / "folder"
    for name in ("originals", "edited"):
        (folder / name).mkdir(parents=True)
    with pytest.raises(cf.CounterfactoryError, match="would lie among its sources"):
        cf.import_pairs(folder, out=folder / "suite")
    assert not (tmp_path / "suite").exists()


def test_one_process_at_a_time(light: cf.FinishedSuite, tmp_path: Path) -> None:
    with Suite.open(tmp_path / "suite"), pytest.raises(cf.CounterfactoryError, match="in use"):
        imported(light.path / "pairs.csv", tmp_path / "suite")


@pytest.mark.usefixtures("shared_plans")
def test_networks_look_at_pictures_that_are_given(light: cf.FinishedSuite, tmp_path: Path) -> None:
    """CLIP compares, and the captioner captions what has no caption; nothing else is opened."""
    profile = profile_with(tmp_path / "profile", painter={"kind": "given"}, name="judged")
    rows = [pair_of(row) for row in light.rows if row.kind == "variant"]
    told = rows[0]["original"]
    for row in rows:
        row |= {"edited_caption": "", "caption": "a grey street." if row["original"] == told else ""}
    suite, _ = imported(write(light.path / "judged.csv", rows), tmp_path / "suite", profile=profile)
    captions = {row.origin.path: row.caption for row in suite.rows}
    assert captions.pop(told) == "a grey street."
    assert len(set(captions.values())) > 2
    variants = [row for row in suite.rows if row.kind == "variant"]
    assert all({"image_text", "directional", "edit", "in_place", "label"} <= row.scores.keys() for row in variants)
    networks = {plan.plan for plan in suite.summary.plans}
    assert networks == {"blip2_vision", "opt_decoder", "clip_text", "clip_image"}


def test_a_profile_says_what_it_reads(tmp_path: Path) -> None:
    for base, tables, message in (
        ("given", {"text": {"batch": 8}}, r'kind = "given" needs no network and reads no \[text\]'),
        (
            "pocket",
            {"painter": {"kind": "given"}, "random_words": {"words": 2, "batch": 2, "alternatives": 2}},
            r"reads no \[random_words\]",
        ),
        ("given", {"check": {"min_edit": 0.5}}, "a network measures that"),
    ):
        profile = profile_with(tmp_path / "profile", base, **tables)  # type: ignore[arg-type]
        with pytest.raises(cf.CounterfactoryError, match=message):
            cf.import_pairs(tmp_path / "none.csv", out=tmp_path / "suite", profile=profile)


def test_what_looks_at_pictures_is_kept_of_any_profile_that_paints(tmp_path: Path) -> None:
    looking = {"blip2_vision", "opt_decoder", "clip_text", "clip_image"}
    for base, without, more in (
        ("a10g", {}, {"sentence"}),
        ("pocket", {}, set()),
        ("lance", {"invert": None}, {"sentence"}),
    ):
        given = load_profile(str(profile_with(tmp_path / base, base, painter={"kind": "given"}, **without)))
        assert not given.follows_maps
        assert {network.name for network in networks_of(given).table} == looking | more
