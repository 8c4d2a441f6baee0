"""The three questions for language models that converse: LLaMA-2 chat, and those that speak ChatML (SmolLM2, Qwen).

Questions, answers and grammars are those of llm.py; only the words around them differ. A conversation has a system
text with the task, one worked example as an earlier turn (one-shot), and the question. All that is the same for a suite
stands first, so that its cache is shared: the task, then the question's kind with its example, then the source's words.

Typed edits, which change one thing at a time (LANCE, arXiv 2305.19164), are asked by the same questions with one type:
`LANCE_TYPES` says what each may touch, and the worked example is of that type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol

from . import questions as llm
from .questions import clean_text, write_answer

Style = Literal["pocket", "llama2", "chatml"]
# A turn is what the user says and what the model answers.
Turn = tuple[str, str]

# Ends or begins a turn in one of the templates; a caption or a label that says so must not.
_MARKS = re.compile(r"</?s>|<\|[^|>]*\|>|<\||\|>|\[/?INST\]|<</?SYS>>")

LANCE_TYPES = ("subject", "object", "background", "weather", "adjective", "domain")
_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "subject": "who or what the picture is mainly of",
        "object": "another thing in the picture",
        "background": "the place or what stands behind",
        "weather": "the weather or the season",
        "time": "the time of day",
        "colour": "the colour of a thing",
        "adjective": "a word that describes a thing: its size, colour, age or material",
        "domain": "what kind of picture it is: photo, painting, sketch, sculpture",
        "other": "anything else",
    }
)
_CAPTION = "a photo of a brown dog chasing a ball on the grass, on a sunny day at noon."
# What each type touches in the example's caption, in its order, and what else it could be.
_EXAMPLES: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "domain": ("photo", ("sketch", "painting")),
        "colour": ("brown", ("black", "white")),
        "adjective": ("brown", ("small", "old")),
        "subject": ("dog", ("cat", "fox")),
        "other": ("chasing", ("guarding", "carrying")),
        "object": ("ball", ("stick", "kite")),
        "background": ("on the grass", ("on the beach", "in a car park")),
        "weather": ("on a sunny day", ("on a snowy day", "on a rainy day")),
        "time": ("at noon", ("at night", "at sunset")),
    }
)
_SYSTEM = """You rewrite captions of photographs, to test a computer vision model on pictures of the new captions.
The model's task: {task}
No change may alter what the model should answer, nor touch the words to keep. Answer in JSON and nothing else."""


class Prompts(Protocol):
    """Writes the prompts of the three questions; the module `llm` does, and so does `ChatPrompts`."""

    def keywords_prompt(self, task: str, types: Sequence[str], keep: Sequence[str], caption: str) -> str:
        """Question 1: which words of the caption may change."""
        ...

    def alternatives_prompt(
        self, task: str, keep: Sequence[str], caption: str, type_: str, keyword: str, values: Sequence[str] = ()
    ) -> str:
        """Question 2: what else they could be."""
        ...

    def rewrite_prompt(self, task: str, keep: Sequence[str], caption: str, changes: Sequence[tuple[str, str]]) -> str:
        """Question 3: the caption with the changes."""
        ...


def prompts(style: Style) -> Prompts:
    """The prompts for a kind of model; "pocket" is the plain text that the pocket model was trained on."""
    if style == "pocket":
        return llm
    return ChatPrompts(llama2 if style == "llama2" else chatml)


def llama2(system: str, turns: Sequence[Turn], question: str) -> str:
    r"""A conversation in LLaMA-2 chat's template (Touvron et al. 2023, arXiv 2307.09288, and the reference code).

    It names its own `<s>` and `</s>`, so that a tokenizer should add none. The answer begins on a line of its own:
    after "[/INST]" the model would begin with a space, which no grammar of ours allows, and after "\n" it does not.
    """
    text, said = "", f"<<SYS>>\n{system}\n<</SYS>>\n\n"
    for asked, answered in turns:
        text += f"<s>[INST] {said}{asked} [/INST] Answer:\n{answered} </s>"
        said = ""
    return f"{text}<s>[INST] {said}{question} [/INST] Answer:\n"


def chatml(system: str, turns: Sequence[Turn], question: str) -> str:
    """A conversation in ChatML, as SmolLM2 and Qwen were trained on; it needs no other beginning of text."""
    text = f"<|im_start|>system\n{system}<|im_end|>\n"
    for asked, answered in turns:
        text += f"<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n{answered}<|im_end|>\n"
    return f"{text}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


@dataclass(frozen=True)
class ChatPrompts:
    """The questions in a chat template: a function of the system text, the earlier turns and the question."""

    template: Callable[[str, Sequence[Turn], str], str]

    def keywords_prompt(self, task: str, types: Sequence[str], keep: Sequence[str], caption: str) -> str:
        """Question 1: which words of the caption may change, of the given types, without touching the words to keep."""
        kinds = "\n".join(f"- {type_}: {_MEANINGS.get(type_, type_)}" for type_ in map(_said, types))
        intro = (
            "Which words of the caption can change? Copy them from the caption, each with its type. The types are:\n"
            f"{kinds}\n\n"
        )

        def asked(keep: Sequence[str], caption: str) -> str:
            return f"Keep: {_listed(keep, 'nothing')}\nCaption: {_said(caption)}"

        shown = [type_ for type_ in _EXAMPLES if type_ in types] or ["other"]
        pairs = {_EXAMPLES[type_][0]: [type_, _EXAMPLES[type_][0]] for type_ in shown}
        example = (intro + asked(_kept(shown), _CAPTION), write_answer(list(pairs.values())))
        return self._ask(task, example, asked(keep, caption))

    def alternatives_prompt(
        self, task: str, keep: Sequence[str], caption: str, type_: str, keyword: str, values: Sequence[str] = ()
    ) -> str:
        """Question 2: what else `keyword`, a span of the caption, could be; among `values` if there are any."""
        type_ = _said(type_)
        among = " Choose among the values." if values else " Give short words that fit the caption in their place."
        intro = (
            f"What else could the words of the caption be? Change only the {type_}"
            f" ({_MEANINGS.get(type_, 'as asked')}).{among}\n\n"
        )

        def asked(keep: Sequence[str], caption: str, words: str, values: Sequence[str]) -> str:
            choice = f"Values: {_listed(values, '')}\n" if values else ""
            return f"Keep: {_listed(keep, 'nothing')}\nCaption: {_said(caption)}\n{choice}Words: {_said(words)}"

        shown = type_ if type_ in _EXAMPLES else "other"
        words, others = _EXAMPLES[shown]
        example = (intro + asked(_kept([shown]), _CAPTION, words, others if values else ()), write_answer(list(others)))
        return self._ask(task, example, asked(keep, caption, keyword, values))

    def rewrite_prompt(self, task: str, keep: Sequence[str], caption: str, changes: Sequence[tuple[str, str]]) -> str:
        """Question 3: the caption with the changes, (keyword, alternative) each, as one coherent text."""
        intro = (
            "Write the caption anew with the changes. All other words stay as they are, "
            "but for what grammar needs (a, an, in, on).\n\n"
        )

        def asked(keep: Sequence[str], caption: str, changes: Sequence[tuple[str, str]]) -> str:
            listed = "; ".join(f"{_said(old)} -> {_said(new)}" for old, new in changes)
            return f"Keep: {_listed(keep, 'nothing')}\nCaption: {_said(caption)}\nChanges: {listed}"

        shown = [("brown", "orange"), ("on a sunny day", "on a rainy day")]
        new = "a photo of an orange dog chasing a ball on the grass, on a rainy day at noon."
        example = (intro + asked(("dog",), _CAPTION, shown), write_answer(new))
        return self._ask(task, example, asked(keep, caption, changes))

    def _ask(self, task: str, example: Turn, question: str) -> str:
        return self.template(_SYSTEM.format(task=_said(task)), [example], question)


def _said(text: str) -> str:
    """A user's or a model's text as one plain line that cannot end its turn."""
    return clean_text(_MARKS.sub(" ", text))


def _listed(words: Sequence[str], none: str) -> str:
    return ", ".join(map(_said, words)) if words else none


def _kept(types: Sequence[str]) -> tuple[str, ...]:
    """What the example keeps: its subject, unless that is what changes."""
    return () if "subject" in types else ("dog",)
