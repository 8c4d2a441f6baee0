"""Pairs of originals and edited pictures, and real ones under real conditions: what tables and folders say of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies
from PIL import Image
from small_sets import encoded, noise, reasons, save, save_mask, write

from counterfactory.engine.edit import Edit
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.keys import file_digest
from counterfactory.engine.sources.data_set import DataSet, SetOptions, read_listing
from counterfactory.engine.sources.edited_pairs import list_edited
from counterfactory.engine.sources.given import GivenPicture, load_given, parse_edits
from counterfactory.engine.sources.real_pictures import read_real

PAIR = {"original": "in/a.png", "edited": "out/a0.png", "edit": "weather: foggy"}
FOGGY, NIGHT = Edit("weather", "", "foggy"), Edit("time", "day", "night")


def read(root: Path, masks: Path | None = None) -> DataSet:
    return read_listing(list_edited(root, masks), str(root), SetOptions())


def pictures(found: DataSet) -> dict[str, tuple[GivenPicture, ...]]:
    """The pictures of each source by its name."""
    return {source.name: source.given.pictures if source.given else () for source in found.sources}


def table(root: Path, *rows: dict[str, Any], name: str = "pairs.csv") -> Path:
    """A table of these rows, whose columns are those of all of them."""
    root.mkdir(exist_ok=True)
    path, columns = root / name, list(dict.fromkeys(column for row in rows for column in row))
    if path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({column: [row.get(column) for row in rows] for column in columns}), path)
    else:
        lines = [columns, *([str(row.get(column, "")) for column in columns] for row in rows)]
        text = "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines)
        path.write_text(text, encoding="utf-8-sig")
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two originals, and edited pictures of them."""
    for number, name in enumerate(("a", "b")):
        save(tmp_path / "p" / "in" / f"{name}.png", number)
        for edit in range(3):
            save(tmp_path / "p" / "out" / f"{name}{edit}.png", 10 * number + edit + 2)
        save_mask(tmp_path / "p" / "masks" / f"{name}.png", (1, 2))
    return tmp_path / "p"


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.jsonl", "pairs.parquet"])
def test_a_table_says_all_that_it_can(root: Path, name: str) -> None:
    alike = {"original": "in/a.png", "label": "bus", "mask": "masks/a.png"}
    rows = (
        {**alike, "edited": "out/a0.png", "edit": "weather: foggy; time: day -> night", "caption": "a bus by day"},
        {**alike, "edited": "out/a1.png", "edited_caption": "a bus in fog", "edit": "weather: foggy", "level": "2"},
        {**alike, "edited": "out/a2.png", "kind": "control"},
        {"original": "in/b.png", "edited": "out/b0.png", "edit": "weather: foggy"},
    )
    found = read(table(root, *rows, name=name))
    a, b = found.sources
    assert reasons(found) == {}
    assert (a.name, a.label, a.mask_path, b.label, b.mask_path) == ("in/a", "bus", root / "masks" / "a.png", None, None)
    assert a.given is not None
    assert b.given is not None
    assert (a.given.caption, b.given.caption, a.given.levels) == ("a bus by day", None, 2)
    assert [(one.edits, one.edited_caption, one.kind, one.level) for one in a.given.pictures] == [
        *(((FOGGY, NIGHT), None, "variant", 0), ((FOGGY,), "a bus in fog", "variant", 2), ((), None, "control", 0))
    ]
    assert found.notes == [
        "1 of 2 originals have no caption: the profile says what they show",
        "1 of 2 originals have no control: what their painter does besides its edits is unknown",
    ]


