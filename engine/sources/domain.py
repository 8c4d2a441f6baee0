"""What a profile's models know, and what becomes of the sources that they do not.

A profile names its models' world: "photographs", of which nothing is refused, or a kind of picture whose traits stand
in a file beside the networks, world_NAME.json. Whoever trains models for another world fits such a file to it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..files.fill import fill, nearest
from ..files.reading import read_text
from ..profile.models import PHOTOGRAPHS
from ..profile.profile import Profile, load_profile, profile_names
from .pixels import fit
from .source import Examine, ImageSettings, Problem, Source, load_pixels
from .world import World


def world_file(folder: Path, name: str) -> Path:
    """Where a world lies in a folder of networks."""
    return folder / f"world_{name}.json"


def world_of(profile: Profile) -> World | None:
    """The world of a profile's models; None for models of photographs, which know any picture.

    Raises CounterfactoryError for a name that there is no file of, and a file that is no world.
    """
    name, folder = profile.models.world, profile.models.path
    if name == PHOTOGRAPHS:
        return None
    path = world_file(folder, name)
    if not path.is_file():
        known = [PHOTOGRAPHS, *(found.stem.removeprefix("world_") for found in sorted(folder.glob("world_*.json")))]
        raise CounterfactoryError(f'[models] world = "{name}": there is no {path}; {nearest(name, known)}')
    try:
        table = json.loads(read_text(path))
    except ValueError as error:
        raise CounterfactoryError(f"{path} is not JSON: {error}") from error
    if not isinstance(table, dict):
        raise CounterfactoryError(f"{path} holds no table of a world")
    return fill(World, table, str(path))


def examiner(profile: Profile) -> Examine | None:
    """What tells whether a picture, uint8 RGB [H, W, 3] of any size, is of the world that the models know.

    None where they know any.
    """
    world, size = world_of(profile), profile.image
    return None if world is None else lambda picture: world.holds(_as_painted(picture, size))


def drop_out_of_domain(
    profile: Profile, sources: Sequence[Source], *, allow: bool
) -> tuple[list[Source], list[Problem]]:
    """The sources to make a suite of, each examined, and those that are left out since the models do not know such
    pictures; none is with `allow`.

    Raises CounterfactoryError where at least half would be.
    """
    world = world_of(profile)
    if world is None:
        return list(sources), []
    examined = [_examined(source, world, profile.image) for source in sources]
    strange = [source for source in examined if source.known_world is False]
    if allow or not strange:
        return examined, []
    if 2 * len(strange) >= len(examined):
        raise CounterfactoryError(_refusal(profile, world, strange, len(examined)))
    reason = f"it does not look like {world.about}, which is all that the models know; --allow-out-of-domain takes it"
    return [s for s in examined if s.known_world is not False], [Problem(s.name, reason) for s in strange]


def _refusal(profile: Profile, world: World, strange: Sequence[Source], count: int) -> str:
    shown = f"{len(strange)} of {count} sources do" if count > 1 else "the source does"
    instead = [name for name in profile_names() if load_profile(name).models.world == PHOTOGRAPHS]
    first = f", such as {strange[0].name}" if count > 1 else ""
    return (
        f"the models of profile {profile.name} know {world.about} and nothing else, and {shown} not look like that"
        f"{first}: nothing was painted; use --profile {' or '.join(instead)} for photographs, or "
        "--allow-out-of-domain to go on and have every result marked as meaningless"
    )


def _examined(source: Source, world: World, size: ImageSettings) -> Source:
    """The source with its answer; one that was found without an examiner is read here, if it still can be."""
    if source.known_world is not None:
        return source
    try:
        pixels = load_pixels(source, size)
    except CounterfactoryError:  # the run reads it again, and says so
        return source
    return replace(source, known_world=world.holds(pixels))


def _as_painted(picture: NDArray[np.uint8], size: ImageSettings) -> NDArray[np.uint8]:
    return fit(picture, size.size_for(*picture.shape[:2]))
