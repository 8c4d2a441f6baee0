"""Boxes are judged as a set: what their numbers mean, which leave their pictures, and which are none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_sets import read, reasons, refuse, save, write

from counterfactory.engine.sources.boxes import FORMS, BoxForm, box_of
from counterfactory.engine.sources.shapes import Box

HEIGHT, WIDTH = 60, 80
Four = tuple[float, float, float, float]


def things(count: int) -> list[Four]:
    """True boxes x, y, width, height, all over the picture."""
    rng = np.random.default_rng(count)
    sizes = rng.integers(4, 40, (count, 2)).tolist()
    return [(float(rng.integers(0, WIDTH - w)), float(rng.integers(0, HEIGHT - h)), w, h) for w, h in sizes]


def corners(box: Four) -> Four:
    x, y, width, height = box
    return x, y, x + width, y + height


def centres(box: Four) -> Four:
    x, y, width, height = box
    return x + width / 2, y + height / 2, width, height


WRITTEN: dict[BoxForm, Callable[[Four], Four]] = {"sizes": lambda box: box, "corners": corners, "centres": centres}


def coco(root: Path, boxes: Iterable[Four], **more: Any) -> Path:
    """A picture of so many things, as they are written."""
    save(root / "a.png", 0, HEIGHT, WIDTH)
    about = [{"id": i, "image_id": 1, "category_id": 1, "bbox": list(box)} for i, box in enumerate(boxes)]
    for key, values in more.items():
        about = [one | {key: value} for one, value in zip(about, values, strict=True)]
    content = {"images": [{"id": 1, "file_name": "a.png"}], "categories": [{"id": 1, "name": "car"}]}
    return write(root / "instances_a.json", json.dumps({**content, "annotations": about})).parent


def yolo(root: Path, boxes: Iterable[Four]) -> Path:
    save(root / "images" / "a.png", 0, HEIGHT, WIDTH)
    scale = (WIDTH, HEIGHT) * 2
    lines = [" ".join(f"{n / s:.6f}" for n, s in zip(box, scale, strict=True)) for box in boxes]
    write(root / "labels" / "a.txt", "".join(f"0 {line}\n" for line in lines))
    return write(root / "data.yaml", "names: [car]\n").parent


def voc(root: Path, boxes: Iterable[Four], mark: str = "") -> Path:
    save(root / "JPEGImages" / "a.jpg", 0, HEIGHT, WIDTH)
    names = ("xmin", "ymin", "xmax", "ymax")
    sides = ["".join(f"<{k}>{v:.1f}</{k}>" for k, v in zip(names, box, strict=True)) for box in boxes]
    text = "".join(f"<object><name>car</name>{mark}<bndbox>{one}</bndbox></object>" for one in sides)
    write(root / "Annotations" / "a.xml", f"<annotation>{text}</annotation>")
    return root


SETS: dict[str, tuple[Callable[[Path, Iterable[Four]], Path], BoxForm]] = {
    "coco": (coco, "sizes"),
    "yolo": (yolo, "centres"),
    "voc": (voc, "corners"),
}


@pytest.mark.parametrize("layout", SETS)
@pytest.mark.parametrize("written", FORMS)
def test_numbers_that_mean_another_form_are_refused_with_what_to_say(
    layout: str, written: BoxForm, tmp_path: Path
) -> None:
    make, own = SETS[layout]
    true = things(24)
    root = make(tmp_path, map(WRITTEN[written], true))
    if written == own:
        assert read(root).notes == []
    else:
        refuse(rf"leave their pictures or have no sides; as .* they fit: say --boxes {written}, or --boxes {own}", root)
    (source,) = read(root, boxes=written).sources
    shift = 1 if layout == "voc" else 0  # which counts from 1
    assert len(source.boxes) == len(true)
    for box, (x, y, width, height) in zip(source.boxes, true, strict=True):
        assert (box.x0, box.y0, box.x1, box.y1) == pytest.approx((x, y, x + width, y + height), abs=shift + 0.01)


def test_few_boxes_show_corners_and_a_true_box_may_leave_its_picture(tmp_path: Path) -> None:
    refuse("1 of 1 boxes leave .* say --boxes corners", coco(tmp_path / "corners", [(30, 20, 70, 50)]))
    found = read(coco(tmp_path / "true", [(60, 30, 40, 20), (10, 10, 20, 20)]))
    assert found.sources[0].boxes == (Box(60, 30, 80, 50, "car"), Box(10, 10, 30, 30, "car"))
    assert found.notes == [
        "1 of 2 boxes (50 %) leave their pictures and are clipped, 1 of them by more than 10 % of their area; the "
        "first is in a"
    ]
    assert read(coco(tmp_path / "rounded", [(60, 30, 20.9, 20)])).notes == [], "less than a pixel"


def test_a_set_whose_things_leave_their_pictures_is_no_other_form(tmp_path: Path) -> None:
    """Every third thing is seen in part, on all sides."""
    true = [(x - 15.0 * (i % 3 == 0), y, w, h) for i, (x, y, w, h) in enumerate(things(30))]
    true[3], true[6] = (70, 40, 30, 15), (60, 50, 18, 30)
    assert "leave their pictures" in read(coco(tmp_path, true)).notes[0]


@pytest.mark.parametrize("make", [coco, voc])
def test_shares_are_no_pixels(make: Callable[[Path, Iterable[Four]], Path], tmp_path: Path) -> None:
    root = make(tmp_path, [(x / WIDTH, y / HEIGHT, w / WIDTH, h / HEIGHT) for x, y, w, h in things(3)])
    refuse("the numbers of 3 of 3 boxes lie between 0 and 1.*multiply them by the pictures' widths and heights", root)
    refuse("lie between 0 and 1", root, boxes="corners")


def test_an_area_tells_corners_where_no_box_leaves_its_picture(tmp_path: Path) -> None:
    small = [(10, 8, 6, 5), (3, 4, 7, 6), (20, 15, 9, 9)]
    areas = [w * h for _, _, w, h in small]
    root = coco(tmp_path / "one", map(corners, small), area=areas)
    refuse("the area of 3 of 3 boxes is another; as two corners .* say --boxes corners", root)
    assert [box.area for box in read(root, boxes="corners").sources[0].boxes] == areas
    assert read(root, boxes="sizes").notes == []
    assert read(coco(tmp_path / "two", small, area=areas)).notes == []
    # COCO's own is that of the outline, which is smaller than the box.
    assert read(coco(tmp_path / "three", small, area=[0.6 * area for area in areas])).notes == []


def test_the_form_is_said_of_boxes_only(tmp_path: Path) -> None:
    said = "--boxes is about boxes of datasets, coco, yolo, voc; the layout folders has no such"
    refuse(said, save(tmp_path / "bus" / "a.png").parents[1], boxes="corners")


@pytest.mark.parametrize("form", FORMS)
def test_forms_by_their_definition(form: BoxForm) -> None:
    assert box_of(WRITTEN[form]((3, 4, 10, 20)), form, "car") == Box(3, 4, 13, 24, "car")


@pytest.mark.parametrize(("crowds", "left"), [([0, 0, 0, 1], 3), ([0, 0, 1, 1], 2), ([0, 1, 1, 1], 4), ([1] * 4, 4)])
def test_crowds_have_no_box_unless_nearly_all_are_marked(crowds: list[int], left: int, tmp_path: Path) -> None:
    found = read(coco(tmp_path, things(4), iscrowd=crowds))
    assert len(found.sources[0].boxes) == left
    what = "they are taken for single things" if left == 4 else "and are left out; where they are single things"
    (note,) = found.notes
    assert f"{sum(crowds)} of 4 boxes are marked as crowds (iscrowd 1)" in note
    assert what in note


def test_annotations_without_a_box_are_counted(tmp_path: Path) -> None:
    root = coco(tmp_path, [(1, 2, 3, 4), ()])  # type: ignore[list-item]
    assert read(root).notes == ["instances_a.json: 1 annotations have no bbox, and give no box"]


def test_coco_s_images_are_those_of_its_split_and_size(tmp_path: Path) -> None:
    """The same names in images/, in the folder of the split, and in one of another size."""
    root = coco(tmp_path / "set", things(2))
    (root / "a.png").unlink()
    about = json.loads((root / "instances_a.json").read_text())
    (root / "instances_a.json").unlink()
    file = write(root / "annotations" / "instances_val.json", json.dumps(about))
    save(root / "images" / "a.png", 1, HEIGHT, WIDTH)
    assert read(root).sources[0].path == root / "images" / "a.png"
    save(root / "val" / "a.png", 2, HEIGHT, WIDTH)
    found = read(root)
    assert found.sources[0].path == root / "val" / "a.png"
    assert f"its images are taken from {root / 'val'}; {root / 'images'} has files of these names too" in found.notes[0]
    about["images"][0] |= {"width": WIDTH, "height": HEIGHT}
    file.write_text(json.dumps(about))
    save(root / "val" / "a.png", 2, HEIGHT, WIDTH + 8)
    found = read(root)
    assert (found.sources[0].path, found.problems) == (root / "images" / "a.png", [])


def test_voc_s_marks_are_said(tmp_path: Path) -> None:
    marks = "<truncated>1</truncated><difficult>0</difficult>"
    found = read(voc(tmp_path, map(corners, things(3)), marks))
    said = "3 are marked truncated: these boxes are taken as the others are, and the marks are left out"
    assert found.notes == [said]
    assert read(voc(tmp_path, map(corners, things(3)))).notes == []


def lines(root: Path, made: Iterable[Iterable[float]]) -> Path:
    """A set of YOLO's with these lines of numbers after the class."""
    yolo(root, [])
    write(root / "labels" / "a.txt", "".join(f"0 {' '.join(f'{n:.5f}' for n in line)}\n" for line in made))
    return root


