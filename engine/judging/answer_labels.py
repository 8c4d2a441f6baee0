"""Reconciles a model's answers with a suite's labels, before one of them is counted.

An answer in another spelling than its label's counts as wrong, and a perfect model seems to fail. So answers that are
neither a label nor known to be a class of the model are counted and named with the nearest label, and many of them are
refused. Known are the classes in the suite's record, and those of a list of the model's own classes, which may also say
what its numbers stand for.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..english.label_names import short_name, synset_of
from ..english.nouns import load_nouns
from ..errors import CounterfactoryError, list_some
from ..files.reading import read_json, read_text
from ..sources.class_map import BACKGROUND, SYNSET, label_names
from ..sources.labels import fold_label, label_text, whole_number
from ..sources.yolo import yaml_names
from ..suite import PictureRow
from ..suite.recorded import recorded_labels, recorded_numbers
from .evaluation import StrangeAnswer
from .predictions import Prediction

# Numbers as torchvision's ImageFolder gives them: by the sorted names of class folders.
IMAGE_FOLDER = "imagefolder"
# What a detector's numbers are of where nobody says it.
SET_NUMBERS = "the numbers of the set's own categories"
# One answer in so many may be unknown: more say nothing of the model.
_MOST = 10
# Answers, and labels, that an error shows, and those that are recorded.
_SHOWN, _RECORDED = 4, 20
_SIMILAR = 0.5
_DIGITS = 10
_ITEM = re.compile(r"item\s*\{(.*?)\}", re.DOTALL)
_FIELD = re.compile(r"\b(id|name|display_name)\s*:\s*(?:([\"'])(.*?)\2|([0-9]{1,9}))")


@dataclass(frozen=True)
class Vocabulary:
    """`labels` are those of the suite's pictures, sorted; answers in `known` may be counted. `renamed` are other ways
    to say a label: a class's number, its synset, and `spelled` what only one known class is like in spelling. `folders`
    are the labels in ImageFolder's order, `of_set` the classes that the set names, `listed` says where the model's
    classes are listed, None where they are not; there are so many `numbers`, 0 where that is not known.
    """

    labels: tuple[str, ...]
    known: frozenset[str]
    folders: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)
    listed: str | None = None
    numbers: int = 0
    spelled: Mapping[str, str] = field(default_factory=dict)
    of_set: frozenset[str] = frozenset()

    def settle(self, answer: Prediction) -> Prediction:
        """The answer in the labels' words."""
        label, likeliest = self.settle_text(answer.label), answer.likeliest
        if likeliest is None:
            return answer if label == answer.label else replace(answer, label=label)
        return replace(answer, label=label, likeliest=tuple(map(self.settle_text, likeliest)))

    def settle_text(self, text: str) -> str:
        """A label in the labels' words."""
        for form in (text, whole_number(text)):
            if form in self.renamed:
                return self.renamed[form]
            if form in self.known:
                return form
        return next((self.spelled[form] for form in _spellings(text) if form in self.spelled), text)

    def respelled(self, answers: Iterable[str]) -> dict[str, str]:
        """The labels that answers are in another spelling."""
        known = self.known | self.renamed.keys()
        settled = {text: self.settle_text(text) for text in set(answers) if not {text, whole_number(text)} & known}
        return {text: label for text, label in sorted(settled.items()) if label != text}

    def numbered(self, names: Mapping[int, str], where: str) -> Vocabulary:
        """With classes of these names by number, whatever else numbers stood for."""
        by_number = {str(n): name if name in self.labels else self.settle_text(name) for n, name in names.items()}
        others = {form: label for form, label in self.renamed.items() if not _are_numbers([form])}
        others |= {label: f"no class {label}" for label in self.labels if _are_numbers([label])}
        known = frozenset(one for one in self.known if one in self.labels or not _are_numbers([one]))
        known |= set(by_number.values())
        return replace(self, renamed=others | by_number, known=known, listed=where, numbers=max(names) + 1)

    def require_known(self, answers: Sequence[str]) -> tuple[StrangeAnswer, ...]:
        """The answers that are no known class, the commonest first. Raises CounterfactoryError where these are a tenth
        or more of all.
        """
        counts = {answer: count for answer, count in Counter(answers).items() if not self.knows(answer)}
        strange = sum(counts.values())
        commonest = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        if self.labels and strange and strange * _MOST >= len(answers):
            raise CounterfactoryError(self._refusal(commonest, strange, len(answers)))
        return tuple(self._strange(*item) for item in commonest[:_RECORDED])

    def missing(self) -> tuple[str, ...]:
        """The suite's labels that the model's own list of classes lacks."""
        return tuple(label for label in self.labels if self.listed is not None and label not in self.renamed.values())

    def knows(self, answer: str) -> bool:
        """Known are also all of ImageNet's synsets where the labels are synsets."""
        if answer in self.known:
            return True
        synsets = SYNSET.fullmatch(answer) and all(map(SYNSET.fullmatch, self.labels))
        return bool(synsets and answer in load_nouns() and load_nouns()[answer].definition)

    def _strange(self, answer: str, count: int) -> StrangeAnswer:
        return StrangeAnswer(answer, count, nearest_label(answer, self.labels))

    def _refusal(self, commonest: Sequence[tuple[str, int]], strange: int, of: int) -> str:
        named = list_some([self._strange(*item).text for item in commonest[:_SHOWN]], _SHOWN)
        more = f" and {len(commonest) - _SHOWN} others" if len(commonest) > _SHOWN else ""
        labels = list_some(list(map(repr, self.labels)), _SHOWN)
        what = "no prediction is a" if strange == of else f"{strange} of {of} predictions are no"
        place = "of its record" if self.listed is None else f"in {self.listed}"
        return (
            f"{what} label of this suite nor a class {place}: its labels are {labels}, the predictions {named}{more}; "
            f"{self._advice([answer for answer, _ in commonest])}"
        )

    def _advice(self, strange: Sequence[str]) -> str:
        texts = [whole_number(text) for text in strange]
        if self.listed is not None:
            return "write predictions as the labels or the list have them, or as the list's numbers, from 0"
        if _are_numbers(texts) != _are_numbers(self.labels):
            numbers = sorted(map(int, texts)) if _are_numbers(texts) else [len(self.folders)]
            order = list_some(list(self.folders), _SHOWN)
            fits = f"the numbers {numbers[0]} to {numbers[-1]} fit ImageFolder's order ({order}): add --classes "
            return (
                f"{f'{fits}{IMAGE_FOLDER}, or name' if numbers[-1] < len(self.folders) else 'name'} what numbers stand "
                "for by --classes FILE (a name on each line, or JSON)"
            )
        return (
            "write predictions as the labels are written; if the model has more classes, name all of them by --classes "
            "FILE (a name on each line, or JSON)"
        )


