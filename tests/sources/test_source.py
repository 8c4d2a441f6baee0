"""Data sets in: every layout, every kind of image file, and every way in which they can be broken."""

from __future__ import annotations

import contextlib
import io
import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.keys import content_key, file_digest
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.sources.pixels import (
    UnreadableError,
    read_mask,
    read_picture,
)
from counterfactory.engine.sources.source import ImageSettings, Source, load_mask, load_pixels

SIZES = st.integers(8, 70)


def picture(seed: int = 0, height: int = 24, width: int = 32) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def save(path: Path, seed: int = 0, height: int = 24, width: int = 32, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture(seed, height, width)).save(path, **options)
    return path


def save_mask(path: Path, height: int = 24, width: int = 32, dtype: type = np.uint8) -> NDArray[Any]:
    path.parent.mkdir(parents=True, exist_ok=True)
    mask: NDArray[Any] = np.random.default_rng(1).integers(0, 7, (height, width)).astype(dtype)
    Image.fromarray(mask).save(path)
    return mask


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def names(root: Path, **options: Any) -> list[str]:
    sources, problems = find_sources(root, **options)
    assert not problems
    return [source.name for source in sources]


def reasons(root: Path, **options: Any) -> dict[str, str]:
    return {problem.name: problem.reason for problem in find_sources(root, **options)[1]}


# Layouts


def test_class_folders_give_labels(tmp_path: Path) -> None:
    for i, name in enumerate(("truck/0001.png", "bus/0003.JPG", "bus/day/0001.webp", "bus/0002.tif")):
        save(tmp_path / name, i)
    (tmp_path / "bus" / "notes.txt").write_text("mine")
    (tmp_path / "labels.json").write_text("{}")
    (tmp_path / "bus" / "._0003.JPG").write_text("left by macOS")
    save(tmp_path / ".thumbs" / "x.png")
    sources, problems = find_sources(tmp_path)
    assert problems == []
    assert [(s.name, s.label) for s in sources] == [
        ("bus/0002", "bus"),
        ("bus/0003", "bus"),
        ("bus/day/0001", "bus"),
        ("truck/0001", "truck"),
    ]
    source = sources[1]
    assert source.path == tmp_path / "bus" / "0003.JPG"
    assert source.mask_path is None
    assert source.digest == file_digest(source.path)
    assert source.key == content_key("bus/0003", source.digest, "bus", None)


def test_a_flat_folder_has_no_labels(tmp_path: Path) -> None:
    save(tmp_path / "b.png")
    save(tmp_path / "a.c.png")
    sources, _ = find_sources(tmp_path)
    assert [(s.name, s.label) for s in sources] == [("a.c", None), ("b", None)]


def test_names_keep_the_suffix_where_it_tells_two_files_apart(tmp_path: Path) -> None:
    for name in ("a.png", "a.jpg", "b.png", "x/a.png"):
        save(tmp_path / name)
    assert names(tmp_path) == ["a.jpg", "a.png", "b", "x/a"]


def test_a_name_that_is_still_taken_is_a_problem(tmp_path: Path) -> None:
    for name in ("a.png", "a.jpg", "a.png.gif"):
        save(tmp_path / name)
    sources, problems = find_sources(tmp_path)
    assert len(sources) == 2
    assert "same name" in problems[0].reason


def test_images_and_masks_side_by_side_are_pairs(tmp_path: Path) -> None:
    save(tmp_path / "images" / "a.jpg")
    save(tmp_path / "images" / "car" / "b.jpg")
    mask = save_mask(tmp_path / "masks" / "a.png")
    save_mask(tmp_path / "masks" / "car" / "b.png")
    sources, problems = find_sources(tmp_path)
    assert problems == []
    assert [(s.name, s.label) for s in sources] == [("a", None), ("car/b", "car")]
    assert sources[0].mask_path == tmp_path / "masks" / "a.png"
    assert sources[0].key == content_key("a", sources[0].digest, None, file_digest(tmp_path / "masks" / "a.png"))
    assert load_mask(sources[0], (24, 32)).tolist() == mask.tolist()


