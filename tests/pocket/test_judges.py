"""The pocket judges: exact truth to train on, batches that do not matter, and models that do what they are for."""

from __future__ import annotations

from dataclasses import replace
from operator import eq
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.pocket.judges import Classifier, Finding, Referee, Segmenter
from counterfactory.engine.pocket.render import vehicle_map
from counterfactory.engine.pocket.world import Scene
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.export.pocket.packed import MASTERS, RUNTIME

HELD_OUT = 900  # the stream of scenes that no training sees


@pytest.fixture(scope="module")
def careless() -> tuple[Classifier, Segmenter]:
    return Classifier.load(batch=4, threads=1), Segmenter.load(batch=4, threads=1)


@pytest.fixture(scope="module")
def referee() -> Referee:
    return Referee.load(MASTERS, batch=4, threads=1)


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return [EMBEDDED.scene(HELD_OUT, i) for i in range(24)]


def images(scenes: list[Scene]) -> NDArray[np.uint8]:
    return np.stack([EMBEDDED.draw(s).picture for s in scenes])


def test_vehicle_map_agrees_with_painting_one_vehicle_after_the_other() -> None:
    crowded, vehicle = 0, EMBEDDED.classes.index("vehicle")
    for index in range(40):
        street = EMBEDDED.scene(HELD_OUT, index)
        mask = EMBEDDED.draw(street).mask
        expected = np.full(mask.shape, -1)
        for i in reversed(range(len(street.vehicles))):  # far to near, as a painter does
            alone = replace(street, vehicles=(street.vehicles[i],), pedestrians=())
            expected[EMBEDDED.draw(alone).mask == vehicle] = i
        expected[mask != vehicle] = -1
        found = vehicle_map(street, mask)
        assert found.dtype == np.int8
        assert (found == expected).all(), index
        assert ((found >= 0) == (mask == vehicle)).all()
        crowded += len(street.vehicles) > 1
    assert crowded > 5


def test_a_batch_and_its_padding_leave_answers_as_they_are(referee: Referee, scenes: list[Scene]) -> None:
    pictures = images(scenes[:6])  # one full batch of four, one of two
    together, apart = referee.inspect(pictures), [referee.inspect(picture[None])[0] for picture in pictures]
    assert len(together) == 6
    for a, b in zip(together, apart, strict=True):
        assert a.scene == b.scene
        assert (a.mask == b.mask).mean() > 0.9999  # rounding may tip a tie
        assert (a.objects["colour"] == b.objects["colour"]).mean() > 0.999


def test_no_pictures_get_no_answers(careless: tuple[Classifier, Segmenter], referee: Referee) -> None:
    nothing = np.zeros((0, 128, 128, 3), np.uint8)
    assert careless[0].predict(nothing) == []
    assert careless[1].predict(nothing).shape == (0, 128, 128)
    assert referee.inspect(nothing) == []


@pytest.mark.parametrize(
    "pictures",
    [
        *(np.zeros(shape, np.uint8) for shape in ((1, 64, 128, 3), (128, 128, 3), (1, 128, 128, 4), (1, 3, 128, 128))),
        np.zeros((1, 128, 128, 3), np.float32),
    ],
)
def test_pictures_of_another_shape_are_refused(
    careless: tuple[Classifier, Segmenter], referee: Referee, pictures: NDArray[Any]
) -> None:
    for look in (*(one.predict for one in careless), referee.inspect):
        with pytest.raises(CounterfactoryError, match="resize the pictures to 128 x 128 RGB"):
            look(pictures)


def test_the_vote_of_a_region() -> None:
    words = EMBEDDED.object_words
    mask, colours, kinds = np.zeros((3, 128, 128), np.uint8)
    colours[:4, :4], kinds[:4, :4] = words["colour"].index("green"), words["kind"].index("bus")
    finding, where = Finding(mask, {}, {"colour": colours, "kind": kinds}), np.zeros((128, 128), bool)
    with pytest.raises(CounterfactoryError, match="region given is empty"):
        finding.object(where)
    where[:4, :6] = True  # 16 of 24 pixels are green
    assert finding.object(where) == {"colour": "green", "kind": "bus"}


def test_the_careless_models_know_fair_days_and_are_worse_where_they_never_looked(
    careless: tuple[Classifier, Segmenter], scenes: list[Scene]
) -> None:
    classifier, segmenter = careless
    fair = [EMBEDDED.fair(scene, 0) for scene in scenes]
    pictures, truth = images(fair), np.stack([EMBEDDED.draw(scene).mask for scene in fair])
    assert sum(map(eq, classifier.predict(pictures), (scene.label for scene in fair))) >= 22
    foggy_night = images([replace(scene, weather="foggy", time="night") for scene in fair])
    fair_share = (segmenter.predict(pictures) == truth).mean()
    assert (segmenter.predict(foggy_night) == truth).mean() + 0.05 < fair_share > 0.95


def test_the_referee_sees_every_condition(referee: Referee, scenes: list[Scene]) -> None:
    findings = referee.inspect(images(scenes))
    right, vehicles, named = 0, 0, 0
    for street, finding in zip(scenes, findings, strict=True):
        drawing = EMBEDDED.draw(street)
        assert (finding.mask == drawing.mask).mean() > 0.93
        right += finding.scene == {name: getattr(street, name) for name in EMBEDDED.words}
        for number, vehicle in enumerate(street.vehicles, 1):
            vehicles += 1
            named += finding.object(drawing.objects == number) == {"colour": vehicle.colour, "kind": vehicle.kind}
    assert right >= 23
    assert named >= 0.95 * vehicles


def test_what_is_no_referee_of_this_world_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CounterfactoryError, match=r"referee\.xml"):
        Referee.load(tmp_path)
    for suffix in ("xml", "bin"):
        (tmp_path / f"referee.{suffix}").symlink_to(RUNTIME / f"segmenter.{suffix}")
    with pytest.raises(CounterfactoryError, match="mask_logits, and this world asks for colour, kind, mask_logits, ti"):
        Referee.load(tmp_path)
