"""Variants of pictures that somebody painted: what the user says, and what captions say where the user does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rewriting import source, wanted_of
from small_sets import save
from tiny_desk import IMAGE, tiny_run
from tiny_painting import pixels_of

from counterfactory.engine.edit import Edit
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.sources.given import GivenPicture, GivenPictures, open_given
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.paint.paint_given import paint_given
from counterfactory.engine.stages.rewrite.given_variants import given_variants
from counterfactory.engine.stages.rewrite.rewrite_captions import rewrite_captions
from counterfactory.engine.variant import Variant

FOG, BLUE, SKY = Edit("weather", "", "in fog"), Edit("colour", "red", "blue"), Edit("object", "the sky", "a wall")
CAPTION = "a red bus"


def picture(name: str, edits: tuple[Edit, ...] = (), **more: Any) -> GivenPicture:
    return GivenPicture(name, name, edits, **{"digest": name, **more})


def given(of: Source, *pictures: GivenPicture, **more: Any) -> Source:
    return replace(of, given=GivenPictures(pictures, **more))


def variants(*pictures: GivenPicture, **more: Any) -> list[Variant]:
    return given_variants(given(source("bus/1"), *pictures, **more), CAPTION, wanted_of(9, (1, 1), seed=3))


def test_controls_come_first_and_each_kind_level_and_repeat_is_counted() -> None:
    pictures = (
        *(picture("a", (FOG,), level=1), picture("b", (FOG,)), picture("c", kind="control", level=2)),
        *(picture("d", (FOG,), level=2), picture("e", (BLUE,)), picture("f", kind="control"), picture("g", (FOG,))),
    )
    found = variants(*pictures, levels=2)
    told = [(one.given and one.given.file, one.kind, one.index, one.level, one.levels, one.repeat) for one in found]
    assert told == [
        ("c", "control", 0, 1, 1, 0),
        ("f", "control", 1, 1, 1, 1),
        ("a", "variant", 0, 1, 2, 0),
        ("b", "variant", 1, 2, 2, 0),
        ("d", "variant", 2, 2, 2, 1),
        ("e", "variant", 3, 2, 2, 0),
        ("g", "variant", 4, 2, 2, 2),
    ]
    assert {(one.seed, one.protected, one.dropped) for one in found} == {(3, ("bus",), None)}
    assert len({one.key for one in found}) == len(pictures), "the same edits in another picture are another variant"
    other = given_variants(given(source("bus/2"), *pictures, levels=2), CAPTION, wanted_of(9, (1, 1), seed=3))
    assert {one.key for one in found}.isdisjoint(one.key for one in other)
    assert given_variants(source("bus/1"), CAPTION, wanted_of(1, (1, 1))) == []


@pytest.mark.parametrize(
    ("edits", "edited"),
    [
        ((), CAPTION),
        ((BLUE,), "a blue bus"),
        ((BLUE, FOG), "a blue bus in fog"),
        ((SKY, BLUE), "a blue bus, a wall"),
        ((Edit("object", "the sky", ""), FOG), "a red bus in fog"),
        ((Edit("colour", "red", ""),), "a bus"),
    ],
)
def test_edits_write_the_caption_where_nobody_does(edits: tuple[Edit, ...], edited: str) -> None:
    """What the caption does not say is added where it stands for something else, and nothing where it is removed."""
    kind = "variant" if edits else "control"
    (found,) = variants(picture("a", edits, kind=kind))
    assert (found.edits, found.caption, found.edited_caption) == (edits, CAPTION, edited)
    (found,) = variants(picture("a", edits, kind=kind, edited_caption='a "long"  story'))
    assert (found.edits, found.edited_caption) == (edits, "a 'long' story")


@pytest.mark.parametrize(
    ("caption", "edited", "edit"),
    [
        ("a red bus by day", "a blue bus by night", ("red day", "blue night")),
        ("a red bus", "a red bus in fog", ("", "in fog")),
        ("a red bus", "a red bus", ("", "a red bus")),
        (None, "a blue  bus", ("", "a blue bus")),
    ],
)
def test_captions_say_what_was_edited_where_nobody_does(
    caption: str | None, edited: str, edit: tuple[str, str]
) -> None:
    """By the caption that the user gave, whatever else the source is called."""
    (found,) = variants(picture("a", edited_caption=edited), caption=caption)
    assert (found.edits, found.edited_caption) == ((Edit("other", *edit),), " ".join(edited.split()))


def test_an_original_without_an_edited_picture_has_no_control_either(sources: list[Source], tmp_path: Path) -> None:
    control, foggy = picture("c", kind="control"), picture("v", (FOG,))
    one, other, bare = given(sources[0], control, foggy), given(sources[1], control), sources[2]
    with tiny_run(tmp_path / "suite", sources) as made:
        run = replace(made.run, profile=load_profile("given"), request=wanted_of(1, (1, 1)))
        found = rewrite_captions(run, dict.fromkeys((one, other, bare), "a bus"))
    assert list(found.variants) == given_variants(one, "a bus", wanted_of(1, (1, 1)))
    missing = "it has no edited picture that can be used"
    assert [(p.name, p.reason) for p in found.shortfalls] == [(other.name, missing), (bare.name, missing)]
    assert (found.dropped, found.cells, made.networks.opened) == ((), (), [])


def test_pictures_are_taken_at_their_source_s_size_and_one_that_changed_costs_itself(
    sources: list[Source], tmp_path: Path
) -> None:
    def of(source: Source, number: int) -> Variant:
        file = save(tmp_path / f"{number}.png", number, *source.size)
        shown = open_given(GivenPicture(f"given/{number}", str(file), (FOG,)), source.size)
        return given_variants(given(source, shown), "a bus", wanted_of(1, (1, 1)))[0]

    first, large, gone, changed = (of(source, number) for number, source in enumerate(sources[:4]))
    gone.source.path.unlink()
    for lost in (gone, changed):
        save(tmp_path / f"{sources.index(lost.source)}.png", 99)
    with tiny_run(tmp_path / "suite", sources) as made:
        run = replace(made.run, profile=replace(load_profile("given"), image=IMAGE))
        found = paint_given(run, [first, large, gone, changed], {}, made.pictures)
        assert list(found) == [first, large]
        for variant, row in found.items():
            assert run.suite.load_image(row).shape == pixels_of(variant.source).shape
        np.testing.assert_array_equal(run.suite.load_image(found[first]), np.asarray(Image.open(tmp_path / "0.png")))
        assert [problem.name for problem in made.pictures.problems] == [gone.source.name, "given/3"]
        assert "has changed since the run began" in made.pictures.problems[1].reason
        (tmp_path / "0.png").unlink()
        assert paint_given(run, [first, large], {}, made.pictures) == found, "what is on record is not read again"
