"""Grounding: which words of a caption name what a source is labelled with, and so may not change.

A label is found by its own words, by synonyms, by what it is a kind of ("dog" for a golden retriever) and by its own
kinds ("woman" for a person); so is every class that the source's mask or boxes show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..english.label_names import ground, names_of
from ..english.mentions import forms, mentioned, normalise
from .task import Task

# Words that a prompt lists. Of more, those that the caption does not hold are left to the check afterwards.
_TOLD = 16


@dataclass(frozen=True)
class Protection:
    """`keep` are words that no edit may touch, remove or add; `named` are the ones that the caption holds.

    `needed` says that the source has labels, which the caption therefore has to name.
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
    """The words that stay in all captions of a source of this label, whose mask or boxes show `classes`.

    `pointed` are words of the caption that the language model says name the label.

    A class that is shown keeps the words that name it in the caption; of a class that is not, no word may be added.
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
