"""A referee without errors, made of the truth: what figures are held against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.pocket.judges import Finding
from counterfactory.engine.pocket.world import Scene
from counterfactory.engine.pocket.worlds import EMBEDDED, NOTHING, Drawing


def true_finding(scene: Scene, drawing: Drawing) -> Finding:
    """What there is to see in a drawing."""
    truth = EMBEDDED.truth(scene, drawing)
    objects = np.where(truth == NOTHING, 0, truth).astype(np.uint8)
    return Finding(
        drawing.mask,
        {name: getattr(scene, name) for name in EMBEDDED.words},
        dict(zip(EMBEDDED.object_words, objects, strict=True)),
    )


class TrueReferee:
    """Knows the drawings that it was given by their pictures, and is right about them."""

    def __init__(self, known: Sequence[tuple[Scene, Drawing]]) -> None:
        self._findings = {drawing.picture.tobytes(): true_finding(scene, drawing) for scene, drawing in known}

    def inspect(self, images: NDArray[np.uint8]) -> list[Finding]:
        """One finding per picture."""
        return [self._findings[image.tobytes()] for image in images]
