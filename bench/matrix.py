"""Claim: a user who names 13 values gets each of 24 scenes once at each value that it does not show already.

The demo's scenes go through `pocket` with 13 variants each. What is possible is read from the captions by the street
world's own rules, which know nothing of edits: a value is possible where the caption states another of its type, a
colour where some vehicle has another. What is painted is counted in the suite's table. Figures are shares of possible
cells, 0 to 1. `--write` puts them into docs/truth.json. The last line is JSON.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from measure import DOCS, bench_parser, finish, keep_figures

from counterfactory.engine.api.verbs import generate
from counterfactory.engine.cli.demo import write_sources
from counterfactory.engine.cli.terminal import Terminal
from counterfactory.engine.pocket.captions import Facts, read_facts
from counterfactory.engine.pocket.world import TIMES, WEATHERS
from counterfactory.engine.report.suite_text import coverage_table

VALUES = {"weather": WEATHERS, "time": TIMES, "colour": ("red", "blue", "green", "white", "black")}


def main() -> None:
    parser = bench_parser(__doc__, write="docs/truth.json")
    parser.add_argument("--sources", type=int, default=24, help="scenes (%(default)s)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_sources(folder / "sources", asked.sources)
        how: dict[str, Any] = {"variants": sum(map(len, VALUES.values())), "edits": 1, "interventions": VALUES}
        suite = generate(folder / "sources", out=folder / "suite", warn=print, **how)
        rows, cells = suite.rows, suite.cells
    captions = {row.source: row.caption for row in rows}
    every = [(type_, value) for type_, values in VALUES.items() for value in values]
    possible = {(s, *one) for s, caption in captions.items() for one in every if is_possible(read_facts(caption), *one)}
    figures: dict[str, Any] = {}
    for name, pictures in (("matrix_cells", rows), ("matrix_cells_accepted", [row for row in rows if row.accepted])):
        edits = [(row.source, edit) for row in pictures for edit in row.edits]
        filled = {(s, e.type, v) for s, e in edits for v in VALUES[e.type] if v in e.alternative.split()}
        figures[name] = round(len(filled & possible) / len(possible), 4)
    Terminal().show(coverage_table(cells))
    if asked.write:
        keep_figures(DOCS / "truth.json", figures)
    finish("all possible cells are painted", possible=len(possible), sources=len(captions), **figures)


def is_possible(facts: Facts, type_: str, value: str) -> bool:
    """Whether a scene that a caption describes could be shown with a value that it does not have."""
    if type_ == "colour":
        return any(colour != value for colour, _ in facts.vehicles)
    shown = facts.weather if type_ == "weather" else facts.time
    return shown not in (None, value)


if __name__ == "__main__":
    main()
