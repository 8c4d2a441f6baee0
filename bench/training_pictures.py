"""What is added to a careless model's fair days, picture by picture of a suite's accepted variants: the painted ones,
the same rendered by the world that knows the truth, and as many that forget the edit: colour jitter, AugMix, and light
and weather by rule. For `retraining.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
from measure import Pixels, picture_at
from PIL import Image, ImageEnhance, ImageOps

from counterfactory.engine.keys import generator
from counterfactory.engine.light.draw import draw_light, open_photograph
from counterfactory.engine.light.drawable import drawn
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.suite import PictureRow
from counterfactory.export.pocket.counterfacts import apply_changes, read_edit

# The scenes that train and give the suite; those that judge.
TRAINED, EXAMINED = 930, 931
# What is rendered to judge: bad weather by day, the night and the sunset, bad weather at night.
CONDITIONS: Mapping[str, tuple[str | None, str]] = MappingProxyType(
    {
        **{weather: (weather, "day") for weather in ("rainy", "snowy", "foggy")},
        **{time: (None, time) for time in ("night", "sunset")},
        **{f"{weather} night": (weather, "night") for weather in ("rainy", "snowy", "foggy")},
    }
)


def fair_scene(stream: int, index: int) -> object:
    """Scene number `index` of a stream on a fair day."""
    return EMBEDDED.fair(EMBEDDED.scene(stream, index), index)


def rendered(row: PictureRow, _: Pixels) -> Pixels:
    """The scene of a row after its edits."""
    scene = EMBEDDED.fair(EMBEDDED.scene(TRAINED, int(row.source[-4:])), int(row.source[-4:]))
    edited = apply_changes(scene, [change for edit in row.edits for change in read_edit(scene, edit)])
    return EMBEDDED.draw(edited).picture


def jittered(row: PictureRow, original: Pixels) -> Pixels:
    """Brightness, contrast and saturation times 0.6 to 1.4, the hue turned by a tenth at most, as torchvision's
    ColorJitter(0.4, 0.4, 0.4, 0.1) does it.
    """
    rng, image = generator(row.key, "jitter"), Image.fromarray(original)
    for kind in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        image = kind(image).enhance(float(rng.uniform(0.6, 1.4)))
    hue, saturation, value = image.convert("HSV").split()
    turned = np.asarray(hue).astype(np.int64) + round(255 * float(rng.uniform(-0.1, 0.1)))
    hue = Image.fromarray((turned % 256).astype(np.uint8))
    return np.asarray(Image.merge("HSV", (hue, saturation, value)).convert("RGB"))


def augmixed(row: PictureRow, original: Pixels) -> Pixels:
    """AugMix (Hendrycks et al., arXiv 1912.02781) with its defaults: three chains of one to three operations at
    severity 3, mixed by Dirichlet's weights and, by Beta's, with the picture.
    """
    rng, mixed = generator(row.key, "augmix"), np.zeros(original.shape)
    for weight in rng.dirichlet([1.0] * 3):
        image = Image.fromarray(original)
        for _ in range(int(rng.integers(1, 4))):
            image = _OPERATIONS[int(rng.integers(len(_OPERATIONS)))](image, rng)
        mixed += weight * np.asarray(image)
    share = rng.beta(1.0, 1.0)
    return np.round((1 - share) * original + share * mixed).astype(np.uint8)


def lit(row: PictureRow, original: Pixels) -> Pixels:
    """The row's weather and light by the painter `light`."""
    values = [(edit.type, value) for edit in row.edits if (value := drawn(edit)) is not None]
    return draw_light(open_photograph(original), values, 1.0, generator(row.key, "light"))


def _level(rng: np.random.Generator, most: float) -> float:
    return float(rng.uniform(0.1, 3)) * most / 10


def _sign(rng: np.random.Generator) -> int:
    return 1 if rng.random() < 0.5 else -1


def _moved(image: Image.Image, matrix: tuple[float, ...]) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR)


_OPERATIONS: tuple[Callable[[Image.Image, np.random.Generator], Image.Image], ...] = (
    lambda image, rng: ImageOps.autocontrast(image),
    lambda image, rng: ImageOps.equalize(image),
    lambda image, rng: ImageOps.posterize(image, 4 - int(_level(rng, 4))),
    lambda image, rng: ImageOps.solarize(image, 256 - int(_level(rng, 256))),
    lambda image, rng: image.rotate(_sign(rng) * _level(rng, 30), Image.Resampling.BILINEAR),
    lambda image, rng: _moved(image, (1, _sign(rng) * _level(rng, 0.3), 0, 0, 1, 0)),
    lambda image, rng: _moved(image, (1, 0, 0, _sign(rng) * _level(rng, 0.3), 1, 0)),
    lambda image, rng: _moved(image, (1, 0, _sign(rng) * _level(rng, image.width / 3), 0, 1, 0)),
    lambda image, rng: _moved(image, (1, 0, 0, 0, 1, _sign(rng) * _level(rng, image.height / 3))),
)


def added(suite: Path) -> Mapping[str, Callable[[PictureRow, Pixels], Pixels]]:
    """By name, what makes the picture of a row of the suite; `original` is its source's."""

    def painted(row: PictureRow, _: Pixels) -> Pixels:
        return picture_at(suite / row.file_name)

    return {"painted": painted, "rendered": rendered, "jitter": jittered, "augmix": augmixed, "light": lit}
