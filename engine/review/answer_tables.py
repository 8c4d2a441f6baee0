"""Answers as a table, to and from crowds: a row per item and rater, a column per question.

`write_answers` writes those of a study, and a row without a rater for each item that nobody answered: what to ask.
`read_answers` takes these, tables of (image, rater, question, answer) or of (image, rater 1, rater 2, ...), and the
batch results of Mechanical Turk, where columns are Input.image, WorkerId, and Answer.QUESTION or Answer.QUESTION.VALUE.
Empty answers are unfinished work.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError, list_some
from ..files.escaping import for_spreadsheet
from ..files.tables import read_table
from ..files.writing import place_below, write_whole
from ..suite import PictureRow
from .answer_book import MOST_NOTE, Rating
from .question_set import ITEM_COLUMNS, RATING_COLUMNS
from .study import Study, StudyItem

_NOTE, _MOST_S = " note", 1e6
_YES = ("true", "1", "yes", "on")
_NUMBERED = re.compile(r"(?:rater|worker|annotator)[ _]?\d+", re.IGNORECASE)
_IMAGES, _RATERS = ("image", "Input.image"), ("rater", "WorkerId")


def write_answers(path: Path, study: Study, ratings: Sequence[Rating], rows: Iterable[PictureRow], suite: Path) -> int:
    """Writes the table, and says how many rows it has. Raises CounterfactoryError."""
    by_name = {row.file_name: row for row in rows}
    hosts = {item.number: by_name[item.image] for item in study.present(by_name)}
    asks = list(dict.fromkeys(asked for item in study.items for asked in item.asks))
    notes = [asked for asked in asks if study.questions.question(asked).note]
    given = defaultdict[int, dict[str, list[Rating]]](lambda: defaultdict(list))
    for one in ratings:
        given[one.item][one.rater].append(one)
    lines: list[dict[str, object]] = []
    for item in sorted(study.items, key=lambda item: item.number):
        about = _about(item, hosts.get(item.number))
        lines += [about | _answered(study, rater, answers) for rater, answers in given[item.number].items()] or [about]
    file = io.StringIO(newline="")
    columns = [*ITEM_COLUMNS, "rater", *asks, *(asked + _NOTE for asked in notes), *RATING_COLUMNS[1:]]
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: for_spreadsheet(value) for name, value in line.items()} for line in lines)
    place, below = place_below(path, suite)
    write_whole(place, file.getvalue(), sync="nothing", below=below)
    return len(lines)


def _about(item: StudyItem, host: PictureRow | None) -> dict[str, object]:
    about: dict[str, object] = {"item": item.number, "image": item.image, "kind": item.kind}
    if host is not None:
        edits = host.edits if item.edit is None else (host.edits[item.edit],)
        words = "; ".join(f"{one.type}: {f'{one.keyword} -> ' * bool(one.keyword)}{one.alternative}" for one in edits)
        about |= {"source_picture": host.original, "control_picture": host.control or "", "class": host.label or ""}
        about |= {"edits": words}
    return about | {"variant_picture": item.shown}


def _answered(study: Study, rater: str, answers: Sequence[Rating]) -> dict[str, object]:
    words = {one.asked: study.questions.word(one.asked, one.value) for one in answers}
    notes = {one.asked + _NOTE: one.note for one in answers if one.note}
    seconds, date = round(sum(one.seconds for one in answers), 1), max(one.date for one in answers)
    return {"rater": rater, **words, **notes, "seconds": seconds, "date": date}


def read_answers(path: Path, study: Study, known: Sequence[Rating]) -> tuple[list[Rating], int]:
    """The answers of a table that are not among the `known` ones yet, and how many of the study's questions are empty
    in it. Raises CounterfactoryError for a table of another study, for a picture that is not in this one, for what is
    no answer, and for two answers of one name to one question.
    """
    by_image = {(item.image, item.edit): item for item in study.items if item.kind == "variant"}
    given = {(one.rater, one.item, one.asked): one.value for one in known}
    names = {rater.casefold(): rater for rater, _, _ in given}
    fresh, empty, matched = dict[tuple[str, int, str], Rating](), 0, False
    for line, row in _unfolded(path, study):
        where = f"{path}:{line}"
        rater = _cell(row, *_RATERS)
        if not rater:
            matched = matched or any(name in study.questions for name in row)
            continue
        item = _item(row, study, by_image, where)
        answers = _answers(row, study, item, where)
        if answers is None:
            continue
        matched, empty = True, empty + sum(value is None for value in answers.values())
        if names.setdefault(rater.casefold(), rater) != rater:
            raise CounterfactoryError(f"{where}: two raters are called {rater!r} and {names[rater.casefold()]!r}")
        seconds = _number(_cell(row, "seconds", "WorkTimeInSeconds")) / max(len(answers), 1)
        for asked, value in answers.items():
            key = (rater, item.number, asked)
            if value is None or given.get(key) == value:
                continue
            if key in given or (key in fresh and fresh[key].value != value):
                raise CounterfactoryError(
                    f"{where}: two raters are called {rater!r}, or one answered {asked!r} of item {item.number} twice: "
                    "give each a name of their own; nothing was taken"
                )
            note = _cell(row, asked + _NOTE)[:MOST_NOTE]
            fresh[key] = Rating(rater, item.number, asked, value, note, seconds, _cell(row, "date", "SubmitTime")[:40])
    if not matched:
        asks = list_some([one.name for one in study.questions.questions], 5)
        raise CounterfactoryError(f"{path} answers none of this study's questions ({asks}): it is of another study")
    return list(fresh.values()), empty


def _unfolded(path: Path, study: Study) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows of a table; one with a column per rater answers its question, or the study's first, as often."""
    for line, row in read_table(path, required=(_IMAGES,)):
        if isinstance(row, str):
            raise CounterfactoryError(f"{path}:{line} {row}")
        raters = [name for name in row if _NUMBERED.fullmatch(name)]
        if any(name in row for name in _RATERS):
            yield line, row
        elif raters:
            asked = row.get("question") or study.questions.questions[0].name
            yield from ((line, {**row, "rater": name, "question": asked, "answer": row[name]}) for name in raters)
        else:
            raise CounterfactoryError(f"{path} has no column {' or '.join(_RATERS)}, and none per rater: rater 1, ...")


