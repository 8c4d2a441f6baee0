"""What people are asked of a picture or of a text edit: the papers' questions, or those of a file (TOML).

An answer is a whole number: 1 and 0 of yes and no, 1 to 5 of a scale. A question that is asked of `each` protected
class has one id per class, "protected: road".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from ..errors import CounterfactoryError
from ..files.fill import fill, read_toml

SETS = ("dillema", "lance", "edits")
SCALE = range(1, 6)
_BETWEEN = ": "
_NAME = re.compile(r"[a-z][a-z0-9_ -]{0,39}")
# Columns of the table of answers that are no answers.
ITEM_COLUMNS = ("item", "image", "kind", "source_picture", "control_picture", "variant_picture", "class", "edits")
RATING_COLUMNS = ("rater", "seconds", "date")
YesNo = Literal["yes", "no"]
NUMBERS: Mapping[str, int] = MappingProxyType({"yes": 1, "no": 0})


@dataclass(frozen=True)
class Question:
    """A question with its `text`, in which {label} and {class} are the picture's. `valid` is what people answer of a
    valid picture, None where that decides nothing; `on_control` and `on_other` are the right answers where the picture
    is a control, and where it is of another class. The answer `note` asks for a note. `ends` name those of a scale.
    """

    name: str
    text: str
    kind: Literal["yes-no", "scale"]
    each: Literal["picture", "protected"] = field(default="picture", metadata={"absent": "picture"})
    valid: YesNo | None = None
    on_control: YesNo | None = None
    on_other: YesNo | None = None
    note: YesNo | None = None
    ends: tuple[str, ...] = field(default=(), metadata={"absent": ()})

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name in (*ITEM_COLUMNS, *RATING_COLUMNS):
            raise ValueError(f"{self.name!r} names no question: use small letters, and none of the table's own columns")
        if self.kind == "scale" and (self.valid or self.on_control or self.on_other or self.note):
            raise ValueError(f"question {self.name!r} is a scale, which has no yes and no to be right")
        if len(self.ends) not in (0, 2):
            raise ValueError(f"question {self.name!r} has {len(self.ends)} ends; a scale has two")

    @property
    def values(self) -> tuple[int, ...]:
        """All answers that there are."""
        return tuple(SCALE) if self.kind == "scale" else (1, 0)

    def value(self, text: str) -> int | None:
        """The answer that a table's cell gives, None where it is none."""
        word = text.strip().lower()
        if self.kind == "yes-no":
            word = {"yes": "1", "y": "1", "true": "1", "no": "0", "n": "0", "false": "0"}.get(word, word)
        number = int(word) if re.fullmatch("[0-9]", word) else -1
        return number if number in self.values else None


@dataclass(frozen=True)
class QuestionSet:
    """Questions in the order in which they are asked; `of` edits, whose captions are shown, or of pictures."""

    questions: tuple[Question, ...]
    of: Literal["pictures", "edits"] = field(default="pictures", metadata={"absent": "pictures"})

    def __post_init__(self) -> None:
        names = [one.name for one in self.questions]
        if not names or len(set(names)) < len(names):
            raise ValueError("questions need names, each its own")

    def ids(self, words: Iterable[str]) -> tuple[str, ...]:
        """What is asked of a picture with these protected classes."""
        classes = list(dict.fromkeys(words))
        return tuple(
            asked
            for one in self.questions
            for asked in ([one.name] if one.each == "picture" else [f"{one.name}{_BETWEEN}{word}" for word in classes])
        )

    def __contains__(self, asked: str) -> bool:
        """Whether an id is of one of the questions."""
        return any(one.name == asked.partition(_BETWEEN)[0] for one in self.questions)

    def question(self, asked: str) -> Question:
        """The question that an id is of, which is one of them."""
        name = asked.partition(_BETWEEN)[0]
        return next(one for one in self.questions if one.name == name)

    def word(self, asked: str, value: int) -> str:
        """An answer as people read it: yes, no, or the number on the scale."""
        scale = self.question(asked).kind == "scale"
        return str(value) if scale else next(word for word, number in NUMBERS.items() if number == value)

    def text(self, asked: str, label: str | None) -> str:
        """An id's question in words."""
        text = self.question(asked).text.replace("{label}", label or "labelled object")
        return text.replace("{class}", asked.partition(_BETWEEN)[2])


def load_questions(name: str) -> QuestionSet:
    """The questions of a set (`SETS`) or of a TOML file. Raises CounterfactoryError for anything else."""
    if name in SETS:
        return fill(QuestionSet, read_toml(Path(__file__).with_name(f"{name}.toml")), name)
    if not name.endswith(".toml"):
        raise CounterfactoryError(f"{name!r} are no questions; say {', '.join(SETS)} or name a .toml file")
    return fill(QuestionSet, read_toml(Path(name)), name)


def known_answer(question: Question, kind: str) -> int | None:
    """The answer that is right of a check: of a picture of `kind` "control" or "other"."""
    right = {"control": question.on_control, "other": question.on_other}.get(kind)
    return None if right is None else NUMBERS[right]
