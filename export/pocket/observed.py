"""Painted pictures beside the truth, and the figures that the referee gives of them.

The same figures of the truth's own renderings say what the referee misses, those of the sources' what it imagines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from counterfactory.engine.inputs import Inputs
from counterfactory.engine.journey import Journey
from counterfactory.engine.judging.confusion import confusion_matrix, iou
from counterfactory.engine.pocket.judges import Finding, Referee
from counterfactory.engine.pocket.world import Scene
from counterfactory.engine.pocket.worlds import EMBEDDED, Drawing
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.suite import PictureRow, Suite, read_metadata

from .counterfacts import GROUPS, Change, apply_changes, draw_change, is_seen, read_edit
from .data import HELD_OUT

# The figures of changes, by the names of these; colours of vehicles behind the nearest are counted once more.
_SUCCESS = {
    "edit_success": ("weather", "time"),
    "weather_success": ("weather",),
    "time_success": ("time",),
    "colour_success": ("colour", "second colour"),
    "second_colour_success": ("second colour",),
}


@dataclass(frozen=True)
class Pair:
    """A scene with its drawing, what is changed in it, how a caption puts that, and the drawing of what comes of it.

    Neither captioner nor language model takes part: what is measured by pairs is the painter.
    """

    source: str
    scene: Scene
    drawing: Drawing
    changes: tuple[Change, ...]
    caption: str
    target: Drawing


def draw_pairs(stream: int, scenes: int, variants: int, first: int = 0) -> list[Pair]:
    """`variants` pairs of each of the scenes from `first` of a stream on, of one change and of two in turn.

    Changes are of the groups that came about least till then, so that those which few scenes can take are as many as
    others, as far as may be; a scene has none twice while there are others.
    """
    pairs: list[Pair] = []
    drawn = dict.fromkeys(GROUPS, 0)
    for index in range(first, first + scenes):
        scene, rng = EMBEDDED.scene(stream, index), np.random.default_rng((stream, index, 3))
        drawing, here = EMBEDDED.draw(scene), set[str]()
        for number in range(variants):
            order = [GROUPS[i] for i in rng.permutation(len(GROUPS))]
            order.sort(key=lambda group: (group in here, drawn[group]))
            changes: dict[str, Change] = {}
            for group in order:
                if len(changes) <= number % 2 and (change := draw_change(scene, group, rng)) is not None:
                    changes[group] = change
                    drawn[group] += 1
            here |= set(changes)
            after = apply_changes(scene, asked := tuple(changes.values()))
            caption = EMBEDDED.describe(after, rng)
            pairs.append(Pair(f"{index:04d}", scene, drawing, asked, caption, EMBEDDED.draw(after)))
    return pairs


@dataclass(frozen=True)
class Observed:
    """A picture uint8 [128, 128, 3] that was painted over a source, by captions in which `edits` are made.

    `scene` and `drawing` are the source's, `finding` is what the referee sees in the picture. An edit is the changes
    that it asks for, none where nobody can say; `target` is the drawing of the scene after all of them, None where one
    of them is not known.
    """

    source: str
    scene: Scene
    drawing: Drawing
    edits: tuple[tuple[Change, ...], ...]
    picture: NDArray[np.uint8]
    finding: Finding
    target: Drawing | None

    @property
    def truth(self) -> Drawing:
        """What is known of the picture's outlines."""
        return self.drawing if self.target is None else self.target

    @property
    def changes(self) -> tuple[Change, ...]:
        return tuple(change for edit in self.edits for change in edit)

    def edit_seen(self, number: int) -> bool | None:
        """Whether the referee sees all that an edit asks for; None where it cannot judge that."""
        answers = [is_seen(change, self.finding, self.truth.objects) for change in self.edits[number]]
        judged = [answer for answer in answers if answer is not None]
        return all(judged) if judged else None