def test_a_lone_images_folder_is_no_class(tmp_path: Path) -> None:
    save(tmp_path / "images" / "a.jpg")
    (tmp_path / "README.md").write_text("hello")
    assert [s.label for s in find_sources(tmp_path)[0]] == [None]
    save_mask(tmp_path / "truth" / "a.png")
    sources, problems = find_sources(tmp_path, masks=tmp_path / "truth")
    assert [(s.name, s.label, s.mask_path) for s in sources] == [("a", None, tmp_path / "truth" / "a.png")]
    assert problems == []


def test_masks_by_stem_from_a_folder_of_their_own(tmp_path: Path) -> None:
    save(tmp_path / "set" / "car" / "a.jpg")
    save(tmp_path / "set" / "car" / "b.jpg")
    save(tmp_path / "set" / "car" / "c.jpg")
    save_mask(tmp_path / "m" / "car" / "a.png")
    save_mask(tmp_path / "m" / "b.png")
    sources, problems = find_sources(tmp_path / "set", masks=tmp_path / "m")
    assert [(s.name, s.mask_path) for s in sources] == [
        ("car/a", tmp_path / "m" / "car" / "a.png"),
        ("car/b", tmp_path / "m" / "b.png"),
    ]
    assert [p.name for p in problems] == ["car/c.jpg"]
    assert "mask c.png: there is no file" in problems[0].reason
    with pytest.raises(CounterfactoryError, match="no folder of masks"):
        find_sources(tmp_path / "set", masks=tmp_path / "none")


def test_masks_inside_the_images_folder_are_not_images(tmp_path: Path) -> None:
    save(tmp_path / "a.jpg")
    save_mask(tmp_path / "truth" / "a.png")
    assert names(tmp_path, masks=tmp_path / "truth") == ["a"]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_table_names_images_labels_and_masks(tmp_path: Path, suffix: str) -> None:
    save(tmp_path / "set" / "in" / "a.png")
    save(tmp_path / "set" / "b.png")
    save(tmp_path / "elsewhere" / "c, d.png")
    save_mask(tmp_path / "set" / "a_mask.png")
    rows: list[dict[str, Any]] = [
        {"image": "in/a.png", "label": "fire truck, red", "mask": "a_mask.png"},
        {"image": str(tmp_path / "set" / "b.png"), "label": "", "mask": None},
        {"image": "../elsewhere/c, d.png", "label": 7},
    ]
    table = tmp_path / "set" / f"list{suffix}"
    if suffix == ".csv":
        lines = [
            "image,label,mask",
            'in/a.png,"fire truck, red",a_mask.png',
            f"{rows[1]['image']},,",
            "",
            '"../elsewhere/c, d.png",7',
        ]
        table.write_bytes("\ufeff".encode() + "\r\n".join(lines).encode())
    else:
        table.write_bytes("\ufeff".encode() + "\r\n\r\n".join(map(json.dumps, rows)).encode())
    sources, problems = find_sources(table)
    assert problems == []
    assert [(s.name, s.label, s.mask_path) for s in sources] == [
        ("_/elsewhere/c, d", "7", None),
        ("b", None, None),
        ("in/a", "fire truck, red", tmp_path / "set" / "a_mask.png"),
    ]