def read_vocabulary(
    suite: Path,
    rows: Iterable[PictureRow],
    classes: Path | None,
    own: Mapping[int, str] | None = None,
    named_by: str = "the model",
    of_boxes: bool = False,
) -> Vocabulary:
    """What the answers to a suite's pictures may be called; `classes` is a file that lists the model's classes by their
    numbers, or `IMAGE_FOLDER`; without it `own` are the names that a model gives its numbers. With `of_boxes` labels
    are those of boxes, and numbers that nobody names are the set's own. Raises CounterfactoryError for a list that
    cannot be read, or that no label is in.
    """
    boxes = (box.label for row in rows for box in row.things)
    labels = tuple(sorted(set(boxes if of_boxes else (row.label for row in rows if row.label is not None))))
    try:
        recorded, numbers = recorded_labels(suite), recorded_numbers(suite) or {}
    except CounterfactoryError:  # a broken record makes no label unknown
        recorded, numbers = (), {}
    known = frozenset((*labels, *recorded, *(name for name in numbers.values() if not name.isdigit())))
    plain = Vocabulary(labels, known, recorded or labels, _trimmed(labels, recorded or labels))
    plain = replace(plain, spelled=_spelled(labels, known), of_set=known - {BACKGROUND})
    if classes is None and own is None and of_boxes:
        things = {number: name for number, name in numbers.items() if name != BACKGROUND}
        return plain.numbered(things, SET_NUMBERS) if set(labels) & set(things.values()) else plain
    if classes is None:
        return plain if own is None else _listed(plain, _as_labels(own), named_by)
    if str(classes) == IMAGE_FOLDER:
        renamed = {str(number): label for number, label in enumerate(plain.folders)}
        return replace(plain, renamed=renamed, numbers=len(plain.folders))
    return _listed(plain, _as_labels(read_names(classes)), str(classes))


def _spellings(text: str) -> list[str]:
    """What texts that mean one class share: letters, a synset, the first of its words. A number is like no other."""
    if _are_numbers([text]):
        return []
    return list(filter(None, (fold_label(text), synset_of(text), fold_label(short_name(text)))))


def _spelled(labels: Collection[str], known: Collection[str]) -> dict[str, str]:
    """The class of each spelling that is one's alone: a label's before that of another known class."""
    of_one: dict[str, str] = {}
    for names in (set(known).difference(labels), labels):
        of = [(form, name) for name in names for form in set(_spellings(name))]
        count = Counter(form for form, _ in of)
        of_one |= {form: name for form, name in of if count[form] == 1}
    return of_one


