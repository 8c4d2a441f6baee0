"""The questions for language models that converse: LLaMA-2 chat, and those that speak ChatML (SmolLM2, Qwen).

Edits are asked for type by type, what could change or be added (LANCE, arXiv 2305.19164), then the caption with some of
them. A conversation has a system text, one worked example of the type as an earlier turn (one-shot), and the question.
All that is the same for a suite stands first, so that it is read once: the question's kind with its example. The task
comes with the source's words, since it names the source's label: before them every class would have a beginning of its
own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..profile.rewrite import Style
from .edit_types import EXAMPLE_CAPTION, EditType
from .llm_request import Prompt
from .questions import PlainPrompts, clean_text, keep_and_caption, write_answer

# A turn is what the user says and what the model answers.
Turn = tuple[str, str]

# Ends or begins a turn in one of the templates; a caption or a label that says so must not.
_MARKS = re.compile(r"</?s>|<\|[^|>]*\|>|<\||\|>|\[/?INST\]|<</?SYS>>")

_SYSTEM = """You rewrite captions of photographs, to test a computer vision model on pictures of the new captions.
No change may alter what the model should answer in its task, nor touch the words to keep.
Answer in JSON and nothing else."""


_EXAMPLE_TASK = "tell what the image shows: here it is dog"
# Says nothing of a task: what is offered keeps every label.
_CHOOSE = "You choose changes of captions of photographs. Answer in JSON and nothing else."
_POINT = "You read captions of photographs. Answer in JSON and nothing else."
_POINTED = "a puppy chasing a ball on the grass."


def prompts_of(style: Style) -> PlainPrompts | ChatPrompts:
    """The prompts for a kind of model; "pocket" is the plain text that pocket models were trained on."""
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
    """What stands before and after a question in ChatML, as SmolLM2 and Qwen were trained on; no token comes before."""
    begun = f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n"
    for question, answer in turns:
        begun += f"{question}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n<|im_start|>user\n"
    return begun, "<|im_end|>\n<|im_start|>assistant\n"


@dataclass(frozen=True)
class ChatPrompts:
    """The questions in a chat template, which gives what stands before and after a question, by the system text and the
    earlier turns: type by type, what could change or be added, then the caption.
    """

    template: Callable[[str, Sequence[Turn]], tuple[str, str]]

    def proposals(self, task: str, type_: EditType, keep: Sequence[str], caption: str) -> Prompt:
        """What edits of one type there could be: spans of the caption with other words, or words to add."""
        intro = (
            f"Change or add: {_tame(type_.instruction)}. Touch nothing else. Copy words of the caption and say what "
            'stands in their place, in a few words; or write "" and words to add.\n\n'
        )
        shown = [[old, _tame(new)] for old, new in type_.examples]
        return self._ask_of_type(intro, type_, shown, _task_and_caption(task, keep, caption))

    def choices(self, types: Sequence[EditType], keep: Sequence[str], caption: str) -> Prompt:
        """One edit of each type, in their order."""
        listed = "; ".join(_tame(type_.instruction) for type_ in types)
        example = (
            f"Make one change for each of these, in this order: {listed}. Copy words of the caption and say "
            'what stands in their place; or write "" and words to add. What fits the caption is best.\n\n'
        ) + keep_and_caption(("dog",), EXAMPLE_CAPTION)
        shown = [[old, _tame(new)] for old, new in (type_.examples[0] for type_ in types)]
        before, after = self.template(_CHOOSE, [(example, write_answer(shown))])
        return Prompt(before, keep_and_caption(keep, caption, _tame), after)

    def place(self, task: str, type_: EditType, keep: Sequence[str], caption: str) -> Prompt:
        """Which span of the caption says what an edit of one type changes, if any."""
        intro = (
            f'Which words of the caption say this: {_tame(type_.instruction)}? Copy them, or write "" if it says '
            "nothing of it.\n\n"
        )
        return self._ask_of_type(intro, type_, type_.examples[0][0], _task_and_caption(task, keep, caption))

    def rewrite(self, task: str, keep: Sequence[str], caption: str, changes: Sequence[tuple[str, str]]) -> Prompt:
        """The caption with the changes, (keyword, alternative) each, as one coherent text."""
        example = (
            "Write the caption anew with the changes. All other words stay as they are, "
            "but for what grammar needs (a, an, in, on).\n\n"
            f"{_task_and_caption(_EXAMPLE_TASK, ('dog',), EXAMPLE_CAPTION)}\n"
            "Changes: brown -> orange; on a sunny day -> on a rainy day"
        )
        new = "a photo of an orange dog chasing a ball on the grass, on a rainy day at noon."
        before, after = self.template(_SYSTEM, [(example, write_answer(new))])
        own = "\nChanges: " + "; ".join(f"{_tame(old)} -> {_tame(new)}" for old, new in changes)
        return Prompt(before, _task_and_caption(task, keep, caption), own + after)

    def pointing(self, label: str, definition: str, caption: str) -> Prompt:
        """Which words of the caption name what the picture is labelled with."""
        intro = "Which words of the caption name the thing? Copy them, or write none.\n\n"

        def about(label: str, definition: str, caption: str) -> str:
            meaning = f" ({_tame(definition)})" if definition else ""
            return f"Thing: {_tame(label)}{meaning}\nCaption: {_tame(caption)}"

        shown = about("golden retriever", "an English breed having a long silky golden coat", _POINTED)
        before, after = self.template(_POINT, [(intro + shown, write_answer("puppy"))])
        return Prompt(before, intro + about(label, definition, caption), after)

    def _ask_of_type(self, intro: str, type_: EditType, answer: object, about: str) -> Prompt:
        # The example keeps its subject, unless that is what changes.
        keep = ("dog",) if type_.caption in EXAMPLE_CAPTION and type_.name != "subject" else ()
        example = intro + _task_and_caption(_EXAMPLE_TASK, keep, type_.caption)
        before, after = self.template(_SYSTEM, [(example, write_answer(answer))])
        return Prompt(before, about, after)


def _task_and_caption(task: str, keep: Sequence[str], caption: str) -> str:
    return f"Task: {_tame(task)}\n{keep_and_caption(keep, caption, _tame)}"


def _tame(text: str) -> str:
    """A user's or a model's text as one plain line that cannot end its turn."""
    return clean_text(_MARKS.sub(" ", text))
