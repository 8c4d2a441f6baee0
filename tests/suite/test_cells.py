"""The matrix of sources and values as a record keeps it: which value an edit brings, and what covers a cell."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from picture_rows import picture_row

from counterfactory.engine.edit import Edit
from counterfactory.engine.files.fill import fill, plain
from counterfactory.engine.suite.cells import REJECTED, ValueCells, add_cells, count_accepted, coverage, value_of_edit

FOGGY = ValueCells("weather", "foggy", 3, 2, 0, {"said": ("a",), "full": ("b",)}, (2, 1))


@pytest.mark.parametrize(
    ("keyword", "alternative", "value"),
    [
        ("clear", "rain", "rain"),
        ("", "in the rain", "rain"),
        ("", "in heavy rain", "heavy rain"),
        ("rain", "heavy rain", "heavy rain"),
        ("clear", "HEAVY  rain".replace("  ", " "), "heavy rain"),
        ("rain", "rainy", None),
        ("clear", "rainforest", None),
        ("dog", "small brown dog", "small"),
        ("small dog", "small brown dog", None),
        ("", "", None),
    ],
)
def test_an_edit_brings_the_longest_value_that_is_new_in_it(keyword: str, alternative: str, value: str | None) -> None:
    values = ("rain", "heavy rain", "small", "dog")
    assert value_of_edit(Edit("weather", keyword, alternative), values) == value


def test_cells_of_two_groups_are_added() -> None:
    other = ValueCells("weather", "foggy", 1, 1, 1, {"said": ("c",), "odd": ("d",)}, (0, 1))
    (both,) = add_cells([FOGGY], [other])
    empty = {"said": ("a", "c"), "full": ("b",), "odd": ("d",)}
    assert both == ValueCells("weather", "foggy", 4, 3, 1, empty, (2, 2))
    assert add_cells((), [FOGGY]) == add_cells([FOGGY], ()) == (FOGGY,)
    assert fill(ValueCells, json.loads(json.dumps(plain(both))), "here") == both


def test_a_cell_counts_with_one_accepted_variant_and_once() -> None:
    foggy = (Edit("weather", "clear", "foggy"),)
    rows = [
        replace(picture_row(0), source="x", edits=foggy, reason="no"),
        replace(picture_row(1), source="x", edits=foggy, reason=None),
        replace(picture_row(2), source="x", edits=foggy, reason=None),
        replace(picture_row(3), source="y", edits=foggy, reason="no"),
        replace(picture_row(4), source="z", edits=(Edit("time", "clear", "foggy"),), reason=None),
    ]
    (counted,) = count_accepted([FOGGY], rows)
    assert counted == replace(FOGGY, accepted=1)
    assert coverage([counted]) == 1 / 3
    assert coverage([replace(FOGGY, possible=0)]) == 0
    assert counted.commonest() == "full"
    assert replace(counted, painted=9).commonest() == REJECTED
    assert replace(counted, painted=9).commonest(rejected=False) == "full"
    assert replace(counted, empty={}, painted=1).commonest() is None
