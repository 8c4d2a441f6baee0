"""A referee without errors, made of the truth: what figures are held against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.pocket.judges import Finding
from counterfactory.engine.pocket.worlds import NOTHING, Drawing, World


def true_finding(world: World, scene: Any, drawing: Drawing) -> Finding:
    """What there is to see in a drawing."""
    objects = np.where(world.truth(scene, drawing) == NOTHING, 0, world.truth(scene, drawing)).astype(np.uint8)
    return Finding(
        world.vocabulary,
        drawing.mask,
        {name: getattr(scene, name) for name in world.words},
        dict(zip(world.object_words, objects, strict=True)),
    )


class TrueReferee:
    """Knows the drawings that it was given by their pictures, and is right about them."""

    def __init__(self, world: World, known: Sequence[tuple[Any, Drawing]]) -> None:
        self._findings = {d.picture.tobytes(): true_finding(world, scene, d) for scene, d in known}

    def inspect(self, images: NDArray[np.uint8]) -> list[Finding]:
        """One finding per picture."""
        return [self._findings[image.tobytes()] for image in images]
