"""How edits are spread over types and values, and what counts as nearly always the same."""

from __future__ import annotations

import pytest

from counterfactory.engine.edit import Edit
from counterfactory.engine.tasks.spread import TypeSpread, skewed, spread_of, value_of


@pytest.mark.parametrize(
    ("keyword", "alternative", "value"),
    [
        ("red", "blue", "blue"),
        ("red bus", "Blue bus", "blue"),
        ("during the day", "at night", "night"),
        ("", "in the rain", "rain"),
        ("", "a painting of", "painting"),
        ("dog", "dog with a red ball", "red ball"),
        ("on grass", "in grass", "in grass"),
        ("grass", "grass, in the", "grass in the"),
        ("with a ball", "", "no ball"),
        ("is at", "", "no is at"),
    ],
)
def test_a_value_is_what_is_new(keyword: str, alternative: str, value: str) -> None:
    assert value_of(Edit("other", keyword, alternative)) == value


def test_types_and_values_are_counted_the_most_frequent_first() -> None:
    edits = [
        *(Edit("time", "day", "night"), Edit("time", "at noon", "at dawn"), Edit("colour", "red bus", "blue bus")),
        *(Edit("weather", "", "in the rain"), Edit("colour", "red car", "blue car"), Edit("time", "noon", "dawn")),
        *(Edit("colour", "green", "black"), Edit("time", "noon", "dusk")),
    ]
    found = spread_of(iter(edits))
    assert found == [
        TypeSpread("time", 4, 4 / 8, (("dawn", 2), ("dusk", 1), ("night", 1))),
        TypeSpread("colour", 3, 3 / 8, (("blue", 2), ("black", 1))),
        TypeSpread("weather", 1, 1 / 8, (("rain", 1),)),
    ]
    assert [one.most for one in found] == [2 / 4, 2 / 3, 1.0]
    assert [one.type for one in spread_of([Edit("b", "x", "y"), Edit("a", "x", "y")])] == ["a", "b"]
    assert spread_of([]) == []


def spread(*counts: int, type_: str = "colour") -> TypeSpread:
    return TypeSpread(type_, sum(counts), 0.5, tuple((f"v{i}", count) for i, count in enumerate(counts)))


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        # Two values are even at a half: more than three quarters is too much. Three from two thirds on.
        ((15, 5), False),
        ((16, 4), True),
        ((20, 5, 5), False),
        ((21, 5, 4), True),
        ((11, *[1] * 9), False),
        ((12, *[1] * 8), True),
        # One value alone, and too few to say.
        ((20,), True),
        ((19,), False),
        ((18, 1), False),
    ],
)
def test_a_type_is_skewed_beyond_half_way_from_even_to_all(counts: tuple[int, ...], found: bool) -> None:
    assert skewed([spread(*counts)]) == [spread(*counts)] * found


def test_what_is_to_have_one_value_may() -> None:
    both = [spread(30), spread(30, type_="time")]
    assert skewed(both, ["time"]) == both[:1]
    assert skewed([spread(29, 1)], ["colour"]) == [spread(29, 1)], "another value came in between"
