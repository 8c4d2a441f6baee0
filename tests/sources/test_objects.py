"""Hugging Face's sets, and the spellings of `objects` in them: what is known is read, what is not is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from PIL import Image
from small_sets import labels, noise, read, reasons, refuse, save, write

from counterfactory.engine.sources.data_set import DataSet, SetOptions, read_set
from counterfactory.engine.sources.shapes import Box
from counterfactory.engine.sources.source import ImageSettings, load_pixels

Value, Names = datasets.Value, datasets.ClassLabel(names=["car", "bus"])
FOUR = datasets.List(Value("float32"), 4)
NUMBERS = [[1, 2, 10, 8], [12, 4, 6, 16]]
CAR, BUS = Box(1, 2, 11, 10, "car"), Box(12, 4, 18, 20, "bus")


def saved(root: Path, feature: Any, rows: list[Any], **more: Any) -> Path:
    """A set of pictures 24 x 32 with these objects, and other columns of (feature, values)."""
    pictures = datasets.Image(), [Image.fromarray(noise(i)) for i in range(len(rows))]
    columns = {"image": pictures, "objects": (feature, rows), **more}
    features = datasets.Features({name: kind for name, (kind, _) in columns.items()})
    table = datasets.Dataset.from_dict({name: values for name, (_, values) in columns.items()}, features=features)
    table.save_to_disk(root)
    return root


def boxes(found: DataSet) -> list[tuple[Box, ...]]:
    return [source.boxes for source in found.sources]


@pytest.mark.parametrize("box", ["bbox", "bboxes", "boxes", "box"])
@pytest.mark.parametrize("as_list", [True, False])
def test_lists_of_things_and_dicts_of_lists(box: str, as_list: bool, tmp_path: Path) -> None:
    rows: list[Any] = [{box: NUMBERS, "category": [0, 1]}, {box: [], "category": []}, None]
    feature: Any = datasets.Sequence({box: FOUR, "category": Names})
    if as_list:
        rows[:2] = [[{box: n, "category": i} for i, n in enumerate(NUMBERS)], []]
        feature = [{box: FOUR, "category": Names}]
    found = read(saved(tmp_path / "set", feature, rows))
    assert (boxes(found), found.problems, found.notes) == ([(CAR, BUS), (), ()], [], [])
    assert found.classes == ["bus", "car"]


@pytest.mark.parametrize(
    "key",
    ["category", "categories", "label", "labels", "class", "classes", "name", "category_id", "label_id", "class_id"],
)
@pytest.mark.parametrize("kind", [Names, Value("string"), Value("int64")])
def test_classes_by_any_of_their_keys(key: str, kind: Any, tmp_path: Path) -> None:
    values = ["car", "bus"] if kind == Value("string") else [0, 1]
    row = {"bbox": NUMBERS, key: values}
    found = read(saved(tmp_path / "set", datasets.Sequence({"bbox": FOUR, key: kind}), [row]))
    without = kind == Value("int64")
    assert [box.label for box in found.sources[0].boxes] == (["0", "1"] if without else ["car", "bus"])
    assert found.notes == ([f"objects: {key} holds numbers, and the set has no names for them"] if without else [])


def test_a_name_is_taken_before_a_number(tmp_path: Path) -> None:
    feature = datasets.Sequence({"bbox": FOUR, "category": Value("int64"), "category_name": Value("string")})
    row = {"bbox": NUMBERS, "category": [7, 9], "category_name": ["car", "bus"]}
    assert boxes(read(saved(tmp_path / "set", feature, [row]))) == [(CAR, BUS)]


@pytest.mark.parametrize(
    "names",
    [
        *(("x", "y", "width", "height"), ("x", "y", "w", "h"), ("xmin", "ymin", "xmax", "ymax")),
        *(("x0", "y0", "x1", "y1"), ("x1", "y1", "x2", "y2"), ("left", "top", "right", "bottom")),
    ],
)
@pytest.mark.parametrize("within", [True, False])
def test_four_numbers_apart(names: tuple[str, ...], within: bool, tmp_path: Path) -> None:
    ends = (10, 8) if {"w", "width"} & set(names) else (11, 10)
    thing: dict[str, Any] = dict(zip(names, (1, 2, *ends), strict=True))
    kinds: dict[str, Any] = dict.fromkeys(names, Value("int32"))
    if within:
        thing, kinds = {"bbox": thing}, {"bbox": kinds}
    found = read(saved(tmp_path / "set", [{**kinds, "label": Names}], [[{**thing, "label": 0}]]))
    assert boxes(found) == [(CAR,)]


def test_one_thing_a_row_and_arrays(tmp_path: Path) -> None:
    single = {"bbox": FOUR, "label": Names}
    assert boxes(read(saved(tmp_path / "a", single, [{"bbox": NUMBERS[0], "label": 0}]))) == [(CAR,)]
    array = {"bbox": datasets.Array2D((None, 4), "float32"), "label": datasets.List(Names)}
    path = saved(tmp_path / "b", array, [{"bbox": NUMBERS, "label": [0, 1]}])
    assert boxes(read(path)) == [(CAR, BUS)]
    formatted = datasets.load_from_disk(str(path))
    formatted.set_format("numpy")
    formatted.save_to_disk(tmp_path / "c")
    assert boxes(read(tmp_path / "c")) == [(CAR, BUS)]


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        ({"bbox": NUMBERS, "label": ["car"]}, "objects: its lists differ in length: 2 of bbox, 1 of label"),
        ({"bbox": NUMBERS, "label": ["car", None]}, "objects: label should name a class, found None"),
        ({"bbox": [None, NUMBERS[0]], "label": ["car", "bus"]}, "objects: bbox should be four numbers, found None"),
        ({"bbox": [[1, 2, 3]], "label": ["car"]}, "objects: bbox should be four numbers, found [1.0, 2.0, 3.0]"),
        ({"bbox": [[1, 2, 3, float("nan")]], "label": ["car"]}, "objects: bbox should be four numbers, found [1.0"),
    ],
)
def test_a_bad_thing_costs_its_own_row(thing: Any, reason: str, tmp_path: Path) -> None:
    feature = {"bbox": datasets.List(datasets.List(Value("float32"))), "label": datasets.List(Value("string"))}
    found = read(saved(tmp_path / "set", feature, [thing, {"bbox": NUMBERS, "label": ["car", "bus"]}]))
    assert boxes(found) == [(CAR, BUS)]
    assert reasons(found)["row 0"].startswith(reason)


def test_a_class_number_without_its_name_is_no_other_class(tmp_path: Path) -> None:
    row = {"bbox": NUMBERS, "label": [0, -1]}
    found = read(saved(tmp_path / "set", datasets.Sequence({"bbox": FOUR, "label": Names}), [row, None]))
    assert reasons(found) == {"row 0": "objects: label -1 has no name; there are 2"}


@pytest.mark.parametrize(
    ("feature", "row", "there"),
    [
        (datasets.Sequence({"rect": FOUR, "label": Names}), None, "has the keys 'rect', 'label'"),
        (datasets.Sequence({"bbox": FOUR, "expression": Value("int8")}), None, "has the keys 'bbox', 'expression'"),
        (Value("string"), "[]", "holds Value('string')"),
        (datasets.List(Value("string")), ["car"], "holds List(Value('string'))"),
    ],
)
def test_unknown_objects_are_named(feature: Any, row: Any, there: str, tmp_path: Path) -> None:
    found = read(saved(tmp_path / "set", feature, [row]))
    assert boxes(found) == [()]
    keys = "bbox, bboxes, boxes, box, its class one such as category, categories, label, labels, class, classes"
    assert found.notes == [f"the column 'objects' {there}, and gives no boxes: a box needs a key such as {keys}"]


def test_boxes_beside_objects_are_named_and_a_list_is_no_label(tmp_path: Path) -> None:
    more = {"bbox": (datasets.List(FOUR), [NUMBERS]), "label": (datasets.List(Names), [[0, 1]])}
    found = read(saved(tmp_path / "set", Value("string"), [""], **more))
    assert labels(found) == [("00000000", None)]
    assert found.notes[1] == "columns that are not used: 'bbox', 'label'"


def test_crowds_flat_boxes_and_corners(tmp_path: Path) -> None:
    feature = datasets.Sequence({"bbox": FOUR, "label": Names, "iscrowd": Value("bool"), "area": Value("float32")})
    row = {"bbox": [*NUMBERS, [1, 1, 0, 4]], "label": [0, 1, 1], "iscrowd": [False, True, False], "area": [80, 96, 0]}
    found = read(saved(tmp_path / "a", feature, [row]))
    assert [source.things for source in found.sources] == [(CAR,)]
    assert [box.ignored for box in boxes(found)[0]] == [None, "crowd"]
    assert "1 of 3 boxes are marked as crowds" in found.notes[0]
    assert found.notes[1:] == ["1 boxes without width or height are left out"]
    by_corners = {"bbox": [[1, 2, 11, 10]], "label": [0], "iscrowd": [False], "area": [80]}
    path = saved(tmp_path / "b", feature, [by_corners])
    refuse("the area of 1 of 1 boxes is another; .* say --boxes corners", path)
    assert boxes(read(path, boxes="corners")) == [(CAR,)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("metadata.csv", "file_name,split,label\ntrain/a.png,x,cat\n"),
        ("metadata.jsonl", '{"file_name": "train/a.png", "label": "cat", "split": "x"}'),
        ("metadata.jsonl", '{"file_name": "train/a.png", "label": "cat", "split": "x", "caption": " a  cat\\n"}'),
    ],
)
def test_hugging_face_s_image_folders(name: str, text: str, tmp_path: Path) -> None:
    save(tmp_path / "train" / "a.png")
    write(tmp_path / name, text)
    found = read(tmp_path)
    assert labels(found) == [("train/a", "cat")]
    assert found.notes == [f"{name}: columns that are not used: 'split'"]
    assert found.sources[0].caption == ("a cat" if "caption" in text else None)


def test_captions_that_are_no_text_cost_no_row(tmp_path: Path) -> None:
    """Lists of several, numbers and control characters are left alone."""
    values: tuple[Any, ...] = (["a", "b"], 3, None, "a\x07b", "a bus")
    for i, value in enumerate(values):
        save(tmp_path / f"{i}.png", i)
        with (tmp_path / "metadata.jsonl").open("a") as file:
            file.write(json.dumps({"file_name": f"{i}.png", "caption": value}) + "\n")
    found = read(tmp_path)
    assert [source.caption for source in found.sources] == [None, None, None, None, "a bus"]
    assert any("'caption'" in note for note in found.notes)


def test_a_caption_is_a_column_to_group_by_as_well_and_known_of_pictures_whose_header_is_read(tmp_path: Path) -> None:
    said = [f"a bus at {i} o'clock" for i in range(4)]
    for i, text in enumerate(said):
        save(tmp_path / f"{i}.png", i)
        with (tmp_path / "metadata.jsonl").open("a") as file:
            file.write(json.dumps({"file_name": f"{i}.png", "caption": text, "place": "here"}) + "\n")
    for whole in (None, 1):
        sources = list(read_set(str(tmp_path), SetOptions(), whole=whole).sources)
        assert [source.caption for source in sources] == said
        assert [dict(source.cells) for source in sources] == [{"caption": text, "place": "here"} for text in said]


def test_hugging_face_s_data_sets_on_the_disk(tmp_path: Path) -> None:
    pictures = [Image.open(save(tmp_path / f"{i}.png", i)) for i in range(3)]
    label = datasets.ClassLabel(names=["cat", "dog"]), [1, 0, -1]
    more: Any = {"label": label, "caption": (Value("string"), ["x"] * 3), "image": (datasets.Image(), pictures)}
    things = [[{"bbox": [1, 2, 3, 4], "category": 1}], [], []]
    found = read(saved(tmp_path / "saved", [{"bbox": [Value("float32")], "category": Names}], things, **more))
    assert found.layout == "datasets"
    assert labels(found) == [("00000000", "dog"), ("00000001", "cat"), ("00000002", None)]
    assert found.sources[0].boxes == (Box(1, 2, 4, 6, "bus"),)
    assert (load_pixels(found.sources[1], ImageSettings(24, 8, 32)) == np.asarray(pictures[1])).all()
    assert [source.caption for source in found.sources] == ["x", "x", "x"]
    assert found.notes == []
    table = datasets.load_from_disk(str(tmp_path / "saved"))
    datasets.DatasetDict({"train": table, "test": table}).save_to_disk(tmp_path / "several")
    refuse("has the splits train, test: name the folder of one of them", tmp_path / "several")


def test_a_folder_is_loaded_as_a_set_of_the_hub_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the real library: splits, and class folders as ClassLabels. Without a network a sentence says what to do."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for i, place in enumerate(("train/cat", "train/dog", "validation/dog")):
        save(tmp_path / "set" / place / f"{i}.png", i)
    found = read(f"hf:{tmp_path / 'set'}:train")
    assert (found.layout, [source.label for source in found.sources]) == ("datasets", ["cat", "dog"])
    assert [source.label for source in read(f"hf:{tmp_path / 'set'}:validation").sources] == ["dog"]
    refuse(r"has the splits train, validation: name one of them, such as hf:", f"hf:{tmp_path / 'set'}")

    def unreachable(*_: Any, **__: Any) -> None:
        raise ConnectionError("Couldn't reach 'beans' on the Hub\nand more lines")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    reason = "hf:beans:train cannot be opened by datasets: Couldn't reach 'beans' on the Hub; without a network, name a"
    refuse(f"^{reason} folder that save_to_disk wrote elsewhere$", "hf:beans:train")
