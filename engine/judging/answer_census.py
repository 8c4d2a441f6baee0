"""What the words and numbers in a model's answers stand for, judged by all answers and the truths before any figure.

A list in another order, or one counted from 1, makes a good model's answers all wrong. A model that is bad is right by
no list, so that a list which makes nearly all answers right, where the given one makes hardly any right, is the list
that they are of. Less evidence than that is said, and changes nothing.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from ..errors import CounterfactoryError, list_some
from ..sources.class_map import BACKGROUND, load_class_map
from ..suite import PictureRow
from .answer_labels import SET_NUMBERS, Vocabulary

# Pictures, or things: the true label of each, and the answer as the model gave it.
Pairs = Sequence[tuple[str, str]]
Evidence = Literal["certain", "likely", "none"]

# What is as likely by chance is no evidence.
_CERTAIN, _LIKELY = 0.01, 0.05
# Of the answers, those that are no class by a reading that cannot be meant.
_IMPOSSIBLE = 0.1
# Of the answers to each class, those that are one other where the classes are in another order.
_MOSTLY = 0.9
_SHOWN = 4
# The 80 things of COCO's annotations (cocodataset.org), and the numbers up to 90 that none of them has.
_THINGS = (
    "person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,stop sign,"
    "parking meter,bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,backpack,umbrella,handbag,tie,"
    "suitcase,frisbee,skis,snowboard,sports ball,kite,baseball bat,baseball glove,skateboard,surfboard,"
    "tennis racket,bottle,wine glass,cup,fork,knife,spoon,bowl,banana,apple,sandwich,orange,broccoli,carrot,"
    "hot dog,pizza,donut,cake,chair,couch,potted plant,bed,dining table,toilet,tv,laptop,mouse,remote,keyboard,"
    "cell phone,microwave,oven,toaster,sink,refrigerator,book,clock,vase,scissors,teddy bear,hair drier,toothbrush"
)
COCO = tuple(_THINGS.split(","))
_NO_COCO = (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)


def weigh(
    own: int,
    other: int,
    of: int,
    chance: float,
    tried: int,
    times: float = 8,
    share: float = 0.5,
    *,
    impossible: bool = False,
) -> Evidence:
    """How sure it is that answers have to be read otherwise: `own` of so many are right as they are read, `other` by
    the best of `tried` readings, of which `chance` are by luck; nothing is where it is not so many `times` as much and
    this `share` of all. `impossible` says that no model answers as they are read.
    """
    if not other or other < times * own or other < share * of:
        return "none"
    luck = tail(other, of, max(chance, (own + 1) / (of + 2)))
    if luck >= _LIKELY:
        return "none"
    return "certain" if impossible or luck * tried < _CERTAIN else "likely"


def tail(least: int, of: int, chance: float) -> float:
    """The probability of `least` or more successes of so many, each of probability `chance`."""
    if least <= 0 or chance >= 1:
        return 1.0
    logs = (math.lgamma(of + 1) - math.lgamma(k + 1) - math.lgamma(of - k + 1) for k in range(least, of + 1))
    yes, no = math.log(chance), math.log1p(-chance)
    return min(1.0, math.fsum(math.exp(log + k * yes + (of - k) * no) for k, log in enumerate(logs, least)))


def pair_sources(rows: Sequence[PictureRow], answers: Sequence[str | None]) -> Pairs:
    """The label and the answer of one accepted picture of each source, the original first: others are much like it."""
    pairs: dict[str, tuple[str, str]] = {}
    for row, answer in sorted(zip(rows, answers, strict=True), key=lambda pair: pair[0].kind != "original"):
        if row.accepted and row.label is not None and answer is not None:
            pairs.setdefault(row.source, (row.label, answer))
    return list(pairs.values())


def settle_words(
    name: str,
    given: Vocabulary,
    pairs: Pairs,
    record: Mapping[int, str],
    *,
    size: int | None = None,
    of_boxes: bool = False,
    declared: bool = False,
) -> tuple[Vocabulary, tuple[str, ...]]:
    """What the answers of `name` stand for, with sentences on that and on the answers as a whole. `record` has a set's
    own numbers; scores are of `size` classes; with `declared` the user or the model says in which order they are.

    Raises CounterfactoryError where numbered labels in two orders are as likely.
    """
    notes: tuple[str, ...] = ()
    undeclared = size is not None and not declared
    if undeclared and (rival := _in_number_order(given)) is not None:
        given, notes = _better(name, given, rival, pairs)
    words, chosen = _choose(name, given, _numberings(given, record, size, of_boxes), pairs, of_boxes)
    if other := words.respelled(answer for _, answer in pairs):
        spelled = list_some([f"{text!r} is {label!r}" for text, label in other.items()], _SHOWN)
        notes += (f"{name}: answers are labels in another spelling: {spelled}",)
    answers = {words.settle_text(answer) for _, answer in pairs}
    if len(answers) == 1 < len({truth for truth, _ in pairs}):
        same = "seen things" if of_boxes else "pictures of sources"
        notes += (f"warning: {name} answers {answers.pop()!r} to all {len(pairs)} {same}",)
    return words, (*notes, *chosen, *_reordered(name, words, pairs))


def _numberings(given: Vocabulary, record: Mapping[int, str], size: int | None, of_boxes: bool) -> list[Vocabulary]:
    """Other lists that numbers may be of: the given one counted from 1 or from 0, another order, and known ones."""
    own = {int(form): label for form, label in given.renamed.items() if _is_number(form)} if given.numbers else {}
    base = own or {int(label): label for label in given.labels if _is_number(label)}
    lists = [(given.listed or "the labels", base), *_lists(given, record, of_boxes)]
    different: dict[tuple[tuple[int, str], ...], Vocabulary] = {}
    for by, (where, names) in ((by, one) for by in (0, 1, -1) for one in lists):
        moved = {number + by: name for number, name in names.items() if number + by >= 0}
        fits = size is None or (max(moved, default=0) < size and (by == 0 or len(names) < size))
        if moved and fits and moved != base:
            words = given.numbered(moved, f"{where}, counted from {max(by, 0)}" if by else where)
            different.setdefault(tuple((n, words.renamed[str(n)]) for n in sorted(moved)), words)
    return list(different.values())


def _lists(given: Vocabulary, record: Mapping[int, str], of_boxes: bool) -> Iterator[tuple[str, Mapping[int, str]]]:
    named = {number: name for number, name in sorted(record.items()) if name != BACKGROUND}
    yield SET_NUMBERS, named
    yield "the set's categories in their order", dict(enumerate(named.values()))
    if of_boxes:
        numbers = [number for number in range(1, 91) if number not in _NO_COCO]
        yield "COCO's numbers", dict(zip(numbers, COCO, strict=True))
        yield "COCO's 80 classes", dict(enumerate(COCO))
        yield "Pascal VOC's numbers", load_class_map("voc").names
    if given.listed is None or of_boxes:
        for order, key in (("", str), (" without case", str.casefold), (" by the numbers in them", _natural)):
            labels = given.labels if of_boxes else given.folders
            yield f"the labels in their order{order}", dict(enumerate(sorted(labels, key=key)))


def _in_number_order(given: Vocabulary) -> Vocabulary | None:
    """Labels that are numbers in the order of the numbers, where ImageFolder's, "0", "1", "10", "2", is another."""
    ordered = sorted(given.folders, key=int) if all(map(_is_number, given.folders)) else []
    if ordered in ([], list(given.folders)):
        return None
    shown = list_some(ordered, _SHOWN)
    return given.numbered(dict(enumerate(ordered)), f"the labels in the order of their numbers: {shown}")


