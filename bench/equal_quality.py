"""Whether two painters' pictures of the same texts are as good: edits that the referee sees, layout that is kept, and
the distance of each set from the truth's renderings (KID). For `run.py`, whose ratio against more steps is of equal
quality only where this says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from journeys import STREAM, pictures_of
from measure import Pixels, with_masters
from numpy.typing import NDArray

from counterfactory.engine.judging.confusion import confusion_matrix, iou
from counterfactory.engine.judging.student import t_reach
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.suite import PictureRow, read_metadata
from counterfactory.export.pocket.counterfacts import apply_changes, read_edit
from counterfactory.export.pocket.likeness import kid
from counterfactory.export.pocket.observed import Observed
from counterfactory.export.pocket.report import Instruments

# What the worse end of the interval of a difference may be: points of edits seen, of layout's mIoU; and of KID.
_SEEN, _LAYOUT, _KID = -0.02, -0.02, 0.005
_LEAST_SOURCES = 8


def compare_quality(suite: Path, other: Mapping[str, Pixels], profile: Profile) -> dict[str, Any]:
    """The engine's pictures in `suite` beside the `other` painter's, by key: each figure of both, the intervals of the
    differences over sources, and whether they are `quality_equal`.
    """
    ours = pictures_of(suite)
    rows = [row for row in read_metadata(suite) if row.kind == "variant" and row.key in ours and row.key in other]
    sources = [row.source for row in rows]
    if len(set(sources)) < _LEAST_SOURCES:
        print(f"quality    not compared: {len(set(sources))} sources, {_LEAST_SOURCES} are needed")
        return {"quality_equal": False}
    instruments = Instruments(with_masters(profile))
    engine, peer = (_observed(rows, [of[row.key] for row in rows], instruments) for of in (ours, other))
    told: dict[str, Any] = {}
    for name, figure in (("edits_seen", _seen), ("layout", _layout)):
        one, two = (np.array([figure(picture) for picture in side]) for side in (engine, peer))
        told[f"quality_{name}"] = [float(np.nanmean(one)), float(np.nanmean(two))]
        told[f"quality_{name}_difference"] = _difference(one - two, sources)
    true = [(one.target or one.drawing).picture for one in engine]
    scenes = np.unique(sources, return_inverse=True)[1].astype(np.int64)
    features = instruments.extract(true)
    told["quality_kid"] = [
        kid(instruments.extract([o.picture for o in of]), features, scenes)[0] for of in (engine, peer)
    ]
    told["quality_equal"] = bool(
        told["quality_edits_seen_difference"][0] >= _SEEN
        and told["quality_layout_difference"][0] >= _LAYOUT
        and told["quality_kid"][0] - told["quality_kid"][1] <= _KID
    )
    for name in ("edits_seen", "layout", "kid"):
        engine_s, peer_s = told[f"quality_{name}"]
        print(f"quality    {name}: engine {engine_s:.3f}, peer {peer_s:.3f}, over {len(set(sources))} sources")
    print(f"quality    equal: {'yes' if told['quality_equal'] else 'not shown, so no ratio is called one'}")
    return told


def _observed(rows: Sequence[PictureRow], pictures: Sequence[Pixels], instruments: Instruments) -> list[Observed]:
    found = []
    for row, picture, finding in zip(rows, pictures, instruments.referee.inspect(np.stack(pictures)), strict=True):
        scene = EMBEDDED.scene(STREAM, int(re.sub(r"\D", "", row.source)))
        edits = tuple(read_edit(scene, edit) for edit in row.edits)
        target = EMBEDDED.draw(apply_changes(scene, [change for edit in edits for change in edit]))
        known = target if all(edits) else None
        found.append(Observed(row.source, scene, EMBEDDED.draw(scene), edits, picture, finding, known))
    return found


def _seen(one: Observed) -> float:
    answers = [answer for i in range(len(one.edits)) if (answer := one.edit_seen(i)) is not None]
    return float(np.mean(answers)) if answers else np.nan


def _layout(one: Observed) -> float:
    mask = one.drawing.mask
    return float(np.nanmean(iou(confusion_matrix(mask, one.finding.mask, len(EMBEDDED.classes)))))


def _difference(values: NDArray[np.float64], sources: Sequence[str]) -> list[float]:
    """The 95 % interval of the mean over sources of what is known."""
    names, of = np.unique(sources, return_inverse=True)
    means = np.array([np.nanmean(some) for k in range(len(names)) if not np.isnan(some := values[of == k]).all()])
    reach = t_reach(0.95, len(means) - 1) * float(means.std(ddof=1)) / len(means) ** 0.5
    return [float(means.mean()) - reach, float(means.mean()) + reach]