def test_a_table_of_floats_as_pandas_writes_it(root: Path) -> None:
    path = root / "pairs.parquet"
    columns = {"original": ["in/a.png"] * 2, "edited": ["out/a0.png", "out/a1.png"], "edit": ["weather: foggy"] * 2}
    pq.write_table(pa.table({**columns, "level": [1.0, float("nan")], "label": [3.0, 3.0]}), path)
    found = read(path)
    assert [one.level for one in pictures(found)["in/a"]] == [1, 0]
    assert found.sources[0].label == "3"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"edit": "foggy"}, "the edit 'foggy' has an unknown form; write 'weather: foggy'"),
        ({"edit": "weather: a -> b -> c"}, "has an unknown form"),
        ({"edit": "weather: fog -> fog"}, "has an unknown form"),
        ({"edit": "weather:"}, "has an unknown form"),
        ({"edit": " ; "}, "names nothing"),
        ({"edit": "weather: foggy; weather: foggy"}, "is there twice"),
        ({"edit": "weather: foggy", "kind": "control"}, "a control has no edit, found 'weather: foggy'"),
        ({"kind": "original"}, "kind is variant or control, found 'original'"),
        ({"level": "0"}, "level is a whole number from 1 to 9, found '0'"),
        ({"level": "\N{SUPERSCRIPT TWO}"}, "level is a whole number"),
        ({"level": "9" * 5000}, "level is a whole number"),
        ({"caption": "x" * 1001}, "column 'caption' has 1001 characters; at most 1000 are read"),
        ({"original": ""}, "names no original"),
        ({"edited": ""}, "names no edited"),
        ({"caption": "a\0b"}, "holds control characters"),
        ({"edited": "out/a\0.png"}, "holds control characters"),
        ({"original": "../secret.png"}, "leads out of"),
        ({"edited": "in/../../secret.png"}, "leads out of"),
        ({"mask": "/etc/passwd"}, "leads out of"),
        ({"edited": "link.png"}, "leads out of"),
        ({"edited": "linked/secret.png"}, "leads out of"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_and_costs_no_other(root: Path, row: dict[str, str], told: str) -> None:
    save(root.parent / "secret.png")
    (root / "link.png").symlink_to("../secret.png")
    (root / "linked").symlink_to(root.parent)
    found = read(table(root, {**PAIR, "edited": "out/a1.png", **row}, PAIR))
    ((name, reason),) = reasons(found).items()
    assert name == "pairs.csv:2"
    assert told in reason
    assert "\n" not in reason
    assert len(pictures(found)["in/a"]) == 1


def test_what_a_file_is_not_is_named_by_the_file(root: Path) -> None:
    (root / "out" / "a1.png").write_bytes((root / "out" / "a1.png").read_bytes()[:300])
    save(root / "out" / "a2.png", 5, 24, 24)
    rows = [{**PAIR, "edited": f"out/{name}.png"} for name in ("a0", "a1", "a2", "none")]
    found = read(table(root, *rows, {**PAIR, "original": "in/none.png", "edited": "out/b0.png"}))
    told = reasons(found)
    assert "broken or truncated" in told["out/a1.png"]
    assert told["out/a2.png"].startswith("is 24 x 24, its original 32 x 24: of another aspect")
    assert all("there is no file" in told[f"{folder}/none.png"] for folder in ("in", "out"))
    assert len(told) == 4
    assert [one.file for one in pictures(found)["in/a"]] == ["out/a0.png"]


def test_pairs_that_are_there_twice(root: Path) -> None:
    (root / "out" / "a1.png").write_bytes((root / "out" / "a0.png").read_bytes())
    changes = ({"original": "./in//a.png"}, {"edited": "out/a1.png"}, {"edited": "out/a2.png"})
    found = read(table(root, PAIR, PAIR, *(PAIR | change for change in changes)))
    told = reasons(found)
    assert all("is there twice; the first counts" in told[f"pairs.csv:{line}"] for line in (3, 4))
    assert told["out/a1.png"] == "the same picture as out/a0.png, with the same edit; one counts"
    assert [one.file for one in pictures(found)["in/a"]] == ["out/a0.png", "out/a2.png"]


def test_what_rows_say_of_one_original_has_to_agree(root: Path) -> None:
    def rows(name: str, **two: Sequence[str]) -> list[dict[str, str]]:
        pairs = [{**PAIR, "original": f"in/{name}.png", "edited": f"out/{name}{i}.png"} for i in (0, 1)]
        return [{**pair, **{key: values[i] for key, values in two.items()}} for i, pair in enumerate(pairs)]

    found = read(table(root, *rows("a", label=("bus", "car")), *rows("b", caption=("a bus", "a car"))))
    told = reasons(found)
    assert told["in/a.png"] == "has two labels, 'bus' (pairs.csv:2) and 'car' (pairs.csv:3); keep the right one"
    assert told["pairs.csv:5"].startswith("its original has two captions, 'a bus' (pairs.csv:4)")
    assert {name: len(own) for name, own in pictures(found).items()} == {"in/b": 2}
    assert found.sources[0].given is not None
    assert found.sources[0].given.caption == "a bus"
    masked = rows("a", mask=("masks/a.png", "masks/b.png"))
    assert reasons(read(table(root, *masked[:1], *rows("b")))) == {}
    found = read(table(root, *masked, *rows("b")))
    assert "has two masks" in reasons(found)["in/a.png"]
    assert list(pictures(found)) == ["in/b"]


def test_nothing_said_is_refused_and_little_is_counted(root: Path) -> None:
    pair = {name: PAIR[name] for name in ("original", "edited")}
    with pytest.raises(CounterfactoryError, match=r"says of no picture what was edited: add a column edit") as refused:
        read(table(root, pair, {**pair, "edited": "out/a1.png", "kind": "control"}))
    assert "\n" not in str(refused.value)
    with pytest.raises(CounterfactoryError, match="says of no picture"):
        read(table(root, {**pair, "caption": "a bus", "edited_caption": "a bus"}))
    found = read(table(root, pair, {**PAIR, "edited": "out/a1.png"}))
    assert [one.edits for one in pictures(found)["in/a"]] == [(Edit("other", "", "edited"),), (FOGGY,)]
    assert "1 of 2 pairs say no edit and count as 'other: edited'" in found.notes
    found = read(table(root, {**pair, "edited_caption": "a bus in fog"}))
    assert [one.edits for one in pictures(found)["in/a"]] == [()], "captions say it, stage by stage"


def test_paths_of_windows(root: Path) -> None:
    found = read(table(root, {**PAIR, "original": r"in\a.png", "edited": r"out\a0.png"}))
    assert list(pictures(found)) == ["in/a"]
    save(root / "out" / r"a\0.png", 3)
    found = read(table(root, {**PAIR, "edited": r"out/a\0.png"}))
    assert [Path(one.path).name for one in pictures(found)["in/a"]] == [r"a\0.png"], "a file's own name comes first"
    found = read(table(root, {**PAIR, "edited": r"C:\x\a.png"}))
    assert "there is no file" in reasons(found)[r"C:\x\a.png"]


def test_absolute_paths_lie_in_the_folder_whatever_it_is_called(root: Path) -> None:
    (root.parent / "link").symlink_to(root)
    absolute = {name: str(root / PAIR[name]) for name in ("original", "edited")}
    table(root, PAIR | absolute, PAIR | {"edited": "out/a1.png"})
    for place in (root, root.parent / "link"):
        found = read(place / "pairs.csv")
        assert reasons(found) == {}
        assert {name: len(own) for name, own in pictures(found).items()} == {"in/a": 2}


@pytest.mark.slow
def test_a_table_of_a_million_columns(root: Path) -> None:
    more = ",".join(map(str, range(1_000_000)))
    (root / "pairs.csv").write_text(f"original,edited,edit,{more}\nin/a.png,out/a0.png,weather: foggy,{more}\n")
    found = read(root / "pairs.csv")
    assert len(pictures(found)["in/a"]) == 1
    (note,) = (note for note in found.notes if "not used" in note)
    assert note.endswith("and 999980 more")
    (root / "pairs.csv").write_text(f"{more}\n{more}\n")
    with pytest.raises(CounterfactoryError, match="has no column 'original'") as refused:
        read(root / "pairs.csv")
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda root: root / "none.csv", "there is no .*none.csv; pairs come as"),
        (lambda root: root / "in" / "a.png", "is no table of pairs; pairs come as"),
        (lambda root: root, "has no folders originals/ and edited/; pairs come as"),
        (lambda root: table(root, {"original": "in/a.png"}), "has no column 'edited'"),
        (lambda root: table(root, {"original": "in/a.png"}, name="a.parquet"), "has no column 'edited'"),
    ],
)
def test_what_is_no_set_of_pairs(root: Path, make: Callable[[Path], Path], told: str) -> None:
    with pytest.raises(CounterfactoryError, match=told):
        read(make(root))


