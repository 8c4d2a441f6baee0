"""What is printed does nothing to a terminal, and what is written nothing to a spreadsheet."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfactory.engine.files.escaping import for_spreadsheet, for_terminal


@given(st.text(st.characters()))
def test_a_terminal_obeys_nothing_and_letters_stay(text: str) -> None:
    shown = for_terminal(text)
    kinds = {unicodedata.category(c) for c in shown if c not in "\n\u200c\u200d"}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert shown.count("\n") == text.count("\n")
    letters = "".join(c for c in text if c.isalpha() and c != "\\")
    assert [c for c in shown if c in letters and ord(c) > 127] == [c for c in letters if ord(c) > 127]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("bus \u0639\u0631\u0628\u064a \U0001f68c \u96e8\u4e2d", None),
        ("a\u200db\nc", None),
        ("\x1b]0;x\x07", "\\x1b]0;x\\x07"),
        ("txt\u202eexe\u2066\x9b", "txt\\u202eexe\\u2066\\x9b"),
        ("a\rb\u2028c\ud800", "a\\rb\\u2028c\\ud800"),
    ],
)
def test_what_is_written_out(text: str, shown: str | None) -> None:
    assert for_terminal(text) == (text if shown is None else shown)


def test_formulas_are_text() -> None:
    for cell in ("=1+1", "+1", "-1", "@x", "\tx", "\r=1", "\n=1", "\uff1d1"):
        assert for_spreadsheet(cell) == f"'{cell}"
    for other in ("bus", "", " =1", "1-1", -1, 0.5, None):
        assert for_spreadsheet(other) == other
