"""Claim: `light` paints no black block, whichever of its values come together.

Every value, pair and triple of different types is drawn into each photograph of FOLDER (and of the folders in it) at
three levels, also those that suites leave out, and into pictures that are no photographs: black, white, grey, of two
colours, and of 16 pixels and fewer. A picture counts where light came to a number that is none, or where a block of it,
a twelfth of its shorter side, is black and the source's is not. `--only VALUE` takes the sets with this value,
`--edits N` those of N values at most, `--keep DIR` writes what counts. The last line is JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from measure import DOCS, bench_parser, finish
from numpy.typing import NDArray
from PIL import Image

from counterfactory.engine.light.draw import Photograph, draw_light, open_photograph
from counterfactory.engine.light.menu import MENU
from counterfactory.kernels.opencv import cv2

Pixels = NDArray[np.uint8]
Values = tuple[tuple[str, str], ...]
LEVELS = (0.2, 0.6, 1.0)
# What is no brighter is black; a block of the source is not where it is brighter in the mean.
_BLACK, _SEEN = 1, 24
_SUFFIXES = (".png", ".jpg", ".jpeg")


def main() -> None:
    parser = bench_parser(__doc__, write="docs/truth.json")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--side", type=int, default=480, help="shorter side that photographs have at most (%(default)s)"
    )
    parser.add_argument("--edits", type=int, default=3, help="values of a picture at most (%(default)s)")
    parser.add_argument("--only", metavar="VALUE", help="the sets with this value")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where pictures that count are written")
    asked = parser.parse_args()
    cv2.setNumThreads(1)
    sets = [one for one in value_sets(asked.edits) if asked.only in (None, *(value for _, value in one))]
    paths = sorted(path for path in asked.folder.rglob("*") if path.suffix.lower() in _SUFFIXES)
    found = Found()
    for number, path in enumerate(paths):
        found.look_at(path.stem, read(path, asked.side), sets, number, asked.keep)
        print(
            f"{number + 1} of {len(paths)}: {len(found.black)} with black, {len(found.not_finite)} not finite",
            flush=True,
        )
    for name, picture in odd_pictures():
        found.look_at(name, picture, sets, 0, asked.keep)
    for name in (*found.black, *found.not_finite):
        print(name)
    figures: dict[str, Any] = {
        "black_blocks": len(found.black),
        "black_blocks_not_finite": len(found.not_finite),
        "black_blocks_photographs": len(paths),
        "black_blocks_pictures": found.pictures,
    }
    finish("light paints no black block", into=asked.write and DOCS / "truth.json", **figures)


@dataclass
class Found:
    """How many pictures were drawn, and the names of those that count."""

    pictures: int = 0
    black: list[str] = field(default_factory=list)
    not_finite: list[str] = field(default_factory=list)

    def look_at(
        self, name: str, picture: Pixels, sets: Iterable[Values], seed: int = 0, keep: Path | None = None
    ) -> None:
        """Draw a picture with each of the sets at each level; `keep` is where what counts is written."""
        photograph = open_photograph(picture)
        for values, level in product(sets, LEVELS):
            shown = f"{name}: {', '.join(value for _, value in values)} {level}"
            other = draw(photograph, values, level, seed)
            self.pictures += 1
            if other is None:
                self.not_finite.append(shown)
            elif new_black(picture, other):
                self.black.append(shown)
                if keep is not None:
                    keep.mkdir(parents=True, exist_ok=True)
                    Image.fromarray(np.hstack([picture, other])).save(keep / f"{shown.replace(': ', '-')}.png")


def value_sets(most: int) -> list[Values]:
    """All sets of one to `most` values of different types, (type, value) each."""
    types = [of for size in range(1, most + 1) for of in combinations(MENU, size)]
    return [tuple(zip(of, values, strict=True)) for of in types for values in product(*(MENU[one] for one in of))]


def draw(photograph: Photograph, values: Values, level: float, seed: int) -> Pixels | None:
    """The picture, or None where light comes to no finite number."""
    try:
        return draw_light(photograph, values, level, np.random.default_rng(seed))
    except FloatingPointError:
        return None


def new_black(source: Pixels, picture: Pixels) -> int:
    """How many blocks of a picture are black, all of each, where its source's are not."""
    side = max(4, min(source.shape[:2]) // 12)
    brightest, before = _blocks(picture, side).max(axis=2), _blocks(source, side).mean(axis=2)
    return int(((brightest <= _BLACK) & (before > _SEEN)).sum())


def _blocks(picture: Pixels, side: int) -> Pixels:
    """Whole blocks of a picture [rows, columns, values]; what is smaller than a block is one."""
    height, width = (max(1, length // side) for length in picture.shape[:2])
    down, across = (min(side, length) for length in picture.shape[:2])
    blocks = picture[: height * down, : width * across].reshape(height, down, width, across, 3)
    return blocks.transpose(0, 2, 1, 3, 4).reshape(height, width, -1)


def odd_pictures() -> Iterator[tuple[str, Pixels]]:
    """Pictures that are no photographs, by what they are."""
    for name, colour in (("black", (0, 0, 0)), ("white", (255,) * 3), ("grey", (90,) * 3), ("red", (255, 0, 0))):
        yield name, np.full((96, 120, 3), colour, np.uint8)
    for name, colours in (
        ("black and white", ((0, 0, 0), (255, 255, 255))),
        ("blue and yellow", ((0, 0, 255), (255, 255, 0))),
        ("two blacks", ((0, 0, 0), (1, 0, 2))),
    ):
        halves = np.repeat(np.array(colours, np.uint8), 48, axis=0)
        yield name, np.repeat(halves[:, None], 120, axis=1)
        yield f"{name}, squares", np.array(colours, np.uint8)[np.add.outer(np.arange(96), np.arange(120)) // 12 % 2]
    noise = np.random.default_rng(0)
    for shape in ((16, 16), (16, 40), (40, 16), (4, 4), (1, 1)):
        yield f"{shape[0]} x {shape[1]}", noise.integers(0, 256, (*shape, 3), np.uint8)


def read(path: Path, side: int) -> Pixels:
    """A photograph, RGB [H, W, 3], its shorter side `side` pixels at most."""
    picture = Image.open(path).convert("RGB")
    scale = min(1.0, side / min(picture.size))
    size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
    return np.asarray(picture.resize(size, Image.Resampling.LANCZOS) if scale < 1 else picture)


if __name__ == "__main__":
    main()