def test_pictures_in_cells_are_no_paths(root: Path) -> None:
    cell = {"bytes": bytes(100_000), "path": "a.png"}
    listing = list_edited(table(root, {"original": cell, "edited": "out/a0.png", "edit": "x: y"}, name="a.parquet"))
    (problem,) = listing.problems
    assert problem.reason.startswith("column 'original' holds {")
    assert len(problem.reason) < 300


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", b"original,edited\n"])
def test_what_is_no_parquet(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "pairs.parquet").write_bytes(data)
    with pytest.raises(CounterfactoryError, match=r"cannot read .*pairs.parquet: it is no Parquet") as refused:
        read(tmp_path / "pairs.parquet")
    assert "\n" not in str(refused.value)


def folders(root: Path, *edited: str, originals: Sequence[str] = ("bus/a.png", "car/b.jpg")) -> Path:
    for number, name in enumerate(originals):
        save(root / "originals" / name, number)
    for number, name in enumerate(edited):
        save(root / "edited" / name, 100 + number)
    return root


@pytest.mark.parametrize(
    ("edited", "form"),
    [
        (("bus/a/foggy.png", "bus/a/control.png", "car/b/weather=snowy.jpg"), "NAME/EDIT"),
        (("foggy/bus/a.png", "control/bus/a.jpg", "weather=snowy/car/b.png"), "EDIT/NAME"),
    ],
)
def test_both_forms_of_folders(tmp_path: Path, edited: Sequence[str], form: str) -> None:
    found = read(folders(tmp_path, *edited))
    assert reasons(found) == {}
    told = {name: {(one.kind, one.edits) for one in own} for name, own in pictures(found).items()}
    foggy = ("variant", (Edit("other", "", "foggy"),))
    assert told == {"bus/a": {foggy, ("control", ())}, "car/b": {("variant", (Edit("weather", "", "snowy"),))}}
    assert [source.label for source in found.sources] == ["bus", "car"]
    assert f"edited pictures lie as edited/{form}: 3" in found.notes
    masks = [save_mask(tmp_path / "masks" / f"{name}.png", (1, 2)) for name in ("bus/a", "car/b")]
    assert [source.mask_path for source in read(tmp_path).sources] == masks


