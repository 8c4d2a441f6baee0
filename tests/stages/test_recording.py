"""What a run writes down: the rows of its table, the keys of its results, and what its sessions say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rewriting import source
from tiny_desk import tiny_run

from counterfactory.engine.content_keys import STAGES
from counterfactory.engine.edit import Edit
from counterfactory.engine.profile.maps import HintSettings
from counterfactory.engine.profile.paint import protect_classes
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.sources.shapes import Box
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages import recording
from counterfactory.engine.stages.check.score_pictures import PictureScores
from counterfactory.engine.stages.recording import (
    ShardResults,
    content_keys_of,
    picture_rows,
    session_costs,
    session_facts,
)
from counterfactory.engine.suite import Crop, Origin, PaintedRow, Painting, PictureRow
from counterfactory.engine.suite.picture_row import StoredFile
from counterfactory.engine.variant import Variant

FOG, BLUE, NIGHT = Edit("weather", "", "foggy"), Edit("colour", "red", "blue"), Edit("colour", "grey", "white")
BUS = replace(source("bus/1"), size=(64, 160), boxes=(Box(48.0, 32.0, 112.0, 64.0, "bus"),))


def variant(number: int, edits: tuple[Edit, ...], **more: Any) -> Variant:
    edited = "an edited bus" if edits else "a bus"
    kind = {} if edits else {"kind": "control"}
    return Variant(f"{number:064x}", BUS, number, "a bus", edits, edited, 7, None, **kind, protected=("bus",), **more)


def file(name: str) -> PaintedRow:
    return PaintedRow(StoredFile(f"{name}.png", 1, f"digest of {name}"), StoredFile(f"{name} mask.png", 1, "m"), 0.5)


LATER, FIRST = variant(1, ()), variant(0, ())
GOOD, BAD = variant(2, (FOG, BLUE, NIGHT), repeat=1), variant(3, (FOG,), level=1, levels=2)
FILES = {LATER: "later", FIRST: "first", GOOD: "good", BAD: "bad"}


def rows(profile: Profile) -> list[PictureRow]:
    """Of a source with two controls, two variants and the baseline of one of them."""
    free = dict.fromkeys(profile.check.least, 1.0)
    scored = {
        LATER: PictureScores(free, ()),
        FIRST: PictureScores(free, ()),
        GOOD: PictureScores(free | {"sharp": 0.75}, (0.9, 0.8, 0.7)),
        BAD: PictureScores(free | {"intact": -1.0}, (0.6,)),
    }
    painted = {one: file(name) for one, name in FILES.items()}
    others = {GOOD: {"text_label": 0.25, "sharp": 0.0}}
    drawn = {GOOD: PaintedRow(StoredFile("drawn.png", 1, "digest of drawn"), None)}
    return picture_rows(profile, ShardResults({BUS: "a bus"}, {BUS: file("original")}, painted, scored, others, drawn))


@pytest.fixture(scope="module")
def pocket() -> Profile:
    profile = load_profile("pocket")
    return replace(profile, check=profile.check.having(min_intact=0.1))


def test_a_source_s_rows_are_its_original_what_was_scored_and_its_baselines(pocket: Profile) -> None:
    found = rows(pocket)
    assert [(row.file_name, row.kind) for row in found] == [
        ("original.png", "original"),
        *(("later.png", "control"), ("first.png", "control"), ("good.png", "variant"), ("bad.png", "variant")),
        ("drawn.png", "baseline"),
    ]
    for row in found:
        assert (row.source, row.label, row.source_key, row.protected) == (BUS.name, "bus", BUS.key, ("bus",))
        assert (row.original, row.control) == ("original.png", "first.png"), "the first control, wherever it stands"
        assert row.sha256 == f"digest of {row.file_name.removesuffix('.png')}"
        assert row.mask == (None if row.kind == "baseline" else row.file_name.replace(".png", " mask.png"))
        assert (row.origin, row.crop) == (Origin(BUS.file, BUS.digest, 160, 64), Crop(16.0, 0.0, 128.0, 64.0))
        assert row.boxes == (Box(64.0, 64.0, 192.0, 128.0, "bus"),), "at the size of the picture, 128 x 256"
        assert (row.caption, row.known_world) == ("a bus", True)


def test_a_row_says_what_its_picture_is_and_whether_it_passes(pocket: Profile) -> None:
    original, later, first, good, bad, drawn = rows(pocket)
    assert (original.edited_caption, original.edits, original.painting, original.key) == ("a bus", (), None, BUS.key)
    assert (original.scores, original.painter, original.reason, later.reason, first.reason) == (
        {},
        None,
        None,
        None,
        None,
    )
    for row, of in ((later, LATER), (first, FIRST), (good, GOOD), (bad, BAD), (drawn, GOOD)):
        assert (row.key, row.number, row.edits, row.edited_caption) == (of.key, of.index, of.edits, of.edited_caption)
        assert (row.repeat, row.level, row.levels) == (of.repeat, of.level, of.levels)
    assert good.edit_scores == (0.9, 0.8, 0.7)
    assert (good.scores["edit_weather"], good.scores["edit_colour"]) == (0.9, 0.7), "the worst of each type"
    assert (good.scores["text_label"], good.scores["sharp"]) == (0.25, 0.75), "the check's own scores count"
    assert "edit_weather" not in first.scores
    assert good.reason is None
    assert (bad.reason or "").startswith("parts are black or flat that are not in its source: intact -1.000 is below")
    assert (drawn.scores, drawn.reason, drawn.painter) == ({}, None, "light")
    assert drawn.painting == Painting(7, 0, 1.0, 0.0, 0.0)


@pytest.mark.parametrize("name", ["pocket", "pocket-lance", "light", "given"])
def test_what_denoises_says_how(name: str) -> None:
    profile = load_profile(name)
    guidance, steps = profile.paint.guidance, profile.paint.sampler.steps
    how = (0, 1.0, 0.0, 0.0) if name in ("light", "given") else (steps, guidance.scale, guidance.start, guidance.stop)
    row = rows(profile)[3]
    assert row.painting == Painting(7, *how, 0.5)
    assert row.painter == profile.painter_kind


LIBRARY: Any = SimpleNamespace(digest=lambda stage: f"maker of {stage}")


def test_what_decides_a_picture_is_in_its_key(pocket: Profile) -> None:
    editor = load_profile("pocket-lance")
    assert editor.invert is not None
    edges = HintSettings("edges", "hint", 1.0)
    profiles = [
        pocket,
        replace(pocket, image=replace(pocket.image, max_long_side=2 * pocket.image.max_long_side)),
        replace(pocket, paint=replace(pocket.paint, negative_prompt="a street")),
        replace(pocket, protect=protect_classes(("car",), None, 128)),
        *(replace(pocket, hints=(replace(edges, weight=weight),)) for weight in (1.0, 0.5)),
        replace(pocket, hints=(HintSettings("segmentation", "hint", 1.0, palette="ade20k"),)),
        *(replace(editor, invert=replace(editor.invert, rounds=rounds)) for rounds in (0, 1)),
    ]
    keys = [content_keys_of(profile, LIBRARY).picture_key("a variant") for profile in profiles]
    assert len(set(keys)) == len(profiles)
    same = replace(pocket, check=pocket.check.having(min_sharp=0.9), rewrite=replace(pocket.rewrite, max_keywords=1))
    assert content_keys_of(same, LIBRARY).picture_key("a variant") == keys[0]


@pytest.mark.parametrize(("name", "code"), [("light", "LIGHT"), ("given", "GIVEN"), ("server", "INSTRUCTIONS")])
def test_what_is_made_by_rule_is_made_anew_where_the_rules_change(
    name: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content_keys_of(load_profile(name), LIBRARY).picture_key("a variant")
    monkeypatch.setattr(recording, code, "other rules")
    assert content_keys_of(load_profile(name), LIBRARY).picture_key("a variant") != before


def test_a_session_says_what_made_it_and_what_it_cost(sources: list[Source], tmp_path: Path) -> None:
    with tiny_run(tmp_path / "suite", sources) as made:
        with made.run.meter.stage("paint"):
            made.run.advance("paint", 3, computed=2)
        with made.run.meter.stage("check"):
            made.run.advance("check", 3, computed=3)
        facts = session_facts(made.run, {"layout": "folders"}, {"numpy": "2"})
        assert facts.models == {stage: f"{stage} maker" for stage in STAGES}
        assert (facts.data, facts.versions) == ({"layout": "folders"}, {"numpy": "2"})
        assert facts.settings["variants"] == made.run.request.variants
        assert facts.profile["name"] == made.run.profile.name
        costs = session_costs(made.run, SimpleNamespace(joules=lambda: 12.5))  # type: ignore[arg-type]
        assert (costs.painted, costs.energy_j, costs.device_s) == (2, 12.5, None)
        assert (costs.devices, costs.device) == (made.run.profile.runtime.devices, made.run.profile.runtime.unit)
        assert {cost.stage for cost in costs.stages} == {"paint", "check"}