def test_rows_that_cannot_be_used_are_problems_of_their_own(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    rows = [
        '{"image": "a.png"}',
        '{"image": "./a.png", "label": "x"}',
        '{"image": "none.png"}',
        '{"image": "a.png"',
        "[1]",
        '{"label": "x"}',
        '{"image": 1.5}',
        '{"image": "a.png", "label": true}',
        '{"image": "b\\u0000.png"}',
        '{"image": "b.png", "label": "\\ud800"}',
        '{"image": "' + "x" * 5000 + '.png"}',
        "[" * 100_000,
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    sources, problems = find_sources(tmp_path / "t.jsonl")
    assert [s.name for s in sources] == ["a"]
    found = {p.name[:10]: p.reason for p in problems}
    assert "named a second time, by t.jsonl:2" in found["a.png"]
    assert "there is no file" in found["none.png"]
    assert "not valid JSON" in found["t.jsonl:4"]
    assert found["t.jsonl:5"] == "is not a JSON object"
    assert found["t.jsonl:6"] == "names no image"
    assert "column 'image' holds 1.5" in found["t.jsonl:7"]
    assert "column 'label' holds True" in found["t.jsonl:8"]
    assert "surrogate" in found["t.jsonl:9"]
    assert {p.name for p in problems} >= {"t.jsonl:10", "t.jsonl:12"}
    assert "cannot be read" in found["xxxxxxxxxx"]


def test_csv_rows_with_too_many_fields_are_problems(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    (tmp_path / "t.csv").write_text("image,label\na.png,x,y\na.png\n")
    sources, problems = find_sources(tmp_path / "t.csv")
    assert [(s.name, s.label) for s in sources] == [("a", None)]
    assert [(p.name, p.reason) for p in problems] == [("t.csv:2", "has 3 fields where the first line names 2")]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "", "is empty; its first line names the columns"),
        ("t.csv", "label,mask\nx,y", "has no column 'image' or 'file_name' or 'filename' .found: label, mask."),
        ("t.csv", "image,image\nx,y", "names a column twice"),
        ("t.csv", 'image\n"a.png', r"t\.csv:2 is not valid CSV"),
        ("t.csv", "image\n", "no images found"),
        ("t.jsonl", "", "no images found"),
        ("t.jsonl", "\n \n", "no images found"),
        ("t.csv", b"image\n\xff.png", "not UTF-8"),
        ("t.parquet", "x", "is not a set of images; accepted are"),
        ("t.png", "x", "is not a set of images; accepted are"),
    ],
)
def test_a_table_that_is_wrong_as_a_whole_is_refused(
    tmp_path: Path, name: str, text: str | bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CounterfactoryError, match=message):
        find_sources(tmp_path / name)


def test_labels_for_a_folder(tmp_path: Path) -> None:
    for name in ("a.png", "sub/b.png", "c.png"):
        save(tmp_path / "set" / name)
    save_mask(tmp_path / "lists" / "m.png")
    labels = tmp_path / "lists" / "labels.csv"
    labels.write_text("image,label,mask\na.png,car,m.png\n../set/sub/b.png,,\nnone.png,bus,\na.png,car,\n")
    sources, problems = find_sources(tmp_path / "set", labels=labels)
    assert [(s.name, s.label, s.mask_path) for s in sources] == [
        ("a", "car", tmp_path / "lists" / "m.png"),
        ("sub/b", "sub", None),
    ]
    found = {p.name: p.reason for p in problems}
    assert found["c.png"] == "labels.csv says nothing about this image"
    assert "no such image" in found["none.png"]
    assert "named a second time, by labels.csv:5" in found["a.png"]
    with pytest.raises(CounterfactoryError, match="label column of its own"):
        find_sources(labels, labels=labels)
    with pytest.raises(CounterfactoryError, match="labels come in a"):
        find_sources(tmp_path / "set", labels=tmp_path / "labels.xlsx")
    with pytest.raises(CounterfactoryError, match=r"cannot read .*none"):
        find_sources(tmp_path / "set", labels=tmp_path / "none.csv")


