"""Classes of labels: which there are, and that their texts are embedded once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from counterfactory.engine.stages.classes import Classes


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["bus", "car", "bus", "fire_truck"], ("bus", "car", "fire truck")),
        (["n01440764 tench, Tinca tinca", "car"], ("car", "tench, Tinca tinca")),
        (["bus", "bus", None], ()),
        ([None, None], ()),
        ([], ()),
        (["0", "17", "n01440764"], ()),
        (["0", "car", "bus", None], ("bus", "car")),
    ],
)
def test_classes_are_what_labels_name(labels: list[str | None], names: tuple[str, ...]) -> None:
    classes = Classes(labels)
    assert classes.names == names
    for label in labels:
        index = classes.index(label)
        assert index is None or label is None or names[index].split(",")[0] in label.replace("_", " ")
        assert (index is None) == (not names or label in (None, "0"))


def test_texts_are_embedded_once() -> None:
    calls: list[list[str]] = []

    def embed(texts: list[str]) -> dict[str, Any]:
        calls.append(list(texts))
        return {text: np.array([len(text), 1.0], np.float32) for text in texts}

    text: Any = SimpleNamespace(embed=embed)
    classes = Classes(["car", "bus", "fire truck"])
    for _ in range(2):
        found = classes.embed(text, "a {label}.")
    assert calls == [["a bus.", "a car.", "a fire truck."]]
    np.testing.assert_array_equal(found, [[6, 1], [6, 1], [13, 1]])
    classes.embed(text, "the {label}")
    assert calls[1:] == [["the bus", "the car", "the fire truck"]]
