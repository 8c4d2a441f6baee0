"""The domain of a profile's models: whether a picture looks like those that they were trained on.

Models that were trained on rendered scenes paint such scenes from anything, and every score of theirs agrees with them.
So before anything is painted fifteen traits of each source's pixels are measured, at the size to paint: of flatness,
edges and colours, and of its upper and lower edge. A domain is a range of each trait and a weighted sum of all, fitted
by `python -m counterfactory.export world`. A profile names its models' world: "photographs", where nothing is refused,
or a domain whose traits stand in world_NAME.json in the folder of the networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..files.disk_list import DiskList
from ..files.fill import fill, nearest
from ..files.reading import read_json
from ..profile.profile import Profile, load_profile, profile_names
from ..profile.runtime import PHOTOGRAPHS
from .pixels import commonest_share, fit
from .source import Examine, Problem, Source, load_pixels

TRAITS = (
    "texture",  # log(1 + median of the absolute Laplacian), grey levels; "roughness" is of its mean
    "roughness",
    "flat",  # share of blocks of 4 x 4 pixels within 4 grey levels; "even" is within 12
    "even",
    "palette",  # share of pixels in the 32 commonest colours, of 32 levels per channel
    "edges",  # share of pixels with a step of over 10 grey levels across two pixels
    "straight",  # share of these whose step runs along the rows or the columns
    "contrast",  # standard deviation and mean of the grey levels
    "light",
    "top_spread",  # log(1 + mean distance to the median colour), in the upper eighth; and in the lower middle
    "ground_spread",
    "ground_light",  # the lower middle's median colour: mean, largest minus smallest, and blue minus red
    "ground_colour",
    "ground_blue",
    "colour",  # median over all pixels of the largest channel minus the smallest
)
_LUMA = np.array([299, 587, 114], np.int32)
_BLOCK, _FLAT, _EVEN = 4, 4, 12
_STEP, _ALONG = 10, 0.15
_COMMONEST = 32


@dataclass(frozen=True)
class Trait:
    """A trait of a domain: its pictures have values from `low` to `high`, which count with `weight`."""

    name: str
    low: float
    high: float
    weight: float


@dataclass(frozen=True)
class Domain:
    """A kind of picture. `about` is its name in a sentence, `fitted_to` what the numbers come from. Raises ValueError
    unless `traits` are those of `TRAITS` in their order.
    """

    about: str
    fitted_to: str
    bias: float
    traits: tuple[Trait, ...]

    def __post_init__(self) -> None:
        names = tuple(trait.name for trait in self.traits)
        if names != TRAITS:
            raise ValueError(f"traits should be {', '.join(TRAITS)}, found {', '.join(names)}; fit the world anew")

    def holds(self, picture: NDArray[np.uint8]) -> bool:
        """Whether a picture, uint8 RGB [H, W, 3] at the size to paint, looks like one of this domain."""
        return self.holds_traits(traits_of(picture))

    def holds_traits(self, values: NDArray[np.float64]) -> bool:
        """The same of a picture's traits, float64 [15]."""
        low, high, weights = np.array([(trait.low, trait.high, trait.weight) for trait in self.traits]).T
        inside = (low <= values) & (values <= high)
        return bool(inside.all() and self.bias + values @ weights >= 0)


