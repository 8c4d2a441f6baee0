"""The profile by which the engine runs packed models of a world."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from counterfactory.engine.pocket.worlds import STREETS, World
from counterfactory.engine.profile.models import ModelPaths
from counterfactory.engine.profile.profile import Profile, load_profile

from .clip import TOKENS
from .languages import LANGUAGES


def profile_of(world: World, weights: Path) -> Profile:
    """The profile "pocket" with the models in `weights`, whatever the pictures are; of another world than the streets
    with the room that its captions need: tokens of the captioner, and of rewriting what its exercises have.
    """
    profile = replace(load_profile("pocket"), models=ModelPaths(str(weights)))
    if world is STREETS:
        return profile
    language = LANGUAGES[world.name]
    decoding = replace(profile.caption.decoding, max_tokens=TOKENS[world.name])
    return replace(
        profile,
        llm=replace(profile.llm, style=language.style),
        caption=replace(profile.caption, decoding=decoding),
        rewrite=language.settings,
    )
