"""Edits of a profile without a language model: what its painter can show, added to a caption that names the label.

No word of the caption is replaced, so that none of the label's is lost; an edit that would make the label itself false
is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ...english.additions import phrase_of
from ...english.conditions import conditions_of
from ...english.words import says_any
from ...errors import CounterfactoryError
from ...light.drawable import drawn_as
from ...light.menu import EXCLUSIVE, MENU, STILL
from ...profile.painter import Painter
from ...request import SuiteRequest
from ...sources.source import Source
from ...tasks.choose import Choice, Exclusive
from ...tasks.user_task import Interventions
from .caption_edits import CaptionEdits, Questions

Integers = NDArray[np.int64]


def find_choices(drafts: Sequence[CaptionEdits], questions: Questions, painter: Painter) -> None:
    """Gives each draft its choices, or the problem why it has none."""
    wanted = questions.request
    values = _offered(wanted, questions.settings.types, painter)
    exclusive, shown = _exclusive(values), {one: drawn_as(of, one) for of, some in values.items() for one in some}
    still = frozenset(one for one, value in shown.items() if value in STILL and painter == "light")
    for draft in drafts:
        draft.exclusive, draft.still = exclusive, still
        draft.choices += _choices(draft.source, values, wanted)
        if not draft.choices:
            draft.problem = f"its label {draft.source.label!r} is what every edit that is left would change"


def in_turns(
    sources: Sequence[Source], wanted: SuiteRequest, types: Sequence[str], painter: Painter
) -> Iterator[Source]:
    """The sources, each with its turn where all variants have as many edits, and fewer than there are values: those
    that may have the same values share these out evenly.
    """
    values = _offered(wanted, types, painter)
    if wanted.edits[0] < wanted.edits[1] or wanted.sets >= sum(map(len, values.values())):
        yield from sources
        return
    choices_of, groups = dict[object, tuple[Choice, ...]](), dict[tuple[Choice, ...], int]()
    of, keys = np.empty(len(sources), np.int64), np.empty(len(sources), np.int64)
    for at, source in enumerate(sources):
        about = source.label, source.classes
        if about not in choices_of:
            choices_of[about] = _choices(source, values, wanted)
        of[at], keys[at] = groups.setdefault(choices_of[about], len(groups)), int(source.key[:15], 16)
    turns = np.empty_like(keys)
    for choices, group in groups.items():
        size = max(1, sum(len(choice.alternatives) for choice in choices))
        turns[of == group] = _turns(keys[of == group], size)
    for source, turn in zip(sources, turns.tolist(), strict=True):
        yield replace(source, turn=turn + wanted.seed)


def _turns(keys: Integers, size: int) -> Integers:
    """A turn below `size` for each of the keys, each turn as often as another, the first of them once more: by the key
    itself, so that another source moves few, but for those that find their turn taken.
    """
    turns, room = keys % size, len(keys) // size + (np.arange(size) < len(keys) % size)
    order = np.lexsort((keys, turns))
    place = np.arange(len(keys)) - np.searchsorted(turns[order], turns[order])
    late = order[place >= room[turns[order]]]
    free = np.repeat(np.arange(size), np.maximum(room - np.bincount(turns, minlength=size), 0))
    turns[late[np.argsort(keys[late])]] = free
    return turns


def _offered(wanted: SuiteRequest, types: Sequence[str], painter: Painter) -> Mapping[str, tuple[str, ...]]:
    """The phrases of a request by type: those that the user names, or of the menu what the painter can show."""
    if wanted.interventions is not None:
        return values_of(wanted.interventions, painter)
    # Faults of a camera are nothing to ask an editor for.
    return {one: MENU[one] for one in types if one in MENU and (painter == "light" or one != "camera")}


def _choices(source: Source, values: Mapping[str, Sequence[str]], wanted: SuiteRequest) -> tuple[Choice, ...]:
    allowed = ((of, tuple(one for one in some if _allowed(source, of, one, wanted))) for of, some in values.items())
    return tuple(Choice(type_, "", some) for type_, some in allowed if some)


def _exclusive(values: Mapping[str, Sequence[str]]) -> Exclusive:
    """The pairs of phrases, in whatever words, that say what is never in one picture."""
    shown = {phrase: drawn_as(type_, phrase) for type_, phrases in values.items() for phrase in phrases}
    return frozenset(frozenset(pair) for pair in combinations(shown, 2) if frozenset(map(shown.get, pair)) in EXCLUSIVE)


def values_of(named: Interventions, painter: Painter) -> dict[str, tuple[str, ...]]:
    """The user's values as phrases by type. Raises CounterfactoryError for one that the painter `light` cannot show."""
    for type_, values in named.axes:
        for value in values:
            if painter == "light" and drawn_as(type_, value) is None:
                known = "; ".join(f"{name}: {', '.join(offered)}" for name, offered in MENU.items())
                raise CounterfactoryError(
                    f"'{type_}: {value}' is nothing that a painter of light and weather can show; it knows {known}; "
                    "other profiles paint more (counterfactory doctor lists them)"
                )
    return {
        type_: tuple(value if value in MENU.get(type_, ()) else phrase_of(type_, value) for value in values)
        for type_, values in named.axes
    }


def _allowed(source: Source, type_: str, phrase: str, wanted: SuiteRequest) -> bool:
    labels, shown = [*([source.label] if source.label is not None else []), *source.classes], drawn_as(type_, phrase)
    same = shown is not None and any(drawn_as(type_, word) == shown for label in labels for word in label.split())
    return not (same or any(type_ in conditions_of(label) for label in labels) or says_any(wanted.avoid, phrase))
