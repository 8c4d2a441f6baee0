"""Light and air: what time of day and weather make of a painted scene, at the size of the picture."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from .scene import CLASSES, SIZE, Scene

_LIGHT = {"day": (1.0, 1.0, 1.0), "sunset": (1.0, 0.76, 0.62), "night": (0.40, 0.43, 0.56)}
_FOG = {"day": (210, 213, 217), "sunset": (208, 168, 142), "night": (62, 66, 80)}
_AIR = {"clear": 1.0, "cloudy": 0.93, "foggy": 0.95, "snowy": 0.95, "rainy": 0.82}
# Street units in which fog takes two thirds of what is seen, and the most that it takes: a background stays a hint.
_FOG_REACH, _THICKEST = 9.0, 0.84

Floats = NDArray[np.float32]


def light(plain: Floats, lit: Floats, lamps: Floats, labels: NDArray[np.uint8], scene: Scene) -> Floats:
    """The picture in its light, float32 [H, W, 3].

    `plain` are the colours of what is lit, `lit` of what keeps its own, `lamps` of what shines; all are black
    elsewhere.
    """
    daylight = np.array(_LIGHT[scene.time], np.float32) * np.float32(_AIR[scene.weather])
    if scene.time == "night":
        # Street lamps: what stands in the street is lit, so that its colours stay visible.
        first = CLASSES.index("vehicle")
        near = np.array([1.55 if label >= first else 1.0 for label in range(len(CLASSES))], np.float32)
        plain = plain * near[labels][..., None]
    picture = plain * daylight + lit
    if scene.time == "night":
        picture += 0.8 * cv2.GaussianBlur(lamps, (0, 0), 2.2)
    return np.asarray(picture, np.float32)


def fog(inverse: Floats, scene: Scene) -> Floats:
    """The share of each pixel that fog takes, float32 [H, W, 1]; `inverse` is one over the distance, 0 in the sky."""
    if scene.weather != "foggy":
        return np.zeros((*inverse.shape, 1), np.float32)
    through = np.exp(-1 / (_FOG_REACH * np.maximum(inverse, 1 / 80)))
    return np.asarray(np.minimum(1 - through, np.where(inverse > 0, _THICKEST, 0.93))[..., None], np.float32)


def drops(scene: Scene, air: np.random.Generator) -> Floats:
    """The share of each pixel that rain or snow in the air takes, float32 [H, W, 1]."""
    side = SIZE * 2
    canvas = np.zeros((side, side), np.uint8)
    if scene.weather == "rainy":
        for x, y, length in air.integers((0, 0, 10), (side, side, 20), (110, 3)).tolist():
            cv2.line(canvas, (x, y), (x - length // 4, y + length), 150, 1, cv2.LINE_AA)
    elif scene.weather == "snowy":
        for x, y, radius in air.integers((0, 0, 1), (side, side, 4), (130, 3)).tolist():
            cv2.circle(canvas, (x, y), radius, 245, -1, cv2.LINE_AA)
    small = cv2.resize(canvas, (SIZE, SIZE), interpolation=cv2.INTER_AREA)
    return np.asarray(small[..., None] / np.float32(255), np.float32)


def through_fog(picture: Floats, share: Floats, scene: Scene) -> Floats:
    """The picture of which fog takes a share."""
    return np.asarray(picture + (np.array(_FOG[scene.time], np.float32) - picture) * share)


def through_drops(picture: Floats, share: Floats, scene: Scene) -> Floats:
    """The picture of which rain or snow in the air takes a share."""
    night = scene.time == "night"
    if scene.weather == "snowy":
        colour = (182, 186, 198) if night else (252, 252, 254)
    else:
        colour = (124, 130, 150) if night else (206, 212, 222)
    return np.asarray(picture + (np.array(colour, np.float32) - picture) * share)
