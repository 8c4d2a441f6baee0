"""Labels: what is none, one form whatever a system writes, and what looks like another label."""

from __future__ import annotations

import json
import tarfile
import unicodedata
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from small_sets import labels, read, save, write

from counterfactory.engine.keys import content_key
from counterfactory.engine.sources.labels import alike, label_text, whole_number, whole_numbers

NFC, NFD = (unicodedata.normalize(form, "Köfferli") for form in ("NFC", "NFD"))
NOTHING = (None, float("nan"), np.float32("nan"), "", " ", "nan", "NaN", "-nan", "None", "null", "NULL", "<NA>", "N/A")


@pytest.mark.parametrize("value", NOTHING)
def test_what_stands_for_no_label(value: object) -> None:
    assert label_text(value) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((3, "3"), (3.0, "3"), (np.float32(3), "3"), (np.int64(7), "7"), (0.5, "0.5"), (float("inf"), "inf")),
        *((True, "True"), (2**60, str(2**60)), (NFD, NFC)),
        *((text, text) for text in ("3.0", NFC, " bus", "nanny", "no ne", "none", "NA", "Nonesuch", "n01440764")),
    ],
)
def test_other_values_are_labels(value: object, text: str) -> None:
    assert label_text(value) == text


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_plain_labels_are_kept_to_the_letter(text: str) -> None:
    """A label is part of its source's key: another would paint a suite anew."""
    assert label_text(text) in (text, None)


def test_whole_numbers_are_so_as_a_column() -> None:
    assert whole_numbers(["3.0", "3", None, "-1.00", "03.0"]) == ["3", "3", None, "-1", "03"]
    assert whole_numbers(["3.0", "3.5"]) == ["3.0", "3.5"]
    assert whole_numbers(["3.0", "bus"]) == ["3.0", "bus"]
    for text in ("3.05", "v3.0", "1e3.0", "3."):
        assert whole_number(text) == text


def test_labels_that_look_alike() -> None:
    groups = [["Bus", "bus", "bus "], ["fire truck", "fire_truck", "FIRE-truck"], ["01", "1", "1.0"], ["ﬁre", "fire"]]
    assert list(alike([*(text for group in groups for text in group), "-1", "10"])) == groups


def test_class_folders_in_two_unicode_forms_are_one_class(tmp_path: Path) -> None:
    root = tmp_path / "set"
    for i, name in enumerate((f"{NFC}/a.png", f"{NFD}/b.png", f"{NFC}/c.png", f"{NFD}/c.png", "Auto/a.png")):
        save(root / name, i)
    data = read(root)
    composed = {(f"{form}/{name}", NFC) for form, name in ((NFC, "a"), (NFD, "b"), (NFC, "c"), (NFD, "c"))}
    assert set(labels(data)) == {*composed, ("Auto/a", "Auto")}
    assert len(data.sources) == 5
    assert {str(source.path.relative_to(root)) for source in data.sources} >= {f"{NFD}/b.png", f"{NFC}/a.png"}
    assert data.notes == [
        f"labels in two Unicode forms are one class: {NFC}",
        f"1 names are there in two Unicode forms, which macOS takes for one, the first is {NFC}/c",
    ]
    assert data.record()["labels"] == ["Auto", NFC, NFC], "a class for each folder, where folders are numbered"
    source = next(source for source in data.sources if source.name == "Auto/a")
    assert source.key == content_key("Auto/a", source.digest, "Auto", None)


def test_labels_lie_in_the_order_of_their_folders(tmp_path: Path) -> None:
    """As torchvision's ImageFolder numbers them, by the names on the disk."""
    for i, name in enumerate((unicodedata.normalize("NFD", "Äpfel"), "Birne", "Zitrone")):
        save(tmp_path / name / "a.png", i)
    assert read(tmp_path).labels == ("Äpfel", "Birne", "Zitrone")
    for i, name in enumerate(("0", "10", "2")):
        save(tmp_path / "numbered" / name / "a.png", i)
    names = write(tmp_path / "names.txt", "\n".join(f"class {i}" for i in range(11)))
    assert read(tmp_path / "numbered", class_map=str(names)).labels == ("class 0", "class 10", "class 2")


def test_folders_that_differ_by_case_or_space_are_said_and_kept_apart(tmp_path: Path) -> None:
    for i, name in enumerate(("BUS", "bus", "car", "car ", "tram")):
        save(tmp_path / name / "a.png", i)
    data = read(tmp_path)
    assert {label for _, label in labels(data)} == {"BUS", "bus", "car", "car ", "tram"}
    assert data.notes == ["labels that look alike are classes of their own: 'BUS' and 'bus', 'car' and 'car '"]