def traits_of(picture: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The `TRAITS` of a picture, uint8 RGB [H, W, 3], of eight pixels per side at least: float64 [15]."""
    height, width = picture.shape[:2]
    # Whole grey levels of ITU-R 601: a step of less than one level is nothing that a person drew.
    grey = ((picture.astype(np.int32) @ _LUMA + 500) // 1000).astype(np.int16)
    around = grey[:-2, 1:-1] + grey[2:, 1:-1] + grey[1:-1, :-2] + grey[1:-1, 2:]
    laplacian = np.abs(4 * grey[1:-1, 1:-1] - around)
    blocks = grey[: height // _BLOCK * _BLOCK, : width // _BLOCK * _BLOCK]
    ranges = np.ptp(blocks.reshape(height // _BLOCK, _BLOCK, -1, _BLOCK), axis=(1, 3))
    across, down = np.abs(grey[1:-1, 2:] - grey[1:-1, :-2]), np.abs(grey[2:, 1:-1] - grey[:-2, 1:-1])
    edges = np.maximum(across, down) > _STEP
    straight = edges & (np.minimum(across, down) < _ALONG * np.maximum(across, down))
    _, top_spread = _middle_colour(picture[: height // 8])
    ground, ground_spread = _middle_colour(picture[height * 7 // 8 :, width * 3 // 10 : width * 7 // 10])
    return np.array(
        [
            np.log1p(np.median(laplacian)),
            np.log1p(laplacian.mean()),
            (ranges < _FLAT).mean(),
            (ranges < _EVEN).mean(),
            commonest_share(picture, _COMMONEST),
            edges.mean(),
            straight.sum() / max(1, edges.sum()),
            grey.std(),
            grey.mean(),
            np.log1p(top_spread),
            np.log1p(ground_spread),
            ground.mean(),
            np.ptp(ground),
            ground[2] - ground[0],
            np.median(np.ptp(picture, axis=2)),
        ],
        np.float64,
    )


def _middle_colour(part: NDArray[np.uint8]) -> tuple[NDArray[np.float64], float]:
    """The median colour of a part of a picture, float64 [3], and the mean distance to it per channel."""
    pixels = part.reshape(-1, 3)
    median = np.median(pixels, axis=0)
    return median, float(np.abs(pixels - median).mean())


def world_file(folder: Path, name: str) -> Path:
    """Where a world lies in a folder of networks."""
    return folder / f"world_{name}.json"


def world_of(profile: Profile) -> Domain | None:
    """The domain of a profile's models; None for models of photographs, which know any picture. Raises
    CounterfactoryError for a name without a file, and a file that describes no world.
    """
    name, folder = profile.models.world, profile.models.path
    if name == PHOTOGRAPHS:
        return None
    path = world_file(folder, name)
    if not path.is_file():
        worlds = [PHOTOGRAPHS, *(file.stem.removeprefix("world_") for file in sorted(folder.glob("world_*.json")))]
        raise CounterfactoryError(f'[models] world = "{name}": there is no {path}; {nearest(name, worlds)}')
    table = read_json(path)
    if not isinstance(table, dict):
        raise CounterfactoryError(f"{path} holds no table of a world")
    return fill(Domain, table, str(path))


def examiner(profile: Profile) -> Examine | None:
    """A test whether the models know a picture, uint8 RGB [H, W, 3] of any size; None where they know any."""
    world, sizes = world_of(profile), profile.image
    return None if world is None else lambda picture: world.holds(fit(picture, sizes.size_for(*picture.shape[:2])))


def drop_out_of_domain(
    profile: Profile, sources: Sequence[Source], *, allow: bool
) -> tuple[Sequence[Source], list[Problem]]:
    """The sources to make a suite of, each examined, and a problem for each one that is left out because the models do
    not know such pictures; with `allow` none is. Raises CounterfactoryError where at least half would be left out.
    """
    world = world_of(profile)
    if world is None:
        return sources, []
    examined = DiskList[Source]()
    for source in sources:
        # One that was read without an examiner is read again, if its file still allows.
        with suppress(CounterfactoryError):  # the run reads it again, and says so
            if source.known_world is None:
                source = replace(source, known_world=world.holds(load_pixels(source, profile.image)))
        examined.append(source)
    strange = [source for source in examined if source.known_world is False]
    if allow or not strange:
        return examined, []
    if 2 * len(strange) >= len(examined):
        several = len(examined) > 1
        profiles = {name: load_profile(name) for name in profile_names()}
        instead = [name for name, one in profiles.items() if one.models.world == PHOTOGRAPHS and not one.by_rule]
        raise CounterfactoryError(
            f"the models of profile {profile.name} know {world.about} and nothing else, and "
            f"{f'{len(strange)} of {len(examined)} sources do' if several else 'the source does'} not look like that"
            f"{f', such as {strange[0].name}' * several}: nothing was painted; use --profile light for other weather "
            f"and light, or {' or '.join(instead)} for other colours and surroundings as well, or "
            "--allow-out-of-domain to go on and have every result marked as meaningless"
        )
    reason = f"it does not look like {world.about}, which is all that the models know; --allow-out-of-domain takes it"
    return DiskList(s for s in examined if s.known_world is not False), [Problem(s.name, reason) for s in strange]
