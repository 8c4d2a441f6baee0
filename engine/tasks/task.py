"""A task: what the model under test does, in words, and the words of a caption that no edit may touch.

The prompts state the task and the language model mostly obeys; `changed_protected_word` checks afterwards that it did.
A label is found in a caption by its own words, by synonyms, by what it is a kind of ("dog" for a golden retriever) and
by its own kinds ("woman" for a person); so is every class that the source's mask or boxes show.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..english.conditions import conditions_of
from ..english.label_names import class_words, ground, label_words, names_of, short_name, synset_of
from ..english.mentions import distinct, forms, mentioned, normalise
from ..english.nouns import load_nouns
from ..errors import CounterfactoryError, list_some
from ..files.fill import nearest
from ..profile.caption import LABEL

TASKS = ("classification", "segmentation", "detection")
# Of classes that a sentence lists: a prompt is read anew for every source.
_LISTED = 20
# Words to keep that a prompt lists. Of more, those that the caption does not hold are left to the check afterwards.
_TOLD = 16


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
    """The task of that name about a set's labels, or what its masks show. Raises CounterfactoryError for another."""
    if name not in TASKS:
        raise CounterfactoryError(f"no task {name!r}; {nearest(name, TASKS)}; or bring your own in a task file")
    if name == "classification":
        names = distinct(map(short_name, classes), normalise)
        sentence = f"tell which of these the image shows: {', '.join(names)}" if names else "tell what the image shows"
        if len(names) > _LISTED:
            kind = _shared_kind(classes)
            sentence = f"tell which of {len(names):,} kinds of {kind} the image shows: here it is {LABEL}"
        return Task(name, sentence, (), True)
    words = distinct((word for class_ in classes for word in names_of(class_).own), normalise)
    listed = ", ".join(distinct((word for class_ in classes for word in class_words(class_)[:1]), normalise))
    if name == "segmentation":
        return Task(name, f"segment the image into {listed or 'its classes'}", words, False)
    return Task(name, f"find and box every {listed or 'object of its classes'}", words, False)


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


@dataclass(frozen=True)
class Protection:
    """`keep` are words that no edit may touch, remove or add; `named` are the ones that the caption holds. `needed`
    says that the source has labels, which the caption therefore has to name.
    """

    keep: tuple[str, ...]
    named: tuple[str, ...]
    needed: bool

    @property
    def grounded(self) -> bool:
        """Whether the caption names what may not change, if anything is labelled."""
        return bool(self.named) or not self.needed

    @property
    def told(self) -> tuple[str, ...]:
        """The words to keep as a prompt lists them."""
        return self.keep if len(self.keep) <= _TOLD else self.named


def protect(
    task: Task, label: str | None, classes: Sequence[str], caption: str, pointed: str | None = None
) -> Protection:
    """The words that stay in all captions of a source of this label, whose mask or boxes show `classes`; `pointed` are
    words of the caption that the language model says name the label. A class that is shown keeps the words that name it
    in the caption; of a class that is not, no word may be added.
    """
    shown = {form for class_ in classes for word in names_of(class_).own for form in forms(normalise(word))}
    keep = [word for word in task.protected(label) if normalise(word) not in shown]
    things = [label] * (task.protect_label and label is not None) + list(classes)
    covered = {form for word in keep for form in forms(normalise(word))}
    grounding = [word for thing in things for word in ground(caption, names_of(thing))]
    for word in (*grounding, *(() if pointed is None else (normalise(pointed),))):
        if word not in covered:
            keep.append(word)
            covered.update(forms(word))
    return Protection(tuple(keep), mentioned(caption, keep), bool(things))


def label_warnings(task: Task, labels: Sequence[str | None], *, by_rule: bool = False) -> list[str]:
    """Sentences about sources' labels that protect nothing or say nothing, before anything is painted; none for a task
    that does not protect labels. A label is None where a source has none. Edits `by_rule` touch no label, whatever it
    says.
    """
    if not task.protect_label:
        return []
    named = list(dict.fromkeys(label for label in labels if label is not None))
    wordless = [label for label in named if not by_rule and not label_words(label)]
    sentences = []
    for group, fault in (
        ([label for label in wordless if synset_of(label)], "no noun of WordNet 3.0 that can be seen"),
        ([label for label in wordless if not synset_of(label)], "not words"),
    ):
        if group:
            subject = f"labels {list_some(group, 3)} are" if len(group) > 1 else f"label {group[0]} is"
            sentences.append(
                f"{subject} {fault}: no word of a caption would hold it true, so these sources get no variants; give "
                "names with --labels"
            )
    numbers = [label for label in named if not by_rule and label.strip().isdigit()]
    if numbers:
        sentences.append(
            f"labels are numbers ({list_some(numbers, 3)}), which captions seldom say: a source whose caption does not "
            "say its number gets no variants; give names with --class-map FILE, a name a line from 0, or with --labels"
        )
    if len(named) == 1 and task.name == "classification":
        sentences.append(f"all labels are {named[0]!r}: a classifier that knows one class cannot be wrong")
    return sentences


def withheld_note(labels: Iterable[str]) -> list[str]:
    """A sentence on the labels that no edit of some types leaves true; none where there are none."""
    by_types: dict[str, list[str]] = {}
    for label in dict.fromkeys(labels):
        if types := conditions_of(label):
            by_types.setdefault(" and ".join(sorted(types)), []).append(label)
    sentences = [f"{types} of {list_some(sorted(some), 3)}" for types, some in sorted(by_types.items())]
    return [f"these labels say it themselves, so that no edit changes it: {'; '.join(sentences)}"] if sentences else []
