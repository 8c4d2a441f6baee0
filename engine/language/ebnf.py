"""Regular expressions of `grammar` as EBNF with rules, for GenAI's grammar compiler.

The compiler (xgrammar) works out a regular expression's every state, and repeats that for every copy of a part that is
counted or said twice. In EBNF such a part is a rule, compiled once. Only what `grammar` writes is understood: literals,
classes, groups, `|`, `?`, `*`, `+` and `{m,n}`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

# What one place takes: a character, a class as written, or the ways of a group; and how often it is taken.
_Item = tuple["str | _Ways", str]
_Ways = tuple[tuple["_Item", ...], ...]
_TOKEN = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\(\?:|\{\d+,\d+\}|.", re.DOTALL)
_LITERAL_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\"})


def to_ebnf(pattern: str) -> str:
    """The grammar, its first rule `root`, of the texts that `pattern` matches as a whole.

    Raises ValueError for an expression that is not one of `grammar`'s.
    """
    tokens = _TOKEN.findall(pattern)
    ways, at = _ways(tokens, 0)
    if at < len(tokens):
        raise ValueError(f"unmatched {tokens[at]!r} in the expression {pattern!r}")
    uses = Counter(_groups(ways))
    names: dict[_Ways, str] = {}
    for group, count in uses.items():
        if count > 1:
            names[group] = f"part{len(names)}"
    rules = {"root": ways} | {name: group for group, name in names.items()}
    return "".join(f"{name} ::= {_render(body, names)}\n" for name, body in rules.items())


def _ways(tokens: list[str], at: int) -> tuple[_Ways, int]:
    """What stands from `at` to the end of the group, and where that is."""
    ways: list[tuple[_Item, ...]] = []
    items: list[_Item] = []
    while at < len(tokens) and tokens[at] != ")":
        token, at = tokens[at], at + 1
        if token == "|":
            ways.append(tuple(items))
            items = []
        elif token in "?*+" or (token[0] == "{" and len(token) > 1):
            if not items or items[-1][1]:
                raise ValueError(f"{token!r} follows nothing that it could count")
            items[-1] = (items[-1][0], token)
        elif token == "(?:":
            group, at = _ways(tokens, at)
            if at == len(tokens):
                raise ValueError("a group is not closed")
            items.append((group, ""))
            at += 1
        else:
            items.append((token, ""))
    return (*ways, tuple(items)), at


def _groups(ways: _Ways) -> Iterator[_Ways]:
    """Every group within, as often as it stands there; those within a group that was met before are not met again."""
    seen: set[_Ways] = set()
    waiting = [ways]
    while waiting:
        for way in waiting.pop():
            for atom, _ in way:
                if isinstance(atom, tuple):
                    yield atom
                    if atom not in seen:
                        seen.add(atom)
                        waiting.append(atom)


def _render(ways: _Ways, names: dict[_Ways, str]) -> str:
    return " | ".join(" ".join(_sequence(way, names)) or '""' for way in ways)


def _sequence(way: tuple[_Item, ...], names: dict[_Ways, str]) -> Iterator[str]:
    text = ""
    for atom, count in way:
        literal = isinstance(atom, str) and not _is_class(atom)
        if literal and not count:
            text += _character(str(atom))
            continue
        if text:
            yield _quoted(text)
            text = ""
        if isinstance(atom, tuple):
            yield (names[atom] if atom in names else f"({_render(atom, names)})") + count
        else:
            yield (_quoted(_character(atom)) if literal else atom) + count
    if text:
        yield _quoted(text)


def _is_class(atom: str) -> bool:
    return atom[0] == "[" and len(atom) > 1


def _character(token: str) -> str:
    return token[-1]


def _quoted(text: str) -> str:
    return f'"{text.translate(_LITERAL_ESCAPES)}"'
