"""Tables of real pictures under real conditions."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_sets import save, save_mask, write

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.keys import file_digest
from counterfactory.engine.sources.real_pictures import read_real

HEAD = "image,label,condition,place\n"
GOOD = HEAD + "a.png,bus,,oslo\nrain/b.png,bus,weather: rainy,oslo\nc.png,car,weather: foggy; time: night,rome\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for seed, name in enumerate(("a.png", "rain/b.png", "c.png")):
        save(tmp_path / "set" / name, seed)
    return tmp_path / "set"


def test_a_table_says_what_each_picture_is(root: Path) -> None:
    pictures = read_real(write(root / "real.csv", GOOD))
    assert [(one.file_name, one.source, one.label, one.kind) for one in pictures] == [
        ("a.png", "oslo", "bus", "original"),
        ("rain/b.png", "oslo", "bus", "variant"),
        ("c.png", "rome", "car", "variant"),
    ]
    assert [edit.value for edit in pictures[2].edits] == ["weather: foggy", "time: night"]
    assert [one.sha256 for one in pictures] == [file_digest(one.path) for one in pictures]
    assert pictures[0].accepted


def test_a_mask_takes_the_place_of_a_label(root: Path) -> None:
    save_mask(root / "m.png", (0, 1))
    text = "image,mask,condition,place\na.png,m.png,,oslo\nc.png,m.png,time: night,oslo\n"
    assert [one.mask for one in read_real(write(root / "real.csv", text))] == [root.resolve() / "m.png"] * 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rain/b.png", "rain/x.png", r"real.csv:3: cannot read .*x.png: No such file"),
        ("rain/b.png", "../outside.png", r"real.csv:3: ../outside.png leads out of"),
        ("rain/b.png", "/etc/passwd", "leads out of"),
        ("rain/b.png", "link.png", "leads out of"),
        ("rain/b.png", "a.png", r"real.csv:3: a.png is there twice"),
        ("weather: rainy", "rainy", "has an unknown form"),
        ("weather: rainy", "weather: " + "r" * 1000, "1009 characters"),
        (",oslo\nrain", ",\nrain", r"real.csv:2: names no place"),
        ("a.png,bus", "a.png,", "has a label or a mask"),
        ("a.png,bus,,oslo\n", "", "no picture with an empty condition"),
        ("condition", "weather", "no column 'condition'"),
    ],
)
def test_a_row_that_cannot_be_used_is_refused_with_its_line(root: Path, old: str, new: str, message: str) -> None:
    save(root.parent / "outside.png")
    (root / "link.png").symlink_to(root.parent / "outside.png")
    assert old in GOOD
    with pytest.raises(CounterfactoryError, match=message):
        read_real(write(root / "real.csv", GOOD.replace(old, new, 1)))


def test_a_set_of_plain_days_alone_is_refused(root: Path) -> None:
    with pytest.raises(CounterfactoryError, match="no picture with a condition, such as"):
        read_real(write(root / "real.csv", HEAD + "a.png,bus,,oslo\n"))
