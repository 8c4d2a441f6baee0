"""Chooses the edits of each variant of a source: a keyed choice, made by the engine and not by the language model.

From a caption's keywords with their alternatives it makes one set of edits per variant, no two alike. The choice for
variant i depends on the key and on the variants before it, never on how many are requested, so that asking for more
variants keeps those that exist. Every second one has as few edits as may be, so that an edit is seen alone as well; the
others have more where more are allowed. The least used types come first, then the least used keywords, then
alternatives. Where a user names values, sets that bring each of them once come before all others.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ..edit import Edit
from ..keys import generator

T = TypeVar("T")
# Pairs of alternatives of which a picture shows one at most.
Exclusive = frozenset[frozenset[str]]
# Random draws before all sets are enumerated; most sources have far more sets than variants.
_DRAWS = 8


@dataclass(frozen=True)
class Choice:
    """A keyword of a caption and the alternatives that may replace it; with an empty keyword they are added. Choices of
    one `slot`, whose keywords overlap, are not made together; a choice without has one of its own.
    """

    type: str
    keyword: str
    alternatives: tuple[str, ...]
    slot: int | None = None


def combinations(choices: Sequence[Choice], low: int, high: int) -> int:
    """How many different sets of `low` to `high` edits there are, with at most one edit per slot."""
    slots = _slots(choices)
    ways = [1] + [0] * len(slots)  # ways[n]: sets of n edits among the slots so far
    for edits in slots.values():
        for n in range(len(slots), 0, -1):
            ways[n] += ways[n - 1] * edits
    return sum(ways[low : high + 1])


def _slots(choices: Sequence[Choice]) -> Counter[object]:
    edits: Counter[object] = Counter()
    for at, choice in enumerate(choices):
        edits[_slot(at, choice)] += len(choice.alternatives)
    return edits


def _slot(at: int, choice: Choice) -> object:
    return ("own", at) if choice.slot is None else choice.slot


def choose_edits(
    choices: Sequence[Choice],
    variants: int,
    edits: tuple[int, int],
    key: str,
    first: Sequence[tuple[Edit, ...]] = (),
    exclusive: Exclusive = frozenset(),
) -> list[tuple[Edit, ...]]:
    """`variants` different sets of edits, or all that exist if there are fewer; edits are in the order of `choices`.
    `edits` is the least and the largest size of a set; the sets of `first` come first. No set has both alternatives of
    a pair that is `exclusive`. Raises ValueError unless 1 <= least <= largest.
    """
    low, high = edits
    if not 1 <= low <= high:
        raise ValueError(f"edits must run from at least 1 upward, got {low} to {high}")
    choices = [choice for choice in choices if choice.alternatives]
    wanted = min(variants, combinations(choices, low, high))
    chosen = list(first[:wanted])
    used = Counter(part for edits in chosen for edit in edits for part in _parts(edit))
    for index in range(len(chosen), wanted):
        rng = generator(key, f"edits of variant {index}")
        taken = set(chosen)
        most = low if index % 2 == 0 else min(high, len(_slots(choices)))
        least = min(low + index % 2, most)
        drawn = (_draw(choices, least, most, used, rng, exclusive) for _ in range(_DRAWS))
        whole = (edits for edits in drawn if len(edits) >= least)
        every = (edits for edits in _all_sets(choices, low, high) if not _clash(edits, exclusive))
        fresh = next((edits for edits in itertools.chain(whole, every) if edits not in taken), None)
        if fresh is None:
            break
        chosen.append(fresh)
        for edit in fresh:
            used.update(_parts(edit))
    return chosen


def _clash(edits: Sequence[Edit], exclusive: Exclusive) -> bool:
    return any(pair <= {edit.alternative for edit in edits} for pair in exclusive)


def _parts(edit: Edit) -> tuple[object, ...]:
    """What is counted of an edit that was used."""
    return edit.type, (edit.type, edit.keyword), edit


def cover_cells(
    choices: Sequence[Choice], cells: Mapping[T, Sequence[Edit]], size: int, exclusive: Exclusive = frozenset()
) -> list[tuple[Edit, ...]]:
    """Sets of `size` edits that bring each of the cells, in their order, as few as may be; a cell that goes into no
    such set is left out. `cells` have the edits that bring them, of `choices`.

    Of several edits that bring a cell, that of the least used keyword is taken. A set has edits of different types
    where it can, and no two that are `exclusive`.
    """
    places = {(choice.type, choice.keyword): at for at, choice in enumerate(choices)}
    slots = [_slot(at, choice) for at, choice in enumerate(choices)]
    used: Counter[int] = Counter()
    sets, left = list[tuple[Edit, ...]](), list(cells)

    def place(edit: Edit) -> int:
        return places[edit.type, edit.keyword]

    def fill(taken: dict[T, Edit]) -> dict[T, Edit]:
        """The set that begins so, with one more edit after another while there are any that go with it."""
        held, types = {slots[place(edit)] for edit in taken.values()}, {edit.type for edit in taken.values()}
        free = [
            ((cell not in left, edit.type in types, at, used[place(edit)]), cell, edit)
            for at, cell in enumerate([*left, *(cell for cell in cells if cell not in left)])
            for edit in cells[cell]
            if cell not in taken and slots[place(edit)] not in held and not _clash([*taken.values(), edit], exclusive)
        ]
        if len(taken) == size or not free:
            return taken
        _, cell, edit = min(free, key=lambda option: option[0])
        return fill({**taken, cell: edit})

    while left:
        firsts = sorted(cells[left[0]], key=lambda edit: used[place(edit)])
        taken = next((taken for edit in firsts if len(taken := fill({left[0]: edit})) == size), {})
        if taken:
            sets.append(tuple(sorted(taken.values(), key=place)))
            used.update(map(place, taken.values()))
        left = [cell for cell in left[1:] if cell not in taken]
    return sets


def in_turn(values: Sequence[T], turn: int) -> list[T]:
    """The values in the order in which the source of this turn takes them. Each place of it goes round with the turn,
    and places halve the gaps between those before them (van der Corput 1935): of up to 16 values none is taken more
    than two times more often than another, whatever the number of sources and of places.
    """
    count = len(values)
    reversed_bits = (int(f"{at:032b}"[::-1], 2) for at in range(1 << count.bit_length()))
    places = dict.fromkeys(count * bits >> 32 for bits in reversed_bits)
    return [values[(turn + place) % count] for place in places if count]


def _draw(
    choices: Sequence[Choice],
    low: int,
    high: int,
    used: Counter[object],
    rng: np.random.Generator,
    exclusive: Exclusive,
) -> tuple[Edit, ...]:
    """Draw one set of edits at random among those that were used least so far; of fewer where no more go together."""
    types = Counter({choice.type: used[choice.type] for choice in choices})
    left = list(choices)
    edits: dict[Choice, Edit] = {}
    size = int(rng.integers(low, high + 1))
    while left and len(edits) < size:
        rank = rng.random(len(left))
        at = min(range(len(left)), key=lambda i: (types[left[i].type], used[left[i].type, left[i].keyword], rank[i]))
        choice = left.pop(at)
        left = [other for other in left if other.slot is None or other.slot != choice.slot]
        every = (Edit(choice.type, choice.keyword, alternative) for alternative in choice.alternatives)
        options = [edit for edit in every if not _clash([*edits.values(), edit], exclusive)]
        if not options:
            continue
        luck = rng.random(len(options))
        edits[choice] = options[min(range(len(options)), key=lambda i: (used[options[i]], luck[i]))]
        types[choice.type] += 1
    return tuple(edits[choice] for choice in choices if choice in edits)


def _all_sets(choices: Sequence[Choice], low: int, high: int) -> Iterator[tuple[Edit, ...]]:
    for count in range(low, min(high, len(choices)) + 1):
        for subset in itertools.combinations(choices, count):
            slots = [choice.slot for choice in subset if choice.slot is not None]
            if len(set(slots)) < len(slots):
                continue
            for values in itertools.product(*(choice.alternatives for choice in subset)):
                yield tuple(Edit(c.type, c.keyword, v) for c, v in zip(subset, values, strict=True))
