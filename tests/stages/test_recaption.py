"""The captioner's second look: how likely it would write what was painted, where the edited caption has it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from checks import NO_LIMITS
from tiny_desk import IMAGE, IMAGE_BATCH, image_name, tiny_run, tiny_sources, tiny_variants

from counterfactory.engine.edit import Edit
from counterfactory.engine.profile.caption import CaptionSettings, DecodingSettings
from counterfactory.engine.sources.source import load_pixels
from counterfactory.engine.stages.check.recaption import (
    PictureQuestions,
    Words,
    answers,
    ask,
    recaption,
    recaption_scores,
)
from counterfactory.engine.variant import Variant

DECODING = DecodingSettings("greedy", 1, 1.0, 1.0, 0, 20, 1.0, 1.0)
LOOKS = replace(NO_LIMITS, recaption=True)


@pytest.fixture
def variant(tmp_path: Path) -> Variant:
    source = tiny_sources(tmp_path, 1)[0]
    return replace(tiny_variants([source], 1)[0], source=replace(source, label="bus"))


def asked(variant: Variant, caption: str, edited: str, *edits: Edit) -> PictureQuestions:
    return ask(replace(variant, caption=caption, edited_caption=edited, edits=edits))


def shown(found: PictureQuestions) -> list[tuple[str, ...] | None]:
    """The words that should be there, and those that should be gone."""

    def read(words: Words | None) -> str:
        return ", ".join(words.text[a:b] for a, b in words.spans) if words else ""

    return [None if one is None else (read(one.shown), read(one.gone)) for one in found]


@pytest.mark.parametrize(
    ("caption", "edited", "edit", "words"),
    [
        ("a bus on a dry road", "a bus on a snowy road", Edit("weather", "dry", "snowy"), ("snowy", "dry")),
        ("a green bus, a car", "an orange bus, a car", Edit("colour", "green bus", "orange bus"), ("orange", "green")),
        ("a red car", "a dark blue car", Edit("colour", "red car", "dark blue car"), ("dark blue", "red")),
        ("a street", "a street in the snow", Edit("weather", "", "in the snow"), ("snow", "")),
        ("a street with a red bus", "a street", Edit("object", "with a red bus", ""), ("", "red bus")),
        ("a car on the road", "a car at the road", Edit("place", "on", "at"), None),
    ],
)
def test_an_edit_s_own_words_are_asked_for(
    variant: Variant, caption: str, edited: str, edit: Edit, words: tuple[str, str] | None
) -> None:
    assert shown(asked(variant, caption, edited, edit))[0] == words


def test_the_label_is_asked_for_where_the_source_s_caption_names_it(variant: Variant) -> None:
    edit = Edit("weather", "dry", "wet")
    found = asked(variant, "a road, dry, with two buses and a bus", "a road, wet, with two buses and a bus", edit)
    assert shown(found) == [("wet", "dry"), ("buses", "")], "where it is first named"
    assert asked(variant, "a dry road", "a wet road with a bus", edit)[-1] is None
    unlabelled = replace(variant, source=replace(variant.source, label=None))
    assert asked(unlabelled, "a bus, dry", "a bus, wet", edit)[-1] is None
    truck = replace(variant, source=replace(variant.source, label="fire_truck"))
    assert shown(asked(truck, "a fire truck, dry", "a fire truck, wet", edit))[1] == ("fire truck", "")
    assert asked(variant, "a bus", "a road") == (None,)


def test_what_nobody_wants_to_know_is_not_asked(variant: Variant) -> None:
    edits = (Edit("colour", "red", "blue"), Edit("weather", "dry", "wet"))
    both = replace(variant, caption="a red bus, dry", edited_caption="a blue bus, wet", edits=edits)
    assert shown(ask(both)) == [("blue", "red"), ("wet", "dry"), ("bus", "")]
    assert shown(ask(both, {"colour"}.__contains__)) == [("blue", "red"), None, None]
    assert shown(ask(both, {"weather", "label"}.__contains__)) == [None, ("wet", "dry"), ("bus", "")]
    read = answers(ask(both, {"colour"}.__contains__), [[0.3], [0.1]])
    assert recaption_scores(both, read) == {"said_edits": 0.75, "said_colour": 0.75}


def test_the_worst_edit_counts_and_the_worst_of_each_type(variant: Variant) -> None:
    edits = [Edit(t, "old", "new") for t in ("colour", "weather", "colour", "time")]
    many = replace(variant, edits=tuple(edits))
    worst = {"said_edits": 0.6, "said_colour": 0.7, "said_weather": 0.6, "said_label": 0.8}
    assert recaption_scores(many, [0.9, 0.6, 0.7, None, 0.8]) == worst
    assert recaption_scores(many, [None, None, None, None, None]) == {}


@pytest.mark.parametrize(
    ("caption", "edited", "edit", "read", "answer"),
    [
        ("a dry road", "a wet road", Edit("weather", "dry", "wet"), [[0.6], [0.2]], 0.75),
        ("a dry road", "a wet road", Edit("weather", "dry", "wet"), [[0.6, 0.3], [0.1, 0.2]], 0.6),
        ("a dry road", "a wet road", Edit("weather", "dry", "wet"), [[0.1], [0.2]], 0.333333),
        ("a dry road", "a wet road", Edit("weather", "dry", "wet"), [[0.6], [None]], None),
        ("a dry road", "a wet road", Edit("weather", "dry", "wet"), [[0.0], [0.0]], 0.0),
        ("a road", "a road with a car", Edit("object", "", "with a car"), [[0.3]], 0.3),
        ("a road with a car", "a road", Edit("object", "with a car", ""), [[0.2, 0.7]], 0.3),
        ("a road with a car", "a road", Edit("object", "with a car", ""), [[None]], None),
    ],
)
def test_words_are_held_against_those_they_replace(
    variant: Variant, caption: str, edited: str, edit: Edit, read: list[list[float | None]], answer: float | None
) -> None:
    assert answers(asked(variant, caption, edited, edit), read) == [answer, None]


@pytest.mark.parametrize(("prefix", "before"), [("a photo of ", "a photo of "), ("a photo of a {label}", "")])
def test_pictures_are_read_once_and_no_prefix_names_the_label(prefix: str, before: str, tmp_path: Path) -> None:
    sources = tiny_sources(tmp_path / "sources", 5)
    settings = CaptionSettings(IMAGE_BATCH, 1, prefix, DECODING)
    edit = Edit("other", "dry", "wet")
    texts = {"caption": "a dry road", "edited_caption": "a wet road", "edits": (edit,)}
    variants = [replace(v, **texts) for v in tiny_variants(sources, 1)]
    variants[1] = replace(variants[1], caption="a road", edited_caption="a road", edits=())
    with tiny_run(tmp_path / "suite", sources, variants=5) as run:
        run.networks.likely |= {f"{before}wet": 0.1, f"{before}dry": 0.3}
        pixels = {v: 255 - load_pixels(v.source, IMAGE) for v in variants}
        painted = run.paint(variants, pixels.__getitem__)
        found = recaption(run.of(caption=settings, check=LOOKS), painted)
        scores = {"said_edits": 0.25, "said_other": 0.25}
        assert found == {v: scores if v.edits else {} for v in variants}
        calls = run.networks.calls["blip2 reads"]
        assert [name for call in calls for name in call] == [image_name(pixels[v]) for v in variants if v.edits]
        assert [len(call) for call in calls] == [4], "of several batches together"
        assert run.networks.entered == ["caption"]
        assert run.run.meter.current == "check"
        assert recaption(run.of(caption=settings, check=LOOKS), painted) == found
        assert len(run.networks.calls["blip2 reads"]) == 1, "readings are on record"
        colours = run.of(caption=settings, check=replace(LOOKS, recaption_of=("colour",)))
        assert recaption(colours, painted) == {variant: {} for variant in variants}
        assert len(run.networks.calls["blip2 reads"]) == 1, "nobody wants to know of edits of this type"
        longer = replace(settings, decoding=replace(DECODING, max_tokens=21))
        assert recaption(run.of(caption=longer, check=LOOKS), painted) == found
        assert len(run.networks.calls["blip2 reads"]) == 2, "with more room more may be read"
