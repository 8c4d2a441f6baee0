"""Adds phrases to captions and removes words from them by rule: no language model is asked where they go.

"a dog on grass. a man sits." with "in the rain" is "a dog on grass in the rain. a man sits.": an addition ends the
first sentence, which says what the picture is of; "a painting of" begins the caption.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..edit import Edit
from ..language.phrases import find_mentions, phrase_class
from .difference import words_of
from .mentions import word_set

_TIMES = {
    "in the": ("morning", "afternoon", "evening"),
    "during the": ("day", "daytime"),
    "at": ("night", "dawn", "dusk", "sunrise", "sunset", "noon", "midnight", "twilight"),
}
_WEATHERS = {
    "in the": ("rain", "snow", "fog", "mist", "hail", "sun", "wind"),
    "in a": ("storm", "thunderstorm", "blizzard", "sandstorm", "snowstorm"),
    "": ("rainy", "snowy", "foggy", "misty", "sunny", "windy", "stormy", "cloudy", "hazy", "clear", "overcast"),
}
_SAYS = {
    "time": frozenset(word for words in _TIMES.values() for word in words),
    "weather": frozenset(word for words in _WEATHERS.values() for word in words),
    "light": word_set("light lit dark bright sunlight shadow shadows backlit lamp"),
    "camera": word_set("above below aerial angle view close close-up closeup distance"),
    "colour": word_set("red green blue yellow orange purple pink brown black white grey gray"),
}
# What a caption may call its picture; then it is this that an edit of the domain replaces.
_MEDIUM = re.compile(
    r"(?:(?:an?|the)(?: [^\W_]+)? (?:photo|photograph|picture|image|drawing|painting|sketch|illustration)"
    r"|(?:an? )?close[- ]?up)(?= of )",
    re.I,
)
# A caption's first words that have a capital for no other reason: behind "a painting of" they have none.
_SMALL_BEGINNINGS = word_set("a an the this that some one two three four five six several many his her its their close")
# "a painting of a dog is lying on grass" says that the painting lies there: without the verb it does not.
_COPULA = re.compile(
    r"^((?:(?!\b(?:that|which|who|and|but|while|as|is|are)\b)[^.,;:!?])+?) (?:is|are) (?=[a-z]+(?:ing|ed)\b)", re.I
)
# With another verb it says that the painting sits there, and "that" before the verb cures it. A subject in the singular
# has a verb in the singular, and a place follows: "two stands on a table" is no sentence.
_VERBS = "sit|stand|lie|lay|rest|lean|hang|perch|float|walk|run|jump|swim|crawl|climb|graze|sleep|look|stare"
_WHERE = "in|on|at|by|under|over|near|next|beside|behind|above|below|along|across|among|through|from|towards|into|up"
_NO_VERB = r"(?:(?!\b(?:that|which|who|and|but|while|as|is|are)\b)[^.,;:!?])+?"
_SENTENCES = tuple(
    re.compile(rf"^((?:{first}) {_NO_VERB}) (?=(?:{_VERBS}){ending} (?:{_WHERE})\b)", re.I)
    for first, ending in (("an?|one|this|the", "s"), ("two|three|four|five|six|several|many|some|these", ""))
)
_NO_SUBJECT = frozenset(("a", "an", "the", "of", "or", "its", "his", "her", "their", "with"))


def count_links(text: str) -> int:
    """How many words of a text say where or when something is, such as "in" and "during"."""
    return sum(word.same in ("at", "in", "on", "during", "by") for word in words_of(text))


def has_known_words(type_: str) -> bool:
    """Whether `speaking` can tell what speaks of a type."""
    return type_ in _SAYS


def speaking(spans: Sequence[str], type_: str) -> list[str]:
    """Those of the spans that hold a known word of a type; all of a type without known words."""
    spoken = _SAYS.get(type_)
    return [span for span in spans if spoken is None or not spoken.isdisjoint(word.same for word in words_of(span))]


def said_of(caption: str, type_: str, free: Sequence[str]) -> list[str]:
    """The words of a caption that speak of the weather, the time or colours, with the small word before a noun ("at
    night", "rainy"), each once; those alone that are `free` to change.
    """
    if type_ not in ("weather", "time", "colour"):
        return []
    adjectives = _SAYS["colour"].union(_WEATHERS[""])
    phrases = list[str]()
    for word in words_of(caption):
        if word.same in _SAYS[type_] and word.text in free:
            mention = find_mentions(caption, [word.text])[0][0]
            phrase = caption[mention.start : mention.end]
            whole = word.same not in adjectives and phrase_class(phrase) == "place"
            phrases.append(phrase if whole else word.text)
    return list(dict.fromkeys(phrases))


def medium_of(caption: str) -> str | None:
    """What a caption calls its picture: "a photo" in "a photo of a dog"."""
    match = _MEDIUM.match(caption)
    return match and match.group()


def phrase_of(type_: str, value: str) -> str:
    """A user's value as words that a caption can end with, or begin: "night" is "at night", "sketch" "a sketch of"."""
    if phrase_class(value) == "place" or value.endswith(" of"):
        return value
    if type_ == "domain":
        article = "an" if value[:1].casefold() in tuple("aeiou") else "a"
        return f"{value} of" if phrase_class(value) == "article" else f"{article} {value} of"
    if type_ in ("time", "weather"):
        heads, other = (_TIMES, f"at {value}") if type_ == "time" else (_WEATHERS, f"in {value} weather")
        head = next((head for head, words in heads.items() if value.casefold() in words), "")
        return f"{head} {value}" if head else other
    if type_ == "light":
        return f"in {value}" if value.casefold().endswith("light") else f"in {value} light"
    forms = {"background": "with {} in the background", "object": "with {}", "camera": "seen from {}"}
    return forms.get(type_, "{}").format(value)


def apply_by_rule(caption: str, edits: Sequence[Edit]) -> str:
    """The caption with the edits that add words or remove some; those that replace words are left."""
    for edit in edits:
        if edit.kind == "add":
            caption = _add(caption, edit.alternative)
        elif edit.kind == "remove":
            for mention in reversed(find_mentions(caption, [edit.keyword])[0]):
                start = mention.end - len(edit.keyword)
                caption = f"{caption[:start].rstrip()}{caption[mention.end :]}"
            caption = caption.lstrip(" ,")
    return caption


def undo_by_rule(edited: str, edit: Edit) -> str:
    """A caption without an addition that `apply_by_rule` made; others stay as they are."""
    if edit.kind != "add":
        return edited
    phrase = re.escape(edit.alternative)
    if edit.alternative.endswith(" of"):
        return re.sub(rf"^{phrase} ", "", edited, flags=re.IGNORECASE)
    return re.sub(rf",? {phrase}(?![^\W_])", "", edited, count=1)


def _add(caption: str, phrase: str) -> str:
    if phrase.endswith(" of"):
        # What the caption speaks of, as a phrase: "a dog lying on grass", "a toad that sits on stones".
        caption = _COPULA.sub(r"\1 ", caption)
        match = next((match for pattern in _SENTENCES if (match := pattern.match(caption))), None)
        if match and match[1].split()[-1].casefold() not in _NO_SUBJECT:
            caption = f"{match[1]} that{caption[match.end(1) :]}"
        if not caption[:1].isupper() or caption.split()[0].casefold() not in _SMALL_BEGINNINGS:
            return f"{phrase} {caption}"
        return f"{phrase[:1].upper()}{phrase[1:]} {caption[:1].lower()}{caption[1:]}"
    end = re.search(r"\s*(?:[.!?;](?=\s|$)|$)", caption)
    assert end is not None  # the end of the text, if nothing else
    link = " " if phrase_class(phrase) == "place" else ", "
    return f"{caption[: end.start()]}{link}{phrase}{caption[end.start() :]}"