def _better(name: str, given: Vocabulary, rival: Vocabulary, pairs: Pairs) -> tuple[Vocabulary, tuple[str, ...]]:
    """The better one of two that are as likely, by the answers."""
    both = [(given.settle_text(answer), rival.settle_text(answer), truth) for truth, answer in pairs]
    mine, its = (sum(one[i] == one[2] != one[1 - i] for one in both) for i in (0, 1))
    shares = f"{_share(_right(given, pairs), pairs)} are right by ImageFolder's order"
    shares += f", {_share(_right(rival, pairs), pairs)} by {rival.listed}"
    if any(one[0] != one[1] for one in both) and tail(max(mine, its), mine + its, 0.5) >= _CERTAIN:
        raise CounterfactoryError(
            f"{name}: of its answers {shares}, too little to tell what its scores are of: say so by --classes "
            "imagefolder, or by --classes FILE with a label on each line"
        )
    return (rival if its > mine else given), (f"{name}: of its answers {shares}",) if mine != its else ()


def _choose(
    name: str, given: Vocabulary, others: Sequence[Vocabulary], pairs: Pairs, of_boxes: bool
) -> tuple[Vocabulary, tuple[str, ...]]:
    if not others or not any(_is_number(answer) for _, answer in pairs):
        return given, ()
    best = max(others, key=lambda one: _right(one, pairs))
    apart = [pair for pair in pairs if given.settle_text(pair[1]) != best.settle_text(pair[1])]
    impossible = _strange(given, apart) >= _IMPOSSIBLE * len(pairs) and not _strange(best, apart)
    own, most = _right(given, apart), _right(best, apart)
    evidence = weigh(own, most, len(apart), _chance(best, apart), len(others), impossible=impossible)
    # Boxes lie on things of one class, and are called another one: the class alone may be read wrongly.
    if evidence == "none" and of_boxes and len({truth for truth, _ in pairs}) == 1 and own == 0 < most == len(apart):
        evidence = "likely"
    seen = f"{_share(_right(given, pairs), pairs)} of the answers are right by {given.listed or 'the labels'}"
    seen += f", {_share(_right(best, pairs), pairs)} by {best.listed}"
    if evidence == "certain":
        return best, (f"{name}: numbers are read by {best.listed}: {seen}",)
    few = f"warning: {name}: {seen}, and they are too few to tell: name the model's classes by --classes FILE"
    return given, (few,) if evidence == "likely" else ()


