"""Boxes are judged as a set, follow their pixels, and outlines and run lengths cover what COCO's tools say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_sets import read, reasons, refuse, save, write

from counterfactory.engine.sources import shapes
from counterfactory.engine.sources.boxes import FORMS, BoxForm, box_of
from counterfactory.engine.sources.pixels import fit_mask
from counterfactory.engine.sources.shapes import Box, DrawnMask, Keypoint, Shape, cover, fit_boxes, outline, things

HEIGHT, WIDTH = 60, 80
Four = tuple[float, float, float, float]


def things_of(count: int) -> list[Four]:
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
    true = things_of(24)
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
    true = [(x - 15.0 * (i % 3 == 0), y, w, h) for i, (x, y, w, h) in enumerate(things_of(30))]
    true[3], true[6] = (70, 40, 30, 15), (60, 50, 18, 30)
    assert "leave their pictures" in read(coco(tmp_path, true)).notes[0]


@pytest.mark.parametrize("make", [coco, voc])
def test_shares_are_no_pixels(make: Callable[[Path, Iterable[Four]], Path], tmp_path: Path) -> None:
    root = make(tmp_path, [(x / WIDTH, y / HEIGHT, w / WIDTH, h / HEIGHT) for x, y, w, h in things_of(3)])
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
def test_crowds_are_no_things_unless_nearly_all_are_marked(crowds: list[int], left: int, tmp_path: Path) -> None:
    found = read(coco(tmp_path, things_of(4), iscrowd=crowds))
    assert (len(found.sources[0].boxes), len(found.sources[0].things)) == (4, left)
    what = (
        "they are taken for single things" if left == 4 else "is neither right nor wrong; where they are single things"
    )
    (note,) = found.notes
    assert f"{sum(crowds)} of 4 boxes are marked as crowds (iscrowd 1)" in note
    assert what in note


def test_annotations_without_a_box_are_counted(tmp_path: Path) -> None:
    root = coco(tmp_path, [(1, 2, 3, 4), ()])  # type: ignore[list-item]
    assert read(root).notes == ["instances_a.json: 1 annotations have no bbox, and give no box"]


def test_coco_s_images_are_those_of_its_split_and_size(tmp_path: Path) -> None:
    """The same names in images/, in the folder of the split, and in one of another size."""
    root = coco(tmp_path / "set", things_of(2))
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
    for mark, ignored in (("difficult", "difficult"), ("truncated", None)):
        found = read(voc(tmp_path / mark, map(corners, things_of(3)), f"<{mark}>1</{mark}><pose>0</pose>"))
        assert {box.ignored for box in found.sources[0].boxes} == {ignored}
        assert found.notes[0].startswith(f"3 boxes are marked {mark}: ")
    assert read(voc(tmp_path, map(corners, things_of(3)), "<difficult>0</difficult>")).notes == []


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


@pytest.mark.parametrize("seen", [(2, 1), (0, 1, 1, 0), (1, 1, 2, 0)])
def test_one_row_with_visibilities_is_told_from_an_outline(seen: tuple[int, ...], tmp_path: Path) -> None:
    points = [n for at, mark in enumerate(seen) for n in (0.45 + at / 50, 0.55, float(mark))]
    row = [0.5, 0.5, 0.4, 0.4, *points]
    refuse(rf"add kpt_shape: .*\[{len(seen)}, 3\]", lines(tmp_path, [row] + [[0.5, 0.5, 0.4, 0.4]] * (len(seen) > 2)))


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
    said = "all 2 lines have four points, as turned boxes have: upright boxes around them are taken"
    assert read(lines(tmp_path / "a", [turned, turned[2:] + turned[:2]])).notes[0] == said
    said = "1 of 2 lines are outlines among boxes: the box around each is taken, and a picture with both has no mask"
    assert read(lines(tmp_path / "b", [turned, [0.5] * 4])).notes == [said]
    odd = lines(tmp_path / "c", [[0.5] * 55, [0.5] * 4])
    assert reasons(read(odd))["images/a.png"].endswith("keypoints are read where the YAML file says kpt_shape")
    far = lines(tmp_path / "d", [[0.2, 0.3, 0.5, 0.2, 0.6, 2]])
    assert "an outline's points are shares of the picture" in reasons(read(far))["images/a.png"]
    beyond = lines(tmp_path / "e", [[0.2, 0.3, 0.5, 0.2, 0.6, 1.01]])
    assert read(beyond).sources[0].boxes[0].y1 == HEIGHT, "as far as the picture goes"


# pycocotools 2.0.11, mask.encode of np.add.outer(np.arange(9) ** 2, 3 * np.arange(11) ** 2) % 7 < 3.
COUNTS = "0210011N0033OMM10O0000010O00133MM011N0011N0033OMM10O00"


def test_coco_s_compressed_runs() -> None:
    mask = np.add.outer(np.arange(9) ** 2, 3 * np.arange(11) ** 2) % 7 < 3
    assert (cover(Shape(1, runs=shapes.decode_runs(COUNTS)), 9, 11) == mask).all()
    long = np.zeros((700, 900), bool)
    long[:, 3:800] = True
    assert (cover(Shape(1, runs=shapes.decode_runs("dQ2\\jPa0`[T2")), 700, 900) == long).all()


@pytest.mark.parametrize("text", ["\x2f", "P", "ooooooooooooo", "0N", "é"])
def test_text_that_is_no_run_lengths(text: str) -> None:
    with pytest.raises(ValueError, match="run length"):
        shapes.decode_runs(text)


@given(st.lists(st.tuples(st.floats(-5, 45), st.floats(-5, 35)), min_size=3, max_size=8))
@settings(max_examples=50, deadline=None)
def test_an_outline_holds_the_pixels_whose_centres_it_holds(points: list[tuple[float, float]]) -> None:
    """The oracle asks for each centre alone, by the angle that the outline turns around it."""
    height, width = 30, 40
    made = cover(Shape(1, (outline([n for point in points for n in point]),)), height, width)
    for y, x in np.random.default_rng(0).integers(0, (height, width), (15, 2)).tolist():
        crossings = 0
        for (x0, y0), (x1, y1) in zip(points, [*points[1:], points[0]], strict=True):
            if (y0 <= y + 0.5) != (y1 <= y + 0.5):
                crossings += x0 + (y + 0.5 - y0) / (y1 - y0) * (x1 - x0) <= x + 0.5
        assert made[y, x] == (crossings % 2 == 1)


def test_smaller_things_lie_on_larger_ones_and_several_outlines_are_one_thing() -> None:
    big, small = outline([0, 0, 8, 0, 8, 8, 0, 8]), outline([2, 2, 4, 2, 4, 4, 2, 4])
    wanted = np.full((10, 10), 9)
    wanted[:8, :8] = 1
    wanted[2:4, 2:4] = 2
    for order in ((Shape(1, (big,)), Shape(2, (small,))), (Shape(2, (small,)), Shape(1, (big,)))):
        assert (DrawnMask(order, 9).draw(10, 10) == wanted).all()
    two = DrawnMask((Shape(3, (outline([0, 0, 1, 0, 1, 1, 0, 1]), small)),), 0).draw(10, 10)
    assert (two[0, 0], two[3, 3], two.sum()) == (3, 3, 3 * 5)


def test_shares_of_a_picture_are_scaled_to_it() -> None:
    half = Shape(300, (outline([0, 0, 0.5, 0, 0.5, 1, 0, 1]),))
    made = DrawnMask((half,), 0, relative=True).draw(4, 10)
    assert (made.tolist(), made.dtype) == ([[300] * 5 + [0] * 5] * 4, np.uint16)
    assert DrawnMask((half,), 0).digest() != DrawnMask((half,), 0, relative=True).digest()


def test_runs_for_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match="its run lengths cover 9 pixels, the picture has 12"):
        DrawnMask((Shape(1, runs=shapes.pack_runs([4, 5])),), 0).draw(3, 4)
    with pytest.raises(ValueError, match="negative or too large"):
        shapes.pack_runs([-1])


LENGTHS = st.integers(8, 60)


@given(LENGTHS, LENGTHS, LENGTHS, LENGTHS, st.data())
@example(24, 32, 24, 24, None)
@settings(max_examples=150, deadline=None)
def test_a_box_lies_where_its_pixels_lie(height: int, width: int, h: int, w: int, data: st.DataObject | None) -> None:
    """The oracle draws the box, and lets the mask's own crop say which pixels are left of it."""
    x0, y0, x1, y1 = 2, 3, 30, 20
    if data is not None:
        x0, y0 = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
        x1, y1 = data.draw(st.integers(x0 + 1, width)), data.draw(st.integers(y0 + 1, height))
    drawn = np.zeros((height, width), np.uint8)
    drawn[y0:y1, x0:x1] = 1
    kept, dropped = fit_boxes([Box(x0, y0, x1, y1, "car")], height, width, (h, w))
    assert len(kept) + len(dropped) == 1
    rows, columns = np.nonzero(fit_mask(drawn, (h, w)))
    for box in kept:
        # A pixel belongs to a box when its centre does.
        centres = np.arange(max(h, w)) + 0.5
        inside_x, inside_y = (centres > box.x0) & (centres < box.x1), (centres > box.y0) & (centres < box.y1)
        wanted_x, wanted_y = np.flatnonzero(inside_x[:w]), np.flatnonzero(inside_y[:h])
        if not rows.size or not min(wanted_x.size, wanted_y.size):  # so thin that no pixel's centre need be in it
            assert min(wanted_x.size, wanted_y.size) <= 1
            continue
        for found, wanted in ((columns, wanted_x), (rows, wanted_y)):
            assert abs(found.min() - wanted[0]) <= 1
            assert abs(found.max() - wanted[-1]) <= 1


