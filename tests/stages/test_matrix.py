"""Every source has each value that a user names, once, before any is repeated, whatever the language model lists."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rewriting import SETTINGS, Scripted, rewrite, source, wanted_of

from counterfactory.engine.language.llm_request import LlmRequest
from counterfactory.engine.language.questions import PlainPrompts
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.stages.rewrite.matrix import KEPT, NO_PARTNER, NO_WORDS, SAID, CellPlan, count_cells
from counterfactory.engine.stages.rewrite.rewrite_captions import SourceVariants
from counterfactory.engine.suite.cells import FEWER, ValueCells, add_cells, value_of_edit
from counterfactory.engine.tasks.user_task import Interventions

WEATHERS, TIMES = ("rainy", "snowy", "foggy", "cloudy", "clear"), ("night", "sunset", "day")
VALUES = Interventions((("weather", WEATHERS), ("time", TIMES), ("colour", ("red", "blue", "green"))))
CELLS = [(type_, value) for type_, values in VALUES.axes for value in values]
CAPTIONS = (
    "a clear street during the day with a red bus.",
    "at night a blue bus and a green car are on a rainy road.",
    "a foggy street at sunset with a purple bus.",
)


class Lazy:
    """Finds nothing, as far as it may, and spoils every caption."""

    def __call__(self, question: str, requests: Sequence[LlmRequest]) -> list[str]:
        assert question != "alternatives", "values are not asked about"
        return ['[["none","none"]]' if question == "keywords" else '"a street"' for _ in requests]


def made(
    variants: int, captions: Sequence[str] = CAPTIONS, before: Sequence[ValueCells] = (), **wanted: object
) -> list[SourceVariants]:
    request = replace(wanted_of(variants, (1, 1), interventions=VALUES), **wanted)  # type: ignore[arg-type]
    sources = [source(f"bus/{len(before and before[0].empty)}{i}") for i in range(len(captions))]
    return rewrite(sources, captions, SETTINGS, request, Lazy(), PlainPrompts(), before=before)


def cells_of(result: SourceVariants, *, again: bool = False) -> list[tuple[str, str | None]]:
    return [
        (edit.type, value_of_edit(edit, VALUES.values(edit.type)))
        for variant in result.variants
        if variant.dropped is None and variant.repeat in (0, *range(again and 99))
        for edit in variant.edits
    ]


def test_every_value_that_a_caption_allows_comes_once_before_any_repeat() -> None:
    """Though the model lists none of them, and writes no caption that can be used."""
    for result, said in zip(made(11), (3, 2, 2), strict=True):
        cells = cells_of(result)
        first = cells[: len(set(cells))]
        assert len(first) == len(set(first)) >= len(CELLS) - said
        assert {cell for cell in CELLS if cell not in first} == {
            cell for cell, plan in result.cells.items() if plan.reason == SAID and not plan.allowed
        }
        assert len(result.variants) == 11
    texts = {variant.edited_caption for result in made(11) for variant in result.variants}
    assert "a snowy street during the day with a red bus." in texts
    assert "during the day a blue bus and a green car are on a rainy road." in texts
    assert "at night a green bus and a green car are on a rainy road." in texts
    assert "a foggy street at night with a purple bus." in texts


def test_with_room_for_some_each_value_comes_equally_often() -> None:
    captions = [f"a purple bus on a hazy road at {hour}." for hour in ("dawn", "noon") for _ in range(11)]
    for variants in (1, 3, 4, 10):
        results = made(variants, captions)
        counts = Counter(cell for result in results for cell in cells_of(result))
        assert max(counts.values()) - min(counts[cell] for cell in CELLS) <= 2, counts
        assert all(len(set(cells_of(result))) == variants for result in results)
    less, more = made(3, captions), made(7, captions)
    assert [one.variants for one in less] == [one.variants[:3] for one in more], "more variants keep those that exist"
    other = made(3, captions, seed=1)
    assert [[v.edits for v in one.variants] for one in other] != [[v.edits for v in one.variants] for one in less]


def test_where_all_values_fit_company_changes_nothing() -> None:
    sources, request = [source(f"bus/{i}") for i in range(3)], wanted_of(11, (1, 1), interventions=VALUES)

    def variants(order: Sequence[int]) -> list[object]:
        of, texts = [sources[i] for i in order], [CAPTIONS[i] for i in order]
        results = rewrite(of, texts, SETTINGS, request, Lazy(), PlainPrompts())
        return [results[order.index(i)].variants for i in sorted(order)]

    assert variants((2, 0, 1)) == variants((0, 1, 2))
    assert variants((1,)) == variants((0, 1, 2))[1:2]


def test_shards_take_their_turns_as_the_whole_does() -> None:
    captions = [f"a purple bus on a {weather} road at dawn." for weather in ("hazy", "clear", "rainy") * 6]
    sources = [source(f"bus/{i}") for i in range(len(captions))]
    request = wanted_of(4, (1, 1), interventions=VALUES)

    def part(at: slice, before: Sequence[ValueCells] = ()) -> list[SourceVariants]:
        return rewrite(sources[at], captions[at], SETTINGS, request, Lazy(), PlainPrompts(), before=before)

    def counted(results: Sequence[SourceVariants], at: slice) -> tuple[ValueCells, ...]:
        return count_cells(CELLS, {one.name: of.cells for one, of in zip(sources[at], results, strict=True)})

    whole, first = part(slice(None)), part(slice(7))
    second = part(slice(7, None), counted(first, slice(7)))
    assert [*first, *second] == whole
    assert add_cells(counted(first, slice(7)), counted(second, slice(7, None))) == counted(whole, slice(None))


def test_an_empty_cell_says_why() -> None:
    values = Interventions((("colour", ("bus yellow", "red", "blue")), ("object", ("tree",)), ("time", ("night",))))
    request = wanted_of(1, (1, 1), interventions=values)
    (found,) = rewrite([source("bus/1")], ["a red bus at night"], SETTINGS, request, Lazy(), PlainPrompts())
    assert found.cells == {
        ("colour", "bus yellow"): CellPlan(False, KEPT),
        ("colour", "red"): CellPlan(False, SAID),
        ("colour", "blue"): CellPlan(True, None, 0),
        ("object", "tree"): CellPlan(False, NO_WORDS),
        ("time", "night"): CellPlan(False, SAID),
    }
    pair = replace(request, edits=(2, 2))
    (found,) = rewrite([source("bus/1")], ["a red bus at night"], SETTINGS, pair, Lazy(), PlainPrompts())
    assert found.cells["colour", "blue"] == CellPlan(True, NO_PARTNER)
    (strange,) = rewrite([source("car/1", "car")], ["a red bus at noon"], SETTINGS, request, Lazy(), PlainPrompts())
    assert strange.cells["colour", "blue"].reason == "its caption names nothing that it is labelled with"
    (few, *_) = made(2)
    assert Counter(plan.reason for plan in few.cells.values()) == {None: 2, SAID: 3, FEWER: 6}


def test_variants_of_several_edits_cover_all_cells_too() -> None:
    for result in made(6, edits=(2, 2)):
        assert all(len(variant.edits) == 2 for variant in result.variants)
        assert all(plan.reason is None for plan in result.cells.values() if plan.allowed)


@pytest.mark.parametrize(
    "keywords",
    ['[["time","clear street at night"],["weather","none"]]', '[["weather","at night"],["time","clear"]]', "{}"],
)
def test_what_the_model_takes_for_another_type_s_words_costs_no_cell(keywords: str) -> None:
    values = Interventions((("weather", ("rainy",)), ("time", ("day",))))
    ask = Scripted(keywords=[keywords], rewrite=['"a"', '"b"'])
    request = SuiteRequest(wanted_of(1, (1, 1)).task, 2, 0, (1, 1), 0, values)
    caption, day = "a clear street at night with a bus.", "a clear street during the day with a bus."
    (found,) = rewrite([source("bus/1")], [caption], SETTINGS, request, ask, PlainPrompts())
    assert {variant.edited_caption for variant in found.variants} == {day, "a rainy street at night with a bus."}


@pytest.mark.parametrize(
    ("values", "caption", "keyword", "written"),
    [
        (("blue", "grey car"), "a red car by a bus.", "red car", {"a blue car by a bus.", "a grey car by a bus."}),
        (("blue",), "a red by a bus.", "red", {"a blue by a bus."}),
    ],
)
def test_a_caption_that_the_model_spoils_is_written_by_rule_with_the_keyword_s_noun(
    values: tuple[str, ...], caption: str, keyword: str, written: set[str]
) -> None:
    request = wanted_of(len(values), (1, 1), interventions=Interventions((("colour", values),)))
    ask = Scripted(keywords=[json.dumps([["colour", keyword]])], rewrite=['"a"'] * len(values))
    (found,) = rewrite([source("bus/1")], [caption], SETTINGS, request, ask, PlainPrompts())
    assert {variant.edited_caption for variant in found.variants} == written


def test_no_word_for_where_or_when_slips_into_a_cell() -> None:
    values, spoilt = Interventions((("background", ("forest",)),)), "a bus. there are on forest houses on both sides."
    ask = Scripted(keywords=['[["background","brick"]]'], rewrite=[json.dumps(spoilt)])
    caption, request = "a bus. there are brick houses on both sides.", wanted_of(1, (1, 1), interventions=values)
    (found,) = rewrite([source("bus/1")], [caption], SETTINGS, request, ask, PlainPrompts())
    assert [variant.edited_caption for variant in found.variants] == ["a bus. there are forest houses on both sides."]
