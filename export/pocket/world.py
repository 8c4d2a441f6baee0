"""Fits the range of traits that is the street world's, and writes it beside the embedded weights.

Streets as people save them are held against photographs, altered photographs and pictures that were never photographed
by a logistic regression over their traits (engine/sources/domain.py). The numbers are set by the streets: each trait's
range leaves out next to none of them, and so does the sum. Pictures are uint8 RGB [H, W, 3]; what is drawn comes from a
numbered seed.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import cycle
from pathlib import Path
from types import MappingProxyType
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.sources.domain import TRAITS, Domain, Trait, traits_of, world_file
from counterfactory.engine.sources.listing import SUFFIXES
from counterfactory.engine.sources.pixels import UnreadableError, fit, read_picture
from counterfactory.engine.sources.source import ImageSettings

from .packed import RUNTIME

FIT, JUDGE = 910, 911  # streams of scenes, apart from those that models were trained on and are judged by
_SCENES, _DRAWN = 1000, 200
# Of the fitted streets, how many may fall out of a trait's range, and how many of a form below the sum.
_BEYOND, _BELOW = 0.0005, 0.001
_MARGIN = 0.05
_RIDGE, _STEPS = 1.0, 40
_SIDE = 128

Picture = NDArray[np.uint8]
Traits = NDArray[np.float64]


def read_collection(folder: Path, size: ImageSettings) -> list[Picture]:
    """The pictures below a folder at the size to paint, sorted by path; what cannot be read is left out."""
    found = []
    for path in sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES):
        try:
            found.append(_as_painted(read_picture(path.read_bytes()), size))
        except UnreadableError:
            continue
    return found


def _as_painted(picture: Picture, size: ImageSettings) -> Picture:
    return fit(picture, size.size_for(*picture.shape[:2]))


def jpeg(picture: Picture, quality: int = 90) -> Picture:
    """The picture as it comes back from a JPEG file."""
    data = io.BytesIO()
    Image.fromarray(picture).save(data, "JPEG", quality=quality)
    return read_picture(data.getvalue())


def _enlarged(picture: Picture, side: int, by: Image.Resampling = Image.Resampling.BICUBIC) -> Picture:
    return np.asarray(Image.fromarray(picture).resize((side, side), by))


# Streets as they may arrive. Pillow's JPEG halves the resolution of colours, as most cameras and programs do.
STREET_FORMS: Mapping[str, Callable[[Picture], Picture]] = MappingProxyType(
    {
        "PNG": lambda p: p,
        "JPEG of quality 90": jpeg,
        "enlarged to 200, JPEG of quality 90": lambda p: jpeg(_enlarged(p, 200)),
        "enlarged to 512": lambda p: _enlarged(p, 512),
        "enlarged to 512 by nearest neighbour": lambda p: _enlarged(p, 512, Image.Resampling.NEAREST),
        "enlarged to 640, JPEG of quality 90": lambda p: jpeg(_enlarged(p, 640)),
    }
)


def _blurred(picture: Picture, sigma: float) -> Picture:
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), sigma), np.uint8)


def _cartoon(picture: Picture, levels: int) -> Picture:
    """Smoothed within edges, and in few levels per channel: a photograph as a drawing."""
    smooth = cv2.bilateralFilter(cv2.medianBlur(picture, 5), 9, 60, 9)
    step = 256 // levels
    return (np.asarray(smooth, np.int64) // step * step + step // 2).astype(np.uint8)


# Photographs as people alter them, of the size to paint.
ALTERATIONS: Mapping[str, Callable[[Picture], Picture]] = MappingProxyType(
    {
        "grey": lambda p: np.asarray(Image.fromarray(p).convert("L").convert("RGB")),
        "JPEG of quality 25": lambda p: jpeg(p, 25),
        "blurred by 1.5 pixels": lambda p: _blurred(p, 1.5),
        "blurred by 4 pixels": lambda p: _blurred(p, 4),
        "blurred by 10 pixels": lambda p: _blurred(p, 10),
        "as a cartoon of 8 levels": lambda p: _cartoon(p, 8),
        "as a cartoon of 16 levels": lambda p: _cartoon(p, 16),
    }
)


def noise(seed: int) -> Picture:
    """Noise whose amplitude falls with a power of the frequency from 0 (white) to 2.5 (clouds)."""
    random = np.random.default_rng((5, seed))
    rows, columns = np.fft.fftfreq(_SIDE)[:, None], np.fft.fftfreq(_SIDE)[None]
    frequency = np.hypot(rows, columns)
    frequency[0, 0] = 1
    waves = np.fft.fft2(random.normal(size=(_SIDE, _SIDE, 3)), axes=(0, 1))
    values = np.fft.ifft2(waves / frequency[..., None] ** random.uniform(0, 2.5), axes=(0, 1)).real
    values = (values - values.mean()) / values.std()
    picture = 128 + random.uniform(10, 70) * values + random.normal(0, 30, 3)
    return np.asarray(picture.clip(0, 255), np.uint8)


def gradient(seed: int) -> Picture:
    """Black, white and grey, then two colours that run into each other."""
    if seed < 3:
        return np.full((_SIDE, _SIDE, 3), (0, 255, 128)[seed], np.uint8)
    first, last = np.random.default_rng((6, seed)).uniform(0, 255, (2, 3))
    share = np.linspace(0, 1, _SIDE)[:, None]
    ramp = np.repeat((first * (1 - share) + last * share)[:, None], _SIDE, 1)
    return (ramp if seed % 2 else ramp.swapaxes(0, 1)).astype(np.uint8)


def shapes(seed: int) -> Picture:
    """Boxes, discs and words in flat colours."""
    random = np.random.default_rng((7, seed))
    canvas = np.full((2 * _SIDE, 2 * _SIDE, 3), random.integers(0, 256, 3), np.uint8)
    for _ in range(int(random.integers(3, 40))):
        colour = tuple(random.integers(0, 256, 3).tolist())
        (x0, y0), (x1, y1) = random.integers(0, 2 * _SIDE, (2, 2)).tolist()
        kind = int(random.integers(3))
        if kind == 0:
            cv2.rectangle(canvas, (x0, y0), (x1, y1), colour, -1)
        elif kind == 1:
            cv2.circle(canvas, (x0, y0), int(random.integers(4, 60)), colour, -1)
        else:
            cv2.putText(canvas, "the quick brown fox", (x0, y0), 0, float(random.uniform(0.3, 1)), colour, 1)
    return np.asarray(cv2.resize(canvas, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA), np.uint8)


def screen(seed: int) -> Picture:
    """A window of text, dark or light, mostly with a bar above or beside."""
    random, side = np.random.default_rng((8, seed)), 512
    dark = random.random() < 0.5
    paper, ink = (random.integers(20, 45), (220,) * 3) if dark else (random.integers(235, 256), (30,) * 3)
    canvas = np.full((side, side, 3), paper, np.uint8)
    for wide in (True, False):
        if random.random() < 0.6:
            corner = (side, int(random.integers(15, 40))) if wide else (int(random.integers(50, 150)), side)
            cv2.rectangle(canvas, (0, 0), corner, tuple(random.integers(0, 256, 3).tolist()), -1)
    for y in range(40, side - 12, int(random.integers(12, 28))):
        if random.random() < 0.8:
            words = "".join(random.choice(list("abcdef ghij klmno p"), int(random.integers(5, 60))))
            colour = tuple(random.integers(0, 256, 3).tolist()) if random.random() < 0.3 else ink
            cv2.putText(canvas, words, (int(random.integers(5, 170)), y), 0, 0.4, colour, 1)
    return np.asarray(cv2.resize(canvas, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA), np.uint8)


DRAWN: Mapping[str, Callable[[int], Picture]] = MappingProxyType(
    {"noise": noise, "plain colours and gradients": gradient, "shapes and words": shapes, "screens of text": screen}
)


def streets(stream: int, count: int) -> list[Picture]:
    return [EMBEDDED.draw(EMBEDDED.scene(stream, index)).picture for index in range(count)]


def measured(pictures: Sequence[Picture], size: ImageSettings) -> Traits:
    """The traits of pictures of any size: float64 [N, 15]."""
    return np.array([traits_of(_as_painted(picture, size)) for picture in pictures])


def fit_world(forms: Mapping[str, Traits], others: Mapping[str, Traits], fitted_to: str) -> Domain:
    """The world that holds pictures of its own, whatever form they are in, and as few as may be of the `others`, by
    kind; all by their traits.
    """
    of_world = np.concatenate(list(forms.values()))
    strangers = np.concatenate(list(others.values()))
    # A kind of many pictures counts for more, but not as much more as it has pictures.
    shares = np.concatenate([np.full(len(kind), len(kind) ** -0.5) for kind in others.values()])
    weights = np.concatenate([np.full(len(of_world), 1 / len(of_world)), shares / shares.sum()])
    values = np.concatenate([of_world, strangers])
    middle, scale = values.mean(0), values.std(0)
    truth = np.repeat([1.0, 0.0], [len(of_world), len(strangers)])
    slopes = _regress((values - middle) / scale, truth, weights * len(of_world))[1:] / scale
    low, high = np.quantile(of_world, (_BEYOND / 2, 1 - _BEYOND / 2), axis=0)
    room = _MARGIN * (high - low)
    bias = -min(np.quantile(form @ slopes, _BELOW) for form in forms.values())
    columns = np.stack([low - room, high + room, slopes], axis=1)
    traits = (Trait(name, *(round(float(n), 6) for n in row)) for name, row in zip(TRAITS, columns, strict=True))
    return Domain("rendered streets", fitted_to, round(float(bias), 6), tuple(traits))


def _regress(values: Traits, truth: Traits, weights: Traits) -> Traits:
    """Logistic regression with a ridge, by Newton's method: the intercept, then the slopes."""
    design = np.column_stack([np.ones(len(values)), values])
    ridge = np.diag([0.0, *[_RIDGE] * values.shape[1]])
    found = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(design @ found, -30, 30)))
        slope = design.T @ (weights * (truth - chance)) - ridge @ found
        curve = (design * (weights * chance * (1 - chance))[:, None]).T @ design + ridge
        found = found + np.linalg.solve(curve, slope)
    return np.asarray(found)


