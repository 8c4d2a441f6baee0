"""Variants of suites beside the truth: the scene that each was made from, and what the referee sees in its picture."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image

from counterfactory.engine.inputs import Inputs
from counterfactory.engine.journey import Journey
from counterfactory.engine.pocket.judges import Referee
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.worlds import EMBEDDED, Drawing
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.suite import PictureRow, Suite, read_metadata

from .counterfacts import COUNTERFACTS
from .data import HELD_OUT
from .observed import Observed

_DEMO_VARIANTS = 5


@dataclass(frozen=True)
class Judged(Observed):
    """A variant with its row in the suite; `edits` are in the order of the row's."""

    row: PictureRow


def held_out(count: int, first: int = 0, stream: int = HELD_OUT) -> list[tuple[Any, Drawing]]:
    """Scenes that no training saw, from number `first` of a stream on, and their drawings."""
    scenes = [EMBEDDED.scene(stream, i) for i in range(first, first + count)]
    return [(scene, EMBEDDED.draw(scene)) for scene in scenes]


def judge_variants(
    profile: Profile,
    folder: Path,
    referee: Referee,
    sources: int,
    variants: int,
    first: int = 0,
    stream: int = HELD_OUT,
    edits: tuple[int, int] = (1, 2),
) -> list[Judged]:
    """Run the journey on held-out scenes, from `first` of a stream on, and let the referee look at every variant.

    What an earlier call left in `folder` is gone on from: other paint settings paint the same captions.
    """
    truth = dict(enumerate(held_out(sources, first, stream)))
    for part in ("images", "masks"):
        (folder / "street" / part).mkdir(parents=True, exist_ok=True)
    for i, (_, drawing) in truth.items():
        cv2.imwrite(str(folder / f"street/images/{i:04d}.png"), cv2.cvtColor(drawing.picture, cv2.COLOR_RGB2BGR))
        cv2.imwrite(str(folder / f"street/masks/{i:04d}.png"), drawing.mask)
    found, _ = find_sources(folder / "street")
    settings = SuiteRequest(street_task("segmentation"), variants, 0, edits, seed=0)
    with Suite.open(folder / "suite") as suite:
        Journey(profile, settings).run(Inputs(found), suite)
    return judge_rows(folder / "suite", referee, truth)


def judge_demo(profile: Profile, folder: Path, referee: Referee, count: int, stream: int, first: int) -> list[Judged]:
    """What the referee sees in a suite of `count` scenes of a stream from `first` on, made under the demo's settings in
    `folder`/suite, with as many edits per variant as the profile asks for itself, if it does. What an earlier call left
    there is gone on from.
    """
    truth = dict(enumerate(held_out(count, first, stream), first))
    for number, (scene, drawing) in truth.items():
        for kind, array in (("images", drawing.picture), ("masks", drawing.mask)):
            path = folder / "street" / kind / scene.label / f"{number:04d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(array).save(path)
    found, _ = find_sources(folder / "street")
    edits = profile.rewrite.edits or (1, 3)
    settings = SuiteRequest(street_task("classification"), _DEMO_VARIANTS, controls=1, edits=edits, seed=0)
    with Suite.open(folder / "suite") as suite:
        Journey(profile, settings).run(Inputs(found), suite)
    return judge_rows(folder / "suite", referee, truth)


def judge_rows(suite: Path, referee: Referee, truth: Mapping[int, tuple[Any, Drawing]]) -> list[Judged]:
    """What the referee sees in a suite's variants; `truth` has scenes and drawings by the number in a source's name."""
    rows = [row for row in read_metadata(suite) if row.kind == "variant"]
    if not rows:
        return []
    pictures = [cv2.imread(str(suite / row.file_name)) for row in rows]
    shown = np.stack([cv2.cvtColor(p, cv2.COLOR_BGR2RGB) for p in pictures if p is not None]).astype(np.uint8)
    findings, facts = referee.inspect(shown), COUNTERFACTS[EMBEDDED.name]
    judged = []
    for row, picture, finding in zip(rows, shown, findings, strict=True):
        scene, drawing = truth[int(re.sub(r"\D", "", row.source))]
        edits = tuple(facts.read(scene, row.caption, edit) for edit in row.edits)
        target = None
        if all(edits):
            target = EMBEDDED.draw(facts.apply_all(scene, [change for edit in edits for change in edit]))
        judged.append(Judged(row.source, scene, drawing, edits, picture, finding, target, row))
    return judged
