"""Palettes: classes in the colours that a painter was trained to follow, by the names that a data set gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_sets import write

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.pocket.worlds import STREETS
from counterfactory.engine.sources.class_map import load_class_map, published
from counterfactory.engine.sources.palette import Palette, load_palette
from counterfactory.engine.sources.pixels import UnreadableError

STREET = Palette("the palette street", {"road": (1, 2, 3), "sky": (4, 5, 6), "7": (7, 8, 9)}, ("sky", "road"))


def test_classes_get_their_colours_by_name() -> None:
    mask = np.array([[3, 9], [9, 255]], np.uint8)
    found = STREET.paint(mask, {3: " Road", 9: "sky"})
    assert found.dtype == np.uint8
    assert found.tolist() == [[[1, 2, 3], [4, 5, 6]], [[4, 5, 6], [0, 0, 0]]]
    assert STREET.paint(np.array([[0, 1]], np.uint16), None).tolist() == [[[4, 5, 6], [1, 2, 3]]]
    assert STREET.paint(np.array([[7]], np.uint8), {}).tolist() == [[[7, 8, 9]]], "a class without a name is its number"

    # The background is black unless it has a colour.
    background = np.zeros((1, 1), np.uint8), {0: "background"}
    assert STREET.paint(*background).tolist() == [[[0, 0, 0]]]
    assert Palette("", {"background": (9, 9, 9)}).paint(*background).tolist() == [[[9, 9, 9]]]


@pytest.mark.parametrize(
    ("mask", "names", "reason"),
    [
        ([[0, 5, 6]], {0: "sky", 5: "river", 6: "Boat"}, "shows river, Boat, for which the palette street has no"),
        ([[0, 5, 6]], None, "shows 5, 6, .*; add it to its classes, or name the numbers by --class-map"),
        ([range(10, 16)], None, "shows 10, 11, 12, 13, 14 and more, for which"),
        ([[[0, 0, 0]]], None, "is coloured: say by --class-map which class each colour stands for"),
    ],
)
def test_a_class_without_a_colour_is_named(mask: Any, names: dict[int, str] | None, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        STREET.paint(np.array(mask, np.uint8), names)


def test_all_that_a_palette_makes_of_masks_is_in_its_key() -> None:
    assert STREET.key == Palette("elsewhere", STREET.colours, STREET.order).key
    assert STREET.key != Palette("", {**STREET.colours, "road": (1, 2, 4)}, STREET.order).key
    assert STREET.key != Palette("", STREET.colours, STREET.order[::-1]).key


def test_published_palettes_have_the_classes_of_published_sets() -> None:
    assert tuple(published("palettes")) == ("ade20k", "cityscapes", "streets")
    ade, cityscapes, streets = (load_palette(name) for name in tuple(published("palettes")))
    assert streets.order == STREETS.classes
    assert streets.colours.keys() == set(STREETS.classes)
    assert (ade.where, len(cityscapes.colours)) == ("the palette ade20k", 19 + 5)
    assert [ade.colours[name] for name in ("wall", "flag")] == [(120, 120, 120), (92, 0, 255)]
    assert ade.colours["pedestrian"] == ade.colours["person"] == (150, 5, 61)
    for name in tuple(published("class_maps")):
        names = {found.strip().lower() for found in load_class_map(name).names.values()} - {"background"}
        lacking = names - ade.colours.keys()
        known = {"traffic cone", "other moving thing", "cart, luggage or pram"}
        assert lacking <= known, (name, lacking)
    names = set(load_class_map("cityscapes").names.values()) - {"background"}
    assert names <= cityscapes.colours.keys()


def test_a_palette_of_your_own_is_a_file(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.toml", 'order = ["Sky"]\n[classes]\nsky = "1 2 3"\n')
    assert load_palette(str(file)) == Palette(str(file), {"sky": (1, 2, 3)}, ("Sky",))
    for text, message in {
        "": "needs a table `classes` of names and their colours",
        "[classes]": "needs a table `classes`",
        '[clases]\nsky = "1 2 3"': "unknown key 'clases'; did you mean 'classes'?",
        '[classes]\nsky = "1 2"': "the colour of sky is '1 2'; it needs",
        '[classes]\nsky = "1 2 256"': "the colour of sky is '1 2 256'",
        '[classes]\nsky = "1 2 x"': "the colour of sky is '1 2 x'",
        "[classes]\nsky = 3": "the colour of sky is 3",
        'order = "sky"\n[classes]\nsky = "1 2 3"': "order is a list of names of classes, found 'sky'",
        'order = [1]\n[classes]\nsky = "1 2 3"': r"order is a list of names of classes, found \[1\]",
        'order = ["sea"]\n[classes]\nsky = "1 2 3"': "order names sea, which its classes do not",
    }.items():
        file.write_text(text)
        with pytest.raises(CounterfactoryError, match=message):
            load_palette(str(file))
    with pytest.raises(CounterfactoryError, match=r"no palette 'ade': name a \.toml file, or one of ade20k, city"):
        load_palette("ade")
