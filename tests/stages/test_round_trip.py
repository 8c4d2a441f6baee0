"""What the captioner says of a painted picture, held against what was painted."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_desk import IMAGE, IMAGE_BATCH, image_name, tiny_run, tiny_sources, tiny_variants

from counterfactory.engine.edit import Edit
from counterfactory.engine.models.decoding import DecodingSettings
from counterfactory.engine.sources.source import load_pixels
from counterfactory.engine.stages import round_trip
from counterfactory.engine.stages.caption import CaptionSettings
from counterfactory.engine.stages.round_trip import said, said_share
from counterfactory.engine.suite import Painted

DECODING = DecodingSettings("greedy", 1, 1.0, 1.0, 0, 20, 1.0, 1.0)


@pytest.mark.parametrize(
    ("edit", "caption", "share"),
    [
        (Edit("weather", "dry", "snowy"), "a snowy street with cars", 1.0),
        (Edit("weather", "dry", "snowy"), "a dry street", 0.0),
        (Edit("colour", "red car", "dark blue car"), "a blue car", 0.5),  # "car" stays: dark and blue are new
        (Edit("weather", "", "in the snow"), "a street. Snow lies on it", 1.0),
        (Edit("object", "", "two dogs"), "a dog and a bus", 0.5),
        (Edit("object", "a red bus", ""), "a street with a red car", 0.5),
        (Edit("object", "a red bus", ""), "an empty street", 1.0),
        (Edit("place", "on", "at"), "anything", 1.0),
    ],
)
def test_the_words_that_an_edit_brought_are_looked_for(edit: Edit, caption: str, share: float) -> None:
    assert said_share(edit, caption) == share


def test_a_label_counts_where_the_source_s_caption_names_it(tmp_path: Path) -> None:
    source = tiny_sources(tmp_path, 1)[0]
    variant = replace(tiny_variants([source], 1)[0], source=replace(source, label="bus"), caption="a bus on a road.")
    assert said(variant, "two buses in the fog") == {"said_label": 1.0}
    assert said(variant, "a car in the fog") == {"said_label": 0.0}
    assert said(replace(variant, caption="a road."), "a bus") == {}
    assert said(replace(variant, source=source), "a bus") == {}
    two = replace(variant, edits=(Edit("weather", "dry", "snowy"), Edit("colour", "red", "blue")))
    assert said(two, "a blue bus") == {"said_label": 1.0, "said_edits": 0.0}
    assert said(two, "a blue bus on a snowy road") == {"said_label": 1.0, "said_edits": 1.0}


@pytest.mark.parametrize("prefix", ["", "a photo of a {label}"])
def test_pictures_are_captioned_once_and_no_prefix_names_the_label(prefix: str, tmp_path: Path) -> None:
    sources = tiny_sources(tmp_path / "sources", 5)
    settings = CaptionSettings(IMAGE_BATCH, 1, prefix, DECODING)
    edit = Edit("other", "nothing", "greedy")
    variants = [replace(v, edits=(edit,)) for v in tiny_variants(sources, 1)]
    keys = {variant: hashlib.sha256(variant.key.encode()).hexdigest() for variant in variants}
    with tiny_run(tmp_path / "suite", sources, variants=5) as run:
        pixels = {v: 255 - load_pixels(v.source, IMAGE) for v in variants}
        made = [Painted(keys[v], v.source.name, pixels[v], None) for v in variants]
        rows = run.desk.suite.write_images("paint", made)
        painted = {v: rows[keys[v]] for v in variants}
        found = round_trip.run(run.desk, painted, settings)
        assert found == {v: {"said_edits": 1.0} for v in variants}, "the tiny captioner's words end in its mode"
        calls = run.networks.calls["blip2"]
        assert [len(call) for call in calls] == [IMAGE_BATCH, IMAGE_BATCH, 1]
        assert [name for call in calls for name in call] == [image_name(pixels[v]) for v in variants]
        assert run.networks.entered == ["caption"]
        assert run.desk.meter.current == "check"
        more = round_trip.run(run.desk, painted, settings)
        assert (more, len(run.networks.calls["blip2"])) == (found, 3), "captions are on record"
        after = "a photo of a" if prefix else None
        key = run.desk.recipes.caption_key(painted[variants[0]].image.sha256, after)
        texts = run.desk.suite.ledger.get("caption", [key])
        assert len(texts) == 1
        (text,) = texts.values()
        assert text.startswith("a photo of a" if prefix else image_name(pixels[variants[0]])[:4])
