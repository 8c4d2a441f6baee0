"""Whether what no edit names is as in the source, fact by fact, measured against the world's truth.

Facts are those that captions of the world state: weather, time, walls, colour and kind of the nearest vehicle and of
the others, people. The referee tells them but for walls, whose material is that of the nearest rendering: it counts as
another one where that is nearer by a fifth of the way, and as unknown where two renderings hardly differ (fog at
night). A person is there where the referee sees a third of its pixels as one: half of a rendered one are seen at least,
and by eye most of those between are there. Colours of clothes are no fact: no caption states them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.pocket.world import CLASSES, MATERIALS
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.check import CheckSettings
from counterfactory.engine.stages.check.quality import small_outlines
from counterfactory.engine.stages.check.registration import SourceMap, registration_scores, source_map

from .counterfacts import apply_changes
from .observed import Judged, Observed
from .sheet import Tile, draw_blocks

_PERSON, _WALLS = CLASSES.index("pedestrian"), CLASSES.index("building")
# Pixels of walls and of a person below which nothing is told of them; the share of a person's that has to be seen.
_LEAST_WALLS, _LEAST_PERSON, _SEEN = 60, 20, 1 / 3
# Grey levels between the renderings of two materials from which on they can be told apart, and how much nearer another.
_APART, _NEARER = 8.0, 0.2
# What a picture is moved by that a check is to see: sizes, and a shift in shares of the side.
_ZOOM, _SHIFT = 1.03, 0.01
_SHOWN = 30  # pictures on a sheet
# Of each fact that can be told whether it is as in the source.
Facts = Mapping[str, bool]


def unchanged_facts(one: Observed) -> dict[str, bool]:
    """Of each fact that no edit names and that can be told, whether a picture shows it as its source does."""
    named = {(change.name, change.number) for change in one.changes}
    plain = [name for name in EMBEDDED.words if (name, None) not in named]
    facts = {name: one.finding.scene[name] == getattr(one.scene, name) for name in plain}
    for number, vehicle in enumerate(one.scene.vehicles):
        where = one.drawing.objects == number + 1
        for name, value in one.finding.object(where).items() if where.any() else ():
            if (name, number) not in named:
                fact = f"other vehicles' {name}" if number else f"nearest vehicle's {name}"
                facts[fact] = facts.get(fact, True) and value == getattr(vehicle, name)
    if ("material", None) not in named and (walls := walls_kept(one)) is not None:
        facts["walls"] = walls
    if (people := _people_kept(one)) is not None:
        facts["people"] = people
    return facts


def walls_kept(one: Observed) -> bool | None:
    """Whether walls are of the source's material; None where nobody can tell."""
    where = one.drawing.mask == _WALLS
    if where.sum() < _LEAST_WALLS:
        return None
    scene, own = apply_changes(one.scene, one.changes), one.scene.material
    drawn = {m: EMBEDDED.draw(replace(scene, material=m)).picture[where].astype(np.float64) for m in MATERIALS}
    apart = {m: float(np.abs(drawn[own] - drawn[m]).mean()) for m in MATERIALS if m != own}
    if min(apart.values()) < _APART:
        return None
    seen = one.picture[where].astype(np.float64)
    far = {m: float(np.abs(drawn[m] - seen).mean()) for m in MATERIALS}
    return all(far[own] - far[m] <= _NEARER * apart[m] for m in apart)


def _people_kept(one: Observed) -> bool | None:
    people = (one.drawing.mask == _PERSON).astype(np.uint8)
    count, parts, stats, _ = cv2.connectedComponentsWithStats(people)
    shown = [part for part in range(1, count) if stats[part, cv2.CC_STAT_AREA] >= _LEAST_PERSON]
    if not shown:
        return None
    return all(float((one.finding.mask[parts == part] == _PERSON).mean()) >= _SEEN for part in shown)


def truth_figures(
    check: CheckSettings,
    judged: Sequence[Observed],
    facts: Sequence[Facts],
    valid: Sequence[bool],
    accepted: NDArray[np.bool_],
    seed: int,
) -> dict[str, Any]:
    """What of the accepted variants is unchanged, what of the good ones is accepted, and what registration catches."""
    good = np.array([is_valid and all(of.values()) for is_valid, of in zip(valid, facts, strict=True)])
    registration = registration_figures(judged, check, good, accepted, seed)
    return {**unchanged_figures(judged, facts, accepted), "unchanged_recall": _mean(accepted[good]), **registration}


