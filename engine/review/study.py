"""A study: which pictures people are asked about, in which words, and which of them are there to find careless raters.

`draw_study` draws it from a suite's rows by a plan. A control shown as if it were a variant has answers that are known;
so has a picture of another class under this one's label. Both carry the label and the edits of a variant that is drawn,
so that nothing but the picture tells them from one.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal

from ..errors import CounterfactoryError
from ..profile.check import CheckSettings
from ..suite import PictureRow
from .question_set import QuestionSet, known_answer

DRAWS = ("random", "gate", "uncertain", "misclassified")
SLICES = ("type", "value", "class")
Draw = Literal["random", "gate", "uncertain", "misclassified"]
Slice = Literal["type", "value", "class"]
ItemKind = Literal["variant", "control", "other"]


@dataclass(frozen=True)
class StudyPlan:
    """How a study is drawn: `sample` variants by `draw`, as many of each slice where `by` names one, and a share
    `checks` of it whose answers are known; `per_picture` raters answer each picture.

    random: accepted variants. gate: rejected ones as well. uncertain: those nearest to being rejected, or accepted.
    misclassified: accepted ones that a model answers wrongly.
    """

    draw: Draw = "random"
    by: Slice | None = None
    sample: int = 300
    checks: float = 0.1
    seed: int = 0
    per_picture: int = 5


@dataclass(frozen=True)
class StudyItem:
    """Item `number` of a study asks about the variant `image`; `shown` is the picture in its place: itself, or a check
    of `kind` control or other, `sha256` that of what is shown. `asks` are the ids of what is asked. An item of text
    asks about the variant's edit number `edit`.
    """

    number: int
    kind: ItemKind
    image: str
    shown: str
    sha256: str
    asks: tuple[str, ...]
    edit: int | None = None


@dataclass(frozen=True)
class Study:
    """What is asked, of which items, drawn how."""

    questions: QuestionSet
    plan: StudyPlan
    items: tuple[StudyItem, ...]
    by_number: Mapping[int, StudyItem] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_number", {item.number: item for item in self.items})
        asked = {asked for item in self.items for asked in item.asks}
        if len(self.by_number) < len(self.items) or any(one not in self.questions for one in asked):
            raise ValueError("its items are numbered twice, or ask what is none of its questions")

    def present(self, rows: Mapping[str, PictureRow]) -> list[StudyItem]:
        """The items whose pictures, and whose edit, are among a suite's rows by file name."""
        there = [item for item in self.items if item.image in rows and item.shown in rows]
        return [item for item in there if item.edit is None or 0 <= item.edit < len(rows[item.image].edits)]

    def takes(self, answer: tuple[int, str, int]) -> bool:
        """Whether an item has this question, and it this answer."""
        number, asked, value = answer
        item = self.by_number.get(number)
        return item is not None and asked in item.asks and value in self.questions.question(asked).values

    def right_answer(self, item: StudyItem, asked: str) -> int | None:
        """The answer of a check that is known."""
        return known_answer(self.questions.question(asked), item.kind)


def draw_study(
    rows: Sequence[PictureRow],
    questions: QuestionSet,
    plan: StudyPlan,
    settings: CheckSettings | None = None,
    wrong: Mapping[str, bool] | None = None,
) -> Study:
    """The study that the plan draws: the same one of the same rows. `settings` are the thresholds by which variants are
    uncertain, `wrong` says of each variant that a model answered whether it was wrong. Raises CounterfactoryError for a
    suite without such variants.
    """
    drawing = random.Random(f"counterfactory review {plan.seed}")
    variants = _population(rows, plan, settings, wrong)
    if not variants:
        raise CounterfactoryError(
            f"the suite has no variants to review by the plan {plan.draw!r}: {_ADVICE[plan.draw]}"
        )
    if plan.draw != "uncertain":
        drawing.shuffle(variants)
    if any(row.unit != row.source for row in variants) and plan.draw != "uncertain":
        variants = _spread_over_groups(variants, drawing)
    if plan.by is not None:
        variants = _take_turns(variants, _SLICE[plan.by])
    drawn = variants[: plan.sample]
    items: list[StudyItem] = []
    if questions.of == "edits":
        for row in drawn:
            items += [_item("variant", row, row, questions, place) for place in range(len(row.edits))]
    else:
        items = [_item("variant", row, row, questions) for row in drawn]
        items += _checks(rows, drawn, questions, round(plan.checks * len(drawn)), drawing)
    drawing.shuffle(items)
    numbered = (StudyItem(**(vars(item) | {"number": number})) for number, item in enumerate(items, start=1))
    return Study(questions, plan, tuple(numbered))