def _cell(row: Mapping[str, Any], *names: str) -> str:
    value = next((row[name] for name in names if row.get(name) is not None), "")
    text = str(value).strip()
    return text[1:] if text[:1] == "'" and for_spreadsheet(text[1:]) == text else text


def _number(text: str) -> float:
    try:
        return seconds if 0 <= (seconds := float(text)) < _MOST_S else 0.0
    except ValueError:
        return 0.0


def _item(
    row: Mapping[str, Any], study: Study, by_image: Mapping[tuple[str, int | None], StudyItem], where: str
) -> StudyItem:
    """The item that a row is of: by its number, where it is of that picture, else by its picture."""
    image, number = _cell(row, *_IMAGES), _cell(row, "item", "Input.item")
    item = study.by_number.get(int(number)) if number.isdecimal() and len(number) < 10 else None
    item = by_image.get((image, None)) if item is None and not number else item
    if item is None or item.image != image:
        raise CounterfactoryError(
            f"{where}: this study does not ask about {image!r}{f' as item {number}' if number else ''}: the table is "
            "of another study or suite; nothing was taken"
        )
    return item


def _answers(row: Mapping[str, Any], study: Study, item: StudyItem, where: str) -> dict[str, int | None] | None:
    """The row's answers by what was asked, None of empty ones; None of a row that has no such column at all."""
    cells = {name.removeprefix("Answer."): str(value) for name, value in row.items() if value is not None}
    if "question" in cells and "answer" in cells:
        if cells["question"] not in item.asks:
            raise CounterfactoryError(f"{where}: this study does not ask {cells['question']!r} of that picture")
        cells = {cells["question"]: cells["answer"]}
    answers: dict[str, int | None] = {}
    for asked in item.asks:
        question = study.questions.question(asked)
        ticked = [name.rpartition(".") for name, value in cells.items() if value.strip().lower() in _YES]
        text = cells.get(asked, next((value for name, _, value in ticked if name == asked), None))
        if text is None:
            if any(name.startswith(f"{asked}.") for name in cells):
                answers[asked] = None
            continue
        answers[asked] = question.value(text)
        if text.strip() and answers[asked] is None:
            raise CounterfactoryError(f"{where}: {text!r} is no answer to {asked!r}; nothing was taken")
    return answers or None
