"""Whether an edited caption can be used: it says the new words where the edits put them and the caption's elsewhere,
and the painter's text encoder, which cuts off everything behind its last token (77 in CLIP's), reads all edits.

Captions are compared word by word (difference.py). An alternative may stand where its keyword did and nowhere else: "a
car by a blue bus" is no edit of "a red car by a bus", though it has all the words. Only small words may differ beyond
that. Whether they change the meaning is for a sentence encoder to say, which compares the caption with the edited one
after the edits are undone (`set_back`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product

from ..edit import Edit
from ..language.phrases import Mention, find_mentions, goes_on, phrase_class
from .additions import apply_by_rule
from .difference import Change, Difference, Word, compare, words_of
from .mentions import changed_protected_word, mentioned, word_set
from .replacing import agree, write_by_rule

# Small words that follow from their neighbours.
AGREEING = word_set("a an the at in on by during is are was were")
# Each edit that has a keyword, and where the caption says that.
_Places = Sequence[tuple[Edit, Sequence[Mention]]]
# How many of a caption's characters are read.
TextLimit = Callable[[str], int]


def check_edited_caption(caption: str, edited: str, edits: Sequence[Edit], keep: Sequence[str]) -> str | None:
    """The reason why an edited caption cannot be used, or None if it can.

    Words that no edit changes must stay, but for small ones that agree with others (a, an, in, on, is, are). A replaced
    keyword must be gone wherever the caption says it of the same thing, and its alternative must stand there and
    nowhere else; what is added goes where a rule puts it. A caption that the rules write always passes.
    """
    if (protected := changed_protected_word(caption, edited, keep)) is not None:
        return f"the edited caption changes {protected!r}, which may not change"
    difference = compare(caption, edited)
    if not difference.changes:
        return "the edited caption says what the caption says"
    present = {word.same for word in words_of(edited)}
    for edit in edits:
        missing = [word.text for word in words_of(edit.alternative) if word.same not in present]
        if missing:
            return f"the edited caption lacks {missing[0]!r} of the edit {edit.keyword!r} -> {edit.alternative!r}"
    wrong = _what_else(caption, edits, difference)
    return None if wrong is not None and written_by_rule(caption, edited, edits) else wrong


def _what_else(caption: str, edits: Sequence[Edit], difference: Difference) -> str | None:
    """Why an edited caption seems to change more than its edits do, word by word, or less; None if neither."""
    new = AGREEING.union(*map(_new_words, edits))
    for added in difference.added:
        if added.same not in new:
            return f"the edited caption adds {added.text!r}, which no edit says"
    old, places = words_of(caption), _places(caption, edits)
    spots = [mention for _, mentions in places for mention in mentions]
    for gone in difference.removed:
        if gone.same not in AGREEING and not any(m.start <= gone.start and gone.end <= m.end for m in spots):
            return f"the edited caption lacks {gone.text!r}, which no edit changes"
    for edit, mentions in places:
        once = goes_on(edit.keyword, edit.alternative)
        if not all(_is_changed(old, edit, m, difference) for m in mentions[: 1 if once else None] if m.same):
            pair = f"{edit.keyword!r} -> {edit.alternative!r}"
            return f"the edited caption still says {edit.keyword!r} of the edit {pair}"
    anywhere = AGREEING.union(*(_new_words(edit) for edit in edits if not edit.keyword))
    for change in difference.changes:
        brought = anywhere.union(*(_new_words(edit) for edit, _ in _touching(change, old, places)))
        for word in change.added:
            if word.same not in brought:
                return f"the edited caption says {word.text!r} where no edit puts it"
    return None


def _is_changed(old: Sequence[Word], edit: Edit, mention: Mention, difference: Difference) -> bool:
    """Whether words of the keyword are gone there or, where the alternative has all of them, others are next to it."""
    first = mention.end - len(edit.keyword)  # the small word before it may change for another's sake
    inside = [word for word in old if first <= word.start and word.end <= mention.end]
    if not set(inside).isdisjoint(difference.removed):
        return True
    if not {word.same for word in words_of(edit.keyword)} <= _new_words(edit):
        return False
    for change in difference.changes:
        if inside[0].at <= change.at <= inside[-1].at + 1:
            if change.added:
                return True
        # The article before the words may have changed with them: "a dog" is "an old dog".
        elif change.at + len(change.removed) == inside[0].at and any(w.same not in AGREEING for w in change.added):
            return True
    return False


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
            if plain_words(apply_by_rule(write_by_rule(caption, changes), edits)) == words:
                return True
        except ValueError:  # edits share words and cannot be told apart
            return False
    return False


def _forms(edit: Edit) -> tuple[str, ...]:
    """What may stand in the keyword's place: the alternative, or that with the keyword's noun or small word."""
    words, new = edit.keyword.split(" "), edit.alternative
    if len(words) == 1 or phrase_class(new) != "bare":
        return (new,)
    if phrase_class(edit.keyword) == "bare":
        return (new,) if words[-1].casefold() in _new_words(edit) else (new, f"{new} {words[-1]}")
    return new, f"{agree(f'{words[0]} ', new)}{new}"


def set_back(caption: str, edited: str, edits: Sequence[Edit]) -> str:
    """`edited` with the edits undone, each of which replaces words: the plain words of the caption if nothing else
    changed. Raises ValueError if a keyword has no place in the caption which the others leave free.
    """
    old, places = words_of(caption), _places(caption, edits)
    difference = compare(caption, edited)
    words = {after.at: [after.same] for _, after in difference.pairs}
    for change in difference.changes:
        # Before the kept word that follows, which may be none.
        after = change.new_at + len(change.added)
        words[after] = [*_undo(change, _touching(change, old, places)), *words.get(after, [])]
    return " ".join(word for at in sorted(words) for word in words[at])


def plain_words(caption: str) -> str:
    """A caption's words in small letters, without marks."""
    return " ".join(word.same for word in words_of(caption))


