"""The profile by which the engine runs packed models of a world."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from counterfactory.engine.pocket.worlds import World
from counterfactory.engine.profile.models import ModelPaths
from counterfactory.engine.profile.profile import Profile, load_profile


def profile_of(world: World, weights: Path) -> Profile:
    """The profile "pocket" with the models of a world in `weights`, whatever the pictures are."""
    assert world.name == load_profile("pocket").models.world
    return replace(load_profile("pocket"), models=ModelPaths(str(weights)))
