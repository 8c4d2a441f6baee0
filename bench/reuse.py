"""Claim: painting with deep features that serve two steps keeps the quality of computing them at every step; so do, all
but, few steps of distilled weights (--also pocket).

The embedded models in full sampling (or by another profile of theirs) on scenes that no training saw: the same captions
and noise for every way of painting, by turns. Of each way what the referee sees (edits, layout, all else unchanged),
sharpness and KID, the core-seconds of painting, and of the first way's figures the difference, with the 95 % interval
of scenes drawn again. The last line is JSON; --write keeps it in docs/reuse.json.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from journeys import paint_pairs
from measure import DOCS, Pixels, bench_parser, finish, keep_figures, machine, show, with_masters

from counterfactory.engine.judging.confusion import confusion_matrix, iou
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.denoiser import DenoiserRow, Evaluated, PaintPlans
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.pocket.worlds import EMBEDDED, SIZE
from counterfactory.engine.profile.paint import ReuseSettings
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.stages.maps.draw_maps import edge_maps
from counterfactory.export.pocket.counterfacts import is_seen
from counterfactory.export.pocket.data import JUDGED
from counterfactory.export.pocket.likeness import likeness_figures
from counterfactory.export.pocket.observed import Observed, Pair, draw_pairs, observe_pairs
from counterfactory.export.pocket.report import Instruments
from counterfactory.export.pocket.unchanged import unchanged_facts
from counterfactory.kernels.pixels import to_pictures

FIRST = 9000  # of the stream: no other figure is of these scenes
TOGETHER, _DRAWS = 20, 1000  # scenes painted in a turn, and draws of scenes for an interval
_EDITS = {"weather and time": ("weather", "time"), "colours": ("colour", "second colour")}


class Painter:
    """A way of painting, with the networks opened; rows from the share `uncontrolled` of the steps on are painted
    without the ControlNet.
    """

    def __init__(self, profile: Profile, uncontrolled: float = 1.0) -> None:
        self.profile, self.core_s = profile, 0.0
        self._models = ModelPool(library_of(profile), Meter(lambda _: None))
        plans = self._models.paint_plans(SIZE, SIZE)
        below = 1000 * (1 - uncontrolled)
        self._plans = _Uncontrolled(**{name: getattr(plans, name) for name in _FIELDS}, below=below)

    def paint(self, pairs: Sequence[Pair]) -> list[Pixels]:
        """Pictures of the pairs' captions over their sources' edges, in the pairs' order."""

        def embed(pair: Pair) -> Any:
            return self._plans.embed_hints(edge_maps(pair.drawing.picture[None], self.profile.edges))[0]

        pictures, took = paint_pairs(self._models, self._plans, self.profile, pairs, embed, "reuse")
        self.core_s += took
        return pictures


_FIELDS = ("hint", "denoiser", "decoder", "latent_shape", "other_hints", "shallow")


@dataclass(frozen=True)
class _Uncontrolled(PaintPlans):
    """Plans whose rows at timesteps below `below` follow no ControlNet."""

    below: float = 0.0

    def evaluate(self, rows: Sequence[DenoiserRow]) -> Sequence[Evaluated]:
        return super().evaluate([replace(r, control_scale=0.0) if r.timestep < self.below else r for r in rows])


def ways(profile: Profile, every: Sequence[int], uncontrolled: bool, also: Sequence[str]) -> dict[str, Painter]:
    """What is compared, the first with each of the others: `also` other profiles of the same networks."""
    reused = {f"of {steps} steps": Painter(_reusing(profile, steps)) for steps in every}
    without = {"no ControlNet below 400": Painter(profile, uncontrolled=0.6)} if uncontrolled else {}
    others = {f"profile {name}": Painter(with_masters(load_profile(name))) for name in also}
    return {"of each step": Painter(_reusing(profile, None)), **reused, **without, **others}


def _reusing(profile: Profile, every: int | None) -> Profile:
    reuse = None if every is None else ReuseSettings(every)
    return replace(profile, paint=replace(profile.paint, reuse=reuse))


def values_of(observed: Sequence[Observed]) -> dict[str, list[list[float]]]:
    """Of each figure the values of every picture, which it is the mean of."""
    found: dict[str, list[list[float]]] = {name: [] for name in (*_EDITS, "layout", "unchanged")}
    for one in observed:
        for name, kinds in _EDITS.items():
            some = [change for change in one.changes if ("second colour" if change.number else change.name) in kinds]
            hits = [is_seen(change, one.finding, one.truth.objects) for change in some]
            found[name].append([float(hit) for hit in hits if hit is not None])
        matrix = confusion_matrix(one.drawing.mask, one.finding.mask, len(EMBEDDED.classes))
        found["layout"].append([float(np.nanmean(iou(matrix)))])
        found["unchanged"].append([float(all(unchanged_facts(one).values()))])
    return found


