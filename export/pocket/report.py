"""Measures packed pocket models on scenes that no training saw and by which nothing was chosen: pocket.json.

Variants are made as a user's are, by captioner, language model and painter. The world knows the truth of every source,
the referee sees what became of it in each variant; all painted variants count, those that the checks reject too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.clip import to_pixel_values
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.pocket.judges import Referee
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.world import Scene
from counterfactory.engine.pocket.worlds import SIZE
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.engine.stages.caption_sources import caption_images
from counterfactory.kernels.pixels import to_pictures

from .counterfacts import check_caption
from .data import JUDGED
from .judges import referee_figures
from .likeness import Pictures, likeness_figures
from .observed import held_out, judge_variants, painted_figures

SCENES, _VARIANTS = 300, 2
# The facts of captions that count: all but walls and the number of people.
_COUNTED = ("weather", "time", "colour", "kind")


@dataclass(frozen=True)
class Bar:
    """What a figure should reach: at least, or at most, `bar`. A dot in `key` leads into a table of figures."""

    key: str
    text: str
    bar: float
    form: str = "{:.1%}"
    least: bool = True

    def of(self, figures: Mapping[str, Any]) -> float | None:
        """The figure, None where there is none."""
        value: Any = figures
        for part in self.key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return None if value is None else float(value)


BARS = (
    Bar("caption_facts", "facts that captions state are right", 0.98),
    Bar("vae_psnr_db", "autoencoder PSNR, dB", 33, "{:.1f}"),
    Bar("edit_success", "the referee sees the new weather or time", 0.98),
    Bar("colour_success", "it sees a vehicle's new colour", 0.88),
    Bar("second_colour_success", "it sees the new colour of a vehicle that is not the nearest", 0.80),
    Bar("layout_miou", "layout kept: mIoU against the source's mask", 0.82, "{:.3f}"),
    Bar("layout_iou_by_class.pedestrian", "IoU of pedestrians", 0.65, "{:.3f}"),
    Bar("layout_iou_by_class.vegetation", "IoU of vegetation", 0.65, "{:.3f}"),
    Bar("layout_iou_by_class.vehicle", "IoU of vehicles", 0.85, "{:.3f}"),
    Bar("rows_per_variant", "denoiser rows a variant, at most", 2, "{:.0f}", least=False),
    Bar("sharpness", "mean absolute Laplacian over the sources'", 0.75, "{:.2f}"),
)


@dataclass(frozen=True)
class Subject:
    """The models to measure: those of the folder `weights`, on so many scenes. Suites that are painted for it stay in
    `work`, and are gone on from.
    """

    weights: Path
    work: Path
    scenes: int = SCENES

    @property
    def profile(self) -> Profile:
        return replace(load_profile("pocket"), models=ModelPaths(str(self.weights)))


class Instruments:
    """The networks of a profile that are measured, the autoencoder's in float32, and the referee that measures.

    Raises CounterfactoryError for what is missing in the folder.
    """

    def __init__(self, profile: Profile) -> None:
        weights, self._profile = profile.models.path, profile
        self._models = ModelPool(library_of(profile), Meter(lambda _: None))
        self._encoder, self._decoder = (
            Batched(open_session(weights / f"vae_{name}.xml", batch=8, precision="f32", sizes=sizes))
            for name, sizes in (("encoder", {"pixel_values": (SIZE, SIZE)}), ("decoder", {"latents": (32, 32)}))
        )
        self.referee = Referee.load(weights)
        # Figures by other weights cannot be compared.
        digest = hashlib.sha256((weights / "clip_image.bin").read_bytes()).hexdigest()[:12]
        self.extractor = f"pocket CLIP image encoder (clip_image.bin {digest}), unit embeddings times √width"

    def caption(self, pictures: Pictures) -> Sequence[str]:
        named = [(str(i), picture) for i, picture in enumerate(pictures)]
        return caption_images(self._models.blip2(), named, self._profile.caption)

    def autoencode(self, pictures: Pictures) -> NDArray[np.float32]:
        """Pixel values [N, 3, 128, 128] in -1..1 of pictures after the autoencoder."""
        latents = self._encoder.run({"pixel_values": to_pixel_values(pictures, SIZE)})
        return np.asarray(self._decoder.run(latents)["pixel_values"].clip(-1, 1), np.float32)

    def extract(self, pictures: Pictures) -> NDArray[np.float64]:
        """Features [N, D] that KID compares: with a mean square of 1, so that x.y / D in its kernel is a cosine."""
        embeddings = self._models.clip_image().encode(pictures).astype(np.float64)
        return np.asarray(embeddings * embeddings.shape[1] ** 0.5)


def write_report(subject: Subject, docs: Path) -> dict[str, Any]:
    """Measure the models, and write the figures to pocket.json in `docs`; returns them."""
    opened, numbers = Instruments(subject.profile), range(subject.scenes)
    known = held_out(numbers, JUDGED)
    pictures = [drawing.picture for _, drawing in known]
    request = SuiteRequest(street_task("segmentation"), _VARIANTS, 0, (1, 2), seed=0)
    folder = subject.work / "measured" / "edits"
    suite = judge_variants(subject.profile, folder, opened.referee, request, numbers, JUDGED)
    likeness = likeness_figures(suite, opened.extract, lambda shown: to_pictures(opened.autoencode(shown)))
    figures = {
        "scenes": subject.scenes,
        **caption_figures(opened.caption(pictures), [scene for scene, _ in known]),
        "vae_psnr_db": psnr(opened.autoencode(pictures), pictures),
        **painted_figures(suite, opened.referee),
        "accepted_share": float(np.mean([one.row.accepted for one in suite])),
        **(likeness | {"kid_extractor": opened.extractor} if likeness else {}),
        "rows_per_variant": subject.profile.paint.rows_per_variant,
        **referee_figures(opened.referee, known),
    }
    docs.mkdir(parents=True, exist_ok=True)
    (docs / "pocket.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return figures


def table(figures: Mapping[str, Any]) -> str:
    """The figures that have a bar, with what the same measure says of renderings of the truth (1 less that is what the
    referee misses) and of the sources, in which nothing was changed (what it imagines).
    """
    lines = [f"{'measured':>9} {'bar':>7} {'truth':>7} {'sources':>7}"]
    for bar in BARS:
        if (figure := bar.of(figures)) is not None:
            own = [bar.of(figures[name]) for name in ("referee_truth", "referee_source")]
            shown = ["-" if value is None else bar.form.format(value) for value in (figure, bar.bar, *own)]
            missed = "" if (figure >= bar.bar if bar.least else figure <= bar.bar) else " (missed)"
            lines.append(f"{shown[0]:>9} {shown[1]:>7} {shown[2]:>7} {shown[3]:>7}  {bar.text}{missed}")
    return "\n".join(lines)


def caption_figures(captions: Sequence[str], scenes: Sequence[Scene]) -> dict[str, Any]:
    """The share of facts that captions state rightly, of all that count and by kind."""
    right: dict[str, list[bool]] = {}
    for caption, scene in zip(captions, scenes, strict=True):
        for name, answer in check_caption(caption, scene):
            right.setdefault(name, []).append(answer)
    share = float(np.mean([hit for name in _COUNTED for hit in right.get(name, [])]))
    by_kind = {name: float(np.mean(hits)) for name, hits in right.items()}
    return {"caption_facts": share, "caption_facts_by_kind": by_kind}


def psnr(pixel_values: NDArray[np.float32], pictures: Pictures) -> float:
    """Mean PSNR in dB of pixel values against the pictures that they should be, over 8-bit levels."""
    error = ((pixel_values - to_pixel_values(pictures, SIZE)) / 2) ** 2
    return float(np.mean(-10 * np.log10(error.mean(axis=(1, 2, 3)))))
