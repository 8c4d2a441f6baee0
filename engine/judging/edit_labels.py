"""Text edits on a table for people to label, and the results: how often edits of each type succeed, and how well the
text filters separate good ones from bad (LANCE, arXiv 2305.19164, table 3).

A row is an edit: its words, both captions, the filters' scores and whether they dropped it. People fill in
`right_type`, `right_label` and `coherent`; a row with any of them empty is not labelled. Tables are CSV or JSON lines.
"""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..edit import Edit
from ..errors import CounterfactoryError
from ..files.escaping import for_spreadsheet
from ..files.tables import read_table
from ..files.writing import write_whole
from ..keys import content_key
from ..profile.check import TEXT_SCORES, CheckSettings
from ..suite import PictureRow
from ..variant import Variant

JUDGED = ("right_type", "right_label", "coherent")
_TEXTS = ("source", "label", "type", "keyword", "alternative", "protected", "caption", "edited_caption")
COLUMNS = ("key", *_TEXTS, *JUDGED, "dropped", *TEXT_SCORES)
_YES, _NO = ("1", "yes", "y", "true"), ("0", "no", "n", "false")


@dataclass(frozen=True)
class EditRow:
    """An edit of a variant: `key` names the variant and its place among the variant's edits. `dropped` is why a text
    filter keeps it from being painted, None where it is painted.
    """

    key: str
    source: str
    label: str | None
    edit: Edit
    protected: tuple[str, ...]
    caption: str
    edited_caption: str
    scores: Mapping[str, float]
    dropped: str | None


@dataclass(frozen=True)
class EditJudgement:
    """People's judgement of an edit, with its type and the filters' verdict: whether it is of its type, leaves the
    label true, and can be pictured; and whether the filters drop it.
    """

    type: str
    right_type: bool
    right_label: bool
    coherent: bool
    dropped: bool

    @property
    def succeeds(self) -> bool:
        """Whether all is right."""
        return self.right_type and self.right_label and self.coherent


@dataclass(frozen=True)
class Success:
    """Counts of labelled edits: all, those right in each way, those right in every way (`succeed`), those that the
    filters keep, and those of them that are right in every way.
    """

    edits: int
    right_type: int
    right_label: int
    coherent: int
    succeed: int
    kept: int
    kept_succeed: int

    @property
    def precision(self) -> float | None:
        """The share of kept edits that succeed; None where none is kept."""
        return self.kept_succeed / self.kept if self.kept else None

    @property
    def recall(self) -> float | None:
        """The share of edits that succeed which are kept; None where none succeeds."""
        return self.kept_succeed / self.succeed if self.succeed else None


def suite_edits(rows: Sequence[PictureRow], thresholds: CheckSettings) -> list[EditRow]:
    """The edits of a suite's variants, those of repeats once."""
    return [edit for row in rows for edit in _edits(row, row.source, row.label, row.scores, thresholds)]


def planned_edits(
    variants: Iterable[Variant], scores: Mapping[Variant, Mapping[str, float]], thresholds: CheckSettings
) -> list[EditRow]:
    """The edits of variants of a plan, those included that text filters drop, those left out that break a rule."""
    edits = list[EditRow]()
    for variant in variants:
        own, source = scores.get(variant, {}), variant.source
        if variant.dropped is None or thresholds.text_failure(own) is not None:
            edits += _edits(variant, source.name, source.label, own, thresholds)
    return edits


def _edits(
    of: PictureRow | Variant, source: str, label: str | None, scores: Mapping[str, float], thresholds: CheckSettings
) -> list[EditRow]:
    if of.kind != "variant" or of.repeat or of.level > 1:
        return []
    failure = thresholds.text_failure(scores)
    dropped = None if failure is None else failure.reason
    text_scores = {name: scores[name] for name in TEXT_SCORES if name in scores}
    texts = (of.protected, of.caption, of.edited_caption)
    return [
        EditRow(f"{of.key[:16]}-{place}", source, label, edit, *texts, text_scores, dropped)
        for place, edit in enumerate(of.edits)
    ]


