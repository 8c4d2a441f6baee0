"""Variants of pictures that somebody painted: their edits are what the user says, and nothing is chosen.

What captions alone say was edited is an edit of the type "other": the words that differ, or else the edited caption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from ...content_keys import given_key
from ...edit import Edit
from ...english.additions import apply_by_rule
from ...english.difference import compare
from ...english.replacing import write_by_rule
from ...language.questions import clean_text
from ...request import SuiteRequest
from ...sources.given import GivenPicture
from ...sources.source import Source
from ...variant import Variant
from .caption_edits import draft_of

# The type of an edit that nobody gave one.
_OTHER = "other"


def given_variants(source: Source, text: str, wanted: SuiteRequest) -> list[Variant]:
    """A source's controls and then its variants, in the order of their pictures; `text` is its caption."""
    if source.given is None:
        return []
    caption = clean_text(text)
    protected = draft_of(source, caption, wanted.task, None).protection.named
    variants, before, levels = list[Variant](), Counter[object](), source.given.levels
    for kind in ("control", "variant"):
        for index, picture in enumerate(one for one in source.given.pictures if one.kind == kind):
            edits = picture.edits if kind == "control" else picture.edits or _edits_of(picture, source.given.caption)
            level = picture.level or levels
            edited = _edited(caption, edits) if picture.edited_caption is None else clean_text(picture.edited_caption)
            variants.append(
                Variant(
                    given_key(source.key, caption, edits, edited, picture.key),
                    *(source, index, caption, edits, edited, wanted.seed, None, picture.kind, protected),
                    repeat=before[kind, edits, level],
                    level=level if kind == "variant" else 1,
                    levels=levels if kind == "variant" else 1,
                    given=picture,
                )
            )
            before[kind, edits, level] += 1
    return variants


def _edits_of(picture: GivenPicture, caption: str | None) -> tuple[Edit, ...]:
    edited = clean_text(picture.edited_caption or "")
    if caption is not None:
        difference = compare(clean_text(caption), edited)
        old, new = (" ".join(word.text for word in words) for words in (difference.removed, difference.added))
        if old != new:
            return (Edit(_OTHER, old, new),)
    return (Edit(_OTHER, "", edited),)


def _edited(caption: str, edits: Sequence[Edit]) -> str:
    """The caption with the edits by rule: a new word in the old one's place, or behind all where there is none."""
    for edit in edits:
        with suppress(ValueError):  # the caption does not say what is replaced or removed
            replaced = [(edit.keyword, edit.alternative)] if edit.kind == "replace" else []
            caption = apply_by_rule(write_by_rule(caption, replaced), [edit])
            continue
        if edit.alternative:
            caption = apply_by_rule(caption, [Edit(edit.type, "", edit.alternative)])
    return caption
