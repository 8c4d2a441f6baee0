"""What a profile's models know: the file of a world, and what becomes of the sources that it does not hold."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.profile.profile import Profile, load_profile, profile_names
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.sources.domain import TRAITS, Domain, Trait, drop_out_of_domain, examiner, world_of
from counterfactory.engine.sources.source import Source

DARK, LIGHT = 10, 250


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """The pocket profile over models that know dark pictures."""
    folder = tmp_path / "models"
    folder.mkdir()
    limits = {"light": (0.0, 100.0, 0.0)}
    world = Domain("dark pictures", "two", 0.0, tuple(Trait(n, *limits.get(n, (-1e9, 1e9, 0.0))) for n in TRAITS))
    (folder / "world_dark.json").write_text(json.dumps(asdict(world)))
    return replace(load_profile("pocket"), name="mine", models=ModelPaths(str(folder), "dark"))


def sources_of(folder: Path, *values: int) -> list[Source]:
    folder.mkdir(exist_ok=True)
    for number, value in enumerate(values):
        Image.fromarray(np.full((40, 60, 3), value, np.uint8)).save(folder / f"{number}.png")
    return find_sources(folder)[0]


def test_the_profiles_that_come_with_the_package() -> None:
    worlds = {name: load_profile(name).models.world for name in profile_names()}
    boxes, embedded = ("a10g", "a10g-fast", "cpu", "gpu", "lance"), ("pocket", "pocket-full", "pocket-lance")
    assert load_profile("light").by_rule
    assert load_profile("given").by_rule
    photographs = dict.fromkeys((*boxes, "light", "server", "given"), "photographs")
    assert worlds == photographs | dict.fromkeys(embedded, "streets")
    assert world_of(load_profile("a10g")) is None
    assert examiner(load_profile("a10g")) is None
    streets = world_of(load_profile("pocket"))
    assert streets is not None
    assert streets.about == "rendered streets"


def test_whoever_knows_photographs_refuses_nothing(tmp_path: Path) -> None:
    sources = sources_of(tmp_path / "set", LIGHT, DARK)
    assert drop_out_of_domain(load_profile("a10g"), sources, allow=False) == (sources, [])


@pytest.mark.parametrize(
    ("world", "told"),
    [
        ("drk", r'\[models\] world = "drk": there is no .*world_drk.json; did you mean \'dark\'\?'),
        ("xyzzy", r"there is no .*world_xyzzy.json; choose from: photographs, dark"),
    ],
)
def test_an_unknown_world_is_an_error(profile: Profile, world: str, told: str) -> None:
    other = replace(profile, models=replace(profile.models, world=world))
    with pytest.raises(CounterfactoryError, match=told):
        world_of(other)


@pytest.mark.parametrize(
    ("text", "told"),
    [("{", "is not valid JSON"), ('{"about": "x"}', "'fitted_to' is missing"), ("3", "holds no table of a world")],
)
def test_a_broken_world_is_an_error(profile: Profile, text: str, told: str) -> None:
    (profile.models.path / "world_dark.json").write_text(text)
    with pytest.raises(CounterfactoryError, match=told):
        world_of(profile)


def test_the_examiner_sees_what_would_be_painted(profile: Profile) -> None:
    examine = examiner(profile)
    assert examine is not None
    picture = np.full((100, 900, 3), LIGHT, np.uint8)
    assert not examine(picture)
    picture[:, 350:550] = DARK  # the painter's crop: two by one, of the middle
    assert examine(picture)


def test_half_of_them_are_too_many(profile: Profile, tmp_path: Path) -> None:
    told = (
        r"^the models of profile mine know dark pictures and nothing else, and 1 of 2 sources do not look like that, "
        r"such as 1: nothing was painted; use --profile light for other weather and light, or a10g or a10g-fast or "
        "cpu or gpu or lance for other colours and surroundings as well, or --allow-out-of-domain"
    )
    with pytest.raises(CounterfactoryError, match=told):
        drop_out_of_domain(profile, sources_of(tmp_path / "set", DARK, LIGHT), allow=False)
    with pytest.raises(CounterfactoryError, match="and the source does not look like that: nothing was painted"):
        drop_out_of_domain(profile, sources_of(tmp_path / "one", LIGHT), allow=False)


def test_what_was_examined_is_not_read_again(profile: Profile, tmp_path: Path) -> None:
    gone, strange = sources_of(tmp_path / "set", DARK, LIGHT)
    known = [replace(gone, known_world=True), replace(strange, known_world=True)]
    for source in known:
        source.path.unlink()
    assert drop_out_of_domain(profile, known, allow=False) == (known, [])
    assert drop_out_of_domain(profile, [gone], allow=False)[0][0].known_world is None, "the run says what became of it"
