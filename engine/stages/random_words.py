"""Random edits as a baseline: one of a caption's words replaced by what a masked language model puts there (LANCE-R,
arXiv 2305.19164). No question is put to the language model, and captions are written by rule.

Which words are blanked is drawn by the source's key; the engine then chooses among words and alternatives as it does
among other edits (tasks/choose.py), and the same rules hold the label.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

from ..errors import CounterfactoryError
from ..keys import generator
from ..models.masked import Blank
from ..recipes import choice_key
from ..tasks.choose import Choice
from ..tasks.random_words import blank, random_alternatives, random_words
from ..tasks.settings import JourneySettings
from .desk import Desk
from .draft import Draft, RewriteSettings, why_not

# The type of these edits, which say nothing of what they change.
RANDOM = "random"
# Words that are kept of a blank: more than are used, since rules refuse some.
_KEPT = 24


@dataclass(frozen=True)
class RandomWordSettings:
    """The masked language model's `batch`; how many `words` of a caption are blanked, and how many `alternatives` each
    may have, the likeliest.
    """

    batch: int
    words: int
    alternatives: int

    def __post_init__(self) -> None:
        for name in ("batch", "words", "alternatives"):
            if getattr(self, name) < 1:
                raise ValueError(f"[random_words] {name} must be at least 1, got {getattr(self, name)}")
        if self.alternatives > _KEPT:
            raise ValueError(f"[random_words] alternatives is at most {_KEPT}, got {self.alternatives}")


def fill_blanks(desk: Desk, blanks: Sequence[Blank]) -> dict[Blank, list[str]]:
    """The likeliest words of each blank; those on record are not computed again. Call it inside a stage."""

    def make(todo: list[Blank]) -> Generator[dict[Blank, list[str]], None, None]:
        yield dict(zip(todo, desk.models.masked().likeliest(todo, _KEPT), strict=True))

    keys = {one: desk.recipes.answer_key("blank", (one, _KEPT)) for one in blanks}
    return desk.recorded("rewrite", keys, make)


def find_choices(
    drafts: Sequence[Draft],
    settings: RandomWordSettings,
    bounds: RewriteSettings,
    wanted: JourneySettings,
    fill: Callable[[Sequence[Blank]], Mapping[Blank, Sequence[str]]],
) -> None:
    """Gives each draft its choices, in its caption's order, or the problem why it has none.

    Raises CounterfactoryError where the user names edits or types, of which random words know nothing.
    """
    if wanted.interventions is not None or wanted.types:
        raise CounterfactoryError(
            "[random_words] replaces any word by a likely one: leave out --interventions and --types, or take a "
            "profile without that table"
        )
    asked: list[tuple[Draft, str, Blank]] = []
    for draft in drafts:
        words = random_words(draft.caption, draft.keep)
        draft.problem = why_not(draft, words, bounds, wanted)
        if not draft.problem:
            drawn = _draw(words, settings.words, choice_key(draft.source.key, wanted.task, wanted.seed))
            asked += [(draft, word, blank(draft.caption, word)) for word in drawn]
    found = fill(list(dict.fromkeys(one for *_, one in asked)))
    for draft, word, one in asked:
        usable = random_alternatives(found[one], word, draft.caption, draft.keep, wanted.avoid)
        if usable:
            draft.choices.append(Choice(RANDOM, word, usable[: settings.alternatives]))


def _draw(words: Sequence[str], count: int, key: str) -> list[str]:
    """`count` of the words, or all, in their order."""
    luck = generator(key, "random words").random(len(words))
    drawn = sorted(range(len(words)), key=lambda i: luck[i])[:count]
    return [words[i] for i in sorted(drawn)]
