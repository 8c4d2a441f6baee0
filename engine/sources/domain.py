"""The domain of a profile's models, and the sources outside of it.

A profile names its models' world: "photographs", where nothing is refused, or a kind of picture whose traits stand in
the file world_NAME.json in the folder of the networks. A new world needs such a file, fitted to its pictures.
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
from .traits import Domain


def world_file(folder: Path, name: str) -> Path:
    """Where a world lies in a folder of networks."""
    return folder / f"world_{name}.json"


def world_of(profile: Profile) -> Domain | None:
    """The domain of a profile's models; None for models of photographs, which know any picture.

    Raises CounterfactoryError for a name without a file, and a file that describes no world.
    """
    name, folder = profile.models.world, profile.models.path
    if name == PHOTOGRAPHS:
        return None
    path = world_file(folder, name)
    if not path.is_file():
        worlds = [PHOTOGRAPHS, *(file.stem.removeprefix("world_") for file in sorted(folder.glob("world_*.json")))]
        raise CounterfactoryError(f'[models] world = "{name}": there is no {path}; {nearest(name, worlds)}')
    try:
        table = json.loads(read_text(path))
    except ValueError as error:
        raise CounterfactoryError(f"{path} is not JSON: {error}") from error
    if not isinstance(table, dict):
        raise CounterfactoryError(f"{path} holds no table of a world")
    return fill(Domain, table, str(path))


def examiner(profile: Profile) -> Examine | None:
    """A test of a picture, uint8 RGB [H, W, 3] of any size: whether it is of the domain that the models know.

    None where they know any picture.
    """
    world, size = world_of(profile), profile.image
    return None if world is None else lambda picture: world.holds(_as_painted(picture, size))


def drop_out_of_domain(
    profile: Profile, sources: Sequence[Source], *, allow: bool
) -> tuple[list[Source], list[Problem]]:
    """The sources to make a suite of, each examined, and a problem for each one that is left out because the models do
    not know such pictures; with `allow` none is left out.

    Raises CounterfactoryError where at least half would be left out.
    """
    world = world_of(profile)
    if world is None:
        return list(sources), []
    examined = [_examine(source, world, profile.image) for source in sources]
    strange = [source for source in examined if source.known_world is False]
    if allow or not strange:
        return examined, []
    if 2 * len(strange) >= len(examined):
        raise CounterfactoryError(_refusal(profile, world, strange, len(examined)))
    reason = f"it does not look like {world.about}, which is all that the models know; --allow-out-of-domain takes it"
    return [s for s in examined if s.known_world is not False], [Problem(s.name, reason) for s in strange]


def _refusal(profile: Profile, world: Domain, strange: Sequence[Source], count: int) -> str:
    shown = f"{len(strange)} of {count} sources do" if count > 1 else "the source does"
    instead = [name for name in profile_names() if load_profile(name).models.world == PHOTOGRAPHS]
    first = f", such as {strange[0].name}" if count > 1 else ""
    return (
        f"the models of profile {profile.name} know {world.about} and nothing else, and {shown} not look like that"
        f"{first}: nothing was painted; use --profile {' or '.join(instead)} for photographs, or "
        "--allow-out-of-domain to go on and have every result marked as meaningless"
    )


def _examine(source: Source, world: Domain, size: ImageSettings) -> Source:
    """The source with `known_world`; one that was read without an examiner is read again, if its file still allows."""
    if source.known_world is not None:
        return source
    try:
        pixels = load_pixels(source, size)
    except CounterfactoryError:  # the run reads it again, and says so
        return source
    return replace(source, known_world=world.holds(pixels))


def _as_painted(picture: NDArray[np.uint8], size: ImageSettings) -> NDArray[np.uint8]:
    return fit(picture, size.size_for(*picture.shape[:2]))
