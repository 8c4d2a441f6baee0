"""Claim: none; what edges, depth and classes are each worth as a hint, alone and together, in a street world.

Scenes that no training saw are painted over their true depth and classes and the edges that are found in their
pictures, with one or two facts of them changed: from the same captions and noise for every set of hints. The referee
says whether the layout stayed (the mean IoU of its mask with the true one) and whether what was asked for shows. The
weights of several hints sum to one, so that sets differ in what they follow and not in how strongly. The last line is
JSON; --write keeps it in docs/hints.json.

It takes a denoiser that was trained on all of them. Of the streets:

    python -m counterfactory.export pocket --gather MODELS
    python -m counterfactory.export pocket --only controls --weights MODELS
    python bench/hints.py --models MODELS
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from journeys import paint_pairs
from measure import DOCS, Pixels, bench_parser, finish, keep_figures, machine

from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.pocket.judges import Referee
from counterfactory.engine.pocket.worlds import EMBEDDED, SIZE
from counterfactory.engine.profile.maps import HintSettings, Kind
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.engine.sources.palette import load_palette
from counterfactory.engine.stages.maps.draw_maps import Maps, edge_maps
from counterfactory.engine.stages.paint.paint_variants import control_scale, embed_maps
from counterfactory.export.pocket.data import JUDGED
from counterfactory.export.pocket.int8 import full_profile
from counterfactory.export.pocket.observed import (
    Observed,
    Pair,
    as_rendered,
    draw_pairs,
    edit_shares,
    layout_kept,
    observe_pairs,
)
from counterfactory.export.pocket.sheet import draw_blocks

_FIRST = 7000  # of the stream: no other figure is of these scenes
_KINDS: tuple[Kind, ...] = ("edges", "depth", "segmentation")
_SETS = tuple(kinds for count in (1, 2, 3) for kinds in combinations(_KINDS, count))


@dataclass(frozen=True)
class Subject:
    """The models to look at: a profile of a denoiser that follows all of `_KINDS`."""

    profile: Profile

    @classmethod
    def of(cls, models: Path, denoiser: str) -> Subject:
        """The pocket's way of painting, in full sampling for the denoiser that follows the teacher's controls."""
        profile = full_profile(models) if denoiser == "denoiser_controls" else load_profile("pocket")
        painting = replace(profile.paint, denoiser=denoiser)
        return cls(replace(profile, models=ModelPaths(str(models)), paint=painting))

    def following(self, kinds: Sequence[str]) -> Profile:
        """The profile that follows hints of these kinds alone, by equal weights that sum to one."""
        weights = [1 / len(kinds) if kind in kinds else 0.0 for kind in _KINDS]
        every = zip(_KINDS, ("hint", "hint_depth", "hint_classes"), weights, (None, None, EMBEDDED.name), strict=True)
        return replace(self.profile, hints=tuple(HintSettings(*of) for of in every))

    def maps(self, pair: Pair) -> Maps:
        """Of a pair's source: edges that are found, true depth, true classes."""
        drawing = pair.drawing
        edges = edge_maps(drawing.picture[None], self.profile.edges)[0]
        return edges, drawing.nearness, load_palette(EMBEDDED.name).paint(drawing.mask, None)


def painted(subject: Subject, kinds: Sequence[str], pairs: Sequence[Pair]) -> list[Pixels]:
    """Pictures of the pairs' captions over hints of these kinds, in the pairs' order."""
    profile = subject.following(kinds)
    assert profile.hints is not None
    models, weights = ModelPool(library_of(profile), Meter(lambda _: None)), [hint.weight for hint in profile.hints]
    plans = models.paint_plans(SIZE, SIZE)

    def embed(pair: Pair) -> Any:
        maps = zip(subject.maps(pair), weights, strict=True)
        return embed_maps(profile, plans, [tuple(one if weight else None for one, weight in maps)])[0]

    return paint_pairs(models, plans, profile, pairs, embed, "hints", control_scale=control_scale(profile, plans))[0]


def figures_of(observed: Sequence[Observed]) -> dict[str, Any]:
    """Layout kept, of all pictures and of those that become night, and what was asked for seen."""
    nights = [one for one in observed if any(c.name == "time" and c.value == "night" for c in one.changes)]
    found: dict[str, Any] = layout_kept(observed) | edit_shares(observed)
    return found | {"layout_miou_to_night": layout_kept(nights).get("layout_miou")}


def main() -> None:
    parser = bench_parser(__doc__, write="docs/hints.json")
    parser.add_argument("--models", type=Path, required=True, help="folder of networks that know the world")
    parser.add_argument("--denoiser", default="denoiser_controls", help="its plan (%(default)s)")
    parser.add_argument("--scenes", type=int, default=150)
    parser.add_argument("--variants", type=int, default=3)
    parser.add_argument("--first", type=int, default=_FIRST, help=argparse.SUPPRESS)  # to choose by other scenes
    parser.add_argument("--sheet", type=Path, metavar="FILE", help="write some scenes as WebP, a row per set of hints")
    asked = parser.parse_args()
    subject = Subject.of(asked.models, asked.denoiser)
    referee = Referee.load(asked.models)
    pairs = draw_pairs(JUDGED, asked.scenes, asked.variants, asked.first)
    table: dict[str, dict[str, Any]] = {}
    shown = [[pair.drawing.picture for pair in pairs], [pair.target.picture for pair in pairs]]
    for kinds in _SETS:
        shown.append(painted(subject, kinds, pairs))
        observed = observe_pairs(pairs, shown[-1], referee)
        table[" + ".join(kinds)] = figures_of(observed)
        print(f"{' + '.join(kinds):32}", brief(table[" + ".join(kinds)]), flush=True)
    table["the truth's renderings"] = figures_of(as_rendered(observed, referee))
    print(f"{'the truth':32}", brief(table["the truth's renderings"]))
    if asked.sheet:
        columns = range(0, min(len(pairs), 7 * asked.variants), asked.variants)
        names = ["sources", "rendered truth", *(", ".join(kinds) for kinds in _SETS)]
        blocks = [[(row[column], name) for column in columns] for name, row in zip(names, shown, strict=True)]
        draw_blocks(blocks, 1, asked.sheet)
    kept = {"world": EMBEDDED.name, "scenes": asked.scenes, "variants": len(pairs), "sets": table}
    if asked.write:
        keep_figures(DOCS / "hints.json", {**kept, "machine": machine()})
    finish("hints", **kept)


def brief(figures: dict[str, Any]) -> str:
    """The figures that are single numbers, on a line."""
    return "  ".join(f"{name} {value:.3f}" for name, value in figures.items() if isinstance(value, float))


if __name__ == "__main__":
    main()
