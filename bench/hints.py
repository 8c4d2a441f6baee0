"""Claim: none; what edges, depth and classes are each worth as a hint, alone and together, on the wide street world.

Scenes that no training saw are painted in another appearance over their true depth and classes and the edges that are
found in their pictures, from the same captions and noise for every set of hints. Seen is whether the layout stayed (the
referee's mean IoU with the true mask, and the share of the mask's boundaries that have an outline) and whether the
caption was followed (CLIP: nearer to it than to the source's own). The last line is JSON.

It takes a denoiser that was trained on all of them: a folder of networks with hint.xml, hint_depth.xml and
hint_classes.xml, by --models.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from measure import finish
from numpy.typing import NDArray

from counterfactory.engine.config.networks import library_of
from counterfactory.engine.config.profile import ModelPaths, Profile, load_profile
from counterfactory.engine.judging.confusion import confusion_matrix, iou
from counterfactory.engine.keys import content_key
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.clip import to_pixel_values
from counterfactory.engine.models.opened import Opened
from counterfactory.engine.pocket.wide.captions import describe
from counterfactory.engine.pocket.wide.facts import facts_of
from counterfactory.engine.pocket.wide.render import render
from counterfactory.engine.pocket.wide.sampling import restyle, sample_scene
from counterfactory.engine.pocket.wide.scene import CLASSES, SIZE
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.engine.sources.depth import fit_depth
from counterfactory.engine.sources.palette import load_palette
from counterfactory.engine.stages.edges import edge_maps
from counterfactory.engine.stages.hints import HintSettings, Maps
from counterfactory.engine.stages.layout import outlined_share
from counterfactory.engine.stages.paint import PaintJob, control_scale, embed_maps, paint

_STREAM = 77
_HINTS = (
    HintSettings("edges", "hint", 1.0),
    HintSettings("depth", "hint_depth", 1.0),
    HintSettings("segmentation", "hint_classes", 1.0, "wide"),
)
_SETS: tuple[tuple[str, ...], ...] = (
    *(("edges",), ("depth",), ("segmentation",), ("edges", "depth"), ("edges", "segmentation")),
    *(("depth", "segmentation"), ("edges", "depth", "segmentation")),
)
Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Example:
    """A scene: its true mask, its maps in the order of `_HINTS`, its caption, and captions of other appearances."""

    mask: Pixels
    maps: Maps
    caption: str
    others: Sequence[str]


def examples(profile: Profile, scenes: int, variants: int) -> list[Example]:
    """Scenes by number."""
    found, palette = [], load_palette("wide")
    for number in range(scenes):
        rng = np.random.default_rng((_STREAM, number))
        scene = sample_scene(rng)
        drawn = render(scene)
        edges = edge_maps(drawn.picture[None], profile.edges)[0]
        near, classes = fit_depth(drawn.depth, "distance", (SIZE, SIZE)), palette.paint(drawn.mask, None)
        others = [describe(facts_of(restyle(scene, rng)), rng) for _ in range(variants)]
        found.append(Example(drawn.mask, (edges, near, classes), describe(facts_of(scene), rng), others))
    return found


def pictures(profile: Profile, models: Opened, shown: Sequence[Example]) -> list[tuple[Example, str, Pixels]]:
    """Every variant of the examples, with its example and caption."""
    assert profile.hints is not None
    plans, weights = models.paint_plans(SIZE, SIZE), [hint.weight for hint in profile.hints]
    scale, jobs, asked = control_scale(plans, profile.paint.control_scale, weights), list[PaintJob](), []
    for number, example in enumerate(shown):
        maps = tuple(one if weight else None for one, weight in zip(example.maps, weights, strict=True))
        (hint,) = embed_maps(plans, [maps], weights)
        for variant, caption in enumerate(example.others):
            (states,) = models.clip_text().encode_states([caption])
            key = content_key("bench", _STREAM, number, variant)
            jobs.append(PaintJob(key, states, hint, plans, control_scale=scale))
            asked.append((example, caption))
    (negative,) = models.clip_text().encode_states([profile.paint.negative_prompt])
    return [(*asked[at], picture) for at, picture in sorted(paint(jobs, negative, profile.paint), key=lambda p: p[0])]


def measured(painted: Sequence[tuple[Example, str, Pixels]], models: Opened, referee: Any) -> dict[str, float]:
    """Layout kept and caption followed, over all pictures."""
    images = [picture for _, _, picture in painted]
    embeds = models.clip_image().encode(images)
    asked, own = (
        models.clip_text().encode(captions)[1]
        for captions in ([caption for _, caption, _ in painted], [example.caption for example, _, _ in painted])
    )
    found = {
        "outlined": float(np.mean([outlined_share(picture, example.mask) for example, _, picture in painted])),
        "nearer_to_caption": float(((embeds * (asked - own)).sum(1) > 0).mean()),
        "caption_margin": float((embeds * (asked - own)).sum(1).mean()),
    }
    if referee is not None:
        seen = [
            referee.run({"pixel_values": to_pixel_values([image], SIZE)})["mask_logits"][0].argmax(0).astype(np.uint8)
            for image in images
        ]
        pixels = sum(confusion_matrix(e.mask, s, len(CLASSES)) for (e, _, _), s in zip(painted, seen, strict=True))
        found["layout_miou"] = float(np.nanmean(iou(np.asarray(pixels, np.int64))))
    return found


def with_kinds(profile: Profile, kinds: Sequence[str]) -> Profile:
    """The profile that follows hints of these kinds alone."""
    return replace(profile, hints=tuple(h if h.kind in kinds else replace(h, weight=0.0) for h in _HINTS))


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True, help="folder of networks that know the wide world")
    parser.add_argument("--profile", default="pocket", help="how to paint (%(default)s)")
    parser.add_argument("--denoiser", help="plan of the denoiser (the profile's)")
    parser.add_argument("--referee", type=Path, help="a referee of the wide world, referee.xml: counts layout_miou")
    parser.add_argument("--scenes", type=int, default=60)
    parser.add_argument("--variants", type=int, default=3)
    parser.add_argument("--sheet", type=Path, metavar="PNG", help="write the first scenes, a row for each set of hints")
    asked = parser.parse_args()
    profile = replace(load_profile(asked.profile), models=ModelPaths(str(asked.models)))
    if asked.denoiser:
        profile = replace(profile, paint=replace(profile.paint, denoiser=asked.denoiser))
    referee = asked.referee and open_session(asked.referee, batch=1, precision="f32")
    shown = examples(profile, asked.scenes, asked.variants)
    table: dict[str, Mapping[str, float]] = {}
    rows = []
    for kinds in _SETS:
        own = with_kinds(profile, kinds)
        models = Opened(library_of(own), Meter(lambda _: None))
        painted = pictures(own, models, shown)
        name = " + ".join(kinds)
        table[name] = {measure: round(value, 4) for measure, value in measured(painted, models, referee).items()}
        print(f"{name:32}", "  ".join(f"{measure} {value:.3f}" for measure, value in table[name].items()), flush=True)
        rows.append(np.hstack([picture for _, _, picture in painted[: 4 * asked.variants : asked.variants]]))
    if asked.sheet:
        cv2.imwrite(str(asked.sheet), cv2.cvtColor(np.vstack(rows), cv2.COLOR_RGB2BGR))
    finish("hints", None, scenes=asked.scenes, table=table)


if __name__ == "__main__":
    main()
