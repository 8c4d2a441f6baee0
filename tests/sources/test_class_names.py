"""Labels that are numbers get the names that a file has for them: lists, JSON of published models, class maps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_sets import read, save

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.sources.class_map import label_names, load_class_map


@pytest.fixture
def numbered(tmp_path: Path) -> Path:
    """Class folders 0, 1 and 02."""
    for i, folder in enumerate(("0", "1", "02")):
        save(tmp_path / "set" / folder / "a.png", i)
    return tmp_path / "set"


def labels(root: Path, named: Path) -> list[str | None]:
    return [source.label for source in read(root, class_map=str(named)).sources]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("names.txt", "cat\ndog\nfire truck\n\n", ["cat", "fire truck", "dog"]),
        ("LOC_synset_mapping.txt", "n01 cat\nn02099601 golden retriever\n x \n", ["n01 cat", "x", "n02099601"]),
        ("names.json", '["cat", "dog", "bus"]', ["cat", "bus", "dog"]),
        ("plain.json", '{"2": "bus", "0": "cat", "1": "dog"}', ["cat", "bus", "dog"]),
        (
            "imagenet_class_index.json",
            '{"0": ["n01440764", "tench"], "1": ["n01443537", "goldfish"], "2": ["crane", "x"]}',
            ["n01440764", "crane", "n01443537"],
        ),
        ("map.json", '{"classes": {"0": "cat", "1": "dog", "2": "dog"}}', ["cat", "dog", "dog"]),
        ("map.toml", 'ignore = [9]\n[classes]\n0 = "cat"\n1 = "dog"\n2 = "bus"\n', ["cat", "bus", "dog"]),
    ],
)
def test_files_of_names(name: str, text: str, expected: list[str], numbered: Path, tmp_path: Path) -> None:
    """In the order of the folders: 0, 02, 1."""
    file = tmp_path / name
    file.write_text(text)
    assert labels(numbered, file) == expected


def test_the_numbers_of_a_table_and_the_record(tmp_path: Path) -> None:
    """As many names as ImageNet has, 255 among them, which marks nothing in a label."""
    for i in range(2):
        save(tmp_path / f"{i}.png", i)
    (tmp_path / "labels.csv").write_text("image,label\n0.png,255\n1.png,999\n")
    names = tmp_path / "names.txt"
    names.write_text("".join(f"thing {i}\n" for i in range(1000)))
    found = read(tmp_path, labels=tmp_path / "labels.csv", class_map=str(names))
    assert [source.label for source in found.sources] == ["thing 255", "thing 999"]
    assert found.record()["classes"]["255"] == "thing 255"
    assert found.notes == []


def test_a_list_names_the_numbers_in_masks_too(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("sky\nroad\n")
    found = load_class_map(str(tmp_path / "names.txt"))
    assert (found.names, found.numbers) == ({0: "sky", 1: "road"}, {0: 0, 1: 1, 255: 255})


def test_two_numbers_of_one_name_are_said(numbered: Path, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("crane\ndog\ncrane\ndog\nbus\nbus\nox\nox\n")
    (said,) = read(numbered, class_map=str(tmp_path / "names.txt")).notes
    assert said == (
        "names that stand for several numbers, whose images have one label: crane (0, 2), dog (1, 3), bus (4, 5) "
        "and 1 more"
    )


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "names.txt",
            "cat\ndog\n",
            r"does not name the label '02' of 02/a\.png; add it, or leave --class-map",
        ),
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
    (tmp_path / name).write_text(text)
    with pytest.raises(CounterfactoryError, match=said):
        read(numbered, class_map=str(tmp_path / name))


def test_labels_that_are_words_are_not_renamed(tmp_path: Path) -> None:
    save(tmp_path / "set" / "cat" / "a.png")
    (tmp_path / "names.json").write_text(json.dumps(["dog"]))
    with pytest.raises(CounterfactoryError, match="does not name the label 'cat'"):
        read(tmp_path / "set", class_map=str(tmp_path / "names.json"))
    assert label_names("voc")[0][1] == "aeroplane"
