"""Measures the packed pocket models on scenes that no training saw: docs/pocket.md, docs/pocket.json, a picture sheet.

Everything goes through the engine as a user's run does. The world knows the truth of every source, the referee sees
what became of it in each variant; all painted variants count, those that the checks reject too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from counterfactory.engine.config.networks import library_of
from counterfactory.engine.config.profile import ModelPaths, Profile, load_profile
from counterfactory.engine.judging.confusion import confusion_matrix, iou
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.clip import to_pixel_values
from counterfactory.engine.models.opened import Opened
from counterfactory.engine.pocket.captions import read_facts
from counterfactory.engine.pocket.judges import Referee
from counterfactory.engine.pocket.render import render
from counterfactory.engine.pocket.world import CLASSES
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.engine.stages.caption import caption_images

from .curves import draw_curves, read_logs
from .gate import gate_section, measure_gate
from .judged import Judged, edits_seen, held_out, judge_variants, layout_confusion

_CAPTIONED, _EDITED, _VARIANTS = 300, 80, 5
BARS = {"caption_facts": 0.95, "vae_psnr_db": 28.0, "edit_success": 0.90, "colour_success": 0.80, "layout_miou": 0.80}


def write_report(weights: Path, docs: Path, work: Path) -> dict[str, Any]:
    """Measure the models in `weights`; write pocket.json, pocket.md and pocket.webp to `docs`.

    The curves of the trainings whose logs are in `work` are drawn to pocket_training_continued.svg. Suites that are
    painted for it stay in `work`, and are gone on from.
    """
    profile = load_profile("pocket")
    profile = replace(profile, models=ModelPaths(str(weights)))
    figures = {**_captions(profile), "vae_psnr_db": _psnr(weights)}
    referee, painted = Referee.load(weights), work / "measured"
    judged = judge_variants(profile, painted / "edits", referee, _EDITED, _VARIANTS)
    figures |= edit_shares(judged) | layout_kept(judged) | _ceiling(referee)
    figures |= measure_gate(profile, painted / "gate", referee)
    docs.mkdir(parents=True, exist_ok=True)
    (docs / "pocket.json").write_text(json.dumps(figures, indent=2) + "\n")
    (docs / "pocket.md").write_text(_page(figures, gate_section(figures, profile.check)))
    _sheet(judged, docs / "pocket.webp")
    if logs := read_logs(work):
        draw_curves(logs, docs / "pocket_training_continued.svg")
    return figures


def _captions(profile: Profile) -> dict[str, Any]:
    """The share of facts that captions state rightly: of each vehicle its colour and kind, weather, time."""
    scenes, images, _ = held_out(_CAPTIONED)
    blip2 = Opened(library_of(profile), Meter(lambda _: None)).blip2()
    names = [str(i) for i in range(len(images))]
    right: dict[str, list[bool]] = {"weather": [], "time": [], "colour": [], "kind": [], "material": [], "people": []}
    for one, text in zip(scenes, caption_images(list(images), names, blip2, profile.caption), strict=True):
        stated = read_facts(text)
        right["weather"].append(stated.weather == one.weather)
        right["time"].append(stated.time == one.time)
        right["material"].append(stated.material == one.material)
        right["people"].append(stated.people == min(len(one.pedestrians), 3))
        for i, vehicle in enumerate(one.vehicles):
            colour, kind = stated.vehicles[i] if i < len(stated.vehicles) else ("", "")
            right["colour"].append(colour == vehicle.colour)
            right["kind"].append(kind == vehicle.kind)
    asked = [hit for name in ("weather", "time", "colour", "kind") for hit in right[name]]
    return {
        "caption_facts": float(np.mean(asked)),
        "caption_facts_by_kind": {name: float(np.mean(hits)) for name, hits in right.items()},
    }


def _psnr(weights: Path) -> float:
    """Mean PSNR in dB of pictures encoded and decoded, over 8-bit levels."""
    _, images, _ = held_out(200)
    encoder = open_session(weights / "vae_encoder.xml", batch=8, precision="f32", sizes={"pixel_values": (128, 128)})
    decoder = open_session(weights / "vae_decoder.xml", batch=8, precision="f32", sizes={"latents": (32, 32)})
    pixels = to_pixel_values(list(images), 128)
    decoded = Batched(decoder).run(Batched(encoder).run({"pixel_values": pixels}))["pixel_values"].clip(-1, 1)
    error = ((decoded - pixels) / 2) ** 2
    return float(np.mean(-10 * np.log10(error.mean(axis=(1, 2, 3)))))


def edit_shares(judged: Sequence[Judged]) -> dict[str, Any]:
    """How often the referee sees what an edit asked for: new weather or time, new colour of a vehicle."""
    seen = edits_seen(judged)
    both = seen["weather"] + seen["time"]
    return {
        "edit_success": float(np.mean(both)),
        "weather_success": float(np.mean(seen["weather"])),
        "time_success": float(np.mean(seen["time"])),
        "colour_success": float(np.mean(seen["colour"])),
        "edits_measured": {name: len(hits) for name, hits in seen.items()},
        "variants_measured": len(judged),
        "accepted_share": float(np.mean([one.row.accepted for one in judged])),
    }


def layout_kept(judged: Sequence[Judged]) -> dict[str, Any]:
    """IoU of the referee's mask of each variant against its source's mask, over all pixels of all variants."""
    by_class = iou(layout_confusion(judged))
    return {
        "layout_miou": float(np.nanmean(by_class)),
        "layout_iou_by_class": {name: float(value) for name, value in zip(CLASSES, by_class, strict=True)},
    }


def _ceiling(referee: Referee) -> dict[str, Any]:
    """What the referee's own eyes allow: IoU of its masks of the sources themselves."""
    _, images, masks = held_out(_EDITED)
    findings = referee.inspect(images)
    total = sum(confusion_matrix(m, f.mask, len(CLASSES)) for m, f in zip(masks, findings, strict=True))
    by_class = iou(np.asarray(total))
    return {
        "referee_miou": float(np.nanmean(by_class)),
        "referee_iou_by_class": {name: float(value) for name, value in zip(CLASSES, by_class, strict=True)},
    }