@given(st.integers(0, 40))
def test_a_box_goes_when_too_little_of_it_is_seen(x0: int) -> None:
    """40 x 20 cropped to its middle 20 x 20, columns 10 to 30: the share by counting pixels, 0.3 as documented."""
    column = np.arange(x0, x0 + 10)
    seen = float(((column >= 10) & (column < 30)).mean())
    kept, dropped = fit_boxes([Box(x0, 0, x0 + 10, 20, "car")], 20, 40, (20, 20))
    assert bool(kept) == (seen >= 0.3)
    assert dropped == (() if kept else (Box(x0, 0, x0 + 10, 20, "car"),))


def test_boxes_and_their_keypoints_are_scaled_and_clipped_and_keep_their_order() -> None:
    boxes = [Box(8, 2, 16, 10, "a"), Box(0, 0, 40, 20, "all"), Box(0, 0, 5, 5, "gone"), Box(12, 0, 14, 2, "b")]
    kept, dropped = fit_boxes(boxes, 20, 40, (40, 40))
    assert kept == (Box(0, 4, 12, 20, "a"), Box(0, 0, 40, 40, "all"), Box(4, 0, 8, 4, "b"))
    assert dropped == (boxes[2],)
    points = (Keypoint(12, 5, 2), Keypoint(9, 5, 2), Keypoint(29.5, 19.5, 1), Keypoint(30, 5, 1), Keypoint(12, 20, 2))
    ((box,), _) = fit_boxes([Box(5, 0, 40, 20, "person", points)], 20, 40, (40, 40))
    outside = Keypoint(0, 0, 0)
    assert box.keypoints == (Keypoint(4, 10, 2), outside, Keypoint(39, 39, 1), outside, outside)


