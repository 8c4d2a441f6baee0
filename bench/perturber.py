"""Claim: a tuned language model makes more edits right than the same one that is only prompted, by type of edit.

CAPTIONS are those that `export perturber --held-captions` wrote, or others that nothing was learnt from (see
edits.py). Both models write edits in their own words, one per variant, in the engine's rewriting stage; nothing is
painted. The judges are those of edits.py. An edit is right if the label is kept, it is of its type, and nothing else
changed. The last line is JSON.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from caption_file import Asked, Captioned, open_language, read_captions, sources_of
from edits import Judged, judge
from measure import finish, machine

from counterfactory.engine.cli.terminal import Terminal
from counterfactory.engine.edit import EDIT_TYPES
from counterfactory.engine.language.chat import Style
from counterfactory.engine.language.llama import Llama
from counterfactory.engine.language.reading import surprises
from counterfactory.engine.report.table import Table
from counterfactory.engine.runtime.openvino import resolve_precision


def main() -> None:
    """Rewrite by both, judge, show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("captions", type=Path, metavar="CAPTIONS")
    parser.add_argument("--llm", type=Path, required=True, metavar="FOLDER", help="the model as `export llm` wrote it")
    parser.add_argument("--tuned", type=Path, required=True, metavar="FOLDER", help="what `export perturber` wrote")
    parser.add_argument("--encoder", type=Path, required=True, metavar="FOLDER", help="what `export sentence` wrote")
    parser.add_argument("--style", choices=("chatml", "llama2"), default="chatml")
    parser.add_argument("--variants", type=int, default=5, metavar="K")
    asked = parser.parse_args()
    rows = read_captions(asked.captions)
    found: dict[str, Any] = {
        name: success(rewritten(rows, folder, asked.encoder, asked.style, asked.variants), len(rows) * asked.variants)
        for name, folder in (("prompted", asked.llm), ("tuned", asked.tuned))
    }
    Terminal().show(success_table(found))
    finish(
        "a tuned language model makes more edits right than a prompted one",
        None,
        **found,
        captions=len(rows),
        machine=machine(),
    )


def rewritten(rows: Sequence[Captioned], llm: Path, encoder: Path, style: Style, variants: int) -> list[Judged]:
    """What the judges say of a model's different edits."""
    settings = Asked.of(rows, style, variants, (1, 1), alternatives=2, menus=False)
    with tempfile.TemporaryDirectory() as suite, open_language(llm, encoder, style, "auto", Path(suite)) as desk:
        made = settings.rewrite(desk, sources_of(rows))
        read = partial(surprises, Llama(llm, precision=resolve_precision("auto"), threads=0))
        return judge(made.variants, desk.models.sentence().encode, read)


def success(judged: Sequence[Judged], wanted: int) -> dict[str, Any]:
    """Right edits by type and of all, and how many of the variants that were wanted are different edits."""
    by_type: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        by_type[one.edit.type].append(one)
    rows = [(type_, by_type[type_]) for type_ in EDIT_TYPES if by_type[type_]] + [("all", list(judged))]
    return {
        "different": round(len(judged) / wanted, 4),
        "types": {
            type_: {
                "edits": len(some),
                "right": _share([one.right_type and one.label_kept for one in some]),
                "reads_well": _share([one.reads_well for one in some]),
            }
            for type_, some in rows
        },
    }


def _share(found: Sequence[bool]) -> float:
    return round(sum(found) / len(found), 4) if found else 0.0


def success_table(found: Mapping[str, Mapping[str, Any]]) -> Table:
    """A line per type: edits and the share that is right, of both."""
    types = dict.fromkeys(type_ for one in found.values() for type_ in one["types"] if type_ != "all")
    lines = []
    for type_ in (*types, "all"):
        cells = [one["types"].get(type_) for one in found.values()]
        lines.append((type_, *(text for cell in cells for text in _cells(cell))))
    columns = ("type", *(f"{name}{what}" for name in found for what in ("", " right", " reads well")))
    return Table("Edits that are right: label, type and nothing else", columns, tuple(lines))


def _cells(cell: Mapping[str, float] | None) -> tuple[str, str, str]:
    if cell is None:
        return "0", "-", "-"
    return f"{cell['edits']:.0f}", f"{100 * cell['right']:.1f} %", f"{100 * cell['reads_well']:.1f} %"


if __name__ == "__main__":
    main()
