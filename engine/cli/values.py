"""Values of options: a text of the command line, or the sentence why it is none of the kind."""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path


def place(text: str) -> str | Path:
    """A path, or an URL as it is: a path would make one of its two slashes."""
    return text if "://" in text else Path(text)


def positive(text: str) -> int:
    if not re.fullmatch(r"\d{1,8}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number above 0, of at most 8 digits, is needed, got {_some(text)}")
    return int(text)


def words(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(","))
    if not all(re.fullmatch(r"[^\W_]+(?:['-][^\W_]+)*", word) for word in words):
        raise argparse.ArgumentTypeError(f"single words with commas between are needed, got {text!r}")
    return words


def names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"names with commas between are needed, got {text!r}")
    return names


def count(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise argparse.ArgumentTypeError(f"a whole number from 0 is needed, got {text!r}")
    return int(text)


def gigabytes(text: str) -> float:
    value = _number(text)
    if not 0.001 <= value <= 1e6:
        raise argparse.ArgumentTypeError(f"a number of gigabytes is needed, got {text!r}")
    return value


def setting(text: str) -> tuple[str, float]:
    key, equals, number = text.partition("=")
    value = _number(number)
    if not equals or not key or not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"a key and a number are needed, such as check.edit=0.5, got {text!r}")
    return key.strip(), value


def percent(text: str) -> float:
    value = _number(text.removesuffix("%"))
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"a percentage from 0 to 100 is needed, got {text!r}")
    return value / 100


def share(text: str) -> float:
    value = percent(text) if text.endswith("%") else _number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"a share from 0 to 1, or a percentage such as 80%, is needed, got {text!r}")
    return value


def drop(text: str) -> tuple[str, float]:
    name, equals, points = text.rpartition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"a name and points are needed, such as weather=5, got {text!r}")
    return name, 100 * percent(points)


def points(text: str) -> float:
    return 100 * percent(text)


def seed(text: str) -> int:
    if not re.fullmatch(r"\d{1,19}", text) or int(text) >= 1 << 63:
        raise argparse.ArgumentTypeError(f"a whole number from 0 to 2^63 - 1 is needed, got {text!r}")
    return int(text)


def span(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,8})(?:\.\.(\d{1,8}))?", text)
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= low <= high:
        raise argparse.ArgumentTypeError(f"a number such as 2 or a range such as 1..3 is needed, got {text!r}")
    return low, high


def _some(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}...")


def _number(text: str) -> float:
    """NaN where it is none, which no range holds."""
    try:
        return float(text)
    except ValueError:
        return math.nan
