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
from counterfactory.export.pocket.pictures import ALTERATIONS, DRAWN, STREET_FORMS, Picture, jpeg, read_collection
from counterfactory.export.pocket.world import JUDGE, streets

_DOCS = Path(__file__).parents[1] / "docs"
_DRAWN_FROM, _DRAWN = 10_000, 200  # seeds that the world was not fitted to
_TIMED = 200
_WORN = (80, 75)  # qualities of JPEG that streets are not promised to pass with

Count = Mapping[str, int]


def main() -> None:
    """Count, show, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photographs", type=Path, nargs="+", required=True, metavar="DIR", help="one per collection")
    parser.add_argument("--scenes", type=int, default=1000, help="street scenes (%(default)s)")
    parser.add_argument("--write", action="store_true", help="write docs/known_world.json and docs/known_world.md")
    asked = parser.parse_args()
    profile = load_profile("pocket")
    world, holds = world_of(profile), examiner(profile)
    assert world is not None, "the pocket profile names a world"
    assert holds is not None
    scenes = streets(JUDGE, asked.scenes)
    passed = {name: _count(map(holds, map(save, scenes)), True) for name, save in STREET_FORMS.items()}
    worn = {f"JPEG of quality {q}": _count((holds(jpeg(scene, q)) for scene in scenes), True) for q in _WORN}
    collections = {folder.name: read_collection(folder, profile.image) for folder in asked.photographs}
    photographs = [picture for pictures in collections.values() for picture in pictures]
    refused = {name: _count(map(holds, pictures), False) for name, pictures in collections.items()}
    altered = {name: _count(map(holds, map(alter, photographs)), False) for name, alter in ALTERATIONS.items()}
    seeds = range(_DRAWN_FROM, _DRAWN_FROM + _DRAWN)
    drawn = {name: _count(map(holds, map(draw, seeds)), False) for name, draw in DRAWN.items()}
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
    tables = [
        _table("Street scenes that pass", passed),
        _table("Street scenes that pass though they are worn", worn),
        _table("Photographs that are refused, by collection", refused),
        _table("The same photographs, altered", altered),
        _table("Drawn pictures that are refused", drawn),
    ]
    for table in tables:
        Terminal().show(table)
    if asked.write:
        (_DOCS / "known_world.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        (_DOCS / "known_world.md").write_text(_page(figures, tables), encoding="utf-8")
    finish("what the models do not know is refused, and streets are not", None, **figures)


def _count(answers: Iterable[bool], wanted: bool) -> Count:
    found = [answer is wanted for answer in answers]
    return {"right": sum(found), "of": len(found)}


def _share(counts: Mapping[str, Count]) -> float:
    return round(sum(count["right"] for count in counts.values()) / sum(count["of"] for count in counts.values()), 5)


def _ms(world: Domain, pictures: list[Picture]) -> float:
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


def _page(figures: Mapping[str, Any], tables: list[Table]) -> str:
    lines = [
        "# What the pocket models know",
        "",
        "Written by `python bench/known_world.py --photographs DIR ... --write`.",
        "",
        "The pocket models know rendered streets. `generate` and `estimate` measure fifteen traits of each source at "
        "the size to paint (`engine/sources/world.py`) and refuse what lies outside of the ranges, or below the "
        "weighted sum, that stand in `engine/pocket/weights/world_streets.json`. "
        f"They were fitted to {figures['fitted_to']} (`python -m counterfactory.export world`). What is counted here "
        "are other scenes, other collections and other seeds. No network is opened; a picture takes "
        f"{figures['ms_per_picture']} ms of one core while it is read anyway.",
        "",
        f"**{100 * figures['streets_passed']:.1f} % of street scenes pass, "
        f"{100 * figures['photographs_refused']:.1f} % of real photographs are refused.**",
    ]
    for table in tables:
        lines += ["", f"## {table.title}", "", f"| {' | '.join(table.columns)} |", "|---|---:|---:|"]
        lines += [f"| {' | '.join(row)} |" for row in table.rows]
    return "\n".join(
        [
            *lines,
            "",
            "Streets saved as JPEG of a quality below 90 begin to look like photographs: keep them as PNG. Sizes do "
            "not matter, since a picture is measured at the size to paint.",
            "",
        ]
    )


if __name__ == "__main__":
    main()
