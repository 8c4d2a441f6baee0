"""Grammars: which answers a language model may give to a question, as one regular expression each.

Every form that is asked for is a regular language, so Python's `re` is the oracle of what llguidance allows. An
expression is matched against the whole answer. Answers are compact JSON without escapes, so most have a JSON schema
too, which llguidance compiles in half of the time. What words mean, and which of them may change, is not decided here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .phrases import ARTICLES, HEADS, PREPOSITIONS, find_mentions, goes_on, phrase_class

_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SEPARATORS = " -"
# An alternative has at most this many words that its keyword has not, and room for words of this many letters on
# average. Letters are not counted by the grammar: counting made its compilation seven times as slow.
_MAX_WORDS, _MAX_LETTERS = 4, 14
_WORD = "[a-z]+"
_MORE_WORDS = f"(?:[ -]{_WORD}){{0,{_MAX_WORDS - 1}}}"
_REST_OF_WORD = f"[a-z]*{_MORE_WORDS}"
_LONGEST_TAIL = _MAX_WORDS * (_MAX_LETTERS + 1)
_WORD_AND_SPACE = re.compile(r" *[^ ]+| +$")
_TEXT = "A-Za-z0-9 ,.;:!?'()&/%+"

NOTHING = "none"
_MEDIA = (
    *("a painting", "an oil painting", "a watercolor", "a drawing", "a pencil sketch", "a sketch", "an engraving"),
    *("a cartoon", "an illustration", "a mosaic", "a sculpture", "a statue", "an embroidery", "a toy", "a tattoo"),
    *("a black and white photo", "a poster", "a video game rendering", "a sticker", "a photo"),
)
# A word of any language's letters, or a number. Letters are counted: without it a small model wrote one digit to the
# end of its room.
_ANY_WORD = rf"(?:[^\W\d_]{{1,{_MAX_LETTERS}}}|[0-9]{{1,4}}s?)(?:['-][^\W\d_]{{1,{_MAX_LETTERS}}})?"
_MOST_WORDS = 8
_UP_TO = f"(?: {_ANY_WORD}){{1,{_MOST_WORDS - 1}}}"


@dataclass(frozen=True)
class Grammar:
    """A regular expression for the whole answer, and the UTF-8 bytes that an answer has room for.

    What the expression allows fits that room but for alternatives of very long words, which are cut off: an answer
    that is not closed is not read, and its keyword not edited. `schema` is a JSON schema whose instances, written
    without spaces or escapes, are the same answers; None where there is none.
    """

    pattern: str
    longest_bytes: int
    schema: str | None = None

    def allows(self, answer: str) -> bool:
        """Whether `answer` is an answer of this grammar."""
        return re.fullmatch(self.pattern, answer) is not None


def _literal(text: str) -> str:
    if not text or '"' in text or "\\" in text or not text.isprintable():
        raise ValueError(f"{text!r} cannot stand in an answer: it is empty, or holds a quote, a backslash or a control")
    return _SPECIAL.sub(lambda match: "\\" + match.group(), text)


def _one_of(texts: Iterable[str]) -> str:
    """Any of `texts`; what several begin with, to the end of a word, stands once, so that grammars stay small."""
    tree: dict[str, Any] = {}
    for text in texts:
        branch = tree
        _literal(text)  # refuses what cannot stand in an answer, the empty text too
        for word in _WORD_AND_SPACE.findall(text):
            branch = branch.setdefault(word, {})
        branch[""] = {}
    return f"(?:{_branches(tree)})"


def _branches(tree: Mapping[str, Any]) -> str:
    ways = []
    for word, after in tree.items():
        if word:
            following = _branches(after)
            ways.append(_literal(word) + (f"(?:{following}){'?' * ('' in after)}" if len(after) > 1 else following))
    return "|".join(ways)


def _list_of(item: str, schema: Mapping[str, Any] | None, most: int, longest: int) -> Grammar:
    """A list of 1 to `most` items, each of at most `longest` bytes with its comma."""
    listed = {"type": "array", "items": schema, "minItems": 1, "maxItems": most}
    pattern = rf"\[{item}(?:,{item}){{0,{most - 1}}}\]"
    return Grammar(pattern, 2 + most * longest, _as_json(listed) if schema is not None else None)


def _text(pattern: str, longest: int) -> Grammar:
    return Grammar(f'"{pattern}"', 2 + longest, _as_json(_text_schema(pattern)))


def _text_schema(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^(?:{pattern})$"}


def _as_json(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, ensure_ascii=False)


def _bytes(text: str) -> int:
    return len(text.encode())


def keywords_grammar(types: Sequence[str], spans: Sequence[str], most: int) -> Grammar:
    """`[["type","span"],...]` with 1 to `most` pairs of the types and spans; `NOTHING` stands among both.

    `[["none","none"]]` says that nothing may change: every answer begins in the same way, as the pocket model learned
    it. Raises ValueError for no types or no spans.
    """
    if not types or not spans or most < 1:
        raise ValueError(f"keywords need types, spans and a count, got {len(types)}, {len(spans)} and {most}")
    types, spans = [*types, NOTHING], list(dict.fromkeys([*spans, NOTHING]))
    pair = rf'\["{_one_of(types)}","{_one_of(spans)}"\]'
    longest = max(map(_bytes, types)) + max(map(_bytes, spans)) + len('["",""],')
    pair_schema = {"type": "array", "prefixItems": [{"enum": types}, {"enum": spans}], "items": False, "minItems": 2}
    return _list_of(pair, pair_schema, most, longest)


def _unlike(keyword: str, at: int = 0) -> str:
    """Words that share `keyword[:at]` and are not `keyword`: they diverge here, end here, or go on sharing."""
    following = keyword[at] if at < len(keyword) else ""
    within_word = at > 0 and keyword[at - 1] in _LETTERS
    # No character of these classes has a meaning in one, but for the hyphen, which stands at the end.
    ways = [f"[{_LETTERS.replace(following, '') if following else _LETTERS}]{_REST_OF_WORD}"]
    if within_word:
        ways.append(f"[{''.join(c for c in _SEPARATORS if c != following)}]{_WORD}{_MORE_WORDS}")
    if following and (following in _LETTERS or (within_word and following in _SEPARATORS)):
        ways.append(_literal(following) + _unlike(keyword, at + 1))
    may_end = within_word and at < len(keyword)
    return "(?:" + "|".join(ways) + ")" + ("?" if may_end else "")


def alternatives_grammar(keyword: str, most: int) -> Grammar:
    """`["…",…]` with 1 to `most` strings of lower-case words, joined by single spaces or hyphens, none the keyword.

    The complement of one string is a small regular language: follow the keyword letter by letter, and leave it
    somewhere. Letter case is set aside. Raises ValueError for an empty keyword or a count below 1.
    """
    folded = keyword.casefold().strip()
    if not folded or most < 1:
        raise ValueError(f"alternatives need a keyword and a count, got {keyword!r} and {most}")
    other = _unlike(folded)
    return _list_of(f'"{other}"', _text_schema(other), most, _bytes(folded) + _LONGEST_TAIL + len('"",'))


def proposals_grammar(
    spans: Sequence[str], hosts: Sequence[str], removable: Sequence[str], addition: str, most: int
) -> Grammar:
    """`[["span","words"],...]` with 1 to `most` pairs: spans with what is said in their place, of up to 8 words.

    Words are of any letters, or numbers of 4 digits. In the place of a span that begins with a preposition or an
    article stands one that does, and of a `removable` one nothing. `hosts` are words that stay: others may be put
    before or after them ("small dog", "dog in the snow"). An `addition` is a pair with an empty span: "end" for a
    phrase with a preposition ("in the rain"), "medium" for a kind of picture ("a painting of"), "front" for other such
    beginnings, "word" for none. Raises ValueError where nothing can be proposed.
    """
    forms = {"place": f"(?:{'|'.join(PREPOSITIONS)}){_UP_TO}", "article": f"(?:{'|'.join(ARTICLES)}){_UP_TO}"}
    forms["bare"] = _ANY_WORD + _UP_TO.replace("{1,", "{0,")
    ways = []
    for kind, form in forms.items():
        if phrases := [span for span in dict.fromkeys(spans) if phrase_class(span) == kind]:
            ways.append(rf'\["{_one_of(phrases)}","{form}"\]')
    for word in map(_literal, dict.fromkeys(hosts)):
        before = rf"(?:{_ANY_WORD} ){{1,3}}{word}"
        ways.append(rf'\["{word}","(?:{before}|{word} (?:{"|".join(PREPOSITIONS)}){_UP_TO})"\]')
    if removable:
        ways.append(rf'\["{_one_of(dict.fromkeys(removable))}",""\]')
    if addition == "end":
        ways.append(rf'\["","{forms["place"]}"\]')
    elif addition == "medium":
        ways.append(rf'\["","{_one_of(_MEDIA)} of"\]')
    elif addition == "front":
        ways.append(rf'\["","an?(?: {_ANY_WORD}){{1,3}} of"\]')
    if not ways or most < 1:
        raise ValueError(f"proposals need words or a place to add some, and a count, got {most}")
    pair = f"(?:{'|'.join(ways)})"
    longest = 2 * max(map(_bytes, (*spans, *hosts, *removable)), default=0) + _MOST_WORDS * (_MAX_LETTERS + 1)
    return _list_of(pair, None, most, longest + len('["",""],'))


def choices_grammar(offered: Sequence[Sequence[tuple[str, str]]]) -> Grammar:
    """`[["span","words"],...]` with one pair of each of the `offered` lists, in order. Raises ValueError for none."""
    if not offered or not all(offered):
        raise ValueError(f"a choice needs pairs, got {[len(pairs) for pairs in offered]}")
    parts, longest = [], 0
    for pairs in offered:
        ways: dict[str, list[str]] = {}
        for old, new in pairs:
            ways.setdefault(old, []).append(new)
        spans = [rf'\["{_literal(old) if old else ""}","{_one_of(news)}"\]' for old, news in ways.items()]
        parts.append(f"(?:{'|'.join(spans)})")
        longest += max(_bytes(old) + _bytes(new) for old, new in pairs) + len('["",""],')
    return Grammar(rf"\[{','.join(parts)}\]", 2 + longest)


def place_grammar(spans: Sequence[str], optional: bool) -> Grammar:
    """`"…"`: one of the spans; nothing too, if it is `optional`. Raises ValueError for no spans."""
    return Grammar(f'"{_one_of(dict.fromkeys(spans))}{"?" * optional}"', 2 + max(map(_bytes, spans)))


def values_grammar(values: Sequence[str]) -> Grammar:
    """`["…",…]` with at least one of `values`, each at most once and in their order. Raises ValueError for none."""
    if not values:
        raise ValueError("a choice among values needs values")
    items = [f'"{_literal(value)}"' for value in values]
    firsts = [item + "".join(f"(?:,{later})?" for later in items[at + 1 :]) for at, item in enumerate(items)]
    longest = sum(_bytes(value) + len('"",') for value in values)
    return Grammar(rf"\[(?:{'|'.join(firsts)})\]", 2 + longest)


def one_of_grammar(texts: Sequence[str]) -> Grammar:
    """`"…"`: one of `texts`. Raises ValueError for none."""
    if not texts:
        raise ValueError("a choice needs texts")
    longest = 2 + max(map(_bytes, texts))
    return Grammar(f'"{_one_of(texts)}"', longest, _as_json({"enum": list(dict.fromkeys(texts))}))


def edited_grammar(caption: str, changes: Sequence[tuple[str, str]]) -> Grammar:
    """`"…"`: the caption with each (keyword, alternative) made and every other word as it was.

    The small words before an alternative are free (articles and prepositions: "an orange car", "during the day"), and
    words of the keyword may follow it ("red car" -> "blue" gives "blue car"). All mentions of a thing change together,
    but for an alternative that goes on after its keyword ("dog in the snow"), which is said once. Raises ValueError if
    a keyword has no place in the caption which the others leave free.
    """
    spots: list[tuple[int, int, tuple[str, int]]] = []
    places = find_mentions(caption, [keyword for keyword, _ in changes])
    for mentions, (keyword, alternative) in zip(places, changes, strict=True):
        for mention in mentions[: 1 if goes_on(keyword, alternative) else None]:
            old = caption[mention.start : mention.end]
            region, most = _region(old[0].isupper(), keyword, alternative)
            if not mention.same:
                region, most = f"(?:{region}|{_literal(old)})", max(most, _bytes(old))
            spots.append((mention.start, mention.end, (region, most)))
    pattern, longest, at = "", 0, 0
    for start, end, (region, most) in sorted(spots):
        pattern += (_literal(caption[at:start]) if start > at else "") + region
        longest, at = longest + most, end
    pattern += _literal(caption[at:]) if at < len(caption) else ""
    return _text(pattern, _bytes(caption) + longest)


def _region(capital: bool, keyword: str, alternative: str) -> tuple[str, int]:
    """The alternative, a small word before it or none, one of the keyword's after it or none; and the most bytes."""
    changed = _literal(alternative)
    capitalised = _literal(alternative[0].upper() + alternative[1:])
    if phrase_class(keyword) == phrase_class(alternative) == "place":  # both bring their small word
        return f"(?:{changed}|{capitalised})" if capital else changed, _bytes(alternative)
    words = alternative.casefold().split()
    tails = [f" {word}" for word in keyword.split() if word.casefold() not in words]
    heads = [head for head in HEADS if head not in _wrong_articles(alternative.casefold())]
    if capital:
        heads += [head.capitalize() for head in heads]
    changed = rf"(?:{_one_of(heads)} )?{changed}"
    if capital:
        changed = f"(?:{changed}|{capitalised})"
    longest = max(map(_bytes, heads)) + 1 + _bytes(alternative) + max(map(_bytes, tails), default=0)
    return changed + (f"{_one_of(tails)}?" if tails else ""), longest


def _wrong_articles(word: str) -> tuple[str, ...]:
    """The articles that cannot stand before a word, by its first letters; none where sound and letter part ("hour")."""
    if word.startswith(("h", "u", "eu", "one")):
        return ()
    return ("a",) if word[0] in "aeio" else ("an",)


def text_grammar(most_chars: int, letters: str = "") -> Grammar:
    """`"…"` with 1 to `most_chars` characters of plain English text, and of those in `letters` beyond ASCII."""
    if most_chars < 1:
        raise ValueError(f"a text needs at least one character, got {most_chars}")
    beyond = "".join(sorted({c for c in letters if not c.isascii() and c.isprintable()}))
    widest = max(map(_bytes, beyond), default=1)
    pattern = f"[{_TEXT}{beyond}-]{{1,{most_chars}}}"
    return _text(pattern, most_chars * widest)
