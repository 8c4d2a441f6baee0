"""What an edited caption says beside its edits: nothing that they bring, and in all the same as the caption.

An alternative may stand where its keyword did and nowhere else: "a car by a blue bus" is no edit of "a red car by a
bus", though it has all the words. What then still differs are small words, which rules let change; what they come to
is for a sentence encoder to say, of the caption and of the edited one with the edits' own words set back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..edit import Edit
from ..language.phrases import Mention, find_mentions
from .difference import Change, Word, compare, words_of

# Small words that follow from their neighbours.
AGREEING = frozenset(re.findall("[a-z]+", "a an the at in on by during is are was were"))
# Where a caption says an edit's keyword.
_Place = tuple[Mention, Edit]


def misplaced(caption: str, edited: str, edits: Sequence[Edit]) -> str | None:
    """The first word of an edit that the edited caption says where that edit changes nothing; None without one.

    What is added goes where a rule puts it, and what agrees with its neighbours goes anywhere. Raises ValueError if a
    keyword does not stand in the caption beside the others.
    """
    old, places = words_of(caption), _places(caption, edits)
    anywhere = AGREEING.union(*(_said(edit) for edit in edits if not edit.keyword))
    for change in compare(caption, edited).changes:
        brought = anywhere.union(*(_said(edit) for mention, edit in places if _touches(change, old, mention)))
        for word in change.added:
            if word.same not in brought:
                return word.text
    return None


def set_back(caption: str, edited: str, edits: Sequence[Edit]) -> str:
    """`edited` with the words of `caption` wherever one of the edits, all of which replace words, changed them, as
    `plain_words` has them: equal to those of the caption if nothing else changed.

    Raises ValueError if a keyword does not stand in the caption beside the others.
    """
    old, places = words_of(caption), _places(caption, edits)
    found = compare(caption, edited)
    said = {after.at: [after.same] for _, after in found.kept}
    for change in found.changes:
        here = [(mention, edit) for mention, edit in places if _touches(change, old, mention)]
        # Before the kept word that follows, which may be none.
        after = change.new_at + len(change.added)
        said[after] = [*_undone(change, here), *said.get(after, [])]
    return " ".join(word for at in sorted(said) for word in said[at])


def plain_words(caption: str) -> str:
    """A caption's words in small letters, without marks."""
    return " ".join(word.same for word in words_of(caption))


def _places(caption: str, edits: Sequence[Edit]) -> list[_Place]:
    replaced = [edit for edit in edits if edit.keyword]
    mentions = find_mentions(caption, [edit.keyword for edit in replaced])
    return [(mention, edit) for edit, some in zip(replaced, mentions, strict=True) for mention in some]


def _said(edit: Edit) -> set[str]:
    return {word.same for word in words_of(edit.alternative)}


def _touches(change: Change, old: Sequence[Word], mention: Mention) -> bool:
    """Whether a change removes words of a mention, or only adds some within it or at one of its ends."""
    within = [word.at for word in old if mention.start <= word.start and word.end <= mention.end]
    if change.removed:
        return not {word.at for word in change.removed}.isdisjoint(within)
    return within[0] <= change.at <= within[-1] + 1


def _undone(change: Change, here: Sequence[_Place]) -> list[str]:
    """What a change says once the words of the edits that are made there have gone and those in their place are back:
    what else it brought stays, before them or after.
    """
    brought = set[str]().union(*(_said(edit) for _, edit in here))
    added = [word.same for word in change.added]
    own = [i for i, word in enumerate(added) if word in brought]
    inside = [any(m.start <= word.start and word.end <= m.end for m, _ in here) for word in change.removed]
    back = [word.same for word, within in zip(change.removed, inside, strict=True) if within]
    if not own:
        return back or added
    # Of the small words before an alternative those are its own for which none had to go.
    others = inside.index(True) if back else 0
    return [*added[: min(others, own[0])], *back, *added[own[-1] + 1 :]]
