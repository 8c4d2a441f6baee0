"""`counterfactory generate` on data sets as their publishers pack them: truths arrive in the suite with their names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Command
from PIL import Image
from streets import save_picture

from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.sources.shapes import Box
from counterfactory.engine.suite import PictureRow, read_metadata, read_run

SIDE = 128


def street(path: Path, seed: int) -> None:
    """A rendered street, which the pocket's models know, also as a JPEG of high quality."""
    save_picture(path, EMBEDDED.draw(EMBEDDED.sample(np.random.default_rng(seed))).picture, quality=95)


def halves(path: Path, upper: Any, lower: Any) -> None:
    """A mask of two halves."""
    mask = np.zeros((SIDE, SIDE, *np.shape(upper)), np.uint8)
    mask[: SIDE // 2], mask[SIDE // 2 :] = upper, lower
    save_picture(path, mask)


def imagenet(root: Path) -> None:
    for i, synset in enumerate(("n02930766", "n04467665", "n02924116")):
        street(root / synset / f"{synset}_{i}.JPEG", i)


def coco(root: Path) -> None:
    street(root / "val2017" / "000000000139.jpg", 0)
    image = {"id": 139, "file_name": "000000000139.jpg", "height": SIDE, "width": SIDE}
    square = [8, 16, 40, 16, 40, 48, 8, 48]
    thing = {
        "id": 1,
        "image_id": 139,
        "category_id": 3,
        "bbox": [8, 16, 32, 32],
        "segmentation": [square],
        "iscrowd": 0,
    }
    content = {"images": [image], "annotations": [thing], "categories": [{"id": 3, "name": "car"}]}
    (root / "annotations").mkdir()
    (root / "annotations" / "instances_val2017.json").write_text(json.dumps(content))


def shift(root: Path) -> None:
    street(root / "img" / "007b-4e72" / "00000010_img_front.jpg", 0)
    halves(root / "semseg" / "007b-4e72" / "00000010_semseg_front.png", (13, 9, 9, 255), (7, 0, 0, 255))


def camvid(root: Path) -> None:
    street(root / "test" / "0001TP_008550.png", 0)
    halves(root / "testannot" / "0001TP_008550.png", 0, 3)


def mask_of(suite: Path, row: PictureRow) -> np.ndarray:
    return np.asarray(Image.open(suite / str(row.mask)))


@pytest.mark.usefixtures("shared_answers")
@pytest.mark.parametrize(
    ("pack", "options", "names"),
    [
        (coco, ("--task", "segmentation"), {"0": "background", "3": "car"}),
        pytest.param(
            imagenet,
            (
                *("--task", "classification", "--classes", "n02930766,n04467665", "--sample", "1"),
                "--allow-ungrounded",  # the pictures are streets, whatever their folders are called
            ),
            {},
            marks=pytest.mark.slow,
        ),
        pytest.param(shift, ("--task", "segmentation"), None, marks=pytest.mark.slow),
        pytest.param(camvid, ("--task", "segmentation"), None, marks=pytest.mark.slow),
    ],
)
def test_generate_carries_truths_over(
    pack: Callable[[Path], None],
    options: tuple[str, ...],
    names: dict[str, str] | None,
    tmp_path: Path,
    run: Command,
) -> None:
    pack(tmp_path / "set")
    suite = tmp_path / "suite"
    status, out, err = run("generate", tmp_path / "set", "--out", suite, "--variants", "1", *options, "--json")
    assert status == 0, err
    if pack is not imagenet:
        notes = json.loads(out)["notes"]
        assert (notes[0].startswith("masks hold "), notes[1].startswith("names of classes: ")) == (True, True)
        assert "".join(f"{note}\n" for note in notes[:2]) in err
    rows, record = read_metadata(suite), read_run(suite)
    data = record.sessions[-1].facts.data
    assert len({row.source for row in rows}) == 1
    if pack is imagenet:
        assert {row.label for row in rows} <= {"n02930766", "n04467665"}
        assert (data["layout"], data["selection"]["sample"]) == ("folders", 1)
        return
    if names is not None:
        assert data["classes"] == names
    for row in rows:
        found = mask_of(suite, row)
        if pack is coco:
            assert row.boxes == (Box(8, 16, 40, 48, "car"),)
            assert (found[16:48, 8:40] == 3).all()
            assert np.count_nonzero(found) == 32 * 32
        else:
            shown = {data["classes"][str(number)] for number in np.unique(found).tolist()}
            assert (data["layout"], shown) == (pack.__name__, {"sky", "road"})


def white_car(root: Path) -> None:
    street(root / "images" / "0.png", 0)
    mask = np.zeros((SIDE, SIDE), np.uint8)
    mask[32:96, 16:80] = 255
    save_picture(root / "masks" / "0.png", mask)


SAID = (
    "masks hold background 75.0 %, object 25.0 %; every pixel counts; white is class 1 (--class-map names it, or says "
)


@pytest.mark.usefixtures("shared_answers", "counted_once")
@pytest.mark.parametrize("command", ["plan", "estimate"])
def test_what_masks_hold_is_said_before_anything_is_painted(command: str, tmp_path: Path, run: Command) -> None:
    white_car(tmp_path / "set")
    args = [command, tmp_path / "set", *(("--task", "segmentation") if command == "plan" else ())]
    (said,) = run.json(*args)["notes"]
    assert said.startswith(SAID)
    for more in ((), ("--json",)):
        status, _, err = run(*args, *more)
        assert (status, said in err) == (0, True)


@pytest.mark.slow
@pytest.mark.usefixtures("shared_answers")
def test_a_model_that_sees_nothing_in_black_and_white_masks(tmp_path: Path, run: Command) -> None:
    white_car(tmp_path / "set")
    suite = tmp_path / "suite"
    options = ("--task", "segmentation", "--variants", "1")
    run.text("generate", tmp_path / "set", "--out", suite, *options)
    scores = {}
    for model, factor in {"blind": 0, "numbers": 1, "white": 255}.items():
        for row in read_metadata(suite):
            save_picture(tmp_path / model / row.file_name, (factor * mask_of(suite, row)).astype(np.uint8))
        scores[model] = run.json("evaluate", suite, "--predictions", tmp_path / model)["originals"]["score"]["value"]
    assert scores == {"blind": 0.375, "numbers": 1, "white": 1}


@pytest.mark.usefixtures("shared_answers")
def test_detection_of_streets_keeps_what_boxes_show(tmp_path: Path, run: Command) -> None:
    """The pocket's language model was trained on no sentence of detection, and is put what it knows."""
    coco(tmp_path / "set")
    (source,) = run.json("plan", tmp_path / "set", "--task", "detection", "--variants", "2")["sources"]
    assert {"car", "street"} <= set(source["protected"])
    assert len(source["variants"]) == 2
    for variant in source["variants"]:
        assert variant["dropped"] is None
        assert "car" in variant["edited_caption"]
        assert variant["edited_caption"] != source["caption"]