_ADVICE = {
    "random": "none is accepted",
    "gate": "generate or import some first",
    "uncertain": "none has scores",
    "misclassified": "the model answers all of them rightly",
}
_SLICE: Mapping[Slice, Callable[[PictureRow], Sequence[str]]] = {
    "type": lambda row: row.edit_types,
    "value": lambda row: [edit.value for edit in row.edits],
    "class": lambda row: [row.label or ""],
}


def slices(row: PictureRow, by: Slice) -> list[str]:
    """The slices that a variant is in, each once."""
    return list(dict.fromkeys(_SLICE[by](row)))


def _population(
    rows: Sequence[PictureRow], plan: StudyPlan, settings: CheckSettings | None, wrong: Mapping[str, bool] | None
) -> list[PictureRow]:
    variants = sorted((row for row in rows if row.kind == "variant"), key=lambda row: row.file_name)
    if plan.draw == "random":
        return [row for row in variants if row.accepted]
    if plan.draw == "misclassified":
        if wrong is None:
            raise CounterfactoryError("misclassified are those of a model: give --model or --predictions as well")
        return [row for row in variants if row.accepted and wrong.get(row.file_name)]
    if plan.draw == "uncertain":
        margins = _margins(variants, settings)
        return sorted((row for row in variants if row.file_name in margins), key=lambda row: margins[row.file_name])
    return variants


def _margins(variants: Sequence[PictureRow], settings: CheckSettings | None) -> dict[str, float]:
    """How far each variant is from another verdict, in spreads of the score that is nearest to its threshold."""
    margins: dict[str, float] = {}
    for name, limit in ({} if settings is None else settings.strict).items():
        score = name.partition("_")[2]
        values = [row.scores[score] for row in variants if score in row.scores]
        spread = (sum((value - limit) ** 2 for value in values) / len(values)) ** 0.5 if values else 0.0
        for row in variants:
            if score in row.scores and spread:
                margin = abs(row.scores[score] - limit) / spread
                margins[row.file_name] = min(margin, margins.get(row.file_name, margin))
    return margins


def _take_turns(variants: Sequence[PictureRow], names: Callable[[PictureRow], Sequence[str]]) -> list[PictureRow]:
    """The variants, one of each slice by turns; one of several slices comes with the first of them."""
    queues: dict[str, list[PictureRow]] = {}
    for row in variants:
        for name in names(row):
            queues.setdefault(name, []).append(row)
    turns = (row for turn in zip_longest(*(queues[name] for name in sorted(queues))) for row in turn)
    return list({row.file_name: row for row in turns if row is not None}.values())


def _spread_over_groups(variants: Sequence[PictureRow], drawing: random.Random) -> list[PictureRow]:
    """The variants in an order of which any beginning has the same share of every group, as nearly as can be."""
    groups = defaultdict[str, list[PictureRow]](list)
    for row in variants:
        groups[row.unit].append(row)
    places = []
    for rows in groups.values():
        start = drawing.random()
        places += [((at + start) / len(rows), row.file_name, row) for at, row in enumerate(rows)]
    return [row for *_, row in sorted(places, key=lambda place: place[:2])]


def _item(
    kind: ItemKind, host: PictureRow, shown: PictureRow, questions: QuestionSet, edit: int | None = None
) -> StudyItem:
    # A task protects all words for a class, of which the caption has one.
    named = [word for word in host.protected if re.search(rf"\b{re.escape(word)}\b", host.caption, re.IGNORECASE)]
    words = (*(named or host.protected), *(box.label for box in host.things))
    asks = questions.ids(word for word in words if word != host.label)
    if host.label is None:  # masks and boxes alone: what asks for a label has none to ask for
        asks = tuple(asked for asked in asks if "{label}" not in questions.question(asked).text) or asks
    return StudyItem(0, kind, host.file_name, shown.file_name, shown.sha256, asks, edit)


def _checks(
    rows: Sequence[PictureRow], drawn: Sequence[PictureRow], questions: QuestionSet, count: int, drawing: random.Random
) -> list[StudyItem]:
    """Controls and pictures of other classes by turns, each under another variant's label, as far as there are some."""
    kinds: list[ItemKind] = [
        kind for kind in ("other", "control") if any(known_answer(one, kind) is not None for one in questions.questions)
    ]
    baselines = {row.file_name: row for row in rows if row.kind in ("control", "original") and row.accepted}
    items, hosts = list[StudyItem](), list(drawn)
    drawing.shuffle(hosts)
    for place in range(min(count, len(hosts) * len(kinds))):
        host, kind = hosts[place % len(hosts)], kinds[(place + place // len(hosts)) % len(kinds)]
        others = [row for row in drawn if None not in (row.label, host.label) and row.label != host.label]
        shown = drawing.choice(others) if others else None
        if kind == "control":
            shown = baselines.get(host.control or "", baselines.get(host.original))
        if shown is not None:
            items.append(_item(kind, host, shown, questions))
    return items
