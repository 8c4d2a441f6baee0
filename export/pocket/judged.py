"""Painted variants beside the truth: the scene that each was made from, and what the referee sees in its picture."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.config.profile import Profile
from counterfactory.engine.edit import Edit
from counterfactory.engine.journey import Journey, JourneySettings
from counterfactory.engine.judging.confusion import confusion_matrix
from counterfactory.engine.pocket.judges import Finding, Referee, vehicle_map
from counterfactory.engine.pocket.render import render
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.world import CLASSES, COLOURS, KINDS, TIMES, WEATHERS, Scene
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.suite import PictureRow, Suite, read_metadata

from .data import HELD_OUT, scene


@dataclass(frozen=True)
class Judged:
    """A painted variant: its metadata, its source's scene and mask, its picture, and what the referee sees in it."""

    row: PictureRow
    scene: Scene
    mask: NDArray[np.uint8]
    picture: NDArray[np.uint8]
    finding: Finding


def held_out(count: int, first: int = 0) -> tuple[list[Scene], NDArray[np.uint8], NDArray[np.uint8]]:
    """Scenes that no training saw, from number `first` on, their pictures [N, 128, 128, 3] and masks [N, 128, 128]."""
    scenes = [scene(HELD_OUT, i) for i in range(first, first + count)]
    images, masks = zip(*(render(s) for s in scenes), strict=True)
    return scenes, np.stack(images), np.stack(masks)


def judge_variants(
    profile: Profile, folder: Path, referee: Referee, sources: int, variants: int, first: int = 0
) -> list[Judged]:
    """Run the journey on held-out scenes, from `first` on, and let the referee look at every painted variant.

    What an earlier call left in `folder` is gone on from: other paint settings paint the same captions.
    """
    scenes, images, masks = held_out(sources, first)
    for part in ("images", "masks"):
        (folder / "street" / part).mkdir(parents=True, exist_ok=True)
    for i, (image, mask) in enumerate(zip(images, masks, strict=True)):
        cv2.imwrite(str(folder / f"street/images/{i:04d}.png"), cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
        cv2.imwrite(str(folder / f"street/masks/{i:04d}.png"), mask)
    found, _ = find_sources(folder / "street")
    settings = JourneySettings(street_task("segmentation"), variants, 0, (1, 2), seed=0)
    with Suite.open(folder / "suite") as suite:
        Journey(profile, settings).run(found, suite)
    return judge_rows(folder / "suite", referee, dict(enumerate(zip(scenes, masks, strict=True))))


def judge_rows(suite: Path, referee: Referee, truth: Mapping[int, tuple[Scene, NDArray[np.uint8]]]) -> list[Judged]:
    """What the referee sees in a suite's variants; `truth` has scenes and masks by the number in a source's name."""
    rows = [row for row in read_metadata(suite) if row.kind == "variant"]
    pictures = [cv2.imread(str(suite / row.file_name)) for row in rows]
    shown = np.stack([cv2.cvtColor(p, cv2.COLOR_BGR2RGB) for p in pictures if p is not None]).astype(np.uint8)
    findings = referee.inspect(shown)
    numbers = [int(re.sub(r"\D", "", row.source)) for row in rows]
    return [
        Judged(row, *truth[number], picture, finding)
        for row, number, picture, finding in zip(rows, numbers, shown, findings, strict=True)
    ]


def _word(text: str, words: Sequence[str]) -> str | None:
    found = [w for w in words if re.search(rf"\b{w}\b", text)]
    return found[0] if found else None


def edit_seen(one: Judged, edit: Edit) -> bool | None:
    """Whether the referee sees an edit of weather, time or a vehicle's colour; None of any other."""
    if edit.type == "weather" and (weather := _word(edit.alternative, WEATHERS)):
        return one.finding.weather == weather
    if edit.type == "time" and (time := _word(edit.alternative, TIMES)):
        return one.finding.time == time
    if edit.type == "colour" and (colour := _word(edit.alternative, COLOURS)):
        was, kind = _word(edit.keyword, COLOURS), _word(edit.keyword, KINDS)
        which = [i for i, v in enumerate(one.scene.vehicles) if (v.colour, v.kind) == (was, kind)]
        where = vehicle_map(one.scene, one.mask) == which[0] if which else np.zeros(one.mask.shape, bool)
        if where.any():
            return one.finding.vehicle(where)[0] == colour
    return None


def edits_seen(judged: Sequence[Judged]) -> dict[str, list[bool]]:
    """Of every edit of a type that the referee can see, "weather", "time" and "colour", whether it sees it."""
    seen: dict[str, list[bool]] = {"weather": [], "time": [], "colour": []}
    for one in judged:
        for edit in one.row.edits:
            if (hit := edit_seen(one, edit)) is not None:
                seen[edit.type].append(hit)
    return seen


def layout_confusion(judged: Sequence[Judged]) -> NDArray[np.int64]:
    """Pixels of all variants by the class of the source's mask and that of the referee's, int64 [K, K]."""
    total = sum(confusion_matrix(one.mask, one.finding.mask, len(CLASSES)) for one in judged)
    return np.asarray(total, np.int64)
