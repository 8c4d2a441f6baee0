"""The pocket models that judge pictures: two models under test, and the referee that measures.

All take uint8 RGB pictures [N, 128, 128, 3] and return labels, masks or maps of attributes. The classifier and the
segmenter were trained on fair days only, so that a suite has faults to find; the referee knows every weather and time
of day. None of them takes part in making a suite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from ..packages import pocket_networks
from ..runtime.blob_cache import BlobCache
from ..runtime.openvino import OpenVinoSession, open_session
from .worlds import EMBEDDED, SIZE

Images = NDArray[np.uint8]


@dataclass(frozen=True)
class Judge:
    """A network that judges, run in batches of one size."""

    session: OpenVinoSession
    batch: int
    file: ClassVar[str]

    @classmethod
    def load(
        cls, weights: Path | None = None, *, batch: int = 16, threads: int = 0, blobs: BlobCache | None = None
    ) -> Self:
        """Load from a folder of weights, None for the pocket networks', to run on so many threads, 0 for all cores; in
        `blobs` it is kept compiled. Raises CounterfactoryError if it is missing.
        """
        # f32: a measuring instrument must not depend on the CPU's arithmetic, and these networks are small.
        file = (weights or pocket_networks()) / cls.file
        session = open_session(file, batch=batch, precision="f32", threads=threads, blobs=blobs)
        return cls(session, batch)

    def run(self, images: Images) -> Iterator[tuple[int, dict[str, NDArray[np.float32]]]]:
        """Yield (index of a batch's first picture, outputs by name). Raises CounterfactoryError for another shape."""
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != (SIZE, SIZE, 3):
            raise CounterfactoryError(
                f"the pocket judges look at uint8 pictures [N, {SIZE}, {SIZE}, 3], got {images.dtype} "
                f"{list(images.shape)}; resize the pictures to {SIZE} x {SIZE} RGB"
            )
        for first in range(0, len(images), self.batch):
            part = images[first : first + self.batch]
            pixel_values = np.zeros((self.batch, 3, SIZE, SIZE), np.float32)
            pixel_values[: len(part)] = part.transpose(0, 3, 1, 2) / np.float32(127.5) - 1
            outputs = self.session.run({"pixel_values": pixel_values})
            yield first, {name: values[: len(part)] for name, values in outputs.items()}


class Classifier(Judge):
    """The classifier under test: the kind of the nearest vehicle."""

    file = "classifier.xml"

    def predict(self, images: Images) -> list[str]:
        """One label of `EMBEDDED.kinds` per picture. Raises CounterfactoryError on pictures of another shape."""
        return [EMBEDDED.kinds[i] for _, outputs in self.run(images) for i in outputs["logits"].argmax(1).tolist()]


class Segmenter(Judge):
    """The segmenter under test: the class of every pixel."""

    file = "segmenter.xml"

    def predict(self, images: Images) -> NDArray[np.uint8]:
        """Masks [N, 128, 128] of indices into `EMBEDDED.classes`. Raises CounterfactoryError for pictures of another
        shape.
        """
        masks = np.zeros(images.shape[:3], np.uint8)
        for first, outputs in self.run(images):
            part = outputs["mask_logits"].argmax(1)
            masks[first : first + len(part)] = part
        return masks


_classifier, _segmenter = cache(Classifier.load), cache(Segmenter.load)


def classify_streets(images: Images) -> NDArray[np.float32]:
    """A referee of kind "labels" for `[[referees]]`: probabilities [N, K] of `EMBEDDED.kinds` for uint8 pictures."""
    logits = np.concatenate([outputs["logits"] for _, outputs in _classifier().run(images)])
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def segment_streets(images: Images) -> NDArray[np.uint8]:
    """A referee of kind "masks" for `[[referees]]`: [N, 128, 128] of indices into `EMBEDDED.classes` for pictures."""
    return _segmenter().predict(images)


@dataclass(frozen=True)
class Finding:
    """What the referee sees in a picture.

    `mask` uint8 [128, 128] are indices into the world's classes, `scene` the value of each attribute of the scene,
    `objects` uint8 [128, 128] by attribute: at each pixel the index of the value that a vehicle there would have.
    """

    mask: NDArray[np.uint8]
    scene: Mapping[str, str]
    objects: Mapping[str, NDArray[np.uint8]]

    def object(self, where: NDArray[np.bool_]) -> dict[str, str]:
        """Attributes of a vehicle, by most pixels in `where`, bool [128, 128]. Raises CounterfactoryError for none."""
        if not where.any():
            raise CounterfactoryError("an object is identified by its pixels; the region given is empty")
        votes = {name: int(np.bincount(values[where]).argmax()) for name, values in self.objects.items()}
        return {name: EMBEDDED.object_words[name][index] for name, index in votes.items()}


@dataclass(frozen=True)
class Referee(Judge):
    """Sees the classes of pixels and the attributes of scenes and vehicles under all conditions. It lies with the
    masters, export/pocket/weights of a checkout. Raises CounterfactoryError for a network that answers something else.
    """

    file: ClassVar[str] = "referee.xml"

    def __post_init__(self) -> None:
        answers = {port.name for port in self.session.signature.outputs}
        expected = {"mask_logits", *EMBEDDED.words, *EMBEDDED.object_words}
        if answers != expected:
            raise CounterfactoryError(
                f"{self.file} answers {', '.join(sorted(answers))}, and this world asks for "
                f"{', '.join(sorted(expected))}; name the weights of a referee that was trained in this world"
            )

    def inspect(self, images: Images) -> list[Finding]:
        """One finding per picture. Raises CounterfactoryError on pictures of another shape."""
        findings = list[Finding]()
        for _, outputs in self.run(images):
            best = {name: values.argmax(1).astype(np.uint8) for name, values in outputs.items()}
            for i, mask in enumerate(best["mask_logits"]):
                scene = {name: values[int(best[name][i])] for name, values in EMBEDDED.words.items()}
                findings.append(Finding(mask, scene, {name: best[name][i] for name in EMBEDDED.object_words}))
        return findings
