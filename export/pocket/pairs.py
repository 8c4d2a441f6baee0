"""Variants whose truth is rendered: one layout under two captions, painted from the first and judged by the second.

Neither captioner nor language model takes part: the world says what is asked for, and in which words. What is measured
is the painter, by the same settings and stages as in a suite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.keys import content_key
from counterfactory.engine.models.clip import ClipText
from counterfactory.engine.models.denoiser import PaintPlans
from counterfactory.engine.pocket.judges import Referee
from counterfactory.engine.pocket.worlds import Drawing, World
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.stages.maps.edges import edge_maps
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint

from .changes import Change, Counterfacts
from .observed import Observed


@dataclass(frozen=True)
class Pair:
    """A scene with its drawing, what is changed in it, how a caption puts that, and the drawing of what comes of it."""

    source: str
    scene: Any
    drawing: Drawing
    changes: tuple[Change, ...]
    caption: str
    target: Drawing


def draw_pairs(
    world: World, counterfacts: Counterfacts, stream: int, scenes: int, variants: int, first: int = 0
) -> list[Pair]:
    """At most `variants` pairs of each of the scenes from `first` of a stream on, of one change and of two in turn.

    Changes are of the groups that came about least till then, so that those which few scenes can take are as many as
    others, as far as may be; a scene has none twice while there are others.
    """
    pairs: list[Pair] = []
    drawn = dict.fromkeys(counterfacts.groups, 0)
    for index in range(first, first + scenes):
        scene, rng = world.scene(stream, index), np.random.default_rng((stream, index, 3))
        drawing, here = world.draw(scene), set[str]()
        for number in range(variants):
            order = [counterfacts.groups[i] for i in rng.permutation(len(counterfacts.groups))]
            order.sort(key=lambda group: (group in here, drawn[group]))
            changes = counterfacts.draw_some(scene, order, 1 + number % 2, rng)
            asked = tuple(changes.values())
            caption = counterfacts.describe(scene, asked, lambda s, r: world.describe(s, r, True), rng)
            if asked and caption is not None:
                target = world.draw(counterfacts.apply_all(scene, asked))
                pairs.append(Pair(f"{index:04d}", scene, drawing, asked, caption, target))
                here |= set(changes)
                for group in changes:
                    drawn[group] += 1
    return pairs


def paint_pairs(
    pairs: Sequence[Pair], profile: Profile, plans: PaintPlans, clip_text: ClipText
) -> list[NDArray[np.uint8]]:
    """Pictures of the pairs' captions over the edges of their sources, by the profile's settings, in their order."""
    pictures = dict[int, NDArray[np.uint8]]()
    states, _ = clip_text.encode([profile.paint.negative_prompt, *(pair.caption for pair in pairs)])

    def jobs() -> Iterator[PaintJob]:
        numbered = enumerate(pairs)
        for _, group in groupby(numbered, key=lambda one: one[1].source):  # a scene's pairs share its edges
            same = list(group)
            (hint,) = plans.embed_hints(edge_maps(same[0][1].drawing.picture[None], profile.edges))
            for number, pair in same:
                yield PaintJob(content_key("pair", pair.source, number, pair.caption), states[1 + number], hint, plans)

    for number, picture in paint(jobs(), states[0], profile.paint):
        pictures[number] = picture
    return [pictures[number] for number in range(len(pairs))]


def observe_pairs(pairs: Sequence[Pair], pictures: Sequence[NDArray[np.uint8]], referee: Referee) -> list[Observed]:
    """What the referee sees in the pictures of pairs."""
    findings = referee.inspect(np.stack(pictures))
    return [
        Observed(
            pair.source, pair.scene, pair.drawing, tuple((c,) for c in pair.changes), picture, finding, pair.target
        )
        for pair, picture, finding in zip(pairs, pictures, findings, strict=True)
    ]
