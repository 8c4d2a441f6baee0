"""A task: what the model under test does, in words, and the words of a caption that no edit may touch.

The prompts state the task and the language model mostly obeys; `changed_protected_word` checks afterwards that it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..english.label_names import class_words, label_words, names_of, short_name
from ..english.mentions import distinct, normalise
from ..english.nouns import load_nouns
from ..errors import CounterfactoryError
from ..files.fill import nearest
from ..profile.caption import LABEL

TASKS = ("classification", "segmentation", "detection")
# Of classes that a sentence lists: a prompt is read anew for every source.
_LISTED = 20


@dataclass(frozen=True)
class Task:
    """`sentence` says what the model under test does, with a source's own label in place of "{label}"; `protect` lists
    words or phrases that may never change, and `protect_label` adds each source's own label to them.
    """

    name: str
    sentence: str
    protect: tuple[str, ...]
    protect_label: bool

    def __post_init__(self) -> None:
        for field in ("name", "sentence"):
            if not getattr(self, field).strip():
                raise ValueError(f"{field} is empty")
        for word in self.protect:
            if not normalise(word):
                raise ValueError(f"protect holds {word!r}, which has no letters or digits to look for")

    def sentence_for(self, label: str | None) -> str:
        """What the model under test does with a source of this label."""
        return self.sentence.replace(LABEL, "its label" if label is None else short_name(label))

    def protected(self, label: str | None) -> tuple[str, ...]:
        """The words and phrases that no edit of a source with this label may touch, without repetition."""
        own = label_words(label) if self.protect_label and label is not None else ()
        return distinct((*self.protect, *own), normalise)


def builtin_task(name: str, classes: Sequence[str] = ()) -> Task:
    """One of the tasks `TASKS` about a set's own classes: its labels, or what its masks and boxes show.

    Raises CounterfactoryError for another name.
    """
    if name not in TASKS:
        raise CounterfactoryError(f"no task {name!r}; {nearest(name, TASKS)}; or bring your own in a task file")
    if name == "classification":
        return Task(name, _classify(classes), (), True)
    words = distinct((word for class_ in classes for word in names_of(class_).own), normalise)
    listed = ", ".join(distinct((word for class_ in classes for word in class_words(class_)[:1]), normalise))
    if name == "segmentation":
        return Task(name, f"segment the image into {listed or 'its classes'}", words, False)
    return Task(name, f"find and box every {listed or 'object of its classes'}", words, False)


def _classify(labels: Sequence[str]) -> str:
    names = distinct(map(short_name, labels), normalise)
    if not names:
        return "tell what the image shows"
    if len(names) <= _LISTED:
        return f"tell which of these the image shows: {', '.join(names)}"
    return f"tell which of {len(names):,} kinds of {_shared_kind(labels)} the image shows: here it is {{label}}"


def _shared_kind(labels: Sequence[str]) -> str:
    """The nearest word for what all labels are kinds of ("dog" for breeds), or "thing"."""
    nouns = load_nouns()
    shared: list[str] | None = None
    for label in labels:
        names = names_of(label)
        above = nouns.above(names.nouns)
        shared = list(above) if shared is None else [key for key in shared if key in above]
    words = [lemma for key in shared or () for lemma in nouns[key].lemmas if lemma in nouns[key].common]
    return words[0] if words else "thing"
