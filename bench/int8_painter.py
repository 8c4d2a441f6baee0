"""What rounding a painter to 8 bits loses with smoothed convolutions and without, and the core-seconds of both.

    python bench/int8_painter.py [--pictures N] [--rounds N] [--profile FILE --photos DIR]

The embedded denoiser of few rows, whose weights are trained, calibrated on what painting rendered scenes feeds it and
held against itself on scenes that set no range; or the painter of an exported profile for CPUs, on photographs.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
from measure import bench_parser, finish, show, spent, with_masters

from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.runtime.dequantize import widen_unless_multiplied
from counterfactory.engine.runtime.openvino import open_core, open_session
from counterfactory.engine.sources.pixels import fit, read_picture
from counterfactory.export.calibration import _error, pictures_in
from counterfactory.export.graphs import ranges
from counterfactory.export.graphs.narrowing import save_ir
from counterfactory.export.graphs.quantise import Feeds
from counterfactory.export.graphs.recording import master_of, painting_feeds
from counterfactory.export.pocket.int8 import scene_feeds


def main() -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--pictures", type=int, default=10, help="that are painted; the last fifth is held out")
    parser.add_argument("--rounds", type=int, default=10, help="of timing")
    parser.add_argument("--profile", help="of an export that is there, instead of the embedded denoiser")
    parser.add_argument("--photos", type=Path, help="with --profile: a folder of photographs")
    args = parser.parse_args()
    profile = with_masters(load_profile(args.profile or "pocket"))
    if args.profile is None:
        profile = replace(profile, paint=replace(profile.paint, denoiser="denoiser_few", batch=2))
    feeds = _feeds(profile, args.pictures, args.photos)
    learned, held = feeds[: -len(feeds) // 5], feeds[-len(feeds) // 5 :]
    with tempfile.TemporaryDirectory() as folder:
        master = _widened(profile, Path(folder))
        forms = {name: Path(folder) / f"{name}.xml" for name in ("plain", "smoothed")}
        layers = ranges.quantise_by_tensor(master, learned, forms["smoothed"])
        with mock.patch.object(ranges, "_smoothing", return_value=np.ones(1)):
            ranges.quantise_by_tensor(master, learned, forms["plain"])
        off = {name: _error(path, master, held, profile) for name, path in forms.items()}
        batch = len(held[0]["latents"])
        sizes = {name: held[0][name].shape[-2:] for name in ("latents", "hint_embedding")}
        sessions = [open_session(path, batch=batch, precision="auto", sizes=sizes) for path in forms.values()]
        # The least of many, by turns: other work on a machine adds core-seconds, and takes none away.
        took = [[spent(partial(s.run, dict(held[0]))).cpu_s for s in sessions] for _ in range(args.rounds)]
    cores = dict(zip(forms, np.min(took, 0).tolist(), strict=True))
    rows = tuple((name, f"{100 * value:.2f} %", f"{1000 * cores[name]:.0f} ms") for name, value in off.items())
    show(
        f"{master.stem}, {layers} layers, {len(learned)} batches, {len(held)} held out",
        ("form", "off by", "cores"),
        rows,
    )
    figures = {f"off_{name}": value for name, value in off.items()} | {
        f"cores_{name}_s": s for name, s in cores.items()
    }
    finish("smoothed, 8 bits lose less at no cost", **figures)


def _feeds(profile: Profile, pictures: int, photos: Path | None) -> list[Feeds]:
    if photos is None:
        return scene_feeds(profile, pictures)
    images = [fit(read_picture(path.read_bytes()), profile.image.sizes[0]) for path in pictures_in(photos)[:pictures]]
    return painting_feeds(profile, images, [f"a photo of place {at}" for at in range(len(images))])


def _widened(profile: Profile, folder: Path) -> Path:
    """The painter's master, the packed weights of embedded ones widened, as published networks have theirs."""
    model = open_core().read_model(profile.models.path / f"{master_of(profile.paint.denoiser)}.xml")
    widen_unless_multiplied(model)
    path = folder / f"{master_of(profile.paint.denoiser)}.xml"
    save_ir(model, path)
    return path


if __name__ == "__main__":
    main()
