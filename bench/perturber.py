"""Claim: a tuned language model makes more typed edits right than the same one that is only prompted, and the pocket's
makes nearly all right.

CAPTIONS are those that `export perturber --held-captions` wrote, or others that nothing was learnt from (see
edits.py). Both models write edits in their own words in the engine's rewriting stage, one per variant and one variant
per type of the profile; nothing is painted. The judges are those of edits.py. An edit is right if the label is kept, it
is of its type, and nothing else changed. `--pocket WORLD` measures the pocket's own model on held-out captions of its
world instead, by the facts that captions state (export/pocket/edits.py). With --write figures stand in docs/lance.json,
beside what other benches wrote there. The last line is JSON.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from caption_file import Asked, Captioned, open_language, read_captions, sources_of
from edits import Judged, judge
from measure import finish, keep_figures, machine

from counterfactory.engine.cli.terminal import Terminal
from counterfactory.engine.english.menus import menu
from counterfactory.engine.keys import content_key
from counterfactory.engine.language.llama import Llama
from counterfactory.engine.language.openvino_llm import OpenVinoLlm
from counterfactory.engine.language.surprises import surprises
from counterfactory.engine.profile.llm import Style
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.report.table import Table
from counterfactory.engine.runtime.openvino import resolve_precision
from counterfactory.export.pocket.edits import measure_edits
from counterfactory.export.pocket.languages import LANGUAGES
from counterfactory.export.pocket.packed import RUNTIME

_DOCS = Path(__file__).parents[1] / "docs" / "lance.json"
# What a person says of an edit, as 1 or 0.
_SAID = ("right_type", "right_label", "coherent")


@dataclass(frozen=True)
class Wanted:
    """What is asked of both models."""

    rows: Sequence[Captioned]
    encoder: Path
    style: Style
    types: tuple[str, ...]
    variants: int


def main() -> None:
    """Rewrite, judge, show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("captions", type=Path, nargs="?", metavar="CAPTIONS")
    parser.add_argument("--llm", type=Path, metavar="FOLDER", help="the model as `export llm` wrote it")
    parser.add_argument("--tuned", type=Path, metavar="FOLDER", help="what `export perturber` wrote")
    parser.add_argument("--encoder", type=Path, metavar="FOLDER", help="what `export sentence` wrote")
    parser.add_argument("--style", choices=("chatml", "llama2"), default="chatml")
    parser.add_argument("--profile", default="lance", help="whose types of edits are asked for (%(default)s)")
    parser.add_argument("--variants", type=int, metavar="K", help="of each caption (one per type)")
    parser.add_argument("--answers", type=Path, metavar="DIR", help="keeps the models' answers for the next time")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="write all edits for a person to judge (CSV), mixed")
    parser.add_argument("--by-eye", type=Path, metavar="FILE", help="those of them that a person judged")
    parser.add_argument("--pocket", choices=tuple(LANGUAGES), metavar="WORLD", help="measure the pocket's own model")
    parser.add_argument("--scenes", type=int, default=100, help="of that world (%(default)s)")
    parser.add_argument("--write", action="store_true", help="keep the figures in docs/lance.json")
    asked = parser.parse_args()
    sides = {name: side for name, side in (("prompted", asked.llm), ("tuned", asked.tuned)) if side is not None}
    if asked.rows and asked.rows.exists():
        parser.error(f"{asked.rows} is there, and somebody may have judged it: name another file")
    if not asked.pocket and not (asked.captions and asked.encoder and sides):
        parser.error("name CAPTIONS with --encoder and --llm, --tuned or both; or --pocket WORLD")
    found = pocket(asked.pocket, asked.scenes) if asked.pocket else compared(asked, sides)
    if asked.write:
        keep_figures(_DOCS, {f"typed_edits_{name}": {**some, "machine": machine()} for name, some in found.items()})
    finish("a tuned language model makes more edits right than a prompted one", None, **found, machine=machine())


def pocket(world: str, scenes: int) -> dict[str, Any]:
    """Edit success of the pocket's model on held-out captions of a world."""
    llm = OpenVinoLlm(RUNTIME / "llm", precision="f32", threads=0)
    return {"pocket": {"world": world, "captions": scenes, **measure_edits(llm, LANGUAGES[world], scenes)}}


def compared(asked: argparse.Namespace, sides: Mapping[str, Path]) -> dict[str, Any]:
    """What both models' edits are worth, shown as a table."""
    rows, types = read_captions(asked.captions), load_profile(asked.profile).rewrite.types
    wanted = Wanted(rows, asked.encoder, asked.style, types, asked.variants or len(types))
    with tempfile.TemporaryDirectory() as made:
        judged = {
            name: rewritten(wanted, folder, (asked.answers or Path(made)) / name) for name, folder in sides.items()
        }
    if asked.rows:
        write_rows(asked.rows, judged)
    found = {name: success(some, wanted) for name, some in judged.items()}
    if asked.by_eye:
        for name, counts in by_eye(asked.by_eye, judged).items():
            found[name]["by_eye"] = counts
    Terminal().show(success_table(found))
    return found