def _page(figures: Mapping[str, Any], gate: str) -> str:
    def line(name: str, text: str, form: str) -> str:
        reached = "yes" if figures[name] >= BARS[name] else "**no**"
        return f"| {text} | {form.format(figures[name])} | {form.format(BARS[name])} | {reached} |"

    def cells(text: str, of: str) -> str:
        mean = figures["layout_miou" if of == "layout" else "referee_miou"]
        shares = [mean, *(figures[f"{of}_iou_by_class"][name] for name in CLASSES)]
        return f"| {text} | " + " | ".join(f"{share:.3f}" for share in shares) + " |"

    by_kind = figures["caption_facts_by_kind"]
    return "\n".join(
        [
            "# The pocket models, measured",
            "",
            "Made by `python -m counterfactory.export pocket --report`; do not edit. Scenes are of the street world",
            f"and were seen by no training: {_CAPTIONED} for captions, {_EDITED} with {_VARIANTS} variants each",
            f"({figures['variants_measured']} painted, those that the checks reject included) for edits and layout.",
            "",
            "| what | measured | bar | reached |",
            "|---|---|---|---|",
            line("caption_facts", "caption facts right (vehicles' colour and kind, weather, time)", "{:.1%}"),
            line("vae_psnr_db", "autoencoder PSNR, dB", "{:.1f}"),
            line("edit_success", "the referee sees the new weather or time", "{:.1%}"),
            line("colour_success", "the referee sees the vehicle's new colour", "{:.1%}"),
            line("layout_miou", "layout kept: mIoU of the variant against its source's mask", "{:.3f}"),
            "",
            "Captions, share right: " + ", ".join(f"{name} {share:.1%}" for name, share in by_kind.items()) + ".",
            "",
            f"Edits: new weather seen {figures['weather_success']:.1%}, new time {figures['time_success']:.1%}; of "
            + ", ".join(f"{count} of {name}" for name, count in figures["edits_measured"].items())
            + f". Accepted by the profile's checks: {figures['accepted_share']:.1%} of the painted variants.",
            "",
            "Layout by class (DILLEMA's raters found pedestrians preserved in 84.6 % of images; IoU is stricter):",
            "",
            "| | mean | " + " | ".join(CLASSES) + " |",
            "|---" * (len(CLASSES) + 2) + "|",
            cells("variants", "layout"),
            cells("the referee on the sources themselves", "referee"),
            "",
            "![Sources (left) and their variants](pocket.webp)",
            "",
            gate,
            "",
            "The trainings: loss by step, logarithmic. Denoiser and captioner went on from there, with more weight on",
            "small things in the denoiser's loss, which is therefore not comparable across the two drawings.",
            "",
            "![Training losses](pocket_training.svg)",
            "",
            "![Training losses, continued](pocket_training_continued.svg)",
            "",
        ]
    )


def _sheet(judged: Sequence[Judged], path: Path, rows: int = 10) -> None:
    """Write a WebP picture with one row per source: the source, then its variants."""
    by_source: dict[str, list[Judged]] = {}
    for one in judged:
        by_source.setdefault(one.row.source, []).append(one)
    blank = np.full((128, 128, 3), 255, np.uint8)
    lines = []
    for group in list(by_source.values())[:rows]:
        pictures = [render(group[0].scene)[0], *(one.picture for one in group)]
        lines.append(np.hstack([*pictures, *[blank] * (_VARIANTS + 1 - len(pictures))]))
    cv2.imwrite(str(path), cv2.cvtColor(np.vstack(lines), cv2.COLOR_RGB2BGR), [cv2.IMWRITE_WEBP_QUALITY, 90])
