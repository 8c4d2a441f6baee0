"""Random edits as a baseline: one of a caption's words replaced by what a masked language model puts there (LANCE-R,
arXiv 2305.19164). No question is put to the language model, and captions are written by rule.

Which words are blanked is drawn by the source's key; the engine then chooses among words and alternatives as it does
among other edits (tasks/choose.py), and the same rules hold the label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...content_keys import choice_key
from ...english.words import blank, random_alternatives, random_words
from ...errors import CounterfactoryError
from ...keys import generator
from ...models.text_networks import Blank
from ...profile.rewrite import MOST_ALTERNATIVES, RandomWordSettings
from ...tasks.choose import Choice
from ..run import Run
from .caption_edits import CaptionEdits, Questions, why_not

# The type of these edits, which say nothing of what they change.
RANDOM = "random"
# The likeliest words of blanks.
Fill = Callable[[Sequence[Blank]], Mapping[Blank, Sequence[str]]]


def fill_blanks(run: Run, blanks: Sequence[Blank]) -> dict[Blank, list[str]]:
    """The likeliest words of each blank; those on record are not computed again. Call it inside a stage."""
    contents = {gap: (gap, MOST_ALTERNATIVES) for gap in blanks}
    return run.answered(
        "blank", contents, lambda todo: run.models.masked().likeliest(todo, MOST_ALTERNATIVES), tuple[str, ...]
    )


def find_choices(
    drafts: Sequence[CaptionEdits], questions: Questions, settings: RandomWordSettings, fill: Fill
) -> None:
    """Gives each draft its choices, in its caption's order, or the problem why it has none. Raises CounterfactoryError
    where the user names edits or types, since random words have neither.
    """
    wanted = questions.request
    if wanted.interventions is not None or wanted.types:
        raise CounterfactoryError(
            "[random_words] replaces any word by a likely one: leave out --interventions and --types, or take a "
            "profile without that table"
        )
    gaps: list[tuple[CaptionEdits, str, Blank]] = []
    for draft in drafts:
        words = random_words(draft.caption, draft.keep)
        draft.problem = why_not(draft, words, questions)
        if not draft.problem:
            key = choice_key(draft.source.key, wanted.task, wanted.seed)
            luck = generator(key, "random words").random(len(words))
            drawn = sorted(luck.argsort(kind="stable")[: settings.words].tolist())
            gaps += [(draft, words[i], blank(draft.caption, words[i])) for i in drawn]
    fillings = fill(list(dict.fromkeys(gap for *_, gap in gaps)))
    for draft, word, gap in gaps:
        usable = random_alternatives(fillings[gap], word, draft.caption, draft.keep, wanted.avoid)
        if usable:
            draft.choices.append(Choice(RANDOM, word, usable[: settings.alternatives]))