def test_folders_without_classes_and_what_belongs_to_nothing(tmp_path: Path) -> None:
    root = folders(tmp_path, "a/foggy.png", "a/f=.png", "c/foggy.png", originals=("a.png", "b.png", "b.jpg", "d.png"))
    (root / "edited" / "a" / "raw.heic").write_text("")
    found = read(root)
    told = reasons(found)
    assert {name: len(own) for name, own in pictures(found).items()} == {"a": 1}
    assert found.sources[0].label is None
    assert told["edited/c/foggy.png"] == "there is no original originals/c.*; the form is NAME/EDIT"
    assert "has an unknown form" in told["edited/a/f=.png"]
    assert told["b.png"] == told["b.jpg"] == "2 originals are called b; keep one of them"
    assert told["d.png"] == "has no edited picture in edited/"
    assert ".heic files are not read" in told["edited/a/raw.heic"]


@pytest.mark.parametrize(
    ("edited", "told"),
    [((), "no images found in"), (("x/y.png",), "no original is called so"), (("a/b.png",), "both readings fit it")],
)
def test_folders_that_cannot_be_read(tmp_path: Path, edited: Sequence[str], told: str) -> None:
    root = folders(tmp_path, *edited, originals=("a.png", "b.png"))
    (root / "edited").mkdir(exist_ok=True)
    with pytest.raises(CounterfactoryError, match=told):
        read(root)


_WORD = strategies.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True)
_VALUE = strategies.lists(_WORD, min_size=1, max_size=3).map(" ".join)


@given(strategies.lists(strategies.tuples(_WORD, *[strategies.just("") | _VALUE] * 2), min_size=1))
def test_edits_are_read_as_they_are_written(parts: list[tuple[str, str, str]]) -> None:
    edits = list(dict.fromkeys(Edit(*part) for part in parts if part[1] != part[2]))
    if edits:
        text = " ; ".join(f"{e.type}:{f' {e.keyword} -> ' if e.keyword else ''}{e.alternative}" for e in edits)
        assert parse_edits(text) == tuple(edits)
        assert parse_edits(text.upper().replace("->", "\N{RIGHTWARDS ARROW}"))[0].type == edits[0].type


