"""Variants of suites beside the truth: the scene that each was made from, and what the referee sees in its picture."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from counterfactory.engine.inputs import Inputs
from counterfactory.engine.journey import Journey
from counterfactory.engine.pocket.judges import Referee
from counterfactory.engine.pocket.world import Scene
from counterfactory.engine.pocket.worlds import EMBEDDED, Drawing
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.suite import PictureRow, Suite, read_metadata

from .counterfacts import apply_changes, read_edit
from .data import HELD_OUT
from .observed import Observed


@dataclass(frozen=True)
class Judged(Observed):
    """A variant with its row in the suite; `edits` are in the order of the row's."""

    row: PictureRow


def held_out(numbers: Iterable[int], stream: int = HELD_OUT) -> list[tuple[Scene, Drawing]]:
    """Scenes of a stream that no training saw, and their drawings."""
    scenes = [EMBEDDED.scene(stream, number) for number in numbers]
    return [(scene, EMBEDDED.draw(scene)) for scene in scenes]


def judge_variants(
    profile: Profile,
    folder: Path,
    referee: Referee,
    request: SuiteRequest,
    numbers: range,
    stream: int = HELD_OUT,
) -> list[Judged]:
    """Make `folder`/suite of the scenes of a stream with these numbers, and let the referee look at every variant.

    What an earlier call left in `folder` is gone on from: other paint settings paint the same captions.
    """
    truth = dict(zip(numbers, held_out(numbers, stream), strict=True))
    for number, (scene, drawing) in truth.items():
        label = scene.label if request.task.name == "classification" else ""
        for kind, array in (("images", drawing.picture), ("masks", drawing.mask)):
            path = folder / "street" / kind / label / f"{number:04d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(array).save(path)
    found, _ = find_sources(folder / "street")
    with Suite.open(folder / "suite") as suite:
        Journey(profile, request).run(Inputs(found), suite)
    rows = [row for row in read_metadata(folder / "suite") if row.kind == "variant"]
    if not rows:
        return []
    pictures = np.stack([np.asarray(Image.open(folder / "suite" / row.file_name).convert("RGB")) for row in rows])
    judged = []
    for row, picture, finding in zip(rows, pictures, referee.inspect(pictures), strict=True):
        scene, drawing = truth[int(re.sub(r"\D", "", row.source))]
        edits = tuple(read_edit(scene, edit) for edit in row.edits)
        changes = [change for edit in edits for change in edit]
        target = EMBEDDED.draw(apply_changes(scene, changes)) if all(edits) else None
        judged.append(Judged(row.source, scene, drawing, edits, picture, finding, target, row))
    return judged
