"""Claim: a picture in which nobody can name the labelled thing is rejected, and single edits are not.

visibility.csv is what one person said of mixes of two and three values of `light` at full strength, also of those that
suites never make: opened at full size with the label hidden, the thing in it was named or not. Pictures whose source
leaves as much open are not in it. FOLDER holds the photographs (github.com/EliSchwartz/imagenet-sample-images); the
pictures are drawn again from names, edits and seeds. `visibility_fitted` is the least threshold that rejects nine in
ten of those not named in every other row, and `visibility_found` the share that the profile's rejects of the rows
between. `visibility_false` is what the gate rejects of single values at levels 1 to 3 of 5, all values on
`--photographs` drawn by `--seed`; `visibility_holes_found` what it rejects where a rectangle, a tenth to a half of the
picture, black, grey or white, lies over its middle. `--keep DIR` writes the pictures, beside their sources, in folders
by verdict. The last line is JSON.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from light_sweep import Pixels, Values, read
from measure import DOCS, ROOT, bench_parser, finish
from PIL import Image

from counterfactory.engine.light.draw import Photograph, draw_light, open_photograph
from counterfactory.engine.light.levels import SEVERITIES
from counterfactory.engine.light.menu import MENU
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.stages.check.visibility import SourceSight, see_source, visibility_scores
from counterfactory.kernels.opencv import cv2

TABLE = ROOT / "bench" / "visibility.csv"
TYPES = {value: type_ for type_, values in MENU.items() for value in values}
GATE = load_profile("light").check.least
_SIDE, _LEVELS = 480, SEVERITIES[:3]
_HOLES = tuple((level, share) for level in (0, 128, 255) for share in (0.1, 0.2, 0.5))


class Source(NamedTuple):
    pixels: Pixels
    photograph: Photograph
    sight: SourceSight


class Judged(NamedTuple):
    """A row of the table, and its picture's scores."""

    nameable: bool
    scores: dict[str, float]


def main() -> None:
    parser = bench_parser(__doc__, write="docs/truth.json")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--photographs", type=int, default=60, help="that single values are drawn into (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the photographs that are drawn (%(default)s)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where pictures are written")
    asked = parser.parse_args()
    cv2.setNumThreads(1)
    judged = [judge(row, asked) for row in rows_of(TABLE)]
    singles, holes = singles_and_holes(asked)
    lost = [[one.scores for one in judged[half::2] if not one.nameable] for half in (0, 1)]
    named = [one.scores for one in judged if one.nameable]
    figures: dict[str, Any] = {
        "visibility_found": share([rejected(scores) for scores in lost[0]]),
        "visibility_found_of": len(lost[0]),
        "visibility_fitted": least_threshold([scores["visible"] for scores in lost[1]]),
        "visibility_fitted_to": len(lost[1]),
        "visibility_named_rejected": share([rejected(scores) for scores in named]),
        "visibility_named": len(named),
        "visibility_false": share([rejected(scores) for scores in singles]),
        "visibility_singles": len(singles),
        "visibility_holes_found": share([rejected(scores) for scores in holes]),
    }
    for name, value in figures.items():
        print(f"{name:28} {value}")
    finish("what nobody can name is rejected", into=asked.write and DOCS / "truth.json", **figures)


def rows_of(table: Path) -> list[dict[str, str]]:
    with table.open(newline="") as file:
        return list(csv.DictReader(file))


def judge(row: dict[str, str], asked: argparse.Namespace) -> Judged:
    source = open_source(asked.folder / f"{row['photograph']}.JPEG")
    values = tuple((TYPES[value], value) for value in row["edits"].split("; "))
    picture = draw_light(source.photograph, values, 1.0, np.random.default_rng(int(row["seed"])))
    scores = visibility_scores(picture, source.sight)
    keep(asked.keep, f"{row['nameable']}", f"{row['photograph']}", source.pixels, picture, scores)
    return Judged(row["nameable"] == "yes", scores)


def singles_and_holes(asked: argparse.Namespace) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """The scores of single values at the lower levels, and of rectangles, over photographs of a folder."""
    paths = sorted(path for path in asked.folder.rglob("*") if path.suffix.lower() in (".png", ".jpg", ".jpeg"))
    chosen = np.random.default_rng(asked.seed).permutation(len(paths))[: asked.photographs]
    singles, holes = list[dict[str, float]](), list[dict[str, float]]()
    for number in chosen.tolist():
        source, name = open_source(paths[number]), paths[number].stem
        for values, level, picture in single_values(source.photograph, number):
            singles.append(visibility_scores(picture, source.sight))
            keep(asked.keep, "single", f"{name}-{values[0][1]}-{level}", source.pixels, picture, singles[-1])
        holes += [visibility_scores(holed(source.pixels, *hole), source.sight) for hole in _HOLES]
    return singles, holes


def open_source(path: Path) -> Source:
    pixels = read(path, _SIDE)
    return Source(pixels, open_photograph(pixels), see_source(pixels, (), None))


def single_values(photograph: Photograph, seed: int) -> Iterator[tuple[Values, float, Pixels]]:
    for value, type_ in TYPES.items():
        for level in _LEVELS:
            values = ((type_, value),)
            yield values, level, draw_light(photograph, values, level, np.random.default_rng(seed))


def holed(picture: Pixels, level: int, area: float) -> Pixels:
    """A picture with a rectangle of one level over a share of its area, in its middle."""
    height, width = picture.shape[:2]
    down, across = (round(length * math.sqrt(area)) for length in (height, width))
    top, left = (height - down) // 2, (width - across) // 2
    changed = picture.copy()
    changed[top : top + down, left : left + across] = level
    return changed


def rejected(scores: dict[str, float]) -> bool:
    return any(scores.get(name, 1.0) < GATE[name] for name in ("intact", "visible"))


def least_threshold(scores: Sequence[float]) -> float:
    """What nine in ten of the scores are below, rounded up to a hundredth."""
    return math.ceil(sorted(scores)[math.ceil(0.9 * len(scores)) - 1] * 100) / 100


def share(found: Sequence[bool]) -> float:
    return round(sum(found) / len(found), 4)


def keep(folder: Path | None, kind: str, name: str, source: Pixels, picture: Pixels, scores: dict[str, float]) -> None:
    if folder is not None:
        into = folder / f"{kind} {'rejected' if rejected(scores) else 'accepted'}"
        into.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.hstack([source, picture])).save(into / f"{scores.get('visible', 1):.3f}-{name}.png")


if __name__ == "__main__":
    main()
