"""The scope of edits: an edited caption must say the new words where the edits put them, and the caption's elsewhere.

An alternative may stand where its keyword did and nowhere else: "a car by a blue bus" is no edit of "a red car by a
bus", though it has all the words. Only small words may differ beyond that. Whether they change the meaning is for a
sentence encoder to say, which compares the caption with the edited one after the edits are undone (`set_back`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

from ..edit import Edit
from ..language.phrases import Mention, find_mentions, phrase_class
from .additions import apply_by_rule
from .difference import Change, Word, compare, words_of
from .replacing import agree, write_by_rule

# Small words that follow from their neighbours.
AGREEING = frozenset(re.findall("[a-z]+", "a an the at in on by during is are was were"))
# Where a caption says an edit's keyword.
_Place = tuple[Mention, Edit]


def misplaced(caption: str, edited: str, edits: Sequence[Edit]) -> str | None:
    """The first word of an edit that the edited caption says where that edit changes nothing; None without one.

    What is added goes where a rule puts it, and what agrees with its neighbours goes anywhere. Raises ValueError if a
    keyword has no place in the caption which the others leave free.
    """
    old, places = words_of(caption), _places(caption, edits)
    anywhere = AGREEING.union(*(_new_words(edit) for edit in edits if not edit.keyword))
    for change in compare(caption, edited).changes:
        brought = anywhere.union(*(_new_words(edit) for mention, edit in places if _touches(change, old, mention)))
        for word in change.added:
            if word.same not in brought:
                return word.text
    return None


def written_by_rule(caption: str, edited: str, edits: Sequence[Edit]) -> bool:
    """Whether an edited caption has exactly the words that rules make of the caption and the edits.

    Then no comparison word by word is needed. Such a comparison fails where an edit shares a word with its neighbours:
    if "by day" replaces "after dark" in "after dark by the sea", "by" seems to have stayed and "day by" to be new. A
    noun of the keyword that the alternative leaves out may follow it: "red car" with "blue" is "blue car".
    """
    replaced, words = [edit for edit in edits if edit.kind == "replace"], plain_words(edited)
    for forms in product(*(_forms(edit) for edit in replaced)):
        changes = [(edit.keyword, form) for edit, form in zip(replaced, forms, strict=True)]
        try:
            result = apply_by_rule(write_by_rule(caption, changes), edits)
        except ValueError:  # edits share words and cannot be told apart
            return False
        if plain_words(result) == words:
            return True
    return False


def _forms(edit: Edit) -> tuple[str, ...]:
    """What may stand in the place of the keyword: the alternative, and where it is bare that with the noun behind it or
    the small word before it that the keyword has.
    """
    words, new = edit.keyword.split(" "), edit.alternative
    if len(words) == 1 or phrase_class(new) != "bare":
        return (new,)
    if phrase_class(edit.keyword) == "bare":
        return (new,) if words[-1].casefold() in _new_words(edit) else (new, f"{new} {words[-1]}")
    return new, f"{agree(f'{words[0]} ', new)}{new}"


def set_back(caption: str, edited: str, edits: Sequence[Edit]) -> str:
    """`edited` with the edits undone, each of which replaces words: the plain words (`plain_words`) of the caption if
    nothing else changed.

    Raises ValueError if a keyword has no place in the caption which the others leave free.
    """
    old, places = words_of(caption), _places(caption, edits)
    difference = compare(caption, edited)
    words = {after.at: [after.same] for _, after in difference.pairs}
    for change in difference.changes:
        here = [(mention, edit) for mention, edit in places if _touches(change, old, mention)]
        # Before the kept word that follows, which may be none.
        after = change.new_at + len(change.added)
        words[after] = [*_undo(change, here), *words.get(after, [])]
    return " ".join(word for at in sorted(words) for word in words[at])


def plain_words(caption: str) -> str:
    """A caption's words in small letters, without marks."""
    return " ".join(word.same for word in words_of(caption))


def _places(caption: str, edits: Sequence[Edit]) -> list[_Place]:
    replaced = [edit for edit in edits if edit.keyword]
    mentions = find_mentions(caption, [edit.keyword for edit in replaced])
    return [(mention, edit) for edit, places in zip(replaced, mentions, strict=True) for mention in places]


def _new_words(edit: Edit) -> set[str]:
    return {word.same for word in words_of(edit.alternative)}


def _touches(change: Change, old: Sequence[Word], mention: Mention) -> bool:
    """Whether a change removes words of a mention, or only adds some within it or at one of its ends."""
    within = [word.at for word in old if mention.start <= word.start and word.end <= mention.end]
    if change.removed:
        return not {word.at for word in change.removed}.isdisjoint(within)
    return within[0] <= change.at <= within[-1] + 1


def _undo(change: Change, here: Sequence[_Place]) -> list[str]:
    """The words of a change after the edits that touch it are undone: their new words go, the old ones come back, and
    other new words stay before or after them.
    """
    brought = set[str]().union(*(_new_words(edit) for _, edit in here))
    added = [word.same for word in change.added]
    own = [i for i, word in enumerate(added) if word in brought]
    inside = [any(m.start <= word.start and word.end <= m.end for m, _ in here) for word in change.removed]
    back = [word.same for word, within in zip(change.removed, inside, strict=True) if within]
    if not own:
        return back or added
    # Of the small words before an alternative those are its own for which none had to go.
    others = inside.index(True) if back else 0
    return [*added[: min(others, own[0])], *back, *added[own[-1] + 1 :]]
