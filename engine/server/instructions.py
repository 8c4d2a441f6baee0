"""Instructions for editors of pictures, by rule from structured edits: "Change the weather from sunny to foggy."

Every instruction ends with what is kept, since editors change what nobody speaks of. No language model is asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from ..edit import Edit
from ..english.additions import phrase_of
from ..english.mentions import mentioned
from ..english.nouns import load_nouns
from ..english.replacing import agree, write_by_rule
from ..language.phrases import ARTICLES, PREPOSITIONS, find_mentions, goes_on, phrase_class

# A control's: what an editor does to a picture whatever it is told shows there.
UNCHANGED = "Return the picture unchanged: keep everything exactly as and where it is."

# What a picture has one of.
_SCENE = {"weather": "the weather", "time": "the time of day", "light": "the light", "camera": "the view"}
# Of things: an edit adds a quality to one, or exchanges it for another.
_QUALITIES = ("colour", "adjective")
_FIRST = (*PREPOSITIONS, "lit", "late", "early")
_BEFORE_NOUN = re.compile(rf"^(?:(?!(?:{'|'.join(ARTICLES)})\b)[^\W\d_]+ )*?(?=(?:{'|'.join(ARTICLES)})\b)", re.I)
_TAIL = 4  # words after a keyword that may be its noun


def instruction(caption: str, edits: Sequence[Edit], protected: Sequence[str]) -> str:
    """What to tell an editor that is to make the edits, which were written for a caption; without edits `UNCHANGED`.

    `protected` are the words of the caption that name the label. Where an edit is of such a thing, its kind, shape and
    place are kept, elsewhere all of it.
    """
    if not edits:
        return UNCHANGED
    label = protected[0] if protected else None
    told = [_tell(caption, edit, label) for edit in edits]
    things = mentioned(". ".join(thing for _, thing in told), protected)
    moved = any(edit.type == "camera" for edit in edits)
    return " ".join([*dict.fromkeys(sentence for sentence, _ in told), _keep(protected, things, moved)])


def _tell(caption: str, edit: Edit, label: str | None) -> tuple[str, str]:
    """The sentence for an edit, and the words for the thing that it changes; none where it is about the scene."""
    old, new = (_small(caption, " ".join(words.split())) for words in (edit.keyword, edit.alternative))
    if edit.kind == "add":
        return _add(edit.type, new, label), ""
    if edit.kind == "remove":
        return _remove(caption, edit.type, old), ""
    return _replace(caption, edit.type, old, new)


def _add(type_: str, new: str, label: str | None) -> str:
    head, _, rest = new.partition(" ")
    if type_ == "domain":
        return f"Turn the picture into {_a(new.removesuffix(' of'))}."
    if head.casefold() == "with":
        return f"Add {_a(rest) if type_ == 'object' and _is_single(rest) else rest}."
    if type_ == "object" and new.casefold().startswith("next to "):
        return f"Add {new[8:]}{f' next to the {label}' if label else ''}."
    if phrase_class(new) == "article":
        return f"Add {new}."
    if type_ == "weather" and not phrase_of(type_, new).casefold().startswith("in " + new.casefold()):
        new = phrase_of(type_, new)  # "rain" is "in the rain", "foggy" stays
    if type_ == "time" and phrase_class(new) == "bare":
        return f"Make it {new}."
    if _is_phrase(new) or type_ in ("light", "camera"):
        return f"Show the same scene {new}."
    return f"Add {_a(new)}." if type_ == "object" and _is_single(new) else f"Make it look {new}."


def _remove(caption: str, type_: str, old: str) -> str:
    rest = _BEFORE_NOUN.sub("", old)
    if rest == old and _is_phrase(old):
        rest = old.partition(" ")[2]
    if type_ in ("time", "light", "camera"):
        return f"Show the same scene, but not {old}."
    if _is_phrase(old) or load_nouns().senses(old.split(" ")[-1]):
        return f"Remove {_the(caption, rest)}."
    noun = _noun_after(caption, old)
    return f"Make the {noun} look no longer {old}." if noun else f"Make it look no longer {old}."


def _replace(caption: str, type_: str, old: str, new: str) -> tuple[str, str]:
    if type_ == "domain":
        return f"Turn {_the(caption, old.removesuffix(' of'))} into {_a(new.removesuffix(' of'))}.", ""
    if _is_phrase(old) and _is_phrase(new):
        same = _BEFORE_NOUN.match(old)
        if type_ in ("object", "other") and same and same.group() and new.startswith(same.group()):
            thing = old[same.end() :]
            return f"Replace {_the(caption, thing)} with {new[same.end() :]}.", thing
        return f"Show the same scene {new} instead of {old}.", ""
    if type_ in _SCENE:
        return f"Change {_SCENE[type_]} from {_bare(old)} to {_bare(new)}.", ""
    words, others = old.split(" "), _without_article(new).split(" ")
    kept = len(_without_article(old).split(" "))
    if len(others) > kept and [*map(str.casefold, others[-kept:])] == [*map(str.casefold, words[-kept:])]:
        quality = others[:-kept]  # "dog", "small dog"
        if type_ in _QUALITIES or not load_nouns().senses(quality[-1]):
            return f"Make {_the(caption, old)} {' '.join(quality)}.", old
    elif type_ in _QUALITIES and words[-1].casefold() == others[-1].casefold() and len(others) > 1:
        same_words = _common_tail(words, others)  # "red bus", "blue bus"
        return f"Make {_the(caption, old)} {' '.join(others[:-same_words])}.", old
    elif type_ in _QUALITIES:
        if noun := _noun_after(caption, old):
            return f"Make the {old} {noun} {new}.", noun
        return f"Change the colour from {old} to {new}." if type_ == "colour" else f"Make what is {old} {new}.", ""
    if goes_on(_without_article(old), _without_article(new)):
        return f"Show the {_without_article(new)}.", old
    senses = load_nouns().senses
    if type_ == "background":
        return f"Change the background from {_the(caption, old)} to {_like(caption, old, new)}.", ""
    if senses(words[-1]) and senses(others[-1]):
        verb, link = ("Turn", "into") if type_ == "subject" else ("Replace", "with")
        return f"{verb} {_the(caption, old)} {link} {_like(caption, old, new)}.", old
    try:
        whole = write_by_rule(caption, [(old, new)])
    except ValueError:  # the caption does not say it
        return f'Show "{new}" in place of "{old}".', ""
    return f'Change the picture from "{caption.rstrip(" .")}" to "{whole.rstrip(" .")}".', ""


def _keep(protected: Sequence[str], things: Sequence[str], moved: bool) -> str:
    """The clause about what stays: all but what is told, the things that are `things` in kind, shape and place."""
    still = [word for word in dict.fromkeys(protected) if word not in things]
    above = f", above all {_list(still)}," if still else ""
    what, where = (" of the scene", "it is") if moved else (" else", "and where it is")
    if things:
        kind = "kind and shape" if moved else "kind, shape and place"
        return f"Keep the {kind} of {_list(things)}, and everything{what}{above} exactly as {where}."
    return f"Keep everything{what}{above} exactly as {where}."


def _list(words: Sequence[str]) -> str:
    named = [f"the {word}" for word in words]
    return " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))


def _small(caption: str, words: str) -> str:
    """Words without the capital that begins a caption."""
    begins = caption[:1].isupper() and words[:1].isupper() and words[1:2].islower()
    return words[:1].lower() + words[1:] if begins and caption.startswith(words.split(" ")[0]) else words


def _is_phrase(words: str) -> bool:
    """Whether words say where, when or how something is: "in the rain", "lit from behind"."""
    return words.casefold().split(" ")[0] in _FIRST


def _bare(words: str) -> str:
    """What a phrase says of the scene, without its small words: "in the rain" is "rain"."""
    return re.sub(r"^(?:in|at|on|by|during|under) (?:the )?", "", words, flags=re.IGNORECASE)


def _without_article(words: str) -> str:
    return re.sub(r"^(?:an?|the|some) ", "", words, flags=re.IGNORECASE)


def _a(words: str) -> str:
    return words if phrase_class(words) == "article" else agree("a ", words) + words


def _the(caption: str, words: str) -> str:
    """The thing that words of a caption speak of: "the bus", "the two dogs", "his hat"."""
    if phrase_class(words) == "article":
        words = _without_article(words)
        return words if re.match(r"(?:its|his|her|their)\b", words, re.IGNORECASE) else f"the {words}"
    before = _before(caption, words)
    if before in ("its", "his", "her", "their"):
        return f"{before} {words}"
    return f"the {before} {words}" if before in ("two", "three") else f"the {words}"


def _like(caption: str, old: str, new: str) -> str:
    """Words with the article that their place in the caption has: of "a ball", "stick" is "a stick"."""
    if phrase_class(new) == "article":
        return new
    before = _before(caption, old)
    if before in ("a", "an", "one"):
        return _a(new)
    return f"{before} {new}" if before in ARTICLES else new


def _before(caption: str, words: str) -> str:
    """The article, number or owner that a caption says of words; empty where there is none, or not near."""
    try:
        start = find_mentions(caption, [words])[0][0].end - len(words)
    except ValueError:
        return ""
    match = re.search(r"(?:([^\W_]+) )?([^\W_]+) $", caption[:start].casefold())
    other, last = match.groups() if match else (None, "")
    if last in ARTICLES:
        return last
    # "a red ball"; of "a dog eats grass" the article is the dog's.
    describes = last not in PREPOSITIONS and not re.search(r"(?:s|ing|..ed)$", last)
    return other if other in ARTICLES and describes else ""


def _noun_after(caption: str, words: str) -> str:
    """The thing that an adjective of a caption describes: "double-decker bus" after "red"; empty where none follows."""
    try:
        end = find_mentions(caption, [words])[0][0].end
    except ValueError:
        return ""
    match = re.match(rf"(?: [^\W_]+(?:['\u2019-][^\W_]+)*){{1,{_TAIL}}}", caption[end:])
    after = match.group().split() if match else []
    senses = load_nouns().senses
    for count, word in enumerate(after, start=1):
        if word.casefold() in (*ARTICLES, *PREPOSITIONS, "and", "or", "is", "are", "of"):
            return ""
        if senses(word) and not (count < len(after) and senses(after[count])):
            return " ".join(after[:count])
    return ""


def _is_single(words: str) -> bool:
    """Whether words end in a noun in the singular, which wants an article."""
    return phrase_class(words) == "bare" and words.split(" ")[-1].casefold() in load_nouns().meanings


def _common_tail(words: Sequence[str], others: Sequence[str]) -> int:
    """How many last words are the same, fewer than there are of either."""
    pairs = zip(reversed(words[1:]), reversed(others[1:]), strict=False)
    return len(list(takewhile(lambda pair: pair[0].casefold() == pair[1].casefold(), pairs)))
