"""Claim: what the pocket models do not know is refused before it is painted, and streets are not.

Each folder of --photographs is a collection of real pictures, none of which the world was fitted to (see
`python -m counterfactory.export world`). Beside them stand the same altered, pictures that were drawn, and street
scenes of a stream of their own, saved in several ways. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from measure import finish

from counterfactory.engine.cli.terminal import Terminal
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.report.table import Table
from counterfactory.engine.sources.domain import examiner, world_of
from counterfactory.engine.sources.traits import Domain, traits_of
from counterfactory.export.pocket import world as fitting

_FIGURES = Path(__file__).parents[1] / "docs" / "known_world.json"
_DRAWN_FROM, _DRAWN = 10_000, 200  # seeds that the world was not fitted to
_TIMED = 200
_WORN = (80, 75)  # qualities of JPEG that streets are not promised to pass with

Count = Mapping[str, int]


def main() -> None:
    """Count, show, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photographs", type=Path, nargs="+", required=True, metavar="DIR", help="one per collection")
    parser.add_argument("--scenes", type=int, default=1000, help="street scenes (%(default)s)")
    parser.add_argument("--write", action="store_true", help="keep the figures in docs/known_world.json")
    asked = parser.parse_args()
    profile = load_profile("pocket")
    world, holds = world_of(profile), examiner(profile)
    assert world is not None, "the pocket profile names a world"
    assert holds is not None
    scenes = fitting.streets(fitting.JUDGE, asked.scenes)
    passed = {name: _count(map(holds, map(save, scenes)), True) for name, save in fitting.STREET_FORMS.items()}
    worn = {f"JPEG of quality {q}": _count((holds(fitting.jpeg(scene, q)) for scene in scenes), True) for q in _WORN}
    collections = {folder.name: fitting.read_collection(folder, profile.image) for folder in asked.photographs}
    photographs = [picture for pictures in collections.values() for picture in pictures]
    refused = {name: _count(map(holds, pictures), False) for name, pictures in collections.items()}
    altered = {name: _count(map(holds, map(alter, photographs)), False) for name, alter in fitting.ALTERATIONS.items()}
    seeds = range(_DRAWN_FROM, _DRAWN_FROM + _DRAWN)
    drawn = {name: _count(map(holds, map(draw, seeds)), False) for name, draw in fitting.DRAWN.items()}
    figures: dict[str, Any] = {
        "streets_passed": _share(passed),
        "photographs_refused": _share(refused),
        "streets": passed,
        "worn_streets": worn,
        "photographs": refused,
        "altered": altered,
        "drawn": drawn,
        "ms_per_picture": round(_ms(world, photographs or scenes), 2),
        "fitted_to": world.fitted_to,
    }
    for title, counts in (
        ("Street scenes that pass", passed),
        ("Street scenes that pass though they are worn", worn),
        ("Photographs that are refused, by collection", refused),
        ("The same photographs, altered", altered),
        ("Drawn pictures that are refused", drawn),
    ):
        Terminal().show(_table(title, counts))
    if asked.write:
        _FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    finish("what the models do not know is refused, and streets are not", None, **figures)


def _count(answers: Iterable[bool], wanted: bool) -> Count:
    found = [answer is wanted for answer in answers]
    return {"right": sum(found), "of": len(found)}


def _share(counts: Mapping[str, Count]) -> float:
    return round(sum(count["right"] for count in counts.values()) / sum(count["of"] for count in counts.values()), 5)


def _ms(world: Domain, pictures: list[fitting.Picture]) -> float:
    """Milliseconds of one core per picture at the size to paint."""
    some = pictures[:_TIMED]
    times = []
    for picture in some:
        began = time.process_time()
        world.holds_traits(traits_of(picture))
        times.append(time.process_time() - began)
    return 1000 * float(np.mean(times))


def _table(title: str, counts: Mapping[str, Count]) -> Table:
    rows = [(name, str(count["of"]), f"{100 * count['right'] / count['of']:.1f} %") for name, count in counts.items()]
    return Table(title, ("pictures", "count", "share"), tuple(rows))


if __name__ == "__main__":
    main()
