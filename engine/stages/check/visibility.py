"""Whether what a source shows is still to be seen in its picture: numbers of pixels alone, no network.

    visible   how much of what the source shows of its labelled things its picture shows
    intact    1 less the share of blocks that are flat or black where the source's are not

Around each pixel the picture's lightness is taken as a multiple g of the source's, which least squares find, and what
the source does not have: noise, flakes, streaks, texture painted anew. Of the source's variance s² it keeps g² s²
beside the rest v, and the eye adds noise n of its own, so that it shows log2(1 + g² s² / (b v + n²)) bits where the
source shows log2(1 + s² / n²). That is visual information fidelity (Sheikh & Bovik 2006, IEEE TIP 15(2), 430-444), here
of CIELAB's lightness, over a few scales, near the thing, and with b below 1: eyes see through noise by its structure.
A thing that turns from light to dark before its background shows as much, so the sign of g does not count.

A thing is a box of the source, a class of its mask, or without either what is in the middle. Boxes are looked at with
as much of their surroundings, since an outline is what they differ by, and at the same size, whatever theirs. What
shows next to nothing in the source cannot be lost: it is left out, and a source without any thing has no such score.
Of several things the mean counts, or the worst one where that is two thirds of it or less: what is worst of many is
low by chance too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.opencv import cv2

from ...sources.shapes import Box
from .quality import Pixels, smaller

Floats = NDArray[np.float32]

# Pixels of the shorter side of what is looked at, at most; how often it is halved; the window's side.
_SIDE, _SCALES, _WINDOW = 96, 2, 3
# The eye's noise in levels of lightness, 0 to 100, and how much of a picture's own counts beside it.
_EYE, _MASKING = 0.2, 0.4
# Bits a window below which a source shows nothing.
_PLAIN = 2.0
# What a box is seen with, in its own sides, and pixels of that at least; how fast pixels count less from its middle on,
# a standard deviation in shares of that; and how many boxes are looked at, the largest.
_AROUND, _LEAST_SIDE, _NEAR, _BOXES = 2.0, 32, 0.3, 64
# What the worst of several things counts for.
_WORST = 1.5
# The least share of a mask that counts as a class, and over how many pixels it reaches beyond itself.
_CLASS, _REACH = 0.004, 5
# Blocks along the shorter side, and their least side; levels within which a block is flat, those within which its
# source's is too, and up to which it is black.
_ALONG, _BLOCK, _FLAT, _STRUCTURE, _BLACK = 12, 4, 2, 48, 24


class Scale(NamedTuple):
    """A thing at one scale, float32 [h, w] each: the source's `lightness`, its local `mean` and `variance`, how much
    each pixel counts, which sums to 1, and the bits that the source shows.
    """

    lightness: Floats
    mean: Floats
    variance: Floats
    weight: Floats
    bits: Floats


class Thing(NamedTuple):
    """Where in a picture a thing is looked at, rows and columns, and as what."""

    rows: slice
    columns: slice
    scales: tuple[Scale, ...]


class SourceSight(NamedTuple):
    """What a source shows: its things, and the greatest and least levels of its blocks, uint8 [rows, columns, 3]."""

    things: tuple[Thing, ...]
    highest: Pixels
    lowest: Pixels


def see_source(source: Pixels, boxes: Sequence[Box], mask: NDArray[Any] | None) -> SourceSight:
    """A source's picture, uint8 RGB [H, W, 3], with its boxes in pixels and its mask [H, W] or [H, W, C], of any
    values; boxes go before the mask.
    """
    found = list(_boxed(source, boxes) if boxes else () if mask is None else _masked(source, mask))
    return SourceSight(tuple(found or _boxed(source, ())), *_blocks(source))


def visibility_scores(picture: Pixels, source: SourceSight) -> dict[str, float]:
    """The scores of a picture, uint8 RGB [H, W, 3] of its source's size; no "visible" where the source shows nothing.

    To four digits: a few pixels' last bits depend on where in memory they lie.
    """
    highest, lowest = _blocks(picture)
    flat = (highest - lowest).max(axis=2) <= _FLAT
    lost = flat & ((source.highest - source.lowest).max(axis=2) > _STRUCTURE)
    lost |= (highest.max(axis=2) <= _FLAT) & (source.highest.max(axis=2) > _BLACK)
    scores = {"intact": round(1 - float(lost.mean()), 4)}
    if source.things:
        shown = [_shown(picture, thing) for thing in source.things]
        scores["visible"] = round(min(sum(shown) / len(shown), _WORST * min(shown)), 4)
    return scores


def _boxed(source: Pixels, boxes: Sequence[Box]) -> Iterator[Thing]:
    """The largest boxes, each with its surroundings; the whole picture around its middle where there are none."""
    height, width = source.shape[:2]
    for box in sorted(boxes, key=lambda box: -box.area)[:_BOXES] or [Box(0, 0, width, height, "")]:
        rows, row = _around(box.y0, box.y1, height)
        columns, column = _around(box.x0, box.x1, width)
        yield from _thing(source, rows, columns, np.outer(row, column))


def _around(start: float, stop: float, length: int) -> tuple[slice, Floats]:
    """A box's side with its surroundings, within a picture's, and how much each pixel of it counts."""
    side = max(_AROUND * (stop - start), _LEAST_SIDE)
    middle = (start + stop) / 2
    first, last = max(0, round(middle - side / 2)), min(length, round(middle + side / 2))
    first, last = min(first, length - 1), max(last, 1)
    side = min(side, length)
    away = (np.arange(first, last, dtype=np.float32) + np.float32(0.5 - middle)) / np.float32(_NEAR * side)
    return slice(first, last), np.asarray(np.exp(-(away**2) / 2), np.float32)


def _masked(source: Pixels, mask: NDArray[Any]) -> Iterator[Thing]:
    """Each class of a mask that is large enough, with its outline."""
    size = smaller(source, _scale(source)).shape[1::-1]
    small = cv2.resize(mask, size, interpolation=cv2.INTER_NEAREST_EXACT).reshape(*size[::-1], -1).astype(np.int64)
    numbers = small @ (1 << 16 * np.arange(small.shape[2]))  # one number a colour
    values, counts = np.unique(numbers, return_counts=True)
    for value in values[counts >= _CLASS * numbers.size]:
        own = cv2.dilate((numbers == value).astype(np.float32), np.ones((_REACH, _REACH), np.uint8))
        whole = slice(0, source.shape[0]), slice(0, source.shape[1])
        yield from _thing(source, *whole, np.asarray(own, np.float32))


def _thing(source: Pixels, rows: slice, columns: slice, weight: Floats) -> Iterator[Thing]:
    """A thing of a source, by how much pixels count, at any size; none where the source shows nothing of it."""
    scales = []
    for lightness in _lightnesses(source[rows, columns]):
        size = lightness.shape[1::-1]
        near = np.asarray(cv2.resize(weight, size, interpolation=cv2.INTER_AREA), np.float32)
        mean = _mean(lightness)
        variance = np.maximum(_mean(lightness**2) - mean**2, 0)
        bits = np.log2(1 + variance / np.float32(_EYE**2))
        scales.append(Scale(lightness, mean, variance, near / max(float(near.sum()), 1e-6), bits))
    if sum(float((scale.weight * scale.bits).sum()) for scale in scales) > _PLAIN * _SCALES:
        yield Thing(rows, columns, tuple(scales))


def _shown(picture: Pixels, thing: Thing) -> float:
    """The share of the bits that the source shows of a thing, 0 to 1."""
    kept, there = 0.0, 0.0
    for lightness, scale in zip(_lightnesses(picture[thing.rows, thing.columns]), thing.scales, strict=True):
        mean = _mean(lightness)
        variance = np.maximum(_mean(lightness**2) - mean**2, 0)
        shared = _mean(lightness * scale.lightness) - mean * scale.mean
        signal = np.minimum(shared**2 / np.maximum(scale.variance, np.float32(1e-6)), variance)
        bits = np.log2(1 + signal / (np.float32(_MASKING) * (variance - signal) + np.float32(_EYE**2)))
        kept += float((scale.weight * np.minimum(bits, scale.bits)).sum())
        there += float((scale.weight * scale.bits).sum())
    return kept / there


def _lightnesses(part: Pixels) -> Iterator[Floats]:
    """A part of a picture as CIELAB's lightness, 0 to 100, at each scale."""
    part = smaller(part, _scale(part))
    lightness = cv2.cvtColor(part.astype(np.float32) / np.float32(255), cv2.COLOR_RGB2LAB)[..., 0]
    for _ in range(_SCALES):
        yield np.asarray(lightness, np.float32)
        size = [max(1, side // 2) for side in lightness.shape[1::-1]]
        lightness = cv2.resize(lightness, size, interpolation=cv2.INTER_AREA)


def _scale(part: Pixels) -> float:
    return float(_SIDE / min(part.shape[:2]))


def _mean(plane: Floats) -> Floats:
    """The mean of the window around each pixel."""
    return np.asarray(cv2.blur(plane, (_WINDOW, _WINDOW), borderType=cv2.BORDER_REFLECT), np.float32)


def _blocks(picture: Pixels) -> tuple[Pixels, Pixels]:
    """The greatest and the least levels of a picture's blocks, [rows, columns, 3] each."""
    side = max(_BLOCK, min(picture.shape[:2]) // _ALONG)
    starts = [np.arange(0, length, side) for length in picture.shape[:2]]
    ends = []
    for extreme in (np.maximum, np.minimum):
        rows = extreme.reduceat(picture, starts[0], axis=0)
        ends.append(np.asarray(extreme.reduceat(rows, starts[1], axis=1), np.uint8))
    return ends[0], ends[1]