def pose(rng: np.random.Generator, points: int, numbers: int) -> list[float]:
    """A box and points within it."""
    width, height = rng.uniform(0.1, 0.4, 2)
    x, y = rng.uniform(0.2, 0.8, 2)
    line = [x, y, width, height]
    for _ in range(points):
        line += [x + rng.uniform(-0.5, 0.5) * width, y + rng.uniform(-0.5, 0.5) * height]
        line += [float(rng.integers(0, 3))] if numbers == 3 else []
    return line


@pytest.mark.parametrize(("points", "numbers"), [(5, 2), (17, 2), (4, 3), (6, 3)])
def test_keypoints_that_the_file_does_not_name_are_no_outlines(points: int, numbers: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(points)
    made = [pose(rng, points, numbers) for _ in range(8)]
    refuse(rf"look like a box and keypoints .* add kpt_shape: .*\[{points}, {numbers}\]", lines(tmp_path, made))
    write(tmp_path / "data.yaml", f"names: [car]\nkpt_shape: [{points}, {numbers}]\n")
    assert {len(box.keypoints) for box in read(tmp_path).sources[0].boxes} == {points}


@pytest.mark.parametrize("count", [3, 5, 8])
def test_outlines_of_one_length_are_outlines(count: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(count)
    made = []
    for _ in range(8):
        radius, angles = rng.uniform(0.05, 0.2), np.sort(rng.uniform(0, 6.28, count))
        x, y = rng.uniform(0.3, 0.7, 2)
        made.append([n for a in angles for n in (x + radius * np.cos(a), y + radius * np.sin(a))])
    found = read(lines(tmp_path, made))
    assert (len(found.sources[0].boxes), found.sources[0].mask_path is not None, found.notes) == (8, True, [])


def test_lines_of_another_kind_are_said(tmp_path: Path) -> None:
    turned = [0.2, 0.3, 0.5, 0.2, 0.6, 0.5, 0.3, 0.6]
    said = "all lines have four points, as turned boxes have: upright boxes around them are taken"
    assert read(lines(tmp_path / "a", [turned, turned])).notes == [said]
    said = "1 of 2 lines are outlines among boxes: the box around each is taken, and a picture with both has no mask"
    assert read(lines(tmp_path / "b", [turned, [0.5] * 4])).notes == [said]
    odd = lines(tmp_path / "c", [[0.5] * 55, [0.5] * 4])
    assert reasons(read(odd))["images/a.png"].endswith("keypoints are read where the YAML file says kpt_shape")
    far = lines(tmp_path / "d", [[0.2, 0.3, 0.5, 0.2, 0.6, 2]])
    assert "an outline's points are shares of the picture" in reasons(read(far))["images/a.png"]
    beyond = lines(tmp_path / "e", [[0.2, 0.3, 0.5, 0.2, 0.6, 1.01]])
    assert read(beyond).sources[0].boxes[0].y1 == HEIGHT, "as far as the picture goes"