def draw(rows: Sequence[EditRow], count: int, seed: int) -> list[EditRow]:
    """`count` of the edits, or all, by chance: which ones follows from the edits and the seed, not from their order."""
    return sorted(rows, key=lambda row: content_key(seed, row.key))[:count]


def require_new(path: Path) -> None:
    """Raises CounterfactoryError for a name that does not end in .csv or .jsonl, and for a file that is there: it may
    hold labels.
    """
    if path.suffix.lower() not in (".csv", ".jsonl"):
        raise CounterfactoryError(f"{path}: edits are written as .csv or .jsonl; name a file that ends so")
    if path.exists():
        raise CounterfactoryError(f"{path} is there already and may hold labels; name another file, or remove it")


def write_edits(path: Path, rows: Sequence[EditRow]) -> None:
    """Writes edits for people to label, as CSV or as JSON lines by the name's end. Raises as `require_new` does."""
    require_new(path)
    cells = [_cells(row) for row in rows]
    if path.suffix.lower() == ".jsonl":
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in cells)
    else:
        buffer = io.StringIO(newline="")
        writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: for_spreadsheet(value) for name, value in row.items()} for row in cells)
        text = buffer.getvalue()
    write_whole(path, text, sync="nothing")


def _cells(row: EditRow) -> dict[str, Any]:
    edit = row.edit
    texts = (row.source, row.label or "", edit.type, edit.keyword, edit.alternative, ", ".join(row.protected))
    values = (row.key, *texts, row.caption, row.edited_caption, *[""] * len(JUDGED), row.dropped or "")
    return dict(zip(COLUMNS, (*values, *(row.scores.get(name, "") for name in TEXT_SCORES)), strict=True))


def read_labelled(path: Path, thresholds: CheckSettings | None = None) -> tuple[list[EditJudgement], int]:
    """The labelled edits of a table, and how many rows are not labelled. With `thresholds` the filters' verdicts follow
    anew from the scores, else they are those of the table. Raises CounterfactoryError for a table that cannot be read
    or is not of edits, and for a label or a score that is none.
    """
    edits, empty = list[EditJudgement](), 0
    for line, row in read_table(path, required=("type", *JUDGED)):
        where = f"{path}:{line}"
        if isinstance(row, str):
            raise CounterfactoryError(f"{where} {row}")
        answers = [_verdict(row.get(name), where, name) for name in JUDGED]
        type_ = row.get("type")
        if not isinstance(type_, str) or not type_:
            raise CounterfactoryError(f"{where}: every row needs the type of its edit")
        right_type, right_label, coherent = answers
        if right_type is None or right_label is None or coherent is None:
            empty += 1
            continue
        failed = row.get("dropped") if thresholds is None else thresholds.text_failure(_scores(row, where))
        edits.append(EditJudgement(type_, right_type, right_label, coherent, bool(failed)))
    return edits, empty


def _verdict(value: object, where: str, name: str) -> bool | None:
    """True, False, or None for an empty cell."""
    text = str(value).strip().lower() if value is not None else ""
    if text not in (*_YES, *_NO, ""):
        raise CounterfactoryError(f"{where}: {name} is 1 or 0, yes or no, or empty; found {value!r}")
    return text in _YES if text else None


def _scores(row: Mapping[str, Any], where: str) -> dict[str, float]:
    scores = {}
    for name in TEXT_SCORES:
        if (value := row.get(name)) not in (None, ""):
            try:
                scores[name] = float(str(value))
            except ValueError as error:
                raise CounterfactoryError(f"{where}: {name} is a number or empty; found {value!r}") from error
    return scores


def successes(labelled: Sequence[EditJudgement]) -> dict[str, Success]:
    """Counts by type, in the order in which the types come, and of "all" at the end."""
    by_type: dict[str, list[EditJudgement]] = defaultdict(list)
    for edit in labelled:
        by_type[edit.type].append(edit)
    return {
        type_: Success(
            edits=len(edits),
            **{name: sum(getattr(edit, name) for edit in edits) for name in JUDGED},
            succeed=sum(edit.succeeds for edit in edits),
            kept=sum(not edit.dropped for edit in edits),
            kept_succeed=sum(edit.succeeds and not edit.dropped for edit in edits),
        )
        for type_, edits in (*by_type.items(), ("all", labelled))
    }
