"""The groups of sources: by a column, by a part of a path, and what names none."""

from __future__ import annotations

import re

import pytest
from refusing import refusal

from counterfactory.engine.sources.sequences import Member
from counterfactory.engine.sources.source_groups import SourceGroups, group_members, join_groups

MEMBERS = [
    Member(
        f"s{k}", f"set/drive{k // 2}/{'ab'[k % 2]}_{k:03}.png", cells={"drive": k // 2, "hole": k or None, "one": 1.0}
    )
    for k in range(6)
]


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("drive", ["0", "0", "1", "1", "2", "2"]),
        (r"(drive\d)", ["drive0"] * 2 + ["drive1"] * 2 + ["drive2"] * 2),
        (r"/([ab])_", ["a", "b"] * 3),
        (r"e(\d)/(a|b)", ["0/a", "0/b", "1/a", "1/b", "2/a", "2/b"]),
        (r"(drive0)|(?P<later>drive)", ["drive0"] * 2 + ["drive"] * 4),
        (r"([ab])(_9)?", ["a", "b"] * 3),
    ],
)
def test_columns_and_patterns_name_groups(by: str, groups: list[str]) -> None:
    assert group_members(by, MEMBERS) == SourceGroups(by, dict(zip([one.name for one in MEMBERS], groups, strict=True)))


@pytest.mark.parametrize(
    ("by", "says"),
    [
        ("hole", ["'hole'", "1 of 6", "set/drive0/a_000.png"]),
        ("one", ["'one'", "all 6 sources into one group", "'1'"]),
        ("driv", ["did you mean 'drive'"]),
        (r"(drive[01])/", ["does not match 2 of 6", "set/drive2/a_004.png"]),
        (r"(x+)y", ["does not match 6 of 6"]),
        (r"()", ["does not match 6 of 6"]),
        (r"^(set)/", ["all 6 sources into one group"]),
        (r"drive\d", ["in parentheses"]),
        ("*_*.png", ["no regular expression", "in parentheses"]),
        ("{drive}/*.png", ["in parentheses"]),
        ("(drive", ["no regular expression"]),
    ],
)
def test_what_names_no_groups_is_refused(by: str, says: list[str]) -> None:
    with refusal(".*".join(map(re.escape, says))):
        group_members(by, MEMBERS)


def test_a_set_without_a_table_has_no_columns() -> None:
    with refusal("no such column.*in parentheses"):
        group_members("drive", [Member("a", "a.png"), Member("b", "b.png")])
    assert group_members("none", MEMBERS).of == {}


def test_suites_that_become_one_have_all_groups() -> None:
    first, second = SourceGroups("drive", {"a": "1", "b": "2"}), SourceGroups("drive", {"b": "9", "c": "1"})
    assert join_groups([first, second]) == SourceGroups("drive", {"a": "1", "b": "2", "c": "1"})
    assert first.among({"b"}) == SourceGroups("drive", {"b": "2"})
    assert join_groups([first, None]) is None