def rewritten(wanted: Wanted, llm: Path, answers: Path) -> list[Judged]:
    """What the judges say of a model's different edits."""
    settings = Asked.of(
        wanted.rows, wanted.style, wanted.variants, (1, 1), alternatives=2, menus=False, types=wanted.types
    )
    answers.parent.mkdir(parents=True, exist_ok=True)
    with open_language(llm, wanted.encoder, wanted.style, "auto", answers) as desk:
        made = settings.rewrite(desk, sources_of(wanted.rows))
        read = partial(surprises, Llama(llm, precision=resolve_precision("auto"), threads=0))
        return judge(made.variants, desk.models.sentence().encode, read)


# What is counted of edits, besides those that are right.
_COUNTED: Mapping[str, Callable[[Judged], bool]] = {
    "right": lambda one: one.right_type and one.label_kept,
    "of_its_type": lambda one: one.edit.type in one.likely_types[:2],
    "label_kept": lambda one: one.label_kept,
    "only_the_edit": lambda one: one.only_edit,
    "reads_well": lambda one: one.reads_well,
    "our_phrase": lambda one: is_our_phrase(one),
}


def is_our_phrase(one: Judged) -> bool:
    """Whether an edit is one of the engine's own phrases, from which a perturber may have learnt."""
    v = one.variant
    return (one.edit.keyword, one.edit.alternative) in menu(one.edit.type, v.caption, v.protected, v.source.label)


def success(judged: Sequence[Judged], wanted: Wanted) -> dict[str, Any]:
    """Shares of edits by type and of all; `made` is the share of the captions that have an edit of the type, and of all
    the share of the variants that were wanted.
    """
    by_type: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        by_type[one.edit.type].append(one)
    return {
        "captions": len(wanted.rows),
        **_shares(judged, len(wanted.rows) * wanted.variants, len(judged)),
        "types": {
            type_: _shares(some, len(wanted.rows), len({one.variant.source for one in some}))
            for type_ in wanted.types
            if (some := by_type[type_])
        },
    }


def _shares(some: Sequence[Judged], wanted: int, made: int) -> dict[str, Any]:
    shares = {name: _share([counts(one) for one in some]) for name, counts in _COUNTED.items()}
    return {"edits": len(some), "made": round(made / wanted, 4), **shares}


def _share(found: Sequence[bool]) -> float:
    return round(sum(found) / len(found), 4) if found else 0.0


def write_rows(file: Path, judged: Mapping[str, Sequence[Judged]]) -> None:
    """All different edits on a line each, in an order that does not say whose they are, with columns to fill in."""
    lines = {
        (one.edit.type, v.caption, v.edited_caption): (v.source.label, one.edit.keyword, one.edit.alternative)
        for some in judged.values()
        for one in some
        for v in (one.variant,)
    }
    with file.open("w", encoding="utf-8", newline="") as opened:
        out = csv.writer(opened)
        out.writerow(("type", "caption", "edited_caption", "label", "keyword", "alternative", *_SAID))
        for key in sorted(lines, key=lambda key: content_key(*key)):
            out.writerow((*key, *lines[key], *("" for _ in _SAID)))


def by_eye(file: Path, judged: Mapping[str, Sequence[Judged]]) -> dict[str, dict[str, Any]]:
    """Counts of a person's verdicts for each model, of the rows that are filled in."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if all(row[name] in ("0", "1") for name in _SAID)]
    said = {(row["type"], row["caption"], row["edited_caption"]): [row[name] == "1" for name in _SAID] for row in rows}
    found = {}
    for name, some in judged.items():
        keys = [(one.edit.type, one.variant.caption, one.variant.edited_caption) for one in some]
        seen = [(key[0], said[key]) for key in keys if key in said]
        by_type = {type_: [all(right) for one, right in seen if one == type_] for type_ in dict(seen)}
        found[name] = {
            "edits": len(seen),
            **{what: sum(right[i] for _, right in seen) for i, what in enumerate(_SAID)},
            "all_three": sum(all(right) for _, right in seen),
            "all_three_by_type": {type_: f"{sum(some)} of {len(some)}" for type_, some in by_type.items()},
        }
    return found


def success_table(found: Mapping[str, Mapping[str, Any]]) -> Table:
    """A line per type: edits and the share that is right, of both."""
    types = dict.fromkeys(type_ for one in found.values() for type_ in one["types"])
    lines = [(type_, *(text for one in found.values() for text in _cells(one["types"].get(type_)))) for type_ in types]
    lines.append(("all", *(text for one in found.values() for text in _cells(one))))
    columns = ("type", *(text for name in found for text in (name, "right", "reads well")))
    return Table("Edits that are right: label, type and nothing else", columns, tuple(lines))


def _cells(cell: Mapping[str, float] | None) -> tuple[str, str, str]:
    if cell is None:
        return "0", "-", "-"
    return f"{cell['edits']:.0f}", f"{100 * cell['right']:.1f} %", f"{100 * cell['reads_well']:.1f} %"


if __name__ == "__main__":
    main()