def _trimmed(labels: Collection[str], folders: Sequence[str]) -> dict[str, str]:
    """Labels by what a table makes of them: no space around, no ".0" behind, and of "00", "01", ... the number."""
    forms = [(form, label) for label in labels for form in (label.strip(), whole_number(label))]
    if _are_numbers(folders) and sorted(map(int, folders)) == list(range(len(folders))):
        forms += [(str(int(label)), label) for label in labels]
    return {form: label for form, label in forms if form not in labels}


def _listed(plain: Vocabulary, named: Mapping[int, str], where: str) -> Vocabulary:
    """With classes by number: each is the label of its name, else of its synset or of the same spelling."""
    spelled: dict[str, list[str]] = {}
    for label in plain.labels:
        spelled.setdefault(fold_label(short_name(label)), []).append(label)
    numbered = _are_numbers(plain.labels)
    names, shorts = set(named.values()), Counter(map(short_name, named.values()))
    renamed = dict[str, str]()
    for number, name in named.items():
        alike = spelled.get(fold_label(short_name(name)), [])
        one = len(alike) == 1 and alike[0] not in names
        label = str(number) if numbered else alike[0] if one else name
        forms = [name, *([short_name(name)] if shorts[short_name(name)] == 1 else []), str(number)]
        for form in forms:
            renamed.setdefault(form, label)
        renamed.setdefault(label, label)
    if not set(plain.labels) & set(renamed.values()):
        shown = (list_some(list(map(repr, some)), _SHOWN) for some in (plain.labels, list(named.values())))
        raise CounterfactoryError(
            "no class in {2} is a label of this suite: its labels are {0}, the classes {1}".format(*shown, where)
        )
    known = plain.known | set(renamed.values())
    return replace(plain, renamed=dict(plain.renamed) | renamed, known=known, listed=where, numbers=max(named) + 1)


def read_names(file: Path) -> Mapping[int, str]:
    """The names of classes by number in a file: lines from 0, a class map, JSON of names, of COCO's categories or of
    a model's id2label, YOLO's YAML, or TensorFlow's labelmap. Raises CounterfactoryError.
    """
    suffix, listed = file.suffix.lower(), read_json(file) if file.suffix.lower() == ".json" else None
    if isinstance(listed, Mapping) and (inner := listed.get("categories", listed.get("id2label"))):
        pairs = inner.items() if isinstance(inner, Mapping) else ((one["id"], one["name"]) for one in inner)
        try:
            names: Mapping[int, str] = {int(number): str(name).strip() for number, name in pairs}
        except (KeyError, TypeError, ValueError) as error:
            raise CounterfactoryError(f"{file} has categories without id and name, or an id2label of none") from error
    elif suffix in (".json", ".toml", ".txt"):
        names = label_names(str(file))[0]
    elif suffix in (".yaml", ".yml"):
        names = yaml_names(file)
    elif suffix == ".pbtxt":
        names = _item_names(file)
    else:
        lines = [line.strip() for line in read_text(file).rstrip().splitlines()]
        names = {number: (synset_of(line) or line) for number, line in enumerate(lines)}
    return names


def _item_names(file: Path) -> dict[int, str]:
    """The names of a labelmap of TensorFlow's: item { id: 1 name: "person" }, of which a display_name is the name."""
    names: dict[int, str] = {}
    for item in _ITEM.findall(read_text(file)):
        fields = {key: quoted or number for key, _, quoted, number in _FIELD.findall(item)}
        if "id" in fields and (name := fields.get("display_name", fields.get("name"))):
            names[int(fields["id"])] = name
    if not names:
        raise CounterfactoryError(f"{file} has no item with an id and a name")
    return names


def _as_labels(names: Mapping[int, str]) -> dict[int, str]:
    return {number: label_text(name) or name for number, name in names.items()}


def nearest_label(answer: str, labels: Sequence[str]) -> str | None:
    """The label that an answer seems to mean: of the same letters, of the same synset, or of a close spelling."""
    forms = {fold_label(answer), fold_label(short_name(answer))}
    spelled = {form: label for label in reversed(labels) for form in (fold_label(short_name(label)), fold_label(label))}
    same = next((spelled[form] for form in sorted(forms) if form in spelled), None)
    if same is not None:
        return same
    close = difflib.get_close_matches(fold_label(answer), spelled, cutoff=_SIMILAR)
    return spelled[close[0]] if close else None


def _are_numbers(labels: Iterable[str]) -> bool:
    return all(label.isascii() and label.isdigit() and len(label) < _DIGITS for label in labels)
