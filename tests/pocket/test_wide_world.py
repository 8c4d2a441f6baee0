"""The wider street world: outlines that no appearance moves, and truth that agrees with the picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.pocket.wide.camera import FAR, box_of
from counterfactory.engine.pocket.wide.render import Rendering, render
from counterfactory.engine.pocket.wide.sampling import confuse, restyle, sample_scene, visible
from counterfactory.engine.pocket.wide.scene import (
    AXES,
    BACKGROUNDS,
    CLASSES,
    DOMAINS,
    MATERIALS,
    PALETTE,
    PERSON_KINDS,
    POSES,
    SIZE,
    SIZES,
    THING_COLOURS,
    TIMES,
    VEHICLE_KINDS,
    WEATHERS,
    Breadth,
    Person,
    Placed,
    Scene,
    Vehicle,
)
from counterfactory.engine.sources.palette import load_palette

APPEARANCE = {
    "weather": WEATHERS,
    "time": TIMES,
    "background": BACKGROUNDS,
    "domain": DOMAINS,
    "material": MATERIALS,
}


def scene(index: int, breadth: Breadth | None = None) -> Scene:
    return sample_scene(np.random.default_rng((900, index)), *([breadth] if breadth else []))


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return [scene(i) for i in range(40)]


@pytest.fixture(scope="module")
def renderings(scenes: list[Scene]) -> list[Rendering]:
    return [render(s) for s in scenes]


def objects(scenes: list[Scene], renderings: list[Rendering]) -> Iterator[tuple[Scene, Rendering, int, Placed]]:
    for street, rendering in zip(scenes, renderings, strict=True):
        for number, placed in enumerate(street.placed):
            yield street, rendering, number, placed


def same_truth(a: Rendering, b: Rendering) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("mask", "instances", "depth"))


def test_a_seed_makes_the_same_scene_and_the_same_bytes(scenes: list[Scene], renderings: list[Rendering]) -> None:
    for index in (0, 7):
        again = scene(index)
        assert again == scenes[index]
        assert np.array_equal(render(again).picture, renderings[index].picture)
        assert same_truth(render(again), renderings[index])
    assert len({s.layout_seed for s in scenes}) == len(scenes)


def test_what_comes_out(renderings: list[Rendering]) -> None:
    shapes = [(r.picture, (SIZE, SIZE, 3), np.uint8) for r in renderings]
    for array, shape, kind in shapes:
        assert (array.shape, array.dtype) == (shape, kind)
    one = renderings[0]
    assert (one.mask.dtype, one.instances.dtype, one.depth.dtype) == (np.uint8, np.uint8, np.float32)
    assert one.mask.shape == one.instances.shape == one.depth.shape == (SIZE, SIZE)


@pytest.mark.parametrize("axis", APPEARANCE)
def test_no_word_of_an_appearance_moves_an_outline(axis: str, scenes: list[Scene], renderings: list[Rendering]) -> None:
    chosen = [i for i, s in enumerate(scenes) if s.houses and s.bend == "straight"][:3]
    for index in chosen:
        # No fog hides the background.
        street = replace(scenes[index], left=True, domain="photo", weather="clear", time="day")
        pictures = []
        for word in APPEARANCE[axis]:
            made = render(replace(street, **{axis: word}))  # type: ignore[arg-type]
            assert same_truth(made, render(street)), word
            pictures.append(made.picture.astype(int))
        for i, picture in enumerate(pictures):
            assert all(np.abs(picture - other).mean() > 0.4 for other in pictures[i + 1 :])


def test_a_restyled_scene_keeps_its_truth_and_changes_its_look(
    scenes: list[Scene], renderings: list[Rendering]
) -> None:
    for index in range(12):
        other = restyle(scenes[index], np.random.default_rng(index))
        made = render(other)
        assert same_truth(made, renderings[index])
        assert [replace(v, colour="") for v in other.vehicles] == [
            replace(v, colour="") for v in scenes[index].vehicles
        ]
        assert len({(v.colour, v.kind) for v in other.vehicles}) == len(other.vehicles)
        assert all(t.colour in THING_COLOURS[t.kind] for t in other.things)
        assert not np.array_equal(made.picture, renderings[index].picture)


def test_boxes_enclose_what_is_seen_and_most_of_it_is(scenes: list[Scene], renderings: list[Rendering]) -> None:
    count = 0
    for street, rendering, number, placed in objects(scenes, renderings):
        found, may = rendering.box(number), box_of(street, placed)
        assert found is not None
        x0, y0, x1, y1 = found
        on = rendering.instances == number + 1
        assert on[y0:y1, x0:x1].sum() == on.sum() > 40
        assert on[y0].any()
        assert on[y1 - 1].any()
        assert on[:, x0].any()
        assert on[:, x1 - 1].any()
        assert x0 > may.x0 * SIZE - 1.5
        assert x1 < may.x1 * SIZE + 1.5
        assert y0 > may.y0 * SIZE - 1.5
        assert y1 < may.y1 * SIZE + 1.5
        count += 1
    assert count > 90
    assert renderings[0].box(len(scenes[0].placed)) is None


def label_of(placed: Placed) -> str:
    if isinstance(placed, Vehicle):
        return "vehicle"
    return "pedestrian" if isinstance(placed, Person) else placed.kind


def test_objects_are_of_their_class_and_at_their_distance(scenes: list[Scene], renderings: list[Rendering]) -> None:
    seen = set()
    for _, rendering, number, placed in objects(scenes, renderings):
        on = rendering.instances == number + 1
        assert (rendering.mask[on] == CLASSES.index(label_of(placed))).all()
        assert np.allclose(rendering.depth[on], placed.z, rtol=1e-5)
        seen.add(label_of(placed))
    assert seen == set(CLASSES[CLASSES.index("vehicle") :])
    for rendering in renderings:
        assert ((rendering.instances > 0) == (rendering.mask >= CLASSES.index("vehicle"))).all()


def alone(street: Scene, placed: Placed | None) -> Rendering:
    """The empty street, or with one object in it."""
    vehicles = (placed,) if isinstance(placed, Vehicle) else ()
    people = (placed,) if isinstance(placed, Person) else ()
    things = (placed,) if placed and not vehicles and not people else ()
    return render(replace(street, vehicles=vehicles, people=people, things=things))  # type: ignore[arg-type]


def test_the_nearer_hides_the_farther(scenes: list[Scene], renderings: list[Rendering]) -> None:
    crowded = 0
    for index in range(10):
        street = scenes[index]
        expected = np.zeros((SIZE, SIZE), np.uint8)
        depth = alone(street, None).depth.copy()
        empty = depth.copy()
        for number, placed in sorted(enumerate(street.placed, 1), key=lambda pair: -pair[1].z):
            silhouette = alone(street, placed).instances == 1
            crowded += bool((expected[silhouette] > 0).any())
            assert (expected[silhouette] > 0).mean() < 0.5
            expected[silhouette], depth[silhouette] = number, placed.z
        assert np.array_equal(renderings[index].instances, expected)
        assert np.allclose(renderings[index].depth, depth)
        stands = expected > 0
        assert (empty[stands] >= 0.97 * depth[stands]).mean() > 0.97  # nothing stands in a wall
    assert crowded > 3


def test_the_ground_comes_nearer_downwards_and_the_sky_is_endless(renderings: list[Rendering]) -> None:
    for rendering in renderings[:10]:
        assert np.isinf(rendering.depth[rendering.mask == CLASSES.index("sky")]).all()
        assert np.allclose(rendering.depth[rendering.mask == CLASSES.index("background")], FAR)
        road = rendering.mask == CLASSES.index("road")
        by_row = [rendering.depth[y][road[y]] for y in range(SIZE) if road[y].any()]
        assert all(np.ptp(row) < 1e-3 * row[0] for row in by_row)
        assert (np.diff([row[0] for row in by_row]) < 0).all()
        assert (rendering.depth > 0).all()


@pytest.mark.parametrize(
    ("field", "attribute", "values"),
    [
        ("people", "kind", PERSON_KINDS),
        ("people", "pose", POSES),
        ("vehicles", "kind", VEHICLE_KINDS),
        ("vehicles", "size", SIZES),
    ],
)
def test_another_shape_changes_the_mask_where_it_stands_alone(
    field: str, attribute: str, values: tuple[str, ...], scenes: list[Scene]
) -> None:
    street = next(s for s in scenes if getattr(s, field))
    number = 0 if field == "vehicles" else len(street.vehicles)
    shapes = []
    for value in values:
        first, *rest = getattr(street, field)
        changed = replace(street, **{field: (replace(first, **{attribute: value}), *rest)})  # type: ignore[arg-type]
        made, before = render(changed), render(street)
        outside = np.ones((SIZE, SIZE), bool)
        for shown in (street, changed):
            box = box_of(shown, shown.placed[number])
            rows, columns = (
                slice(max(0, int(a * SIZE) - 2), int(b * SIZE) + 3) for a, b in ((box.y0, box.y1), (box.x0, box.x1))
            )
            outside[rows, columns] = False
        assert np.array_equal(made.mask[outside], before.mask[outside])
        shapes.append((made.instances == number + 1).tobytes())
    assert len(set(shapes)) == len(values)


def test_a_pencil_has_no_colours() -> None:
    spread = {}
    for domain in DOMAINS:
        picture = render(replace(scene(3), domain=domain, weather="clear", time="day")).picture.astype(int)
        spread[domain] = float(np.ptp(picture, axis=2).mean())
    assert spread["sketch"] < 12 < 30 < spread["photo"] < spread["painting"]


def test_streets_hold_what_they_should(scenes: list[Scene]) -> None:
    for street in scenes:
        assert street.vehicles
        assert visible(street)
        assert street.label == street.vehicles[0].kind
        for group in (street.vehicles, street.people, street.things):
            assert [one.z for one in group] == sorted(one.z for one in group)
        assert len({(v.colour, v.kind) for v in street.vehicles}) == len(street.vehicles)
    for axis, words in AXES.items():
        name = {"bends": "bend", "cameras": "camera", "weathers": "weather"}.get(axis, axis.removesuffix("s"))
        if hasattr(scenes[0], name):
            assert {getattr(s, name) for s in scenes} == set(words), axis


def test_a_breadth_opens_the_words_that_it_names() -> None:
    narrow = Breadth(
        weathers=("clear",), domains=("photo",), vehicle_kinds=("bus",), poses=("waving",), thing_kinds=("dog",),
        sizes=("large",), bends=("left",), cameras=("high",), people=1, things=1,
    )  # fmt: skip
    for index in range(30):
        street = scene(index, narrow)
        assert (street.weather, street.domain, street.bend, street.camera) == ("clear", "photo", "left", "high")
        assert {(v.kind, v.size) for v in street.vehicles} == {("bus", "large")}
        assert {p.pose for p in street.people} <= {"waving"}
        assert len(street.people) <= 1
        assert {t.kind for t in street.things} <= {"dog"}
        assert len(street.things) <= 1
        other = restyle(street, np.random.default_rng(index), narrow)
        assert (other.weather, other.domain) == ("clear", "photo")
    assert any(scene(i, narrow).things for i in range(30))
    assert any(scene(i, narrow).people for i in range(30))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"weathers": ("hail",)}, "weathers: hail asked for; the street world has clear, cloudy"),
        ({"poses": ()}, "poses: none asked for"),
        ({"people": 4}, "0 to 3 people and things, got 4 and 3"),
        ({"things": -1}, "got 3 and -1"),
    ],
)
def test_a_breadth_of_unknown_words_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(CounterfactoryError, match=said):
        Breadth(**asked)


def test_a_confused_scene_differs_in_one_fact(scenes: list[Scene]) -> None:
    kinds = set()
    for index, street in enumerate(scenes * 3):
        other = confuse(street, np.random.default_rng((5, index)))
        changed = [name for name in vars(street) if getattr(street, name) != getattr(other, name)]
        assert len(changed) == 1
        if changed[0] in ("vehicles", "people", "things"):
            before, after = getattr(street, changed[0]), getattr(other, changed[0])
            assert len(before) == len(after)
            colours: list[list[str]] = [sorted(one.colour for one in group) for group in (before, after)]
            if sum(a != b for a, b in zip(before, after, strict=True)) > 1:
                assert colours[0] == colours[1]
                kinds.add("turned")
        kinds.add(changed[0])
    assert kinds == {"turned", "vehicles", "people", "things", *APPEARANCE}


def test_houses_and_trees_are_seen_where_the_scene_has_them(scenes: list[Scene], renderings: list[Rendering]) -> None:
    for street, rendering in zip(scenes, renderings, strict=True):
        for there, name in ((street.houses, "building"), (street.trees, "vegetation")):
            seen = int((rendering.mask == CLASSES.index(name)).sum())
            assert seen > 40 if there else seen == 0, name
    street = next(s for s in scenes if s.left and s.bend == "straight")
    left = render(replace(street, right=False)).mask == CLASSES.index("building")
    assert left[:, :50].any()
    assert not left[:, 100:].any()


def test_a_denoiser_is_taught_the_colours_that_masks_are_painted_in() -> None:
    mask = render(sample_scene(np.random.default_rng(5))).mask
    assert np.array_equal(load_palette("wide").paint(mask, None), np.array(PALETTE, np.uint8)[mask])
    palette = load_palette("wide")
    assert palette.order == CLASSES
    assert [palette.colours[name] for name in CLASSES] == list(PALETTE)
