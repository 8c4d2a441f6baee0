"""Which edits a variant gets: all different, the same whenever asked, and spread as evenly as there is room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.edit import Edit
from counterfactory.engine.light.menu import EXCLUSIVE, MENU
from counterfactory.engine.tasks.choose import Choice, choose_edits, combinations, cover_cells, in_turn
from counterfactory.engine.tasks.spread import TypeSpread, skewed, spread_of, value_of

choice_lists = st.lists(st.tuples(st.sampled_from(["weather", "time", "colour"]), st.integers(0, 3)), max_size=5).map(
    lambda rows: [Choice(t, f"k{i}", tuple(f"v{j}" for j in range(n))) for i, (t, n) in enumerate(rows)]
)


@settings(max_examples=60)
@given(choice_lists, st.integers(1, 12), st.integers(1, 3), st.integers(0, 2), st.text("abc", max_size=3))
def test_choices_are_distinct_stable_and_as_many_as_there_are(
    choices: list[Choice], variants: int, low: int, more: int, key: str
) -> None:
    # The slow oracle: every assignment of an alternative or nothing to each keyword.
    sets: list[tuple[Edit, ...]] = [()]
    for c in choices:
        sets = [*sets, *((*s, Edit(c.type, c.keyword, a)) for s in sets for a in c.alternatives)]
    possible = {s for s in sets if low <= len(s) <= low + more}
    assert combinations([c for c in choices if c.alternatives], low, low + more) == len(possible)
    chosen = choose_edits(choices, variants, (low, low + more), key)
    assert len(chosen) == len(set(chosen)) == min(variants, len(possible))
    assert set(chosen) <= possible
    assert choose_edits(choices, max(1, variants - 2), (low, low + more), key) == chosen[: max(1, variants - 2)]


@settings(max_examples=80)
@given(choice_lists, st.integers(1, 3), st.randoms(use_true_random=False))
def test_sets_cover_each_cell_once_and_come_before_all_others(choices: list[Choice], size: int, luck: Random) -> None:
    """A cell is what an edit brings, whatever keyword it stands for."""
    cells: dict[tuple[str, str], list[Edit]] = {}
    for choice in choices:
        for alternative in choice.alternatives:
            edit = Edit(choice.type, choice.keyword, alternative)
            cells.setdefault((edit.type, edit.alternative), []).append(edit)
    order = luck.sample(sorted(cells), len(cells))
    usable = [choice for choice in choices if choice.alternatives]
    sets = cover_cells(usable, {cell: cells[cell] for cell in order}, size)
    brought = [{(edit.type, edit.alternative) for edit in edits} for edits in sets]
    assert all(len(edits) == len({(edit.type, edit.keyword) for edit in edits}) == size for edits in sets)
    for at, of_set in enumerate(brought):
        assert not of_set <= set().union(*brought[:at]), "a set brings nothing that is new"
    covered = set[tuple[str, str]]().union(*brought)
    if size == 1:
        assert [cell for (cell,) in brought] == order
    elif size == 2:  # all that have another cell with another keyword
        pairs = [(one, two) for one in cells for two in cells if one != two]
        assert covered == {
            one for one, two in pairs if any(a.keyword != b.keyword for a in cells[one] for b in cells[two])
        }
    if sets:
        chosen = choose_edits(choices, len(sets) + 2, (size, size + 1), "key", sets)
        assert chosen[: len(sets)] == sets
        assert len(chosen) == len(set(chosen))


@settings(max_examples=30)
@given(st.integers(1, 12), st.integers(1, 2), st.integers(0, 2), st.text("abc", max_size=3))
def test_every_second_variant_has_as_few_edits_as_may_be(variants: int, low: int, more: int, key: str) -> None:
    choices = [Choice(f"type {i}", f"k{i}", tuple(f"v{j}" for j in range(9))) for i in range(4)]
    sizes = [len(edits) for edits in choose_edits(choices, variants, (low, low + more), key)]
    assert sizes[::2] == [low] * len(sizes[::2])
    for edits in ((0, 1), (2, 1), (-1, 3)):
        with pytest.raises(ValueError, match=f"at least 1 upward, got {edits[0]} to {edits[1]}"):
            choose_edits(choices, 1, edits, "key")
    assert all(min(low + 1, low + more) <= size <= low + more for size in sizes[1::2])


def use(chosen: Sequence[tuple[Edit, ...]], of: Callable[[Edit], str]) -> list[Counter[str]]:
    """How often each was used by the first variant, the first two, and so on."""
    return list(accumulate((Counter(map(of, edits)) for edits in chosen), lambda one, two: one + two))


def assert_even(counts: Sequence[Counter[str]], names: Sequence[str]) -> None:
    """At no time was one used twice more than another."""
    for count in counts:
        assert max(count[name] for name in names) - min(count[name] for name in names) <= 1, count


KEYS = [f"key {i}" for i in range(12)]


@pytest.mark.parametrize("key", KEYS)
def test_types_keywords_and_alternatives_are_used_evenly(key: str) -> None:
    colours = [Choice("colour", f"k{i}", tuple("abcdef")) for i in range(4)]
    choices = [*colours, *(Choice(type_, type_, tuple("abcdef")) for type_ in ("weather", "time"))]
    assert_even(use(choose_edits(choices, 12, (1, 1), key), lambda edit: edit.type), ("colour", "weather", "time"))
    assert_even(use(choose_edits(colours[:3], 9, (1, 1), key), lambda edit: edit.keyword), ("k0", "k1", "k2"))
    choices = [Choice("colour", "bus", tuple("abcd")), Choice("time", "night", tuple("efgh"))]
    counts = use(choose_edits(choices, 4, (2, 2), key), lambda edit: edit.alternative)
    assert_even(counts, "abcd")
    assert_even(counts, "efgh")
    # Edits of one variant are of different types while there are any.
    for edits in choose_edits([*colours, Choice("time", "t", tuple("abc"))], 6, (2, 2), key):
        assert {edit.type for edit in edits} == {"colour", "time"}


def test_what_comes_first_depends_on_the_key_alone_and_each_variant_has_chances_of_its_own() -> None:
    """Ties are broken by chance: over many keys each type, keyword and alternative is the first about as often."""
    choices = [Choice(type_, f"{type_} {k}", ("a", "b")) for type_ in ("colour", "time", "weather") for k in "xy"]
    firsts = Counter(choose_edits(choices, 1, (1, 1), str(i))[0][0] for i in range(600))
    assert len(firsts) == 12
    assert min(firsts.values()) > 25  # of 50; 4 standard deviations
    assert max(firsts.values()) < 80
    # Were all variants of a source drawn by the same numbers, all that may differ would have as many edits.
    choices = [Choice(f"t{i}", f"k{i}", ("a", "b", "c")) for i in range(5)]
    chosen = [choose_edits(choices, 12, (1, 4), key) for key in KEYS]
    sizes = [{len(edits) for edits in of_key[1::2]} for of_key in chosen]
    assert sum(len(some) >= 2 for some in sizes) > len(sizes) / 2
    for edits in (edits for of_key in chosen for edits in of_key):
        assert [edit.keyword for edit in edits] == sorted(edit.keyword for edit in edits), "in the order of the choices"


def test_among_types_used_as_often_the_keyword_used_least_is_next() -> None:
    """An edit of this very variant counts once, like one of a variant before."""
    alternatives = ("a", "b", "c", "d", "e", "f")
    choices = [Choice(type_, type_ + k, alternatives) for type_, k in (("colour", "0"), ("colour", "1"), ("time", ""))]
    seen = 0
    for key in range(300):
        first, second = choose_edits(choices, 2, (1, 2), str(key))
        # Time once, so colour is first; then both were used once, and the other colour's keyword never.
        if [edit.type for edit in first] == ["time"] and len(second) == 2:
            assert [edit.type for edit in second] == ["colour", "colour"]
            seen += 1
    assert seen > 3


def test_overlapping_choices_are_not_made_together() -> None:
    """Against the slow oracle: every set of alternatives without two of a slot."""
    choices = [
        Choice("colour", "red", ("blue", "green"), 0),
        Choice("adjective", "red bus", ("old bus",), 0),
        Choice("background", "grass", ("sand",), 1),
        Choice("time", "", ("at night", "at noon")),
        Choice("weather", "", ("in fog",)),
    ]
    sets: list[tuple[tuple[Choice, str], ...]] = [()]
    for c in choices:
        free = [s for s in sets if not any(c.slot == other.slot == 0 for other, _ in s)]
        sets = [*sets, *((*s, (c, a)) for s in free for a in c.alternatives)]
    for low, high in ((1, 1), (2, 2), (1, 4), (4, 5), (5, 5)):
        possible = {tuple(Edit(c.type, c.keyword, a) for c, a in s) for s in sets if low <= len(s) <= high}
        assert combinations(choices, low, high) == len(possible)
        chosen = choose_edits(choices, 200, (low, high), "key")
        assert len(chosen) == len(possible)
        assert set(chosen) == possible


def test_what_cannot_be_in_one_picture_is_in_no_set() -> None:
    never = frozenset([frozenset(("at night", "at noon")), frozenset(("in fog", "sunny"))])
    time, weather = Choice("time", "", ("at night",)), Choice("weather", "", ("in fog", "sunny"))
    light, more = Choice("light", "", ("at noon",)), Choice("more", "", ("in fog",))
    assert choose_edits([time, light], 3, (2, 2), "key", exclusive=never) == []
    chosen = choose_edits([time, weather, light], 9, (2, 3), "key", exclusive=never)
    assert sorted(tuple(edit.alternative for edit in edits) for edits in chosen) == [
        *(("at night", "in fog"), ("at night", "sunny"), ("in fog", "at noon"), ("sunny", "at noon")),
    ]
    cells = {one.alternative: [one] for one in edits_of(time, light, weather)}
    sets = cover_cells([time, weather, light, more], cells, 2, never)
    assert [{edit.alternative for edit in edits} for edits in sets] == [{"at night", "in fog"}, {"at noon", "sunny"}]


def test_values_that_never_meet_leave_the_others_as_even_as_they_were() -> None:
    """A value that goes with few others, and so is in few sets, crowds out none of them."""
    weathers, choices = MENU["weather"], [Choice(type_, "", values) for type_, values in MENU.items()]
    for sizes in ((1, 3), (2, 2), (3, 3)):
        chosen = [choose_edits(choices, 6, sizes, f"key {i}", exclusive=EXCLUSIVE) for i in range(60)]
        sets = [{edit.alternative for edit in edits} for of in chosen for edits in of]
        assert not any(pair <= values for pair in EXCLUSIVE for values in sets)
        assert all(len(edits) >= min(2, sizes[1]) for of in chosen for edits in of[1::2]), "as without"
        used = Counter(value for values in sets for value in values)
        assert max(used[one] for one in weathers) < 2 * min(used[one] for one in weathers)


def test_cells_of_different_types_go_together_while_there_are_any() -> None:
    red, blue, night = (
        Choice("colour", "bus", ("red",)),
        Choice("colour", "car", ("blue",)),
        Choice("time", "", ("night",)),
    )
    cells = {one.alternative: [one] for one in edits_of(red, blue, night)}
    assert [{edit.alternative for edit in edits} for edits in cover_cells([red, blue, night], cells, 2)] == [
        {"red", "night"},
        {"blue", "night"},
    ]


def edits_of(*choices: Choice) -> list[Edit]:
    return [Edit(choice.type, choice.keyword, alternative) for choice in choices for alternative in choice.alternatives]


def test_a_value_is_what_is_new() -> None:
    for keyword, alternative, value in (
        ("red bus", "Blue bus", "blue"),
        ("during the day", "at night", "night"),
        ("", "a painting of", "painting"),
        ("dog", "dog with a red ball", "red ball"),
        ("on grass", "in grass", "in grass"),
        ("grass", "grass, in the", "grass in the"),
        ("with a ball", "", "no ball"),
        ("is at", "", "no is at"),
    ):
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


def test_a_type_is_skewed_beyond_half_way_from_even_to_all_and_what_is_to_have_one_value_may() -> None:
    # Two values are even at a half: more than three quarters is too much. Three from two thirds on. One alone is.
    even, uneven = (spread(15, 5), spread(20, 5, 5), spread(19)), (spread(16, 4), spread(21, 5, 4), spread(20))
    assert skewed([*even, *uneven]) == [*uneven]
    both = [spread(30), spread(30, type_="time")]
    assert skewed(both, ["time"]) == both[:1]
    assert skewed([spread(29, 1)], ["colour"]) == [spread(29, 1)], "another value came in between"


@pytest.mark.parametrize("count", range(17))
def test_values_in_turn_are_taken_about_equally_often(count: int) -> None:
    """Of any number of sources and of places: whole rounds are equal, so that those within one say it all."""
    orders = [in_turn(range(count), turn) for turn in range(count)]
    assert all(sorted(order) == list(range(count)) for order in orders)
    assert in_turn(range(count), 3 * count + 1) == in_turn(range(count), 1)
    for places in range(1, count + 1):
        taken = Counter(dict.fromkeys(range(count), 0))
        for order in orders:
            taken.update(order[:places])
            assert max(taken.values()) - min(taken.values()) <= 2