def _places(caption: str, edits: Sequence[Edit]) -> _Places:
    replaced = [edit for edit in edits if edit.keyword]
    return list(zip(replaced, find_mentions(caption, [edit.keyword for edit in replaced]), strict=True))


def _new_words(edit: Edit) -> set[str]:
    return {word.same for word in words_of(edit.alternative)}


def _touching(change: Change, old: Sequence[Word], places: _Places) -> list[tuple[Edit, Mention]]:
    """The places of edits in which a change removes words, or only adds some within them or at one of their ends."""
    touching = []
    for edit, mention in ((edit, mention) for edit, mentions in places for mention in mentions):
        within = [word.at for word in old if mention.start <= word.start and word.end <= mention.end]
        gone = {word.at for word in change.removed}
        if not gone.isdisjoint(within) if gone else within[0] <= change.at <= within[-1] + 1:
            touching.append((edit, mention))
    return touching


def _undo(change: Change, here: Sequence[tuple[Edit, Mention]]) -> list[str]:
    """A change's words with the edits that touch it undone: theirs go, the old ones come back, other new ones stay."""
    brought = set[str]().union(*(_new_words(edit) for edit, _ in here))
    added = [word.same for word in change.added]
    own = [i for i, word in enumerate(added) if word in brought]
    inside = [any(m.start <= word.start and word.end <= m.end for _, m in here) for word in change.removed]
    back = [word.same for word, within in zip(change.removed, inside, strict=True) if within]
    if not own:
        return back or added
    # Of the small words before an alternative those are its own for which none had to go.
    others = inside.index(True) if back else 0
    return [*added[: min(others, own[0])], *back, *added[own[-1] + 1 :]]


def fit_caption(caption: str, keep: Sequence[str], text_limit: TextLimit) -> str:
    """The caption without the sentences that the encoder does not read: those with the fewest words of `keep` go first,
    of equal ones the last. A single sentence stays as it is.
    """
    sentences = re.split(r"(?<=[.!?;]) ", caption)
    while len(sentences) > 1 and text_limit(text := " ".join(sentences)) < len(text.rstrip(" .!?;")):
        useful = [len(mentioned(sentence, keep)) for sentence in sentences]
        del sentences[max(range(len(sentences)), key=lambda i: (-useful[i], i))]
    return " ".join(sentences)


def cut_edit(caption: str, edited: str, text_limit: TextLimit) -> str | None:
    """Why an edited caption cannot be painted: a word of an edit that is cut off; None if all are read."""
    end, added = text_limit(edited), compare(caption, edited).added
    read = f"the text encoder reads the first {end} of its {len(edited)} characters"
    return next((f"{read}, and {word.text!r} is behind" for word in added if word.end > end), None)