def test_two_labels_for_one_image_count_for_neither(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    save(tmp_path / "b.png", 1)
    (tmp_path / "t.csv").write_text("image,label\na.png,car\nb.png,\na.png,bus\nb.png,dog\na.png,car\n")
    for options in ({"root": tmp_path / "t.csv"}, {"root": tmp_path, "labels": tmp_path / "t.csv"}):
        sources, problems = find_sources(**options)
        assert [(s.name, s.label) for s in sources] == [("b", None)]
        assert [(p.name, p.reason) for p in problems] == [
            ("a.png", "has two labels, 'car' (t.csv:2) and 'bus' (t.csv:4); keep the right one"),
            ("a.png", "named a second time, by t.csv:6; the first row counts"),
            ("b.png", "named a second time, by t.csv:5; the first row counts"),
        ]


def test_nothing_found_tells_what_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    for root in (tmp_path, tmp_path / "none"):
        with pytest.raises(CounterfactoryError, match="accepted are a folder of images"):
            find_sources(root)


def test_the_sources_do_not_depend_on_where_the_set_lies(tmp_path: Path) -> None:
    found = []
    for place in ("one", "two/deeper"):
        save(tmp_path / place / "car" / "a.png")
        found.append([(s.name, s.key) for s in find_sources(tmp_path / place)[0]])
    assert found[0] == found[1]


def test_the_key_changes_with_image_label_mask_and_name(tmp_path: Path) -> None:
    keys = set()
    for i, (name, seed, label, mask) in enumerate(
        [("a", 0, "x", 0), ("a", 1, "x", 0), ("a", 0, "y", 0), ("a", 0, "x", 1), ("b", 0, "x", 0), ("a", 0, None, 0)]
    ):
        folder = tmp_path / str(i)
        save(folder / f"{name}.png", seed)
        Image.fromarray(np.full((24, 32), mask, np.uint8)).save(folder / "m.png")
        (folder / "t.jsonl").write_text(json.dumps({"image": f"{name}.png", "label": label, "mask": "m.png"}))
        keys.add(find_sources(folder / "t.jsonl")[0][0].key)
    assert len(keys) == 6


def test_progress_is_told_to_the_last(tmp_path: Path) -> None:
    for i in range(3):
        save(tmp_path / f"{i}.png")
    heard: list[tuple[int, int]] = []
    find_sources(tmp_path, on_progress=lambda done, total: heard.append((done, total)))
    assert heard[-1] == (3, 3)


# Hostile files


def bomb() -> bytes:
    """A PNG of a few bytes that claims 60,000 x 60,000 pixels."""
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0")), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


@pytest.mark.filterwarnings("error")
def test_each_broken_image_fails_alone(tmp_path: Path) -> None:
    good = encoded(Image.fromarray(picture(0, 64, 64)), "JPEG")
    png = encoded(Image.fromarray(picture(0, 64, 64)), "PNG")
    files = {
        "cut": ("cut.jpg", good[: len(good) // 2], "truncated"),
        "cut2": ("cut2.png", png[:-600], "truncated"),
        "end": ("end.jpg", good[:-2000], "truncated"),
        "empty": ("empty.png", b"", "the file is empty"),
        "text": ("text.png", b"hello, I am a text\n" * 9, "not an image"),
        "ps": ("ps.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "not an image"),
        "dot": ("dot.png", encoded(Image.new("RGB", (1, 1)), "PNG"), "too small (1 x 1); at least 8 x 8 is needed"),
        "line": ("line.png", encoded(Image.new("RGB", (500, 7)), "PNG"), "too small (500 x 7)"),
        "bomb": ("bomb.png", bomb(), "too large"),
        "flip": ("flip.png", png[:60] + bytes(255 - b for b in png[60:300]) + png[300:], "broken"),
        "phone": ("phone.HEIC", b"x", ".HEIC files are not read; convert them"),
    }
    for file, data, _ in files.values():
        (tmp_path / file).write_bytes(data)
    (tmp_path / "good.jpg").write_bytes(good)
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "gone.png").symlink_to(tmp_path / "nowhere")
    (tmp_path / "self.png").symlink_to(tmp_path / "self.png")
    sources, problems = find_sources(tmp_path)
    assert [source.name for source in sources] == ["good"]
    found = {Path(p.name).stem: p.reason for p in problems}
    for name, (_, _, reason) in files.items():
        assert reason in found[name]
    assert found["pipe"] == "not a regular file"
    assert "there is no file" in found["gone"]
    assert "cannot be read" in found["self"]
    assert len(problems) == len(files) + 3


def test_only_broken_images_are_reported_and_not_raised(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    assert reasons(tmp_path) == {"a.png": "the file is empty"}


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@settings(max_examples=60)
@given(st.binary(max_size=80), st.integers(0, 400), st.sampled_from(["PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP"]))
def test_damaged_bytes_decode_or_are_unreadable(noise: bytes, at: int, kind: str) -> None:
    data = encoded(Image.fromarray(picture(0, 16, 16)), kind)
    damaged = data[:at] + noise + data[at + len(noise) :]
    for function in (read_picture, read_mask):
        with contextlib.suppress(UnreadableError):
            assert function(damaged).dtype in (np.uint8, np.uint16)


def test_loops_of_links_end_and_a_folder_counts_once(tmp_path: Path) -> None:
    root = tmp_path / "set"
    save(root / "bus" / "a.png")
    save(tmp_path / "far" / "b.png")
    (root / "bus" / "up").symlink_to(root)
    (root / "again").symlink_to(root / "bus")
    (root / "car").symlink_to(tmp_path / "far")
    (tmp_path / "far" / "back").symlink_to(root)
    (root / "itself").symlink_to(root / "itself")
    for i in range(9):
        (root / f"d{i}").mkdir()
    for i in range(9):
        for j in range(9):
            (root / f"d{i}" / f"to{j}").symlink_to(root / f"d{j}")
    sources, problems = find_sources(root)
    assert [(s.name, s.label) for s in sources] == [("bus/a", "bus"), ("car/b", "car")]
    assert {"again", "bus/up", "car/back"} <= {p.name for p in problems}
    assert all("has been read already" in p.reason for p in problems)


def test_names_that_are_no_text_are_reported_printably(tmp_path: Path) -> None:
    data = encoded(Image.fromarray(picture()), "PNG")
    for name in (b"ok \xc3\xbc\xe2\x80\xaf.png", b"bad\xff.png", b"esc\x1b[31m.png"):
        Path(os.fsdecode(bytes(tmp_path) + b"/" + name)).write_bytes(data)
    sources, problems = find_sources(tmp_path)
    assert [s.name for s in sources] == ["ok ü\u202f"]
    assert [p.name for p in problems] == ["bad\\udcff.png", "esc\\x1b[31m.png"]
    for problem in problems:
        assert problem.name.isprintable()
        assert "rename it" in problem.reason


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (encoded(Image.new("L", (32, 23)), "PNG"), "mask a.png: is 32 x 23, the image 32 x 24"),
        (encoded(Image.new("L", (24, 32)), "PNG"), "mask a.png: is 24 x 32"),
        (encoded(Image.new("L", (32, 24)), "JPEG"), "a JPEG mask blurs class numbers"),
        (encoded(Image.new("F", (32, 24)), "TIFF"), "mode F"),
        (encoded(Image.fromarray(np.full((24, 32), 70_000, np.int32)), "TIFF"), "beyond 0..65535"),
        (b"", "the file is empty"),
        (b"text", "not an image"),
    ],
)
def test_a_mask_that_cannot_be_carried_over_is_a_problem(tmp_path: Path, mask: bytes, reason: str) -> None:
    save(tmp_path / "images" / "a.jpg")
    (tmp_path / "masks").mkdir()
    (tmp_path / "masks" / "a.png").write_bytes(mask)
    assert reason in reasons(tmp_path)["a.jpg"]


def test_loading_gives_pixels_and_mask_at_one_size(tmp_path: Path) -> None:
    save(tmp_path / "images" / "a.png", 0, 60, 200)
    save_mask(tmp_path / "masks" / "a.png", 60, 200, np.uint16)
    (source,), _ = find_sources(tmp_path)
    pixels = load_pixels(source, ImageSettings(32, 16, 64))
    assert pixels.shape == (32, 64, 3)
    assert pixels.dtype == np.uint8
    mask = load_mask(source, (32, 64))
    assert mask.shape == (32, 64)
    assert mask.dtype == np.uint16
    assert (load_pixels(source, ImageSettings(32, 16, 64)) == pixels).all()


def test_a_file_that_changed_since_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "images" / "a.png")
    save_mask(tmp_path / "masks" / "a.png")
    (source,), _ = find_sources(tmp_path)
    save(path, 5)
    with pytest.raises(CounterfactoryError, match=r"a\.png: the file has changed"):
        load_pixels(source, ImageSettings(16, 16, 32))
    Image.new("L", (32, 24)).save(tmp_path / "masks" / "a.png")
    with pytest.raises(CounterfactoryError, match=r"masks.a\.png: the file has changed"):
        load_mask(source, (16, 16))
    path.unlink()
    with pytest.raises(CounterfactoryError, match="there is no file"):
        load_pixels(source, ImageSettings(16, 16, 32))
    with pytest.raises(ValueError, match="has no mask"):
        load_mask(Source("a", "a", path, (8, 8), None, None, "", ""), (16, 16))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 16, 32), "start at 1"),
        ((16, 0, 32), "start at 1"),
        ((24, 16, 32), "short_side must be a multiple of 16, found 24"),
        ((16, 16, 40), "max_long_side must be a multiple of 16, found 40"),
        ((32, 16, 16), "below short_side 32"),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(sizes: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ImageSettings(*sizes)
