"""Which folders are labels: classes recur below conditions, and what was done to a class recurs below it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pytest
from small_sets import labels, read, save

from counterfactory.engine.sources.class_folders import label_folders

SYNSETS = ("n01440764", "n01443537")
ANIMALS = ("cat", "dog", "owl")


def labels_of(*levels: Iterable[str], first: bool = False) -> tuple[str | None, ...]:
    """The labels of a picture in each of the folders that the levels' names make."""
    paths = [f"{'/'.join(parts)}/{i}.jpg" for i, parts in enumerate(product(*levels))]
    _, label_of = label_folders(paths, first=first)
    return tuple(sorted({label_of(path) for path in paths}, key=str))


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ((ANIMALS,), ANIMALS),
        ((tuple(map(str, range(10))),), tuple(map(str, range(10)))),
        ((tuple(map(str, range(1, 6))),), tuple(map(str, range(1, 6)))),
        (("13", SYNSETS), SYNSETS),
        (("3", SYNSETS), SYNSETS),
        ((["fog"], "13", SYNSETS), SYNSETS),
        ((["fog", "gaussian_noise"], "12345", ANIMALS), ANIMALS),
        ((["my_fancy_filter", "another"], "12345", ANIMALS), ANIMALS),
        ((["fog", "snow"], "12345", "0123456789"), tuple("0123456789")),
        (("12345", "0123456789"), tuple("0123456789")),
        (("0123456789", "12345"), tuple("0123456789")),
        ((["train", "val"], ["fog", "snow"], "135", ANIMALS), ANIMALS),
        ((["imagenet-c"], ["train", "val"], ["frost"], "135", SYNSETS), SYNSETS),
        ((["level_1", "level_3"], ANIMALS), ANIMALS),
        ((["cam0", "cam1", "cam2"], ["bus", "car"]), ("bus", "car")),
        ((["front", "rear"], ["bus", "car"]), ("bus", "car")),
        ((["fog"], ["bus", "car"]), ("bus", "car")),
        ((["amazon", "webcam"], ANIMALS), ANIMALS),
        ((["bus", "car"], ["front", "rear"]), ("bus", "car")),
        ((["bus", "car"], ["seq_0001", "seq_0002"]), ("bus", "car")),
        ((ANIMALS, ["train", "test"]), ANIMALS),
        ((ANIMALS, ["images"]), ANIMALS),
        ((ANIMALS, "12"), ANIMALS),
        ((["photos"], ANIMALS), ("photos",)),
        ((["photos"], ANIMALS, ["left", "right"]), ("photos",)),
        # Nothing tells.
        ((["bus", "car"], ["london", "paris"]), (None,)),
        ((["fog", "snow"], "12345"), (None,)),
        (("12345", "12345"), (None,)),
    ],
    ids=str,
)  # fmt: skip
def test_levels_of_folders(levels: tuple[Iterable[str], ...], expected: tuple[str | None, ...]) -> None:
    assert labels_of(*levels) == expected


def test_levels_that_do_not_repeat_each_other_are_classes_and_what_is_in_them(tmp_path: Path) -> None:
    for i, name in enumerate(("animal/dog", "animal/cat", "vehicle/car", "vehicle/bus")):
        save(tmp_path / name / "a.png", i)
    assert {label for _, label in labels(read(tmp_path))} == {"animal", "vehicle"}


def test_folders_that_lack_a_class_and_stray_pictures_change_nothing() -> None:
    paths = [f"{c}/{s}/{label}/{i}.jpg" for c, s, label, i in product(("fog", "snow"), "135", ANIMALS, range(3))]
    paths = [path for path in paths if not path.startswith("fog/3/owl")] + ["about.jpg"]
    _, label_of = label_folders(paths)
    assert {label_of(path) for path in paths} == {*ANIMALS, None}


def test_the_levels_are_said_and_folders_takes_the_first(tmp_path: Path) -> None:
    for i, parts in enumerate(product(("fog", "snow"), "13", SYNSETS)):
        save(tmp_path / "/".join(parts) / "a.png", i)
    found = read(tmp_path)
    assert {source.label for source in found.sources} == set(SYNSETS)
    assert [note.partition(", which")[0] for note in found.notes] == [
        "1, 3 recur below each of fog, snow", f"{', '.join(SYNSETS)} recur below each of 1, 3",
    ]  # fmt: skip
    assert {source.label for source in read(tmp_path, layout="folders").sources} == {"fog", "snow"}
    inner = read(tmp_path / "fog" / "3")
    assert ({source.label for source in inner.sources}, inner.notes) == (set(SYNSETS), [])


def test_what_cannot_be_told_is_said_with_what_to_do(tmp_path: Path) -> None:
    for i, parts in enumerate(product(("bus", "car"), ("london", "paris"))):
        save(tmp_path / "/".join(parts) / "a.png", i)
    found = read(tmp_path)
    assert {source.label for source in found.sources} == {None}
    (note,) = found.notes
    assert "london, paris recur below each of bus, car" in note
    assert "--layout folders takes bus, car" in note


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("n01440764_tench.JPEG", "n01443537_18.JPEG"), SYNSETS),
        (("ILSVRC2012_val_00000293_n01440764.JPEG", "ILSVRC2012_val_00000294_n01443537.JPEG"), SYNSETS),
        (("n01440764_10026_n01440764.JPEG", "n01443537.png"), SYNSETS),
        (("n01440764_tench.JPEG", "other.JPEG"), (None,)),
        (("n014407645_tench.JPEG", "n01443537_a.JPEG"), (None,)),
    ],
)
def test_synsets_in_the_names_of_flat_files(
    names: tuple[str, ...], expected: tuple[str | None, ...], tmp_path: Path
) -> None:
    for i, name in enumerate(names):
        save(tmp_path / name, i)
    found = read(tmp_path)
    assert tuple(sorted({source.label for source in found.sources}, key=str)) == expected
    assert bool(found.notes) == (expected == SYNSETS)
