"""Classes of labels: which there are, and that their texts are embedded once."""

from __future__ import annotations

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
