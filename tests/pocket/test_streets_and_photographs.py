"""The street world's own numbers: streets pass however they are saved; photographs, drawings and noise do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import skimage

from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.sources.domain import TRAITS, examiner, world_of
from counterfactory.engine.sources.source import Examine
from counterfactory.export.pocket import world

PROFILE = load_profile("pocket")
_EXAMINER = examiner(PROFILE)
assert _EXAMINER is not None
EXAMINE: Examine = _EXAMINER
# Of the package's pictures those that are photographs, not drawn.
PHOTOGRAPHS = (
    "astronaut.png brick.png chelsea.png coffee.png grass.png gravel.png ihc.png motorcycle_left.png rocket.jpg"
)


@pytest.fixture(scope="module")
def scenes() -> list[world.Picture]:
    return world.streets(world.FIT + 5, 40)


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> list[world.Picture]:
    folder, data = tmp_path_factory.mktemp("photographs"), Path(skimage.__file__).parent / "data"
    for name in PHOTOGRAPHS.split():
        (folder / name).symlink_to(data / name)
    found = world.read_collection(folder, PROFILE.image)
    assert len(found) == 9
    return found


@pytest.mark.parametrize("form", world.STREET_FORMS)
def test_streets_pass_however_they_are_saved(form: str, scenes: list[world.Picture]) -> None:
    assert all(map(EXAMINE, map(world.STREET_FORMS[form], scenes)))


def test_photographs_do_not_altered_or_not(photographs: list[world.Picture]) -> None:
    assert not any(map(EXAMINE, photographs))
    for alter in world.ALTERATIONS.values():
        assert not any(map(EXAMINE, map(alter, photographs)))


@pytest.mark.parametrize("kind", world.DRAWN)
def test_drawn_pictures_do_not(kind: str) -> None:
    assert not any(map(EXAMINE, map(world.DRAWN[kind], range(30))))


def test_a_fit_holds_its_own_forms_and_refuses_others() -> None:
    random = np.random.default_rng(0)
    own = {name: random.normal(shift, 1, (2000, 15)) for name, shift in (("a", 0.0), ("b", 0.5))}
    others = {"near": random.normal(2, 1, (3000, 15)), "far": random.normal(0, 1, (100, 15)) + np.eye(15)[3] * 50}
    known = world.fit_world(own, others, "numbers")
    assert [trait.name for trait in known.traits] == list(TRAITS)
    assert known.fitted_to == "numbers"
    for form in own.values():
        assert np.mean([known.holds_traits(values) for values in form]) > 0.985
    assert np.mean([known.holds_traits(values) for values in others["near"]]) < 0.05
    assert not any(known.holds_traits(values) for values in others["far"])


def test_the_numbers_say_where_they_come_from() -> None:
    known = world_of(PROFILE)
    assert known is not None
    assert "1,000 street scenes" in known.fitted_to
    assert "photographs (bsds500" in known.fitted_to
