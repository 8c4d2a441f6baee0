"""Variants of a suite beside the truth: the scene that each was made from, and what the referee sees in its picture."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from counterfactory.engine.config.profile import Profile
from counterfactory.engine.edit import Edit
from counterfactory.engine.journey import Journey, JourneySettings
from counterfactory.engine.pocket.judges import Referee
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.world import COLOURS, KINDS, MATERIALS, TIMES, WEATHERS, Scene
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.suite import PictureRow, Suite, read_metadata

from .changes import Change
from .data import HELD_OUT
from .observed import Observed
from .street_changes import STREET_COUNTERFACTS
from .worlds import STREETS, Drawing, World

# What an edit of each type says of the whole scene. Edits of "background" are of walls in the streets.
_SCENE_EDITS = {"weather": ("weather", WEATHERS), "time": ("time", TIMES), "background": ("material", MATERIALS)}


@dataclass(frozen=True)
class Judged(Observed):
    """A variant with its row in the suite; `edits` are in the order of the row's."""

    row: PictureRow


def held_out(count: int, first: int = 0, stream: int = HELD_OUT, world: World = STREETS) -> list[tuple[Any, Drawing]]:
    """Scenes that no training saw, from number `first` of a stream on, and their drawings."""
    scenes = [world.scene(stream, i) for i in range(first, first + count)]
    return [(scene, world.draw(scene)) for scene in scenes]


def judge_variants(
    profile: Profile,
    folder: Path,
    referee: Referee,
    sources: int,
    variants: int,
    first: int = 0,
    stream: int = HELD_OUT,
) -> list[Judged]:
    """Run the journey on held-out scenes of the streets, from `first` on, and let the referee look at every variant.

    What an earlier call left in `folder` is gone on from: other paint settings paint the same captions.
    """
    truth = dict(enumerate(held_out(sources, first, stream)))
    for part in ("images", "masks"):
        (folder / "street" / part).mkdir(parents=True, exist_ok=True)
    for i, (_, drawing) in truth.items():
        cv2.imwrite(str(folder / f"street/images/{i:04d}.png"), cv2.cvtColor(drawing.picture, cv2.COLOR_RGB2BGR))
        cv2.imwrite(str(folder / f"street/masks/{i:04d}.png"), drawing.mask)
    found, _ = find_sources(folder / "street")
    settings = JourneySettings(street_task("segmentation"), variants, 0, (1, 2), seed=0)
    with Suite.open(folder / "suite") as suite:
        Journey(profile, settings).run(found, suite)
    return judge_rows(folder / "suite", referee, truth)


def judge_rows(suite: Path, referee: Referee, truth: Mapping[int, tuple[Scene, Drawing]]) -> list[Judged]:
    """What the referee sees in a suite's variants; `truth` has scenes and drawings by the number in a source's name."""
    rows = [row for row in read_metadata(suite) if row.kind == "variant"]
    pictures = [cv2.imread(str(suite / row.file_name)) for row in rows]
    shown = np.stack([cv2.cvtColor(p, cv2.COLOR_BGR2RGB) for p in pictures if p is not None]).astype(np.uint8)
    findings = referee.inspect(shown)
    judged = []
    for row, picture, finding in zip(rows, shown, findings, strict=True):
        scene, drawing = truth[int(re.sub(r"\D", "", row.source))]
        edits = tuple(read_edit(scene, edit) for edit in row.edits)
        target = None
        if all(edits):
            after = STREET_COUNTERFACTS.apply_all(scene, [change for edit in edits for change in edit])
            target = STREETS.draw(after)
        judged.append(Judged(row.source, scene, drawing, edits, picture, finding, target, row))
    return judged


def read_edit(scene: Scene, edit: Edit) -> tuple[Change, ...]:
    """What an edit asks for in the words of the streets: one change, or none where its words are not theirs."""
    if edit.type in _SCENE_EDITS:
        name, words = _SCENE_EDITS[edit.type]
        value = _word(edit.alternative, words)
        return (Change(name, value),) if value else ()
    if edit.type == "colour" and (colour := _word(edit.alternative, COLOURS)):
        was, kind = _word(edit.keyword, COLOURS), _word(edit.keyword, KINDS)
        which = [i for i, v in enumerate(scene.vehicles) if (v.colour, v.kind) == (was, kind)]
        return (Change("colour", colour, which[0]),) if which else ()
    return ()


def _word(text: str, words: Sequence[str]) -> str | None:
    found = [w for w in words if re.search(rf"\b{w}\b", text)]
    return found[0] if found else None
