"""How like the truth painted pictures are as a set: how sharp, and how far their distribution is from it (KID).

A referee is blind to blur, which it was trained to see through; these two are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from .observed import Observed

Floats = NDArray[np.float64]
Pictures = Sequence[NDArray[np.uint8]]

_SUBSETS, _SUBSET_SIZE = 100, 100
_LEAST_SCENES = 4  # of which two sets have two each
_SEED = 14


def sharpness(pictures: Pictures) -> float:
    """The mean absolute Laplacian of pictures' grey levels: the four neighbours less four times the pixel."""
    grey = [cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY) for picture in pictures]
    return float(np.mean([np.abs(cv2.Laplacian(levels, cv2.CV_32F)).mean() for levels in grey]))


def polynomial_mmd(x: Floats, y: Floats) -> float:
    """The unbiased squared maximum mean discrepancy of features [N, D] and [M, D] under (x.y / D + 1)^3.

    Bińkowski et al. 2018 (arXiv 1801.01401), section 4 and eq. 4 of the appendix; it may be below 0.
    """

    def kernel(a: Floats, b: Floats) -> Floats:
        return np.asarray((a @ b.T / a.shape[1] + 1) ** 3)

    def within(a: Floats) -> float:
        of_pairs = kernel(a, a)
        return float((of_pairs.sum() - np.trace(of_pairs)) / (len(a) * (len(a) - 1)))

    return within(x) + within(y) - 2 * float(kernel(x, y).mean())


def kid(x: NDArray[Any], y: NDArray[Any], scenes: NDArray[np.int64]) -> tuple[float, float]:
    """Mean and standard deviation of `polynomial_mmd` over random subsets of features [N, D] and [N, D].

    `scenes` int64 [N], of four or more, says whose the rows of both are. A subset has of each scene one row at most and
    on one side only, since pictures of one layout are alike: rows of both sides are independent, as the estimate asks.
    """
    rng = np.random.default_rng(_SEED)
    x, y = x.astype(np.float64), y.astype(np.float64)
    rows_of = [np.flatnonzero(scenes == scene) for scene in np.unique(scenes)]
    size = min(_SUBSET_SIZE, len(rows_of) // 2)
    found = []
    for _ in range(_SUBSETS):
        order = rng.permutation(len(rows_of))[: 2 * size]
        rows = np.array([rng.choice(rows_of[i]) for i in order])
        found.append(polynomial_mmd(x[rows[:size]], y[rows[size:]]))
    return float(np.mean(found)), float(np.std(found))


def likeness_figures(
    observed: Sequence[Observed],
    extract: Callable[[Pictures], NDArray[Any]],
    reconstruct: Callable[[Pictures], Pictures],
) -> dict[str, Any]:
    """Sharpness and KID of the pictures whose truth is known, by features [N, D]; none of fewer than four scenes.

    `sharpness` is over the sources', `sharpness_truth` over that of the truth's renderings. `kid` is from the truth:
    `kid_floor` that of the truth itself, which an ideal painter has, `kid_reconstructed` that of the truth after the
    autoencoder, and `kid_sources` that of the sources, in which nothing was changed.
    """
    known = [(one, one.target.picture) for one in observed if one.target is not None]
    names = sorted({one.source for one, _ in known})
    if len(names) < _LEAST_SCENES:
        return {}
    scenes = np.array([names.index(one.source) for one, _ in known])
    pictures, truth = [one.picture for one, _ in known], [picture for _, picture in known]
    sources = [one.drawing.picture for one, _ in known]
    true = extract(truth)
    mean, spread = kid(extract(pictures), true, scenes)
    return {
        "sharpness": sharpness(pictures) / sharpness(sources),
        "sharpness_truth": sharpness(pictures) / sharpness(truth),
        "kid": mean,
        "kid_spread": spread,
        "kid_floor": kid(true, true, scenes)[0],
        "kid_reconstructed": kid(extract(reconstruct(truth)), true, scenes)[0],
        "kid_sources": kid(extract(sources), true, scenes)[0],
        "kid_variants": len(known),
        "kid_scenes": len(names),
    }