def test_what_is_ignored_stays_as_far_as_it_is_seen_and_drops_nothing() -> None:
    boxes = [Box(5, 0, 14, 9, "crowd", ignored="crowd"), Box(0, 0, 5, 5, "gone", ignored="difficult")]
    kept, dropped = fit_boxes([*boxes, Box(5, 0, 11, 9, "thing")], 20, 40, (40, 40))
    assert kept == (Box(0, 0, 8, 18, "crowd", ignored="crowd"),)
    assert [box.label for box in dropped] == ["thing"]
    assert boxes[0].scaled(2, 3) == Box(10, 0, 28, 27, "crowd", ignored="crowd")
    assert things([*boxes, Box(5, 0, 11, 9, "thing")]) == (Box(5, 0, 11, 9, "thing"),)


def test_doubled_boxes_count_once_and_leave_the_source_s_name(tmp_path: Path) -> None:
    true = things_of(5)
    (one,), (two,) = (read(coco(tmp_path / str(n), [*true, *true[:n]])).sources for n in (0, 3))
    assert two.boxes == one.boxes
    assert (two.key == one.key, len(two.listed)) == (False, 8)
    (marked,) = read(coco(tmp_path / "m", [*true, (1, 1, 9, 9)], iscrowd=[0] * 5 + [1])).sources
    assert marked.key == one.key, "noise has nothing to do with crowds"
    assert marked.whole_key != one.whole_key == one.key
    (hard,) = read(voc(tmp_path / "h", map(corners, true), "<difficult>1</difficult>")).sources
    (easy,) = read(voc(tmp_path / "e", map(corners, true))).sources
    assert (hard.key == easy.key, hard.whole_key == easy.whole_key, hard.classes) == (True, False, ())
    assert "3 boxes are there again" in read(tmp_path / "3").notes[0]


def from_pixels(root: Path, boxes: Iterable[Four], first: int, last: int) -> list[Four]:
    """How boxes are read whose corners are written with so much more."""
    moved = ((x0 + first, y0 + first, x1 + last, y1 + last) for x0, y0, x1, y1 in boxes)
    set_of = voc(root, moved)
    text = (set_of / "Annotations" / "a.xml").read_text()
    size = f"<annotation><size><width>{WIDTH}</width><height>{HEIGHT}</height></size>"
    (set_of / "Annotations" / "a.xml").write_text(text.replace("<annotation>", size))
    return [(box.x0, box.y0, box.x1, box.y1) for box in read(set_of).sources[0].boxes]


