"""The same scene by a worse camera: out of focus, moved, with a wrong white balance, noisy, or compressed too far.

Blurs are of linear light, symmetric about each pixel and of sum 1: nothing moves. The small picture stays sharp, as
nothing that is read from it needs detail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from counterfactory.kernels.opencv import cv2

from .grain import add_grain, grain
from .view import Bytes, Colour, Floats, View, encode, luminance, open_view, scaled

# A disc is drawn at this radius in pixels at most: larger ones on a smaller picture, and enlarged. OpenCV turns to
# Fourier transforms for kernels of more than 11 x 11, which take longer.
_RADIUS = 5.0
# Lines of more pixels are made of shorter ones.
_SHORT_LINE = 8.0
# The shorter side at which a picture is compressed at most; a larger one is made smaller before, or its blocks would be
# too small to be seen.
_COMPRESSED = 512


def out_of_focus(view: View, amount: float) -> View:
    """Each point is a disc."""
    radius = 0.022 * amount * view.short
    factor = max(1, int(np.ceil(radius / _RADIUS)))
    kernel = disc(radius / factor)
    reach = len(kernel) // 2

    def blur(pixels: Floats) -> Floats:
        # What is white may be brighter than white, which a disc of it shows.
        bright = cv2.addWeighted(pixels, 1, np.maximum(pixels - np.float32(0.9), 0), 6, 0)
        return np.asarray(cv2.filter2D(bright, cv2.CV_32F, kernel, borderType=cv2.BORDER_REPLICATE), np.float32)

    return _by_blocks(view, factor, reach, blur)


def disc(radius: float) -> Floats:
    """A disc with smooth edges, of sum 1, float32 [2 n + 1, 2 n + 1]; of radius 0 the pixel alone."""
    reach = int(np.ceil(radius))
    fine = 8
    places = (np.arange((2 * reach + 1) * fine) + 0.5) / fine - reach - 0.5
    inside = places[:, None] ** 2 + places[None] ** 2 <= max(radius, 0.5) ** 2
    shares = inside.reshape(2 * reach + 1, fine, 2 * reach + 1, fine).mean(axis=(1, 3))
    return np.asarray(shares / shares.sum(), np.float32)


def in_motion(view: View, amount: float, rng: np.random.Generator) -> View:
    """Each point is a line: the camera moved while it looked."""
    line = Line.of(0.085 * amount * view.short, rng.uniform(-0.6, 0.6))
    before, height = view.rows, view.height

    def rows(top: int, bottom: int) -> Floats:
        first, last = max(0, top - line.halo), min(height, bottom + line.halo)
        return line.blur(before(first, last))[top - first : bottom - first]

    return replace(view, rows=rows, halo=view.halo + line.halo)


@dataclass(frozen=True)
class Line:
    """A blur along a line: by a short one, a `kernel` of sum 1, and by `steps` (x, y), each of which makes the line
    twice as long: the mean of a picture moved by the step and by its opposite.
    """

    kernel: Floats
    steps: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, length: float, angle: float) -> Line:
        """Of a length in pixels, at an angle from the horizontal."""
        doublings = max(0, int(np.ceil(np.log2(max(length, 1e-3) / _SHORT_LINE))))
        short, steps = length, list[tuple[int, int]]()
        for _ in range(doublings):  # the longest first: what whole pixels take or leave, the shorter lines make good
            x, y = round(short / 4 * np.cos(angle)), round(short / 4 * np.sin(angle))
            steps.insert(0, (x, y))
            short = max(short**2 - 12 * (x**2 + y**2), (short / 4) ** 2) ** 0.5
        reach = max(1, int(np.ceil(short / 2)))
        kernel = np.zeros((2 * reach + 1, 2 * reach + 1))
        for along in (np.arange(64) + 0.5) / 64 * short - short / 2:
            x, y = reach + along * np.cos(angle), reach + along * np.sin(angle)
            column, row = min(int(x), 2 * reach - 1), min(int(y), 2 * reach - 1)
            right, below = x - column, y - row
            kernel[row : row + 2, column : column + 2] += np.outer((1 - below, below), (1 - right, right))
        return cls(np.asarray(kernel / kernel.sum(), np.float32), tuple(steps))

    @property
    def halo(self) -> int:
        """How many rows it reaches up and down."""
        return len(self.kernel) // 2 + sum(abs(y) for _, y in self.steps)

    def blur(self, pixels: Floats) -> Floats:
        """Pixels [h, w, 3], blurred."""
        height, width = pixels.shape[:2]
        border = cv2.BORDER_REPLICATE
        pixels = np.asarray(cv2.filter2D(pixels, cv2.CV_32F, self.kernel, borderType=border), np.float32)
        for x, y in self.steps:
            across, down = abs(x), abs(y)
            wide: Floats = np.asarray(cv2.copyMakeBorder(pixels, down, down, across, across, border), np.float32)
            low = down + (down if x * y >= 0 else -down)
            right, left = wide[low : low + height, 2 * across :], wide[2 * down - low :][:height, :width]
            pixels = np.asarray(cv2.addWeighted(right, 0.5, left, 0.5, 0), np.float32)
        return pixels


# Lights that a camera takes for white when it is wrong: red, green and blue of what it makes of white.
_CASTS: tuple[Colour, ...] = ((2.4, 0.93, 0.15), (0.28, 0.93, 3.2), (0.5, 1.4, 0.36), (1.9, 0.5, 1.65))


def discoloured(view: View, amount: float, rng: np.random.Generator) -> View:
    """A wrong white balance: orange, blue, green or magenta."""
    cast = np.array(_CASTS[int(rng.integers(len(_CASTS)))]) ** amount
    before = float(luminance(view.small).mean())
    after = float(luminance(np.asarray(view.small * cast.astype(np.float32), np.float32)).mean())
    red, green, blue = (cast * (before / max(after, 1e-6))).tolist()

    return view.changed(lambda pixels, window: scaled(pixels, (red, green, blue)))


def noisy(view: View, amount: float, rng: np.random.Generator) -> View:
    """A sensor in too little light."""
    noise = grain(view, rng)

    shot, read = 0.09 * amount**2, 0.06 * amount
    return view.changed(lambda pixels, window: add_grain(pixels, noise, window, shot, read))


def compressed(view: View, amount: float) -> View:
    """Through JPEG at a low quality; colours are of half the resolution but where it is high, as cameras write it."""
    factor = max(1, round(1 + (view.short / _COMPRESSED - 1) * amount))
    quality = round(90 * (1 - amount) ** 2 + 6)
    sampling = cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444 if quality > 75 else cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420
    settings = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, sampling]

    def squeeze(pixels: Floats) -> Floats:
        picture = encode(pixels, np.full(pixels.shape, 128, np.uint8))
        parts = []
        for left in range(0, picture.shape[1], 32768):
            part = np.ascontiguousarray(picture[:, left : left + 32768, ::-1])
            _, data = cv2.imencode(".jpg", part, settings)
            parts.append(np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR), np.uint8)[..., ::-1])
        whole: Bytes = np.ascontiguousarray(np.concatenate(parts, axis=1))
        return open_view(whole, None).rows(0, len(whole))

    return _by_blocks(view, factor, 16, squeeze, 16)


def _by_blocks(view: View, factor: int, reach: int, work: Callable[[Floats], Floats], align: int = 1) -> View:
    """A view whose rows pass through `work` at a `factor`th of their size and are enlarged again. `reach` counts the
    rows around a row that it is made of, there; strips begin at multiples of `align`.
    """
    height, width, before = view.height, view.width, view.rows
    unit = factor * align
    halo = (reach + 2) * factor + unit

    def rows(top: int, bottom: int) -> Floats:
        first = max(0, (top - (reach + 2) * factor) // unit * unit)
        last = min(height, -(-(bottom + (reach + 2) * factor) // unit) * unit)
        pixels = before(first, last)
        if factor == 1:
            return work(pixels)[top - first : bottom - first]
        down, right = -(last - first) % factor, -width % factor
        padded = cv2.copyMakeBorder(pixels, 0, down, 0, right, cv2.BORDER_REPLICATE)
        size = padded.shape[1] // factor, padded.shape[0] // factor
        worked = work(np.asarray(cv2.resize(padded, size, interpolation=cv2.INTER_AREA), np.float32))
        large = cv2.resize(worked, padded.shape[1::-1], interpolation=cv2.INTER_LINEAR)
        return np.asarray(large, np.float32)[top - first : bottom - first, :width]

    return replace(view, rows=rows, halo=view.halo + halo)