def difference(one: Sequence[list[float]], other: Sequence[list[float]], sources: Sequence[str]) -> list[float]:
    """The mean of the other's values less that of the one's, and its 95 % interval over draws of scenes."""
    names = sorted(set(sources))
    rows = np.array([names.index(source) for source in sources])

    def by_scene(values: Sequence[list[float]]) -> tuple[Any, Any]:
        sums, counts = (np.bincount(rows, [of(v) for v in values], len(names)) for of in (sum, len))
        return sums, counts

    (a, n), (b, m) = by_scene(one), by_scene(other)
    drawn = np.random.default_rng(9).integers(0, len(names), (_DRAWS, len(names)))
    means = b[drawn].sum(1) / m[drawn].sum(1) - a[drawn].sum(1) / n[drawn].sum(1)
    return [float(b.sum() / m.sum() - a.sum() / n.sum()), *map(float, np.quantile(means, (0.025, 0.975)))]


def main() -> None:
    parser = bench_parser(__doc__, write="docs/reuse.json")
    parser.add_argument("--scenes", type=int, default=300)
    parser.add_argument("--variants", type=int, default=2)
    parser.add_argument("--profile", default="pocket-full", help="of the embedded models (%(default)s)")
    parser.add_argument("--steps", type=int, help="of the sampler, instead of the profile's")
    parser.add_argument("--every", type=int, nargs="*", default=[2, 3], help="steps that features serve (2 3)")
    without = "also without ControlNet in the last 40 %% of the steps"
    parser.add_argument("--uncontrolled", action="store_true", help=without)
    parser.add_argument("--also", nargs="*", default=[], metavar="PROFILE", help="other profiles of these networks")
    asked = parser.parse_args()
    profile = with_masters(load_profile(asked.profile))
    if asked.steps:
        sampler = replace(profile.paint.sampler, steps=asked.steps)
        profile = replace(profile, paint=replace(profile.paint, sampler=sampler))
    instruments, painters = Instruments(profile), ways(profile, asked.every, asked.uncontrolled, asked.also)
    pairs = draw_pairs(JUDGED, asked.scenes, asked.variants, FIRST)
    pictures: dict[str, list[Pixels]] = {name: [] for name in painters}
    step = TOGETHER * asked.variants
    for start in range(0, len(pairs), step):
        for name, painter in painters.items():
            pictures[name] += painter.paint(pairs[start : start + step])
        print(f"{min(start + step, len(pairs))} of {len(pairs)} variants", flush=True)
    table, sources = dict[str, dict[str, Any]](), [pair.source for pair in pairs]
    first: Mapping[str, list[list[float]]] = {}
    for name, painter in painters.items():
        observed = observe_pairs(pairs, pictures[name], instruments.referee)
        values = values_of(observed)
        first = first or values
        row: dict[str, Any] = {key: float(np.mean([v for of in each for v in of])) for key, each in values.items()}
        row |= likeness_figures(observed, instruments.extract, lambda shown: to_pictures(instruments.autoencode(shown)))
        row |= {f"{key}_less": difference(first[key], each, sources) for key, each in values.items()}
        whole, shallow = painter.profile.paint.rows_per_variant, painter.profile.paint.shallow_rows
        row |= {"rows": whole - shallow, "shallow_rows": shallow, "core_s": painter.core_s / len(pairs)}
        row["core_ratio"] = next(iter(painters.values())).core_s / painter.core_s
        table[name] = row
    columns = (*_EDITS, "layout", "unchanged", "sharpness", "kid", "core_ratio")
    show("figures", ("", *table), [(c, *(f"{row[c]:.3f}" for row in table.values())) for c in columns])
    for name, row in table.items():
        less = {key[:-5]: value for key, value in row.items() if key.endswith("_less")}
        parts = (f"{key} {d:+.3f} ({low:+.3f} to {high:+.3f})" for key, (d, low, high) in less.items())
        print(f"{name}: {', '.join(parts)}")
    kept = {"scenes": asked.scenes, "variants": len(pairs), "ways": table}
    if asked.write:
        name = ", ".join((asked.profile, f"{profile.paint.sampler.steps} steps", *asked.also))
        keep_figures(DOCS / "reuse.json", {name: {**kept, "machine": machine()}})
    finish("reuse", **kept)


if __name__ == "__main__":
    main()