def draw_sheets(
    folder: Path, judged: Sequence[Judged], facts: Sequence[Facts], rejected_by: Sequence[str | None]
) -> None:
    """Sheets of what is accepted, and of what the checks of colours and of place reject, for the eye."""
    for sheet, wanted in (("accepted", {None}), ("kept", {"kept"}), ("registration", {"in_place", "aligned"})):
        blocks: list[list[Tile]] = []
        for one, of, name in zip(judged, facts, rejected_by, strict=True):
            if name in wanted and len(blocks) < _SHOWN:
                lost = ", ".join(fact for fact, kept in of.items() if not kept)
                edits = "; ".join(f"{edit.keyword} > {edit.alternative}" for edit in one.row.edits)
                blocks.append([(one.drawing.picture, edits), (one.picture, f"changed: {lost or 'nothing'}")])
        if blocks:
            draw_blocks(blocks, 3, folder / f"{sheet}.webp")


def unchanged_figures(
    judged: Sequence[Observed], facts: Sequence[Facts], accepted: NDArray[np.bool_]
) -> dict[str, Any]:
    """Of the accepted pictures the share in which all facts are as in the source, with one vehicle and with several,
    and of each fact the share where it is, of those that can be told.
    """
    kept = np.array([all(of.values()) for of in facts])
    several = np.array([len(one.scene.vehicles) > 1 for one in judged])
    taken = [of for of, is_taken in zip(facts, accepted, strict=True) if is_taken]
    groups = {"": accepted, "_one_vehicle": accepted & ~several, "_several": accepted & several}
    shares = {f"accepted_unchanged{name}": _mean(kept[some]) for name, some in groups.items()}
    names = sorted({name for of in taken for name in of})
    by_fact = {name: _mean(np.array([of[name] for of in taken if name in of])) for name in names}
    return {**shares, "all_unchanged": _mean(kept), "unchanged_by_fact": by_fact}


def registration_figures(
    judged: Sequence[Observed], check: CheckSettings, good: NDArray[np.bool_], accepted: NDArray[np.bool_], seed: int
) -> dict[str, Any]:
    """The share of the accepted pictures, moved, that the checks of registration reject, and of the good ones, in
    place, that they reject. Pictures are enlarged and shrunk in turn, and pushed in a direction drawn from the seed.
    """
    rng = np.random.default_rng(seed)
    caught: dict[str, list[bool]] = {"zoom": [], "shift": []}
    still = []
    for one, is_accepted, is_good in zip(judged, accepted, good, strict=True):
        angle, source = rng.uniform(0, 2 * np.pi), source_map(small_outlines(one.drawing.picture))
        if is_good:
            still.append(_out_of_place(one.picture, source, check))
        if is_accepted:
            size = _ZOOM if len(caught["zoom"]) % 2 else 1 / _ZOOM
            caught["zoom"].append(_out_of_place(move(one.picture, size, (0.0, 0.0)), source, check))
            shift = (_SHIFT * float(np.cos(angle)), _SHIFT * float(np.sin(angle)))
            caught["shift"].append(_out_of_place(move(one.picture, 1.0, shift), source, check))
    by_kind = {f"registration_caught_{name}": _mean(np.array(hits)) for name, hits in caught.items()}
    least = min((share for share in by_kind.values() if share is not None), default=None)
    return {"registration_caught": least, "registration_false_alarms": _mean(np.array(still)), **by_kind}


def move(picture: NDArray[np.uint8], size: float, shift: tuple[float, float]) -> NDArray[np.uint8]:
    """A picture enlarged about its middle, and pushed by shares of its shorter side."""
    height, width = picture.shape[:2]
    middle, side = np.array([(width - 1) / 2, (height - 1) / 2]), min(height, width)
    matrix = np.column_stack([np.eye(2) * size, middle + np.array(shift) * side - size * middle])
    flags, mode = cv2.INTER_CUBIC, cv2.BORDER_REFLECT
    return np.asarray(cv2.warpAffine(picture, matrix, (width, height), flags=flags, borderMode=mode), np.uint8)


def _out_of_place(picture: NDArray[np.uint8], source: SourceMap | None, check: CheckSettings) -> bool:
    scores = registration_scores(small_outlines(picture), source)
    return any(value < check.least.get(name, 0.0) for name, value in scores.items())


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None