def observe_pairs(pairs: Sequence[Pair], pictures: Sequence[NDArray[np.uint8]], referee: Referee) -> list[Observed]:
    return [
        Observed(one.source, one.scene, one.drawing, tuple((c,) for c in one.changes), picture, finding, one.target)
        for one, picture, finding in zip(pairs, pictures, referee.inspect(np.stack(pictures)), strict=True)
    ]


@dataclass(frozen=True)
class Judged(Observed):
    """A variant with its row in the suite; `edits` are in the order of the row's."""

    row: PictureRow


def held_out(numbers: Iterable[int], stream: int = HELD_OUT) -> list[tuple[Scene, Drawing]]:
    """Scenes of a stream that no training saw, and their drawings."""
    scenes = [EMBEDDED.scene(stream, number) for number in numbers]
    return [(scene, EMBEDDED.draw(scene)) for scene in scenes]


def judge_variants(
    profile: Profile, folder: Path, referee: Referee, request: SuiteRequest, numbers: range, stream: int = HELD_OUT
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


def as_rendered(observed: Sequence[Observed], referee: Referee) -> list[Observed]:
    """The same with the truth's renderings in the place of pictures; those without are left out."""
    return _shown([(one, one.target) for one in observed if one.target is not None], referee)


def as_sources(observed: Sequence[Observed], referee: Referee) -> list[Observed]:
    """The same with the sources' renderings in the place of pictures."""
    return _shown([(one, one.drawing) for one in observed], referee)


def _shown(pairs: Sequence[tuple[Observed, Drawing]], referee: Referee) -> list[Observed]:
    if not pairs:
        return []
    findings = referee.inspect(np.stack([drawing.picture for _, drawing in pairs]))
    return [
        replace(one, picture=drawing.picture, finding=finding)
        for (one, drawing), finding in zip(pairs, findings, strict=True)
    ]


def edits_seen(observed: Sequence[Observed]) -> dict[str, list[bool]]:
    """Of every change that the referee can see, by its group, whether it sees it."""
    seen: dict[str, list[bool]] = {}
    for one in observed:
        for change in one.changes:
            if (hit := is_seen(change, one.finding, one.truth.objects)) is not None:
                seen.setdefault("second colour" if change.number else change.name, []).append(hit)
    return seen


def edit_shares(observed: Sequence[Observed]) -> dict[str, float]:
    """How often the referee sees what was asked for, by kind; what was never asked for has no share."""
    seen = edits_seen(observed)
    hits = {key: [hit for name in names for hit in seen.get(name, [])] for key, names in _SUCCESS.items()}
    return {key: float(np.mean(of_key)) for key, of_key in hits.items() if of_key}


def layout_kept(observed: Sequence[Observed]) -> dict[str, Any]:
    """`layout_miou` and `layout_iou_by_class` of the referee's masks against the sources', as no change moves an
    outline; none without a picture.
    """
    if not observed:
        return {}
    truth, seen = (np.stack(masks) for masks in zip(*((o.drawing.mask, o.finding.mask) for o in observed), strict=True))
    by_class = iou(confusion_matrix(truth, seen, len(EMBEDDED.classes)))
    shares = zip(EMBEDDED.classes, by_class, strict=True)
    return {
        "layout_miou": float(np.nanmean(by_class)),
        "layout_iou_by_class": {name: float(value) for name, value in shares if not np.isnan(value)},
    }


def painted_figures(observed: Sequence[Observed], referee: Referee) -> dict[str, Any]:
    """The figures of the pictures; `referee_truth` and `referee_source` are the same of the truth and the sources."""
    truth, sources = as_rendered(observed, referee), as_sources(observed, referee)
    return {
        **edit_shares(observed),
        "edits_measured": {name: len(hits) for name, hits in edits_seen(observed).items()},
        "variants_measured": len(observed),
        **layout_kept(observed),
        "referee_truth": edit_shares(truth) | layout_kept(truth),
        "referee_source": edit_shares(sources),
    }