def add_command(commands: Any) -> None:
    parser = commands.add_parser("world", help="fit what the pocket models know, to streets and photographs")
    photographs = "folders of photographs to fit to"
    parser.add_argument("--photographs", type=Path, nargs="+", required=True, metavar="DIR", help=photographs)
    parser.add_argument("--weights", type=Path, default=RUNTIME, help="folder to write it to (this checkout's)")
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Fit and write. Raises CounterfactoryError for folders without pictures."""
    size = load_profile("pocket").image
    photographs = [picture for folder in asked.photographs for picture in read_collection(folder, size)]
    if not photographs:
        raise CounterfactoryError(f"no pictures in {', '.join(map(str, asked.photographs))}")
    scenes = streets(FIT, _SCENES)
    forms = {name: measured([save(scene) for scene in scenes], size) for name, save in STREET_FORMS.items()}
    kinds: dict[str, list[Picture]] = {"photographs": photographs}
    for picture, (name, alter) in zip(photographs, cycle(ALTERATIONS.items()), strict=False):
        kinds.setdefault(name, []).append(alter(picture))
    kinds |= {name: [draw(seed) for seed in range(_DRAWN)] for name, draw in DRAWN.items()}
    others = {name: measured(pictures, size) for name, pictures in kinds.items()}
    names = ", ".join(folder.name for folder in asked.photographs)
    of_world = f"{_SCENES:,} street scenes saved in {len(STREET_FORMS)} ways"
    strangers = f"{len(photographs):,} photographs ({names}), as many altered, {_DRAWN * len(DRAWN)} drawn pictures"
    fitted_to = f"{of_world}; {strangers}"
    world = fit_world(forms, others, fitted_to)
    path = world_file(asked.weights, "streets")
    path.write_text(json.dumps(asdict(world), indent=1) + "\n", encoding="utf-8")
    say(f"wrote {path}")
    return 0