def test_a_folder_named_for_nothing_is_no_class_and_said(tmp_path: Path) -> None:
    for i, name in enumerate(("nan/a", "nan/b", "bus/c", "none/d")):
        save(tmp_path / f"{name}.png", i)
    data = read(tmp_path)
    assert sorted(labels(data), key=str) == [("bus/c", "bus"), ("nan/a", None), ("nan/b", None), ("none/d", "none")]
    assert data.notes == ["the label 'nan' is read as none (images: 2); rename it if it is a class"]
    assert data.record()["labels"] == ["bus", "nan", "none"], "as folders are numbered"


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_tables_have_no_label_where_a_program_wrote_none(suffix: str, tmp_path: Path) -> None:
    values = ("bus", *NOTHING[1:2], *NOTHING[3:], NFD)
    for i in range(len(values)):
        save(tmp_path / f"{i:02}.png", i)
    rows = ({"image": f"{i:02}.png", "label": value} for i, value in enumerate(values))
    lines = {".csv": ["image,label", *(f"{i:02}.png,{value}" for i, value in enumerate(values))]}
    lines[".jsonl"] = list(map(json.dumps, rows))
    data = read(write(tmp_path / f"t{suffix}", "\n".join(lines[suffix])))
    assert [label for _, label in labels(data)] == ["bus", *[None] * (len(values) - 2), NFC]
    assert (data.problems, data.record()["labels"]) == ([], [NFC, "bus"])


@pytest.mark.parametrize(
    ("cells", "read_as"),
    [
        (("3.0", "1.0", ""), ["3", "1", None]),
        (("3.0", "1", "nan"), ["3", "1", None]),
        (("3.0", "1.5", "x"), ["3.0", "1.5", "x"]),
    ],
)
def test_a_column_of_whole_floats_is_of_numbers(cells: tuple[str, ...], read_as: list[str], tmp_path: Path) -> None:
    rows = [f"set/{save(tmp_path / 'set' / f'{i}.png', i).name},{cell}\n" for i, cell in enumerate(cells)]
    table = write(tmp_path / "t.csv", "image,label\n" + "".join(rows))
    assert [label for _, label in labels(read(table))] == read_as
    assert [label for _, label in labels(read(tmp_path / "set", labels=table))] == read_as


@pytest.mark.parametrize(
    ("feature", "cells", "read_as"),
    [
        ("float32", [1.0, float("nan"), 0.0, None], ["1", None, "0", None]),
        ("float64", [1.0, 0.5, 0.0, None], ["1", "0.5", "0", None]),
        ("string", ["bus", "nan", NFD, "<NA>"], ["bus", None, NFC, None]),
        ("string", ["2.0", "1.0", "", None], ["2", "1", None, None]),
        ("int64", [3, 1, None, 0], ["3", "1", None, "0"]),
    ],
)
def test_columns_of_the_hub(feature: str, cells: list[Any], read_as: list[str], tmp_path: Path) -> None:
    pictures = [Image.open(save(tmp_path / f"{i}.png", i)) for i in range(4)]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value(feature)})
    saved = datasets.Dataset.from_dict({"image": pictures, "label": cells}, features=features)
    saved.save_to_disk(tmp_path / "saved")
    assert [label for _, label in labels(read(tmp_path / "saved"))] == read_as


@pytest.mark.parametrize(
    ("data", "label"), [("nan", None), ("None", None), (NFD, NFC), ('{"label": NaN}', None), ('{"cls": 3.0}', "3")]
)
def test_labels_in_shards(data: str, label: str | None, tmp_path: Path) -> None:
    ending = "json" if data.startswith("{") else "cls"
    with tarfile.open(tmp_path / "a.tar", "w") as shard:
        for name in (str(save(tmp_path / "0.png")), str(write(tmp_path / f"0.{ending}", data))):
            shard.add(name, Path(name).name)
    assert [label for _, label in labels(read(tmp_path / "a.tar"))] == [label]


def test_a_class_map_names_labels_that_are_whole_floats(tmp_path: Path) -> None:
    names = write(tmp_path / "names.txt", "bus\ncar\n")
    for i, name in enumerate(("0.0", "1.0")):
        save(tmp_path / "set" / name / "a.png", i)
    assert labels(read(tmp_path / "set", class_map=str(names))) == [("0.0/a", "bus"), ("1.0/a", "car")]
