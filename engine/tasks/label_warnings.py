"""Warnings about a set's labels, before anything is painted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..english.label_names import label_words, synset_of
from .task import Task

_SHOWN = 3


def label_warnings(task: Task, labels: Sequence[str | None]) -> list[str]:
    """Sentences about labels that protect nothing or say nothing; none for a task that does not protect labels.

    `labels` are the sources', None where a source has none.
    """
    if not task.protect_label:
        return []
    distinct = list(dict.fromkeys(label for label in labels if label is not None))
    wordless = [label for label in distinct if not label_words(label)]
    synsets = [label for label in wordless if synset_of(label)]
    others = [label for label in wordless if not synset_of(label)]
    numbers = [label for label in distinct if label.strip().isdigit()]
    sentences = []
    if synsets:
        sentences.append(
            f"{_these(synsets)} no noun of WordNet 3.0 that can be seen: no word of a caption would hold it true, so "
            "these sources get no variants; give names with --labels"
        )
    if others:
        sentences.append(
            f"{_these(others)} not words: no word of a caption would hold it true, so these sources get no variants; "
            "give names with --labels"
        )
    if numbers:
        sentences.append(
            f"labels are numbers ({_list(numbers)}), which captions seldom say: a source whose caption does not say "
            "its number gets no variants; give names with --class-map FILE, a name a line from 0, or with --labels"
        )
    if len(distinct) == 1 and task.name == "classification":
        sentences.append(f"all labels are {distinct[0]!r}: a classifier that knows one class cannot be wrong")
    return sentences


def _these(labels: Sequence[str]) -> str:
    return f"{'label' if len(labels) == 1 else 'labels'} {_list(labels)} {'is' if len(labels) == 1 else 'are'}"


def _list(labels: Iterable[str]) -> str:
    shown = list(labels)
    return ", ".join(shown[:_SHOWN]) + (f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else "")