@pytest.mark.parametrize("edge", [(0.0, 0.0, 12.0, 9.0), (0.0, 5.0, 9.0, 14.0)])
@pytest.mark.parametrize(("first", "last"), [(1, 0), (0, 0), (0, -1)])
def test_a_set_tells_where_its_corners_count_from(first: int, last: int, edge: Four, tmp_path: Path) -> None:
    true = [edge, *map(corners, things_of(12)), (60.0, 40.0, float(WIDTH), float(HEIGHT))]
    assert from_pixels(tmp_path, true, first, last) == true


def test_a_few_zeros_are_mistakes_where_more_boxes_begin_at_1(tmp_path: Path) -> None:
    true = [(0.0, 3.0 + i, 9.0, 20.0) for i in range(4)]
    assert from_pixels(tmp_path, [*true, (-1.0, 5, 9, 14)], 1, 0) == [*true, (0.0, 5, 9, 14)]


@pytest.mark.parametrize("turn", ["<cx>30</cx><cy>20</cy><w>10</w><h>4</h><angle>1.5707963</angle>", "corners"])
def test_voc_s_turned_boxes(turn: str, tmp_path: Path) -> None:
    points = ((28, 15), (32, 15), (32, 25), (28, 25))
    names = ("left_top", "right_top", "right_bottom", "left_bottom")
    four = "".join(f"<x_{n}>{x}</x_{n}><y_{n}>{y}</y_{n}>" for n, (x, y) in zip(names, points, strict=True))
    root = voc(tmp_path, [])
    inner = f"<object><name>car</name><robndbox>{four if turn == 'corners' else turn}</robndbox></object>"
    (root / "Annotations" / "a.xml").write_text(f"<annotation>{inner}</annotation>")
    (box,) = read(root).sources[0].boxes
    assert (box.x0, box.y0, box.x1, box.y1) == pytest.approx((28, 15, 32, 25), abs=1.01)
    assert "1 boxes are turned: the upright box around each is taken" in read(root).notes
    (root / "Annotations" / "a.xml").write_text(
        f"<annotation>{inner.replace('cx', 'x').replace('y_', 'z')}</annotation>"
    )
    assert "robndbox of car has neither" in next(iter(reasons(read(root)).values()))


def test_reversed_corners_are_swapped_where_all_are(tmp_path: Path) -> None:
    true = [(50.0, 30.0, 72.0, 56.0), (44.0, 34.0, 60.0, 50.0), (1.0, 2.0, 5.0, 8.0)]
    backward = [(x1, y1, x0 + 1, y0 + 1) for x0, y0, x1, y1 in true]
    found = read(voc(tmp_path / "all", backward), boxes="corners")
    assert [(box.x0, box.y0, box.x1, box.y1) for box in found.sources[0].boxes] == true
    assert "the corners of 3 of 3 boxes are reversed, and are swapped" in found.notes
    assert read(voc(tmp_path / "two", backward[:2])).notes[0].startswith("the corners of 2 of 2")
    refuse("say --boxes sizes, or --boxes corners", voc(tmp_path / "other", backward[2:]))
    some = read(voc(tmp_path / "some", [*map(corners, things_of(12)), backward[0]]))
    assert "has its corners reversed" in reasons(some)["a.jpg"]


@pytest.mark.parametrize(("order", "places"), [("y0, x0, y1, x1", (1, 0, 3, 2)), ("x0, x1, y0, y1", (0, 2, 1, 3))])
def test_another_order_of_corners_is_named(order: str, places: tuple[int, ...], tmp_path: Path) -> None:
    true = [corners(box) for box in things_of(24)]
    written = [tuple(box[place] for place in places) for box in true]
    for number, make in enumerate((coco, voc)):
        refuse(f"as {order} they fit: write them as", make(tmp_path / str(number), written))  # type: ignore[arg-type]
    assert read(voc(tmp_path / "few", written[:1])).notes != []  # type: ignore[arg-type]


def test_other_lines_of_yolo_are_named(tmp_path: Path) -> None:
    yolo(tmp_path, [])
    for text, told in (("0 .5 .5 .1 .1 .9", "a fifth is a score"), ("1 1 5 1 5 5 1 5 plane 0", "DOTA")):
        write(tmp_path / "labels" / "a.txt", text)
        assert told in next(iter(reasons(read(tmp_path)).values()))
