"""Draws of a data set: by a seed, the same whatever lies beside, as many as asked for as long as there are."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_sets import read, save, save_mask, write

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.sources.sampling import Selection, parse_classes


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four classes of six pictures, of which one is broken in each of two classes."""
    path = tmp_path_factory.mktemp("set")
    for i, label in enumerate(("ant", "bee", "cat", "dog")):
        for j in range(6):
            save(path / label / f"{j}.png", 10 * i + j, 8, 8)
    (path / "ant" / "0.png").write_bytes(b"broken")
    (path / "bee" / "3.png").write_bytes(b"broken")
    return path


def drawn(root: Path, **selection: object) -> list[str]:
    return [source.name for source in read(root, selection=Selection(**selection)).sources]  # type: ignore[arg-type]


def test_a_sample_is_no_prefix_and_a_larger_one_holds_it(root: Path) -> None:
    every = drawn(root)
    few, more = drawn(root, sample=6), drawn(root, sample=12)
    assert (len(every), len(few), len(more)) == (22, 6, 12)
    assert set(few) < set(more) < set(every)
    assert few == sorted(few) != every[:6]
    assert len({name[0] for name in few}) > 1
    assert drawn(root, sample=6) == few != drawn(root, sample=6, seed=1)


def test_a_draw_does_not_move_when_pictures_are_added_elsewhere(root: Path, tmp_path: Path) -> None:
    few = drawn(root, per_class=2)
    assert [name[:3] for name in few] == ["ant", "ant", "bee", "bee", "cat", "cat", "dog", "dog"]
    for label in ("ant", "bee", "cat", "dog"):
        (tmp_path / label).symlink_to(root / label)
    save(tmp_path / "eel" / "1.png", 99)
    assert [name for name in drawn(tmp_path, per_class=2) if not name.startswith("eel")] == few
    shown = set(drawn(tmp_path, sample=6)) - {"eel/1"}
    assert shown <= set(drawn(root, sample=6))


def test_a_picture_that_cannot_be_used_is_replaced_and_the_record_says_what_was_drawn(root: Path) -> None:
    found = read(root, selection=Selection(per_class=5))
    assert (len(found.sources), found.notes) == (20, [])
    assert {source.label for source in found.sources} == {"ant", "bee", "cat", "dog"}
    found = read(root, selection=Selection(per_class=6))
    assert (len(found.sources), len(found.problems)) == (22, 2)
    assert found.notes == ["classes with fewer than 6 usable images: ant (5), bee (5)"]
    assert read(root, selection=Selection(sample=30)).notes == ["30 sources were asked for, and 22 can be used"]
    record = read(root, selection=Selection(classes=("ant",), per_class=2, seed=5)).record()
    chosen = {"classes": ("ant",), "per_class": 2, "sample": None, "seed": 5}
    assert record == {"layout": "folders", "selection": chosen, "classes": {}, "labels": ["ant", "bee", "cat", "dog"]}


def test_pictures_that_are_not_drawn_are_not_opened(tmp_path: Path) -> None:
    for i in range(40):
        write(tmp_path / f"{i}.png", "broken")
    save(tmp_path / "good.png")
    assert len(read(tmp_path).problems) == 40 > len(read(tmp_path, selection=Selection(sample=1)).problems)


def test_classes_by_name(root: Path, tmp_path: Path) -> None:
    assert {name[:3] for name in drawn(root, classes=("dog", "bee"))} == {"dog", "bee"}
    assert [name[:3] for name in drawn(root, classes=("dog", "bee"), per_class=1)] == ["bee", "dog"]
    with pytest.raises(CounterfactoryError, match="the set has no class 'dgo'; did you mean 'dog'"):
        drawn(root, classes=("dgo",))
    assert parse_classes("dog, cat,,dog") == ("dog", "cat")
    assert parse_classes(str(write(tmp_path / "c.txt", "n02099601\n\n big dog \n"))) == ("n02099601", "big dog")
    with pytest.raises(CounterfactoryError, match="names no class"):
        parse_classes(" , ")
    save(tmp_path / "a.png")
    with pytest.raises(CounterfactoryError, match="--per-class needs labels, and the set has none"):
        drawn(tmp_path, per_class=1)
    save(tmp_path / "cat" / "b.png", 1)
    assert drawn(tmp_path, per_class=1) == ["cat/b"], "of what has no label none is drawn"


def test_classes_that_a_mask_shows(tmp_path: Path) -> None:
    for i, values in enumerate(((1, 2), (2, 2), (1, 1), (3, 2))):
        save(tmp_path / "images" / f"{i}.png", i)
        save_mask(tmp_path / "masks" / f"{i}.png", values)
    names = str(write(tmp_path / "map.toml", '[classes]\n1 = "car"\n2 = "road"\n3 = "bus"\n'))

    def shown(*classes: str, sample: int | None = None) -> list[str]:
        found = read(tmp_path, class_map=names, selection=Selection(classes=classes, sample=sample))
        assert found.problems == []
        return [source.name for source in found.sources]

    assert shown("car") == ["0", "2"]
    assert shown("car", "bus") == ["0", "2", "3"]
    assert len(shown("car", sample=1)) == 1
    assert shown("car", sample=2) == ["0", "2"]
    with pytest.raises(CounterfactoryError, match="the set has no class 'zebra'; choose from: bus, car, road"):
        shown("zebra")


def test_one_picture_under_two_labels_is_said(tmp_path: Path) -> None:
    save(tmp_path / "car" / "a.png")
    save(tmp_path / "bus" / "b.png")
    found = read(tmp_path)
    said = "1 image is there under two labels, the first as bus/b (bus) and car/a (car): remove the wrong ones"
    assert (len(found.sources), found.notes) == (2, [said])
