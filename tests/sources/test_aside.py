"""Masks and thumbnails beside photographs are no sources; no photograph is lost by its name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small_sets import labels, read, reasons, write

from counterfactory.engine.pocket.worlds import EMBEDDED


def scene(path: Path, seed: int, side: int = 64) -> Path:
    """A picture that is no noise, so that a small one of it is like it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = EMBEDDED.draw(EMBEDDED.sample(np.random.default_rng(seed))).picture
    Image.fromarray(picture).resize((side, side)).save(path)
    return path


def mask(path: Path, values: tuple[int, ...] = (0, 255)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = np.resize(np.repeat(np.array(values, np.uint8), 9), (64, 1))
    Image.fromarray(rows.repeat(64, 1)).save(path)
    return path


@pytest.mark.parametrize(
    ("photo", "name"),
    [
        *(("a.png", f"a{word}.png") for word in ("_mask", "-seg", " label", ".gt", "_Mask", "_labels")),
        *(("a (1).png", "a (1)_mask.png"), ("a.jpg", "a_mask_1.png"), ("a.jpg", "mask_a.png"), ("a.jpg", "a.png")),
        *(("a.jpg", "a_segmentation.jpg"), ("a.png", "a(mask).png"), ("a.jpg", "masks/a.png")),
        *(("images/a.jpg", "masks/a_mask.png"), ("images/a.jpg", "gt/a.bmp")),
    ],
)
@pytest.mark.parametrize("values", [(0, 255), (0, 1, 2, 7)])
def test_masks_beside_photographs_are_left_out(photo: str, name: str, values: tuple[int, ...], tmp_path: Path) -> None:
    for i, label in enumerate(("bus", "car")):
        scene(tmp_path / label / photo, i)
        mask(tmp_path / label / name, values)
    found = read(tmp_path)
    stem = photo.rpartition(".")[0]
    assert labels(found) == [(f"bus/{stem}", "bus"), (f"car/{stem}", "car")]
    first = f"masks of other pictures are left out: 2, the first is bus/{name} beside bus/{photo}: "
    assert found.notes[0].startswith(first)
    assert len(read(tmp_path, layout="folders").sources) == 4, "the way out, which the note names"


def test_the_note_s_options_take_them_as_masks(tmp_path: Path) -> None:
    for i in range(3):
        scene(tmp_path / "alike" / "bus" / f"{i}.png", i)
        mask(tmp_path / "alike" / "bus" / f"{i}_mask.png")
        scene(tmp_path / "apart" / "img" / f"{i}.png", i)
        mask(tmp_path / "apart" / "mask" / f"{i}.png")
    pattern = "{stem}.png={stem}_mask.png"
    assert f"--pairs '{pattern}' takes them as masks" in read(tmp_path / "alike").notes[0]
    found = read(tmp_path / "alike", pairs=pattern)
    assert ([s.name for s in found.sources], reasons(found)) == (["bus/0", "bus/1", "bus/2"], {})
    assert all(source.mask_path for source in found.sources)
    folder = tmp_path / "apart" / "mask"
    assert f"--masks {folder} takes them as masks" in read(tmp_path / "apart").notes[0]
    assert all(source.mask_path for source in read(tmp_path / "apart", masks=folder).sources)


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("a.png", "a_label.png"), "a photograph of a label"),
        (("a_mask.png", "b_mask.png"), "nothing is beside them"),
        (("a.jpg", "a.png"), "both are photographs"),
        (("mask/a.png", "no_mask/a.png"), "classes"),
        (("a.png", "a_small.png"), "of one size"),
        (("images/a.png", "small/b.png"), "another name"),
    ],
)
def test_photographs_stay(names: tuple[str, ...], why: str, tmp_path: Path) -> None:
    for i, name in enumerate(names):
        scene(tmp_path / "bus" / name, i)
    found = read(tmp_path)
    assert (len(found.sources), found.notes) == (len(names), []), why


def test_thumbnails_are_left_out_and_small_pictures_of_something_else_are_not(tmp_path: Path) -> None:
    for i in range(3):
        scene(tmp_path / "bus" / f"{i}.png", i, 128)
        for name in (f"{i}_thumb", f"thumb_{i}", f"{i}-64x64", f"thumbs/{i}"):
            scene(tmp_path / "bus" / f"{name}.png", i)
        Image.effect_noise((40, 40), 90).save(tmp_path / "bus" / f"{i}_small.png")
    found = read(tmp_path)
    assert [source.name for source in found.sources] == [f"bus/{i}{tail}" for i in range(3) for tail in ("", "_small")]
    said = "thumbnails of other pictures are left out: 12, the first is bus/0-64x64.png beside bus/0.png"
    assert found.notes == [f"{said}: --layout folders takes them as photographs"]


def test_a_table_says_which_pictures_are_meant(tmp_path: Path) -> None:
    scene(tmp_path / "a.png", 0)
    mask(tmp_path / "a_mask.png")
    table = write(tmp_path / "metadata.csv", "image,label\na.png,bus\na_mask.png,mask\n")
    assert labels(read(tmp_path, labels=table)) == [("a", "bus"), ("a_mask", "mask")]
