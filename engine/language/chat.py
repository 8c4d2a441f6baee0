"""The three questions for language models that converse: LLaMA-2 chat, and those that speak ChatML (SmolLM2, Qwen).

Questions, answers and grammars are those of questions.py; only the words around them differ. A conversation has a
system text with the task, one worked example as an earlier turn (one-shot), and the question. All that is the same for
a suite stands first, so that it is read once: the task, then the question's kind with its example, then the source's
words.

Typed edits, which change one thing at a time (LANCE, arXiv 2305.19164), are asked by the same questions with one type;
the worked example is then of that type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from .questions import PlainPrompts, Prompts, clean_text, write_answer
from .request import Prompt

Style = Literal["pocket", "llama2", "chatml"]
# A turn is what the user says and what the model answers.
Turn = tuple[str, str]

# Ends or begins a turn in one of the templates; a caption or a label that says so must not.
_MARKS = re.compile(r"</?s>|<\|[^|>]*\|>|<\||\|>|\[/?INST\]|<</?SYS>>")

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


def prompts_of(style: Style) -> Prompts:
    """The prompts for a kind of model; "pocket" is the plain text that the pocket model was trained on."""
    if style == "pocket":
        return PlainPrompts()
    return ChatPrompts(llama2 if style == "llama2" else chatml)


def llama2(system: str, turns: Sequence[Turn]) -> tuple[str, str]:
    r"""What stands before and after a question in LLaMA-2 chat's template (Touvron et al. 2023, arXiv 2307.09288, and
    the reference code).

    It names its own `<s>` and `</s>`, so that a tokenizer should add none. The answer begins on a line of its own:
    after "[/INST]" the model would begin with a space, which no grammar of ours allows, and after "\n" it does not.
    """
    begun = f"<s>[INST] <<SYS>>\n{system}\n<</SYS>>\n\n"
    for question, answer in turns:
        begun += f"{question} [/INST] Answer:\n{answer} </s><s>[INST] "
    return begun, " [/INST] Answer:\n"


def chatml(system: str, turns: Sequence[Turn]) -> tuple[str, str]:
    """What stands before and after a question in ChatML, as SmolLM2 and Qwen were trained on; it needs no other
    beginning of text.
    """
    begun = f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n"
    for question, answer in turns:
        begun += f"{question}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n<|im_start|>user\n"
    return begun, "<|im_end|>\n<|im_start|>assistant\n"


@dataclass(frozen=True)
class ChatPrompts:
    """The questions in a chat template, which gives what stands before and after a question, by the system text and the
    earlier turns.
    """

    template: Callable[[str, Sequence[Turn]], tuple[str, str]]

    def keywords(self, task: str, types: Sequence[str], keep: Sequence[str], caption: str) -> Prompt:
        """Question 1."""
        kinds = "\n".join(f"- {type_}: {_MEANINGS.get(type_, type_)}" for type_ in map(_tame, types))
        intro = (
            "Which words of the caption can change? Copy them from the caption, each with its type. The types are:\n"
            f"{kinds}\n\n"
        )
        shown = [type_ for type_ in _EXAMPLES if type_ in types] or ["other"]
        pairs = {_EXAMPLES[type_][0]: [type_, _EXAMPLES[type_][0]] for type_ in shown}
        example = (intro + _about(_kept(shown), _CAPTION), write_answer(list(pairs.values())))
        return self._ask(task, example, _about(keep, caption), "")

    def alternatives(
        self, task: str, keep: Sequence[str], caption: str, type_: str, keyword: str, values: Sequence[str] = ()
    ) -> Prompt:
        """Question 2."""
        type_ = _tame(type_)
        among = " Choose among the values." if values else " Give short words that fit the caption in their place."
        intro = (
            f"What else could the words of the caption be? Change only the {type_}"
            f" ({_MEANINGS.get(type_, 'as asked')}).{among}\n\n"
        )

        def own(words: str, values: Sequence[str]) -> str:
            choice = f"\nValues: {_join(values, '')}" if values else ""
            return f"{choice}\nWords: {_tame(words)}"

        shown = type_ if type_ in _EXAMPLES else "other"
        words, others = _EXAMPLES[shown]
        question = intro + _about(_kept([shown]), _CAPTION) + own(words, others if values else ())
        return self._ask(task, (question, write_answer(list(others))), _about(keep, caption), own(keyword, values))

    def rewrite(self, task: str, keep: Sequence[str], caption: str, changes: Sequence[tuple[str, str]]) -> Prompt:
        """Question 3."""
        intro = (
            "Write the caption anew with the changes. All other words stay as they are, "
            "but for what grammar needs (a, an, in, on).\n\n"
        )

        def own(changes: Sequence[tuple[str, str]]) -> str:
            return "\nChanges: " + "; ".join(f"{_tame(old)} -> {_tame(new)}" for old, new in changes)

        shown = [("brown", "orange"), ("on a sunny day", "on a rainy day")]
        new = "a photo of an orange dog chasing a ball on the grass, on a rainy day at noon."
        example = (intro + _about(("dog",), _CAPTION) + own(shown), write_answer(new))
        return self._ask(task, example, _about(keep, caption), own(changes))

    def _ask(self, task: str, example: Turn, about: str, own: str) -> Prompt:
        before, after = self.template(_SYSTEM.format(task=_tame(task)), [example])
        return Prompt(before, about, own + after)


def _about(keep: Sequence[str], caption: str) -> str:
    return f"Keep: {_join(keep, 'nothing')}\nCaption: {_tame(caption)}"


def _tame(text: str) -> str:
    """A user's or a model's text as one plain line that cannot end its turn."""
    return clean_text(_MARKS.sub(" ", text))


def _join(words: Sequence[str], none: str) -> str:
    return ", ".join(map(_tame, words)) if words else none


def _kept(types: Sequence[str]) -> tuple[str, ...]:
    """What the example keeps: its subject, unless that is what changes."""
    return () if "subject" in types else ("dog",)