@given(strategies.text())
def test_any_other_text_is_a_value_error(text: str) -> None:
    with suppress(ValueError):
        edits = parse_edits(text)
        assert edits
        assert all(edit.keyword != edit.alternative and edit.type for edit in edits)


@pytest.mark.parametrize(
    ("size", "taken"),
    [
        *((size, True) for size in ((24, 32), (48, 64), (12, 16), (17, 22), (17, 23))),
        *((size, False) for size in ((17, 25), (32, 24))),
    ],
)
def test_a_picture_of_another_size_is_scaled_to_its_original_s(root: Path, size: tuple[int, int], taken: bool) -> None:
    """Nearest whole sizes of the same aspect are the same aspect."""
    smooth = np.linspace(0, 255, 24 * 32).reshape(24, 32, 1).repeat(3, 2).astype(np.uint8)
    (root / "in" / "a.png").write_bytes(encoded(smooth))
    scaled = Image.fromarray(smooth).resize(size[::-1], Image.Resampling.BICUBIC)
    (root / "out" / "a0.png").write_bytes(encoded(scaled))
    found = read(table(root, PAIR))
    assert bool(pictures(found)["in/a"]) == taken
    for picture in pictures(found)["in/a"]:
        pixels = load_given(picture, (24, 32))
        assert pixels.shape == (24, 32, 3)
        assert np.abs(pixels.astype(int) - smooth).mean() < 3
        if size == (24, 32):
            np.testing.assert_array_equal(pixels, smooth)


def test_a_file_that_changes_is_another_picture_and_no_other_source(root: Path) -> None:
    path = table(root, PAIR)
    (before,) = read(path).sources
    (root / "out" / "a0.png").write_bytes(encoded(noise(99)))
    (after,) = read(path).sources
    assert before.key == after.key
    assert before.whole_key != after.whole_key
    assert before.given is not None
    with pytest.raises(CounterfactoryError, match=r"^the file has changed since the run began"):
        load_given(before.given.pictures[0], (24, 32))
    moved = root.rename(root.parent / "moved")
    assert read(moved / "pairs.csv").sources[0].whole_key == after.whole_key, "wherever it lies"


HEAD = "image,label,condition,place\n"
GOOD = HEAD + "a.png,bus,,oslo\nrain/b.png,bus,weather: rainy,oslo\nc.png,car,weather: foggy; time: night,rome\n"


@pytest.fixture
def drives(tmp_path: Path) -> Path:
    for seed, name in enumerate(("a.png", "rain/b.png", "c.png")):
        save(tmp_path / "set" / name, seed)
    return tmp_path / "set"


def test_a_table_says_what_each_picture_is(drives: Path) -> None:
    pictures = read_real(write(drives / "real.csv", GOOD))
    assert [(one.file_name, one.source, one.label, one.kind) for one in pictures] == [
        *(("a.png", "oslo", "bus", "original"), ("rain/b.png", "oslo", "bus", "variant")),
        ("c.png", "rome", "car", "variant"),
    ]
    assert [edit.value for edit in pictures[2].edits] == ["weather: foggy", "time: night"]
    assert [one.sha256 for one in pictures] == [file_digest(one.path) for one in pictures]
    assert pictures[0].accepted


def test_a_mask_takes_the_place_of_a_label(drives: Path) -> None:
    save_mask(drives / "m.png", (0, 1))
    text = "image,mask,condition,place\na.png,m.png,,oslo\nc.png,m.png,time: night,oslo\n"
    assert [one.mask for one in read_real(write(drives / "real.csv", text))] == [drives.resolve() / "m.png"] * 2


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
def test_a_row_that_cannot_be_used_is_refused_with_its_line(drives: Path, old: str, new: str, message: str) -> None:
    save(drives.parent / "outside.png")
    (drives / "link.png").symlink_to(drives.parent / "outside.png")
    assert old in GOOD
    with pytest.raises(CounterfactoryError, match=message):
        read_real(write(drives / "real.csv", GOOD.replace(old, new, 1)))


def test_a_set_of_plain_days_alone_is_refused(drives: Path) -> None:
    with pytest.raises(CounterfactoryError, match="no picture with a condition, such as"):
        read_real(write(drives / "real.csv", HEAD + "a.png,bus,,oslo\n"))
