"""What CLIP says of pictures and texts, as the numbers that checks keep: arithmetic over unit embeddings.

Scores are rounded to six digits, so that they are stored and compared exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def score(source: Floats, caption: Floats, picture: Floats, edited_caption: Floats) -> dict[str, float]:
    """The cosines of a picture, its source and the captions of both, [E] each: -1 to 1; "nearer" is -2 to 2."""
    vectors = np.array((source, caption, picture, edited_caption), np.float64)
    # All come of the vectors' products, those of the changes too: (p - s)(e - c) = pe - pc - se + sc.
    (ss, sc, sp, se), (_, cc, pc, ce), (_, _, pp, pe), (_, _, _, ee) = (vectors @ vectors.T).tolist()
    of_edited, of_caption = _cosine(pe, pp, ee), _cosine(pc, pp, cc)
    return {
        "image_text": of_edited,
        "directional": _cosine(pe - pc - se + sc, pp - 2 * sp + ss, ee - 2 * ce + cc),
        "image_image": _cosine(sp, pp, ss),
        "source_text": _cosine(sc, ss, cc),
        "nearer": round(of_edited - of_caption, 6),
    }


def edit_scores(image: Floats, texts: Sequence[tuple[Floats, Floats]], logit_scale: float) -> list[float]:
    """For each edit, the probability that a picture [E] shows the first of two texts [E] rather than the second. CLIP's
    own softmax over the two: at 0.5 it sees no difference.
    """
    return [round(float(_shares(image, np.stack(pair), logit_scale)[0]), 6) for pair in texts]


def label_score(compared: Sequence[Floats], classes: Floats, index: int, logit_scale: float) -> float:
    """The probability of a class of a picture [E], the first of those that are compared, less the least of the same
    probability of the others. `classes` are the texts of all classes [K, E], `index` the class's place. 0: as probable
    as before; -1: it was certain, and is out of the question.
    """
    own, *others = (float(_shares(image, classes, logit_scale)[index]) for image in compared)
    return round(own - min(others), 6)


def by_type(name: str, types: Sequence[str], scores: Sequence[float]) -> dict[str, float]:
    """`name`_TYPE: the worst score of the edits of each type."""
    worst: dict[str, float] = {}
    for type_, score in zip(types, scores, strict=True):
        worst[f"{name}_{type_}"] = min(score, worst.get(f"{name}_{type_}", score))
    return worst


def _shares(image: Floats, texts: Floats, logit_scale: float) -> NDArray[np.float64]:
    """The softmax over texts [K, E] of their likeness to a picture [E], float64 [K]."""
    logits = logit_scale * (texts.astype(np.float64) @ image)
    powers = np.exp(logits - logits.max())
    return np.asarray(powers / powers.sum())


def _cosine(product: float, left: float, right: float) -> float:
    """Of two vectors' product and their squares; 0 where there is no direction to compare."""
    return round(product / max(math.sqrt(max(left, 0.0) * max(right, 0.0)), 1e-8), 6)
