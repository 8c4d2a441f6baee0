"""Bytes, JSON and texts changed at random: what a careless program, a broken disk or somebody who means harm may write.

Every change follows from the generator that is given, so that a number names an input for ever.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

# What parsers stumble over, as bytes and as values of JSON.
_BITS = [
    *(b"", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\n", b"\r", b"\xe2\x80\xa8", b"\x1b[2J", b"NaN", b"1e999", b"-1"),
    *(b"9" * 400, b"9" * 5000, b"[" * 2000, b'{"a":' * 300, b"null", b"true", b'"', b"'", b"&", b"<!--", b"]]>"),
    *(b"!!int", b"!!timestamp x", b"!!bool x", b"&a [*a]", b'encoding="x"', b"\\ud800", b"%s", b"{}", b"[]", b"../x"),
    b"\xc3\x28",
]
_VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        0.5,
        -0.0,
        1e308,
        2**31,
        2**63,
        2**64,
        10**30,
        -(10**30),
        10**299,
        "",
        " ",
        "0",
        "-1",
    ),
    *("x" * 300, "\ud800", "\u202e\x1b[2J", "NaN", "../../x", "/etc/passwd", "a\x00b", [], {}, [[]], [None], {"": ""}),
    *(
        [0] * 50,
        ["a", "b"],
        {"a": 1},
        [[[[[]]]]],
        [1e308, 1e308],
        "9" * 5000,
        "1e999",
        "true",
        "nan",
        "é",
        "\U0001f600",
    ),
]
_SPANS = (1, 1, 2, 4, 16, 64, 512)


def mutate_bytes(data: bytes, rng: random.Random, other: bytes = b"") -> bytes:
    """The bytes with one to eight changes: bits, bytes, runs and pieces; `other` is of the same kind."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        at, span = rng.randrange(len(changed) + 1), rng.choice(_SPANS)
        match rng.randrange(9):
            case 0 if changed:
                changed[at % len(changed)] ^= 1 << rng.randrange(8)
            case 1 if changed:
                changed[at % len(changed)] = rng.randrange(256)
            case 2:
                del changed[at : at + span]
            case 3:
                del changed[at:]
            case 4:
                changed[at:at] = rng.choice(_BITS)
            case 5:
                changed[at : at + span] = rng.choice(_BITS)
            case 6:
                changed[at : at + span] = rng.randbytes(span)
            case 7:
                changed[at:at] = changed[at : at + span] * rng.choice((1, 2, 40))
            case _:
                start = rng.randrange(len(other) + 1)
                changed[at : at + span] = other[start : start + span]
    return bytes(changed)


def mutate_tree(value: Any, rng: random.Random) -> Any:
    """A value of JSON with one to four places that hold other values, are gone, twice there, or called otherwise."""
    root = [copy.deepcopy(value)]
    for _ in range(rng.choice((1, 1, 2, 4))):
        box, key = rng.choice(list(_places(root)))
        match rng.randrange(6):
            case 0 if isinstance(box, dict):
                box[rng.choice(("", "a", "9" * 400, "\ud800", "id", "name"))] = box.pop(key)
            case 1 if box is not root:
                del box[key]
            case 2 if isinstance(box, list) and box is not root:
                box.insert(key, copy.deepcopy(box[key]))
            case 3:
                other, theirs = rng.choice(list(_places(root)))
                box[key] = copy.deepcopy(other[theirs])
            case _:
                box[key] = copy.deepcopy(rng.choice(_VALUES))
    return root[0]


def _places(box: Any) -> Any:
    for key, value in list(box.items()) if isinstance(box, dict) else list(enumerate(box)):
        yield box, key
        if isinstance(value, (dict, list)):
            yield from _places(value)


def mutate_json(data: bytes, rng: random.Random, other: bytes = b"") -> bytes:
    """The text of a JSON value that was changed as a tree, three times of four; else as bytes. Of several lines each is
    a value of its own.
    """
    if rng.randrange(4) == 0:
        return mutate_bytes(data, rng, other)
    text = data.decode("utf-8", "replace")
    lines = text.split("\n") if "\n{" in text else [text]
    at = rng.randrange(len(lines))
    try:
        value = json.loads(lines[at])
    except (ValueError, RecursionError):  # changed as bytes before
        return mutate_bytes(data, rng, other)
    lines[at] = json.dumps(mutate_tree(value, rng))
    return "\n".join(lines).encode("utf-8", "surrogatepass")