def _reordered(name: str, words: Vocabulary, pairs: Pairs) -> tuple[str, ...]:
    """A warning of answers that are right but for the order of the classes."""
    answers: dict[str, Counter[str]] = {}
    for truth, answer in pairs:
        answers.setdefault(truth, Counter())[words.settle_text(answer)] += 1
    meant = {truth: counts.most_common(1)[0] for truth, counts in answers.items()}
    moved = {truth: answer for truth, (answer, _) in meant.items() if answer != truth}
    alike, size = sum(count for _, count in meant.values()), len(meant)
    if size < 2 or set(moved.values()) != set(meant) or alike < _MOSTLY * len(pairs):
        return ()
    # By chance one of all orders is as good so often.
    if math.lgamma(size + 1) + math.log(max(tail(alike, len(pairs), 1 / size), 5e-324)) > math.log(_CERTAIN):
        return ()
    shown = list_some([f"{answer!r} for {truth!r}" for truth, answer in sorted(moved.items())], _SHOWN)
    told = f"{name} answers {shown}, {_share(alike, pairs)} of the time: its classes are in another order than"
    told = f"{told} {words.listed or 'the labels'} (name them in its order by --classes FILE)"
    return (f"warning: {told}, or its labels are swapped",)


def _right(words: Vocabulary, pairs: Pairs) -> int:
    return sum(words.settle_text(answer) == truth for truth, answer in pairs)


def _strange(words: Vocabulary, pairs: Pairs) -> int:
    return sum(words.settle_text(answer) not in words.known for _, answer in pairs)


def _chance(words: Vocabulary, pairs: Pairs) -> float:
    """The share that would be right of the same answers to other pictures."""
    truths, answers = Counter(truth for truth, _ in pairs), Counter(words.settle_text(answer) for _, answer in pairs)
    return sum(count * answers[truth] for truth, count in truths.items()) / max(1, len(pairs)) ** 2


def _natural(text: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split("([0-9]+)", text)]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 7


def _share(count: int, pairs: Pairs) -> str:
    return f"{100 * count / max(1, len(pairs)):.0f} %"
