"""Claim: levels of an edit are seen to rise: no level of rain, snow or fog is seen less than the one before.

Held-out streets on clear days are painted as rainy, snowy and foggy at every level, each series from one noise, and the
referee says how sure it is of the weather that was asked for. A series is monotone where no level falls behind one
before it by more than --slack. The last line is JSON.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from measure import finish
from numpy.typing import NDArray

from counterfactory.engine.keys import content_key
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.pocket.worlds import EMBEDDED, SIZE
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.engine.stages.maps.edges import edge_maps
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint
from counterfactory.engine.stages.paint.severity import between, text_share
from counterfactory.export.pocket.counterfacts import COUNTERFACTS
from counterfactory.export.pocket.data import HELD_OUT
from counterfactory.export.pocket.packed import MASTERS

AXES = ("rainy", "snowy", "foggy")
Floats = NDArray[np.float64]


def series(asked: argparse.Namespace) -> tuple[list[str], NDArray[np.uint8]]:
    """The weather of each series, and pictures uint8 [series, levels, 128, 128, 3]."""
    profile = load_profile(asked.profile)
    models = ModelPool(library_of(profile), Meter(lambda _: None))
    plans, text = models.paint_plans(SIZE, SIZE), models.clip_text()
    jobs, weathers = list[PaintJob](), []

    def write(scene: Any, rng: np.random.Generator) -> str:
        return EMBEDDED.describe(scene, rng, True)

    for number in range(asked.scenes):
        street = replace(EMBEDDED.scene(HELD_OUT, number), weather="clear", time="day")
        (hint,) = plans.embed_hints(edge_maps(EMBEDDED.draw(street).picture[None], profile.edges))
        for weather in AXES:
            edited_street = replace(street, weather=weather)
            captions = COUNTERFACTS[EMBEDDED.name].describe_alike(street, [edited_street], write, (number,))
            assert captions is not None, "a caption may state the weather"
            plain, edited = text.encode(captions)[0]
            weathers.append(weather)
            jobs += [
                PaintJob(
                    content_key("severity", number, weather),
                    plans.put_text(between(plain, edited, text_share(level, asked.levels))),
                    hint,
                    plans,
                )
                for level in range(1, asked.levels + 1)
            ]
    (negative,) = text.encode_states([profile.paint.negative_prompt])
    painted = dict(paint(jobs, negative, profile.paint))
    pictures = np.stack([painted[at] for at in range(len(jobs))])
    return weathers, pictures.reshape(len(weathers), asked.levels, SIZE, SIZE, 3)


def sureness(weathers: Sequence[str], pictures: NDArray[np.uint8], referee: Path) -> Floats:
    """How sure the referee is of each series' weather, float64 [series, levels] in 0..1."""
    session = open_session(referee, batch=pictures.shape[1], precision="f32")
    found = []
    for weather, shown in zip(weathers, pictures, strict=True):
        values = shown.transpose(0, 3, 1, 2) / np.float32(127.5) - 1
        logits = session.run({"pixel_values": np.ascontiguousarray(values, np.float32)})["weather"]
        shares = np.exp(logits - logits.max(1, keepdims=True))
        found.append((shares / shares.sum(1, keepdims=True))[:, EMBEDDED.words["weather"].index(weather)])
    return np.asarray(found, np.float64)


def monotone(sure: Floats, slack: float) -> NDArray[np.bool_]:
    """Of each series [series, levels] whether no level falls behind one before it by more than `slack`."""
    return np.asarray((sure >= np.maximum.accumulate(sure, 1) - slack).all(1))


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="pocket", help="(%(default)s)")
    parser.add_argument("--scenes", type=int, default=40)
    parser.add_argument("--levels", type=int, default=5)
    parser.add_argument("--slack", type=float, default=0.02, help="of the referee's certainty (%(default)s)")
    parser.add_argument("--referee", type=Path, default=MASTERS / "referee.xml", help="(the checkout's)")
    parser.add_argument("--sheet", type=Path, metavar="PNG", help="write the first series")
    asked = parser.parse_args()
    weathers, pictures = series(asked)
    sure = sureness(weathers, pictures, asked.referee)
    table = {}
    for weather in AXES:
        own = sure[[found == weather for found in weathers]]
        rising = float(monotone(own, asked.slack).mean())
        table[weather] = {"monotone": round(rising, 4), "certainty": own.mean(0).round(3).tolist()}
        print(
            f"{weather:8} monotone {rising:6.1%}  certain of it by level: {own.mean(0).round(2).tolist()}", flush=True
        )
    if asked.sheet:
        rows = [np.hstack(list(shown)) for shown in pictures[:9]]
        cv2.imwrite(str(asked.sheet), cv2.cvtColor(np.vstack(rows), cv2.COLOR_RGB2BGR))
    share = round(float(monotone(sure, asked.slack).mean()), 4)
    finish("severity", None, scenes=asked.scenes, levels=asked.levels, monotone=share, table=table)


if __name__ == "__main__":
    main()
