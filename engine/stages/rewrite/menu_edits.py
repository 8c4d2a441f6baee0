"""Edits of a profile without a language model: what its painter can show, added to a caption that names the label.

No word of the caption is replaced, so that none of the label's is lost; an edit that would make the label itself false
is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...english.additions import phrase_of
from ...english.words import says_any
from ...errors import CounterfactoryError
from ...light.drawable import drawn_as, named_by
from ...light.menu import EXCLUSIVE, MENU
from ...profile.painter import Painter
from ...request import SuiteRequest
from ...sources.source import Source
from ...tasks.choose import Choice
from ...tasks.user_task import Interventions
from .caption_edits import CaptionEdits, Questions


def find_choices(drafts: Sequence[CaptionEdits], questions: Questions, painter: Painter) -> None:
    """Gives each draft its choices, or the problem why it has none."""
    wanted, types = questions.request, [type_ for type_ in questions.settings.types if type_ in MENU]
    if painter != "light":  # faults of a camera are nothing to ask an editor for
        types = [type_ for type_ in types if type_ != "camera"]
    values = values_of(wanted.interventions, painter) if wanted.interventions else {one: MENU[one] for one in types}
    for draft in drafts:
        draft.exclusive = EXCLUSIVE
        for type_, phrases in values.items():
            allowed = tuple(phrase for phrase in phrases if _allowed(draft.source, type_, phrase, wanted))
            if allowed:
                draft.choices.append(Choice(type_, "", allowed))
        if not draft.choices:
            draft.problem = f"its label {draft.source.label!r} is what every edit that is left would change"


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
    return not (same or any(named_by(type_, label) for label in labels) or says_any(wanted.avoid, phrase))
