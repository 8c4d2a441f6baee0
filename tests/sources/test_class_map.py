"""Class maps, names of numbers and palettes: accepted, refused, and what they make of masks and labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_sets import read, refuse, save, save_mask, write

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.pocket.worlds import STREETS
from counterfactory.engine.sources.class_map import label_names, load_class_map, named_classes, published
from counterfactory.engine.sources.palette import Palette, load_palette
from counterfactory.engine.sources.pixels import UnreadableError
from counterfactory.engine.sources.source import load_mask


def of(tmp_path: Path, text: str) -> Any:
    return load_class_map(str(write(tmp_path / "map.toml", text)))


def test_numbers_are_kept_and_those_to_ignore_are_void(tmp_path: Path) -> None:
    found = of(tmp_path, 'ignore = [0, 3]\n[classes]\n7 = "road"\n1 = "car"\n2 = "road"\n')
    mask = np.array([[7, 2, 1], [0, 3, 255]], np.uint8)
    made = found.apply(mask)
    assert made.tolist() == [[7, 7, 1], [255, 255, 255]]
    assert made.dtype == np.uint8
    assert found.names == {7: "road", 1: "car"}
    assert found.shown(made) == ("car", "road")
    assert (found.apply(np.repeat(mask[:, :, None], 3, axis=2)) == made).all()
    with pytest.raises(UnreadableError, match=r"is coloured, and .* names numbers"):
        found.apply(np.stack([mask, mask, mask + 1], axis=2))
    wide = of(tmp_path, '[classes]\n300 = "road"\n').apply(np.array([[300, 255]], np.uint16))
    assert (wide.tolist(), wide.dtype) == ([[300, 255]], np.uint16)


def test_colours_become_numbers_in_the_file_s_order(tmp_path: Path) -> None:
    text = 'ignore = ["0 0 0"]\n[classes]\n"128 64 128" = "road"\n"#ff0001" = "car"\n"1,2,3" = "road"\n'
    found = of(tmp_path, text)
    mask = np.array([[[128, 64, 128, 9], [255, 0, 1, 9], [1, 2, 3, 9], [0, 0, 0, 9]]], np.uint8)
    assert found.apply(mask).tolist() == [[0, 1, 0, 255]]
    assert found.names == {0: "road", 1: "car"}
    with pytest.raises(UnreadableError, match=r"has no colours, and .* names colours"):
        found.apply(mask[..., 0])


def test_what_a_map_misses_is_named(tmp_path: Path) -> None:
    found = of(tmp_path, '[classes]\n7 = "road"\n')
    unknown, advice = r"8 \(2 pixels\), 9 \(1 pixels\)", "add it to its classes, or to `ignore`"
    with pytest.raises(UnreadableError, match=rf"^holds {unknown}, which .*map\.toml does not name; {advice}$"):
        found.apply(np.array([[7, 8, 8, 9]], np.uint8))
    with pytest.raises(UnreadableError, match=r"0 .* and 2 more, which"):
        found.apply(np.arange(7, dtype=np.uint8)[None])
    found = of(tmp_path, '[classes]\n"1 2 3" = "road"\n')
    with pytest.raises(UnreadableError, match=r"holds colour 1 2 4 \(2 pixels\), which"):
        found.apply(np.array([[[1, 2, 4], [1, 2, 4], [1, 2, 3]]], np.uint8))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *((text, "needs a table `classes`") for text in ("", "[classes]\n")),
        ('[classes]\n7 = "a"\n[names]\n', "unknown key 'names'"),
        ('[classes]\n7 = ""\n', "class 7 needs a name"),
        ("[classes]\n7 = 3\n", "class 7 needs a name, found 3"),
        ('[classes]\nroad = "a"\n', "'road' is neither a number up to 65535 nor a colour"),
        *((f'[classes]\n"{key}" = "a"\n', "neither a number") for key in ("70000", "1 2", "1 2 256", "#12345g")),
        ('ignore = [7]\n[classes]\n7 = "a"\n', "7 is given twice"),
        ('[classes]\n"1 2 3" = "a"\n"1,2,3" = "b"\n', "colour 1 2 3 is given twice"),
        ('ignore = ["1 2 3"]\n[classes]\n7 = "a"\n', "all numbers or all colours, found both"),
        ('ignore = 3\n[classes]\n7 = "a"\n', "ignore is a list"),
        ('ignore = [true]\n[classes]\n7 = "a"\n', "True is neither a number"),
        ('channel = "blue"\n[classes]\n7 = "a"\n', "channel can be 'red'"),
        *(("a = " + 5000 * text, "is not valid TOML") for text in "[9"),
    ],
)
def test_what_is_no_class_map(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(CounterfactoryError, match=reason):
        of(tmp_path, text)


def test_json_means_the_same_and_a_list_names_numbers_too(tmp_path: Path) -> None:
    path = write(tmp_path / "map.json", json.dumps({"classes": {"7": "road"}, "ignore": [0]}))
    assert load_class_map(str(path)).key == of(tmp_path, 'ignore = [0]\n[classes]\n7 = "road"\n').key
    assert load_class_map(str(path)).key != of(tmp_path, '[classes]\n7 = "road"\n').key
    found = load_class_map(str(write(tmp_path / "names.txt", "sky\nroad\n")))
    assert (found.names, found.numbers) == ({0: "sky", 1: "road"}, {0: 0, 1: 1, 255: 255})


def test_published_maps() -> None:
    counts = {name: len(load_class_map(name).names) for name in published("class_maps")}
    assert counts == {"camvid": 31, "camvid11": 11, "cityscapes": 19, "cityscapes-trainids": 19, "shift": 14, "voc": 21}
    assert len(load_class_map("cityscapes").numbers) == 19 + 16
    with pytest.raises(CounterfactoryError, match="no class map 'kitti': name a"):
        load_class_map("kitti")


def test_a_set_s_own_names_have_a_background_beside_them() -> None:
    assert named_classes("x", {1: "car"}).names == {0: "background", 1: "car"}
    assert named_classes("x", {0: "car", 4: "bus"}).names == {5: "background", 0: "car", 4: "bus"}
    assert 256 in named_classes("x", dict.fromkeys(range(255), "car") | {254: "bus"}).names
    assert named_classes("x", {0: "background", 1: "car"}).names == {0: "background", 1: "car"}


def test_a_map_for_a_folder_of_masks(tmp_path: Path) -> None:
    for i, name in enumerate("abc"):
        save(tmp_path / "images" / f"{name}.png", i)
    for name, values in (("a", (1, 2)), ("b", (1, 9)), ("c", (2, 2))):
        save_mask(tmp_path / "masks" / f"{name}.png", values)
    of(tmp_path, 'ignore = [2]\n[classes]\n1 = "car"\n')
    found = read(tmp_path, class_map=str(tmp_path / "map.toml"))
    assert [(s.name, s.classes) for s in found.sources] == [("a", ("car",)), ("c", ())]
    assert [p.name for p in found.problems] == ["b.png"]
    assert found.problems[0].reason.startswith("mask b.png: holds 9 (384 pixels), which")
    assert found.record()["classes"] == {"1": "car"}
    assert load_mask(found.sources[0], (24, 32)).tolist() == [[1] * 32] * 12 + [[255] * 32] * 12
    plain = read(tmp_path).sources[0]
    assert (plain.classes, plain.key == found.sources[0].key) == ((), False)


@pytest.fixture
def numbered(tmp_path: Path) -> Path:
    """Class folders 0, 1 and 02."""
    for i, folder in enumerate(("0", "1", "02")):
        save(tmp_path / "set" / folder / "a.png", i)
    return tmp_path / "set"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("names.txt", "cat\ndog\nfire truck\n\n", ["cat", "fire truck", "dog"]),
        ("LOC_synset_mapping.txt", "n01 cat\nn02099601 golden retriever\n x \n", ["n01 cat", "x", "n02099601"]),
        ("names.json", '["cat", "dog", "bus"]', ["cat", "bus", "dog"]),
        ("plain.json", '{"2": "bus", "0": "cat", "1": "dog"}', ["cat", "bus", "dog"]),
        ("index.json", '{"0": ["n01440764", "a"], "1": ["b"], "2": ["crane", "x"]}', ["n01440764", "crane", "b"]),
        ("map.json", '{"classes": {"0": "cat", "1": "dog", "2": "dog"}}', ["cat", "dog", "dog"]),
        ("map.toml", 'ignore = [9]\n[classes]\n0 = "cat"\n1 = "dog"\n2 = "bus"\n', ["cat", "bus", "dog"]),
    ],
)
def test_files_of_names(name: str, text: str, expected: list[str], numbered: Path, tmp_path: Path) -> None:
    """In the order of the folders: 0, 02, 1."""
    found = read(numbered, class_map=str(write(tmp_path / name, text)))
    assert [source.label for source in found.sources] == expected


def test_the_numbers_of_a_table_and_the_record(tmp_path: Path) -> None:
    """As many names as ImageNet has, 255 among them, which marks nothing in a label."""
    for i in range(2):
        save(tmp_path / f"{i}.png", i)
    table = write(tmp_path / "labels.csv", "image,label\n0.png,255\n1.png,999\n")
    names = write(tmp_path / "names.txt", "".join(f"thing {i}\n" for i in range(1000)))
    found = read(tmp_path, labels=table, class_map=str(names))
    assert [source.label for source in found.sources] == ["thing 255", "thing 999"]
    assert found.record()["classes"]["255"] == "thing 255"
    assert found.notes == []


def test_two_numbers_of_one_name_are_said(numbered: Path, tmp_path: Path) -> None:
    names = write(tmp_path / "names.txt", "crane\ndog\ncrane\ndog\nbus\nbus\nox\nox\n")
    several = "crane (0, 2), dog (1, 3), bus (4, 5) and 1 more"
    said = f"names that stand for several numbers, whose images have one label: {several}"
    assert read(numbered, class_map=str(names)).notes == [said]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("names.txt", "cat\ndog\n", r"does not name the label '02' of 02/a\.png; add it, or leave --class-map"),
        ("names.txt", "cat\n\ndog\n", r"names\.txt: class 1 needs a name, found ''"),
        ("names.txt", "\n", r"names\.txt has no names; it needs a list of names"),
        ("names.json", "[]", r"names\.json has no names"),
        ("names.json", '{"cat": 0}', r"'cat' is no number of a class; it needs a list of names, or \{\"0\": \"tench\""),
        ("names.json", '{"0": 1}', r"names\.json: class 0 needs a name, found '1'"),
        ("names.json", '{"0": ["cat", 1]}', r"class 0 needs a name"),
        ("names.json", "{", r"names\.json is not valid JSON"),
        ("colours.toml", '[classes]\n"1 2 3" = "cat"\n', "names colours, and labels are numbers"),
        ("names.csv", "cat\n", r"no class map .*: name a \.toml, \.json or \.txt file"),
    ],
)
def test_files_that_do_not_serve(name: str, text: str, said: str, numbered: Path, tmp_path: Path) -> None:
    refuse(said, numbered, class_map=str(write(tmp_path / name, text)))


def test_labels_that_are_words_are_not_renamed(tmp_path: Path) -> None:
    save(tmp_path / "set" / "cat" / "a.png")
    refuse("does not name the label 'cat'", tmp_path / "set", class_map=str(write(tmp_path / "names.json", '["dog"]')))
    assert label_names("voc")[0][1] == "aeroplane"


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
    ade, cityscapes, streets = map(load_palette, published("palettes"))
    assert streets.order == STREETS.classes
    assert streets.colours.keys() == set(STREETS.classes)
    assert (ade.where, len(cityscapes.colours)) == ("the palette ade20k", 19 + 5)
    assert [ade.colours[name] for name in ("wall", "flag")] == [(120, 120, 120), (92, 0, 255)]
    assert ade.colours["pedestrian"] == ade.colours["person"] == (150, 5, 61)
    without = {"background", "traffic cone", "other moving thing", "cart, luggage or pram"}
    for name in published("class_maps"):
        names = {found.strip().lower() for found in load_class_map(name).names.values()}
        assert names - ade.colours.keys() <= without, name
    names = set(load_class_map("cityscapes").names.values()) - {"background"}
    assert names <= cityscapes.colours.keys()


def test_a_palette_of_your_own_is_a_file(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.toml", 'order = ["Sky"]\n[classes]\nsky = "1 2 3"\n')
    assert load_palette(str(file)) == Palette(str(file), {"sky": (1, 2, 3)}, ("Sky",))
    for text, message in {
        "": "needs a table `classes` of names and their colours",
        "[classes]": "needs a table `classes`",
        '[clases]\nsky = "1 2 3"': "unknown key 'clases'; did you mean 'classes'?",
        **{f'[classes]\nsky = "{n}"': f"the colour of sky is '{n}'; it needs" for n in ("1 2", "1 2 256", "1 2 x")},
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


def vistas(**changes: object) -> str:
    """Mapillary Vistas' config.json, in small."""
    labels = [
        {"name": "animal--bird", "readable": "Bird", "color": [165, 42, 42], "evaluate": True, "instances": True},
        {"name": "construction--flat--road", "readable": "Road", "color": [128, 64, 128], "evaluate": True},
        {"name": "void--unlabeled", "readable": "Unlabeled", "color": [0, 0, 0], "evaluate": False, **changes},
    ]
    return json.dumps({"labels": labels, "version": "1.2", "mapping": "public", "folder_structure": "{split}"})


def test_mapillary_s_config_is_a_class_map(tmp_path: Path) -> None:
    config = write(tmp_path / "config_v1.2.json", vistas())
    found = load_class_map(str(config))
    assert found.names == {0: "Bird", 1: "Road"}
    assert found.apply(np.uint8([[0, 1, 2]])).tolist() == [[0, 1, 255]]
    write(config, vistas(readable="Road", evaluate=True))
    assert load_class_map(str(config)).names == {0: "Bird", 1: "Road"}
    for changes in ({"readable": 3}, {"readable": "a\x1b"}, {"readable": None, "name": ""}):
        write(config, vistas(**changes))
        with pytest.raises(CounterfactoryError, match="a label needs a name"):
            load_class_map(str(config))
    write(config, '{"labels": [1]}')
    with pytest.raises(CounterfactoryError, match="labels"):
        load_class_map(str(config))
