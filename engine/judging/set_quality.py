"""What a suite is like as a set: FID of pictures against the originals, and how well a language model reads captions
before and after the edits (LANCE, arXiv 2305.19164, figure 4).

FID depends on who looks: a figure is comparable with those of the same extractor and of about as many pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..suite import PictureRow
from ..variant import Kind

Floats = NDArray[np.float64]
# How well a language model reads each text: its perplexity.
Read = Callable[[Sequence[str]], Sequence[float]]
_FEWEST = 2


@dataclass(frozen=True)
class Fid:
    """The Fréchet distance of controls, and of variants, from the originals, of the `extractor`'s features; None where
    there are fewer than two such pictures. Distances from fewer `pictures` than `features` are too large.
    """

    extractor: str
    features: int
    originals: int
    controls: float | None
    variants: float | None
    pictures: int


@dataclass(frozen=True)
class CaptionPerplexity:
    """The mean perplexity of `captions` of sources and of `edited` ones of variants, to the language `model`."""

    model: str
    captions: float
    edited: float
    texts: int


def frechet_distance(first: NDArray[np.floating], second: NDArray[np.floating]) -> float:
    """That of two normal distributions with the means and covariances of the features [N, D] and [M, D], N and M at
    least 2 (Heusel et al., arXiv 1706.08500, equation 6): the squared distance of the means and tr(S + T - 2 (ST)^1/2).

    With S = A'A and T = B'B the last trace is the sum of the singular values of AB', so that no root is taken of a
    covariance of few pictures, which is singular.
    """
    means, roots, spread = list[Floats](), list[Floats](), 0.0
    for features in (first, second):
        values = np.asarray(features, np.float64)
        means.append(values.mean(axis=0))
        root = (values - means[-1]) / np.sqrt(len(values) - 1)
        spread += float((root**2).sum())
        roots.append(np.asarray(np.linalg.qr(root, mode="r")) if len(root) > root.shape[1] else root)
    shared = float(np.linalg.svd(roots[0] @ roots[1].T, compute_uv=False).sum())
    return max(0.0, float(((means[0] - means[1]) ** 2).sum()) + spread - 2 * shared)


def measure_fid(rows: Sequence[PictureRow], features: Mapping[str, NDArray[np.floating]], extractor: str) -> Fid:
    """FID of the accepted pictures that have `features` [D], by `file_name`. Raises CounterfactoryError where fewer
    than two originals have them, or they are not as many for all.
    """
    if len(sizes := {len(vector) for vector in features.values()}) > 1:
        raise CounterfactoryError(f"{extractor} gives pictures {' and '.join(map(str, sorted(sizes)))} features")
    of: dict[Kind, list[NDArray[np.floating]]] = {"original": [], "control": [], "variant": []}
    for row in rows:
        if row.accepted and row.kind in of and row.file_name in features:
            of[row.kind].append(features[row.file_name])
    originals = of["original"]
    if len(originals) < _FEWEST:
        raise CounterfactoryError(
            f"FID compares with the originals, of which {len(originals)} can be read: two at least"
        )

    def distance(kind: Kind) -> float | None:
        return frechet_distance(np.stack(originals), np.stack(of[kind])) if len(of[kind]) >= _FEWEST else None

    counts = (len(originals), distance("control"), distance("variant"), len(of["variant"]))
    return Fid(extractor, len(originals[0]), *counts)


def measure_perplexity(rows: Sequence[PictureRow], read: Read, model: str) -> CaptionPerplexity:
    """That of the captions of accepted variants and of their sources; on record where the suite was made with it, else
    as the `model` reads them now. Raises CounterfactoryError where no variant has captions.
    """
    variants = [row for row in rows if row.kind == "variant" and row.accepted and row.caption and row.edited_caption]
    if not variants:
        raise CounterfactoryError("no accepted variant has a caption: perplexity is of captions before and after edits")
    known: dict[str, float] = {}
    for row in variants:
        own, ratio = row.scores.get("perplexity"), row.scores.get("perplexity_ratio")
        if own is not None and ratio:
            known |= {row.edited_caption: own, row.caption: own / ratio}
    texts = [text for row in variants for text in (row.caption, row.edited_caption)]
    missing = [text for text in dict.fromkeys(texts) if text not in known]
    known |= zip(missing, read(missing) if missing else (), strict=True)
    captions = {row.source: row.caption for row in variants}.values()
    before, after = (
        float(np.mean([known[text] for text in some])) for some in (captions, [row.edited_caption for row in variants])
    )
    return CaptionPerplexity(model, before, after, len(set(texts)))
