"""What a picture looks like as another kind of picture: a pencil sketch, a painting. Outlines stay."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from .scene import SIZE

Floats = NDArray[np.float32]
_PAPER, _PENCIL = (250, 248, 241), (40, 40, 46)


def sketch(colours: Floats, outlines: NDArray[np.uint8], shadow: Floats, bare: Floats, seed: int) -> Floats:
    """Pencil on paper, float32 [H, W, 3]: outlines, and hatching where it is dark.

    `colours` are those of a scene by day and `outlines` the numbers of its surfaces, uint8 [H, W]. `shadow` [H, W] is
    hatched beside what is dark anyway, 0 to 1; `bare` [H, W, 1] is the share of the paper that the pencil leaves out.
    The same seed makes the same strokes.
    """
    grey = colours @ np.array([0.299, 0.587, 0.114], np.float32)
    fine, broad = cv2.GaussianBlur(grey, (0, 0), 0.55), cv2.GaussianBlur(grey, (0, 0), 1.3)
    lines = np.clip((broad - fine) / 42 - 0.05, 0, 0.9)  # the dark side of each edge
    border = cv2.morphologyEx(outlines, cv2.MORPH_GRADIENT, np.ones((2, 2), np.uint8)) > 0
    lines = np.maximum(lines, 0.5 * cv2.GaussianBlur(border.astype(np.float32), (0, 0), 0.45))
    rows, columns = np.mgrid[:SIZE, :SIZE].astype(np.float32)
    wobble = np.random.default_rng(seed).normal(0, 1, (6, 6)).astype(np.float32)
    wobble = np.asarray(cv2.resize(wobble, (SIZE, SIZE), interpolation=cv2.INTER_CUBIC), np.float32)
    hatch = 0.5 + 0.5 * np.sin((columns + rows) * 0.95 + 1.2 * wobble)
    dark = np.clip(1 - fine / 215, 0, 1)
    tone = dark * (0.26 + 0.2 * hatch) + shadow * (0.16 + 0.14 * hatch)
    ink = np.clip(tone + lines * 0.85, 0, 0.93)[..., None] * (1 - bare)
    return np.asarray(np.array(_PAPER, np.float32) * (1 - ink) + np.array(_PENCIL, np.float32) * ink, np.float32)


def painting(picture: Floats, careful: NDArray[np.bool_], seed: int) -> Floats:
    """Oil on canvas, float32 [H, W, 3]: strong colours in flat dabs (Kuwahara's filter), with the brush's relief.

    Where `careful` [H, W] holds, small strokes keep what there is to be seen.
    """
    hsv = cv2.cvtColor(np.clip(picture / 255, 0, 1), cv2.COLOR_RGB2HSV)
    hsv[..., 1] = np.clip(hsv[..., 1] * 1.35 + 0.04, 0, 1)
    strong = np.asarray(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB) * np.float32(255), np.float32)
    rows, columns = np.mgrid[:SIZE, :SIZE].astype(np.float32)
    noise = np.random.default_rng(seed).normal(0, 1, (2, SIZE // 3, SIZE // 3)).astype(np.float32)
    brush = np.full((1, 5), 0.2, np.float32)
    strokes = [cv2.resize(cv2.filter2D(part, -1, brush), (SIZE, SIZE), interpolation=cv2.INTER_CUBIC) for part in noise]
    across, down = columns + 1.8 * strokes[0], rows + 1.8 * strokes[1]
    moved = np.asarray(cv2.remap(strong, across, down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT), np.float32)
    flat = np.where(careful[..., None], 0.35 * _kuwahara(strong, 3) + 0.65 * strong, _kuwahara(moved, 3))
    return np.asarray(flat + 13 * strokes[0][..., None], np.float32)


def _kuwahara(picture: Floats, side: int) -> Floats:
    """Each pixel becomes the mean of whichever of the four squares at it varies least."""
    means = np.asarray(cv2.blur(picture, (side, side), borderType=cv2.BORDER_REFLECT), np.float32)
    grey = picture @ np.array([0.299, 0.587, 0.114], np.float32)
    middle = cv2.blur(grey, (side, side), borderType=cv2.BORDER_REFLECT)
    spread = cv2.blur(grey * grey, (side, side), borderType=cv2.BORDER_REFLECT) - middle * middle
    half = (side + 1) // 2
    best, least = means, np.full(grey.shape, np.inf, np.float32)
    padded = cv2.copyMakeBorder(means, half, half, half, half, cv2.BORDER_REPLICATE)
    spreads = cv2.copyMakeBorder(spread, half, half, half, half, cv2.BORDER_REPLICATE)
    for y in (0, 2 * half):
        for x in (0, 2 * half):
            window = slice(y, y + SIZE), slice(x, x + SIZE)
            better = spreads[window] < least
            least = np.where(better, spreads[window], least)
            best = np.asarray(np.where(better[..., None], padded[window], best), np.float32)
    return best
