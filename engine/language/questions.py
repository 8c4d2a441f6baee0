"""The rewriting model: three questions, each a prompt and the form of its answer.

It makes prompts from a task, a caption and words, and reads the model's JSON answers as Python values. Nothing here
knows a runtime, nor decides which edits are made. The questions are those of DILLEMA (arXiv 2502.04378): which words
may change, what else they could be, and what the caption says then. Each prompt states the task and has one worked
example; whatever is the same for a whole suite stands first, so that its cache is shared.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..files.reading import parse_json
from .grammar import NOTHING
from .llm_request import Prompt

_KEYWORDS = """Which words of the caption can change while the task keeps its answer?
Task: count the trees
Types: weather, time
Keep: trees
Caption: tall trees in the rain at noon.
Keywords:
[["weather","in the rain"],["time","at noon"]]

"""
_ALTERNATIVES = """What else could the words of the caption be?
Task: count the trees
Keep: trees
Caption: tall trees in the rain at noon.
Values: any
Words: weather: in the rain
Alternatives:
["in the snow","in the fog"]

"""
_REWRITE = """Write the caption anew with the changes.
Task: count the trees
Keep: trees
Caption: tall trees in the rain at noon.
Changes: in the rain -> in the snow
New caption:
"tall trees in the snow at noon."

"""


class AnswerError(ValueError):
    """An answer that does not have the asked form; the message says what is wrong with it."""


def clean_text(text: str) -> str:
    """One line without control characters, double quotes or backslashes: what a prompt and a JSON string can carry."""
    if not (text.isascii() and text.isprintable()):  # nearly all are
        text = unicodedata.normalize("NFC", text)
        text = "".join(" " if unicodedata.category(c).startswith(("C", "Z")) else c for c in text)
    text = text.replace('"', "'").replace("\\", "/")
    return re.sub(" +", " ", text).strip()


def keep_and_caption(keep: Sequence[str], caption: str, clean: Callable[[str], str] = clean_text) -> str:
    """The two lines of a question that say which words stay, and the caption."""
    return f"Keep: {', '.join(map(clean, keep)) or 'nothing'}\nCaption: {clean(caption)}"


@dataclass(frozen=True)
class PlainPrompts:
    """The questions as plain text, which the pocket models were trained on."""

    def keywords(self, task: str, types: Sequence[str], keep: Sequence[str], caption: str) -> Prompt:
        """Question 1: which words of the caption may change, of the given types, without touching the words to keep."""
        suite = f"{_KEYWORDS}Task: {clean_text(task)}\nTypes: {', '.join(map(clean_text, types)) or 'any'}\n"
        return Prompt(suite, keep_and_caption(keep, caption) + "\n", "Keywords:\n")

    def alternatives(
        self, task: str, keep: Sequence[str], caption: str, type_: str, keyword: str, values: Sequence[str] = ()
    ) -> Prompt:
        """Question 2: what else `keyword`, a span of the caption, could be; among `values` if there are any."""
        own = (
            f"Values: {', '.join(map(clean_text, values)) or 'any'}\nWords: {clean_text(type_)}: {clean_text(keyword)}"
        )
        source = keep_and_caption(keep, caption) + "\n"
        return Prompt(f"{_ALTERNATIVES}Task: {clean_text(task)}\n", source, f"{own}\nAlternatives:\n")

    def rewrite(self, task: str, keep: Sequence[str], caption: str, changes: Sequence[tuple[str, str]]) -> Prompt:
        """Question 3: the caption with the changes, (keyword, alternative) each, as one coherent text."""
        listed = "; ".join(f"{clean_text(old)} -> {clean_text(new)}" for old, new in changes)
        own, source = f"Changes: {listed}\nNew caption:\n", keep_and_caption(keep, caption) + "\n"
        return Prompt(f"{_REWRITE}Task: {clean_text(task)}\n", source, own)


def write_answer(value: object) -> str:
    """The compact JSON in which answers are given."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _read(answer: str) -> object:
    try:
        return parse_json(answer)
    except ValueError as error:
        raise AnswerError(f"the language model's answer is not closed JSON ({error}): {answer[-60:]!r}") from error


def read_keywords(answer: str) -> list[tuple[str, str]]:
    """(type, keyword) pairs from an answer to question 1, without those that say "none". Raises AnswerError."""
    return [pair for pair in _read_pairs(answer, "keywords", "type, keyword") if NOTHING not in pair]


def read_proposals(answer: str) -> list[tuple[str, str]]:
    """(span, words in its place) pairs from an answer about one type of edit. Raises AnswerError."""
    return _read_pairs(answer, "proposals", "span, words")


def _read_pairs(answer: str, what: str, form: str) -> list[tuple[str, str]]:
    value = _read(answer)
    if not isinstance(value, list):
        raise AnswerError(f"asked for a list of {what}, got {answer[:60]!r}")
    pairs = []
    for item in value:
        if not (isinstance(item, list) and len(item) == 2 and all(isinstance(x, str) for x in item)):
            raise AnswerError(f"asked for [{form}] pairs, got {item!r}")
        pairs.append((item[0], item[1]))
    return pairs


def read_alternatives(answer: str) -> list[str]:
    """The strings of an answer to question 2. Raises AnswerError."""
    value = _read(answer)
    if not (isinstance(value, list) and all(isinstance(x, str) for x in value)):
        raise AnswerError(f"asked for a list of alternatives, got {answer[:60]!r}")
    return [str(x) for x in value]


def read_caption(answer: str) -> str:
    """The text of an answer to question 3. Raises AnswerError."""
    value = _read(answer)
    if not isinstance(value, str):
        raise AnswerError(f"asked for a caption, got {answer[:60]!r}")
    return value.strip()
