"""What is doubtful about labels is said in sentences that name them."""

from __future__ import annotations

import pytest

from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.tasks.task import Task, builtin_task, label_warnings

TASK = builtin_task("classification")
NO_WORD = "no word of a caption would hold it true, so these sources get no variants; give names with --labels"


@pytest.mark.parametrize(
    ("labels", "sentences"),
    [
        (["bus", "car", "n02099601", None], []),
        ([], []),
        (["n00000000", "bus"], [f"label n00000000 is no noun of WordNet 3.0 that can be seen: {NO_WORD}"]),
        (
            ["n00000000", "n00000001", "n00000002", "n00000003", "bus", "n00000000"],
            [
                "labels n00000000, n00000001, n00000002 and 1 more are no noun of WordNet 3.0 that can be seen: "
                + NO_WORD
            ],
        ),
        (["-", "--", "..", "bus"], [f"labels -, --, .. are not words: {NO_WORD}"]),
        (["--", "bus"], [f"label -- is not words: {NO_WORD}"]),
        (
            ["7", "8"],
            [
                "labels are numbers (7, 8), which captions seldom say: a source whose caption does not say its number "
                "gets no variants; give names with --class-map FILE, a name a line from 0, or with --labels"
            ],
        ),
        (["bus", "bus", None], ["all labels are 'bus': a classifier that knows one class cannot be wrong"]),
    ],
)
def test_doubtful_labels(labels: list[str | None], sentences: list[str]) -> None:
    assert label_warnings(TASK, labels) == sentences


def test_a_task_that_does_not_protect_labels_has_no_doubts_and_one_class_is_one_only_to_a_classifier() -> None:
    assert label_warnings(Task("mine", "find the dog", ("dog",), False), ["--"]) == []
    assert label_warnings(street_task("segmentation"), ["bus"]) == []
