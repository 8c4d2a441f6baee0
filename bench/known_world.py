"""Claim: what the pocket models do not know is refused before it is painted, and streets are not.

Each folder of --photographs is a collection of real pictures, none of which the world was fitted to (see
`python -m counterfactory.export world`). Beside them stand the same altered, pictures that were drawn, and street
scenes of a stream of their own, saved in several ways. The last line is JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from measure import DOCS, bench_parser, finish, show, spent

from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.report.table import percent
from counterfactory.engine.sources.domain import Domain, examiner, traits_of, world_of
from counterfactory.export.pocket import world as fitting

_DRAWN_FROM, _DRAWN = 10_000, 200  # seeds that the world was not fitted to
_TIMED = 200
_WORN = (80, 75)  # qualities of JPEG that streets are not promised to pass with
_TITLES = {"streets": "Street scenes that pass", "worn_streets": "Street scenes that pass though they are worn"}
_TITLES |= {"photographs": "Photographs that are refused, by collection", "altered": "The same photographs, altered"}
_TITLES["drawn"] = "Drawn pictures that are refused"


def main() -> None:
    parser = bench_parser(__doc__, write="docs/known_world.json")
    parser.add_argument("--photographs", type=Path, nargs="+", required=True, metavar="DIR", help="one per collection")
    parser.add_argument("--scenes", type=int, default=1000, help="street scenes (%(default)s)")
    asked = parser.parse_args()
    profile = load_profile("pocket")
    world, holds = world_of(profile), examiner(profile)
    assert world is not None, "the pocket profile names a world"
    assert holds is not None
    scenes, seeds = fitting.streets(fitting.JUDGE, asked.scenes), range(_DRAWN_FROM, _DRAWN_FROM + _DRAWN)
    collections = {folder.name: fitting.read_collection(folder, profile.image) for folder in asked.photographs}
    photographs = [picture for pictures in collections.values() for picture in pictures]

    def counted(pictures: Mapping[str, Iterable[fitting.Picture]], wanted: bool) -> dict[str, dict[str, int]]:
        found = {name: [holds(picture) is wanted for picture in some] for name, some in pictures.items()}
        return {name: {"right": sum(answers), "of": len(answers)} for name, answers in found.items()}

    worn = {f"JPEG of quality {q}": [fitting.jpeg(scene, q) for scene in scenes] for q in _WORN}
    counts = {
        "streets": counted({name: map(save, scenes) for name, save in fitting.STREET_FORMS.items()}, True),
        "worn_streets": counted(worn, True),
        "photographs": counted(collections, False),
        "altered": counted({name: map(alter, photographs) for name, alter in fitting.ALTERATIONS.items()}, False),
        "drawn": counted({name: map(draw, seeds) for name, draw in fitting.DRAWN.items()}, False),
    }
    for kind, title in _TITLES.items():
        rows = [(name, str(n["of"]), percent(n["right"] / n["of"])) for name, n in counts[kind].items()]
        show(title, ("pictures", "count", "share"), rows)
    shares = {"streets_passed": _share(counts["streets"]), "photographs_refused": _share(counts["photographs"])}
    figures: dict[str, Any] = {**shares, **counts, "ms_per_picture": round(_ms(world, photographs or scenes), 2)}
    figures["fitted_to"] = world.fitted_to
    into = asked.write and DOCS / "known_world.json"
    finish("what the models do not know is refused, and streets are not", into=into, **figures)


def _share(counts: Mapping[str, Mapping[str, int]]) -> float:
    return round(sum(count["right"] for count in counts.values()) / sum(count["of"] for count in counts.values()), 5)


def _ms(world: Domain, pictures: list[fitting.Picture]) -> float:
    """Milliseconds of one core per picture at the size to paint."""

    def cpu_s(picture: fitting.Picture) -> float:
        return spent(lambda: world.holds_traits(traits_of(picture))).cpu_s

    return 1000 * float(np.mean([cpu_s(picture) for picture in pictures[:_TIMED]]))


if __name__ == "__main__":
    main()
