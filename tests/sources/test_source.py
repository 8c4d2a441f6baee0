"""Folders and tables in: every kind of image file, and every way in which they can be broken."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from small_sets import encoded, labels, noise, read, reasons, refuse, save, save_mask, write

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.keys import content_key, file_digest
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.sources.pixels import UnreadableError, read_mask, read_picture
from counterfactory.engine.sources.source import ImageSettings, Source, load_mask, load_pixels


def test_class_folders_give_labels(tmp_path: Path) -> None:
    for i, name in enumerate(("truck/0001.png", "bus/0003.JPG", "bus/day/0001.webp", "bus/0002.tif", "flat.c.png")):
        save(tmp_path / name, i)
    write(tmp_path / "bus" / "notes.txt", "mine")
    write(tmp_path / "bus" / "._0003.JPG", "left by macOS")
    save(tmp_path / ".thumbs" / "x.png")
    heard: list[tuple[int, int]] = []
    found = read(tmp_path, on_progress=lambda done, total: heard.append((done, total)))
    assert heard[-1] == (5, 5)
    assert labels(found) == [
        *(("bus/0002", "bus"), ("bus/0003", "bus"), ("bus/day/0001", "bus"), ("flat.c", None), ("truck/0001", "truck"))
    ]
    assert found.problems == []
    source = found.sources[1]
    assert (source.path, source.mask_path) == (tmp_path / "bus" / "0003.JPG", None)
    assert source.digest == file_digest(source.path)
    assert source.key == content_key("bus/0003", source.digest, "bus", None)


def test_names_keep_the_suffix_where_it_tells_two_files_apart(tmp_path: Path) -> None:
    for name in ("a.png", "a.jpg", "b.png", "x/a.png"):
        save(tmp_path / name)
    assert [source.name for source in read(tmp_path).sources] == ["a.jpg", "a.png", "b", "x/a"]
    save(tmp_path / "a.png.gif")
    found = read(tmp_path)
    assert len(found.sources) == 4
    assert "same name" in found.problems[0].reason


def test_images_and_masks_side_by_side_are_pairs(tmp_path: Path) -> None:
    save(tmp_path / "images" / "a.jpg")
    save(tmp_path / "images" / "car" / "b.jpg")
    mask = save_mask(tmp_path / "masks" / "a.png", (1, 2))
    save_mask(tmp_path / "masks" / "car" / "b.png", (1, 2))
    found = read(tmp_path)
    assert (labels(found), found.problems) == ([("a", None), ("car/b", "car")], [])
    source = found.sources[0]
    assert source.mask_path == mask
    assert source.key == content_key("a", source.digest, None, file_digest(mask))
    assert load_mask(source, (24, 32)).tolist() == np.asarray(Image.open(mask)).tolist()


def test_a_lone_images_folder_is_no_class(tmp_path: Path) -> None:
    save(tmp_path / "images" / "a.jpg")
    write(tmp_path / "README.md", "hello")
    assert labels(read(tmp_path)) == [("a", None)]
    save_mask(tmp_path / "truth" / "a.png", (1, 2))
    found = read(tmp_path, masks=tmp_path / "truth")
    assert [(s.name, s.label, s.mask_path) for s in found.sources] == [("a", None, tmp_path / "truth" / "a.png")]
    assert found.problems == []


def test_masks_by_stem_from_a_folder_of_their_own(tmp_path: Path) -> None:
    for name in "abc":
        save(tmp_path / "set" / "car" / f"{name}.jpg")
    for mask in ("car/a.png", "car/a.bmp", "b.png"):
        save_mask(tmp_path / "set" / "m" / mask, (1, 2))  # inside of the images' folder, and no image
    found = read(tmp_path / "set", masks=tmp_path / "set" / "m")
    masks = [(s.name, str(s.mask_path).removeprefix(f"{tmp_path}/set/m/")) for s in found.sources]
    assert masks == [("car/a", "car/a.png"), ("car/b", "b.png")]
    assert list(reasons(found)) == ["car/c.jpg"]
    assert "mask c.png: there is no file" in reasons(found)["car/c.jpg"]
    refuse("no folder of masks", tmp_path / "set", masks=tmp_path / "none")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_table_names_images_labels_and_masks(tmp_path: Path, suffix: str) -> None:
    for name in ("set/in/a.png", "set/b.png", "elsewhere/c, d.png"):
        save(tmp_path / name)
    mask, absolute = save_mask(tmp_path / "set" / "a_mask.png", (1, 2)), str(tmp_path / "set" / "b.png")
    rows: list[dict[str, Any]] = [
        {"image": "in/a.png", "label": "fire truck, red", "mask": "a_mask.png"},
        {"image": absolute, "label": "", "mask": None},
        {"image": "../elsewhere/c, d.png", "label": 7},
    ]
    csv = 'image,label,mask\r\nin/a.png,"fire truck, red",a_mask.png\r\n'
    csv += f'{absolute},,\r\n\r\n"../elsewhere/c, d.png",7'
    text = csv if suffix == ".csv" else "\r\n\r\n".join(map(json.dumps, rows))
    table = tmp_path / "set" / f"list{suffix}"
    table.write_bytes(f"\ufeff{text}".encode())
    found = read(table)
    assert found.problems == []
    assert [(s.name, s.label, s.mask_path) for s in found.sources] == [
        *(("_/elsewhere/c, d", "7", None), ("b", None, None), ("in/a", "fire truck, red", mask))
    ]


def test_rows_that_cannot_be_used_are_problems_of_their_own(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    rows = {
        '{"image": "a.png"}': ("", ""),
        '{"image": "./a.png", "label": "x"}': ("a.png", "named a second time, by t.jsonl:2"),
        '{"image": "none.png"}': ("none.png", "there is no file"),
        '{"image": "a.png"': ("t.jsonl:4", "not valid JSON"),
        "[1]": ("t.jsonl:5", "is not a JSON object"),
        '{"label": "x"}': ("t.jsonl:6", "names no image"),
        '{"image": 1.5}': ("t.jsonl:7", "column 'image' holds 1.5"),
        '{"image": "a.png", "label": true}': ("t.jsonl:8", "column 'label' holds True"),
        '{"image": "b\\u0000.png"}': ("t.jsonl:9", "surrogate"),
        '{"image": "b.png", "label": "\\ud800"}': ("t.jsonl:10", "surrogate"),
        '{"image": "' + "x" * 5000 + '.png"}': ("xxxxxxxxxx", "cannot be read"),
    }
    found = read(write(tmp_path / "t.jsonl", "\n".join(rows)))
    assert labels(found) == [("a", None)]
    problems = {name[:10]: reason for name, reason in reasons(found).items()}
    for name, reason in [*rows.values()][1:]:
        assert reason in problems[name]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "label,mask\nx,y", "has no column 'image' or 'file_name' or 'filename' .found: label, mask."),
        ("t.csv", "image\n", "no images found"),
        ("t.jsonl", "\n \n", "no images found"),
        ("t.parquet", "x", "is not a set of images; accepted are"),
        ("t.png", "x", "is not a set of images; accepted are"),
        ("folder/a.txt", "x", "no images found in .*; accepted are a folder of images"),
    ],
)
def test_what_is_wrong_as_a_whole_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = write(tmp_path / name, text)
    refuse(message, path.parent if path.parent.name == "folder" else path)
    refuse(r"there is no .*nowhere; accepted are a folder of images", tmp_path / "nowhere")


def test_labels_for_a_folder(tmp_path: Path) -> None:
    for name in ("a.png", "sub/b.png", "c.png"):
        save(tmp_path / "set" / name)
    mask, root = save_mask(tmp_path / "lists" / "m.png", (1, 2)), tmp_path / "set"
    rows = "image,label,mask\na.png,car,m.png\n../set/sub/b.png,,\nnone.png,bus,\na.png,car,\n"
    table = write(tmp_path / "lists" / "labels.csv", rows)
    found = read(root, labels=table)
    assert [(s.name, s.label, s.mask_path) for s in found.sources] == [("a", "car", mask), ("sub/b", "sub", None)]
    assert reasons(found)["c.png"] == "labels.csv says nothing about this image"
    assert "no such image" in reasons(found)["none.png"]
    assert "named a second time, by labels.csv:5" in reasons(found)["a.png"]
    for path, file, message in (
        (table, table, "label column of its own"),
        (root, tmp_path / "labels.xlsx", "labels come in a"),
        (root, tmp_path / "none.csv", "cannot read .*none"),
    ):
        refuse(message, path, labels=file)


def test_two_labels_for_one_image_count_for_neither(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    save(tmp_path / "b.png", 1)
    table = write(tmp_path / "t.csv", "image,label\na.png,car\nb.png,\na.png,bus\nb.png,dog\na.png,car\n")
    for found in (read(table), read(tmp_path, labels=table)):
        assert labels(found) == [("b", None)]
        assert [(p.name, p.reason) for p in found.problems] == [
            ("a.png", "has two labels, 'car' (t.csv:2) and 'bus' (t.csv:4); keep the right one"),
            ("a.png", "named a second time, by t.csv:6; the first row counts"),
            ("b.png", "named a second time, by t.csv:5; the first row counts"),
        ]


def test_a_key_is_that_of_image_label_mask_and_name_wherever_the_set_lies(tmp_path: Path) -> None:
    rows = [("a", 0, "x", 0), ("a", 1, "x", 0), ("a", 0, "y", 0), ("a", 0, "x", 1), ("b", 0, "x", 0), ("a", 0, None, 0)]
    keys = []
    for i, (name, seed, label, mask) in enumerate([*rows, rows[0]]):
        save(tmp_path / str(i) / f"{name}.png", seed)
        save_mask(tmp_path / str(i) / "m.png", (mask, 0))
        row = json.dumps({"image": f"{name}.png", "label": label, "mask": "m.png"})
        keys.append(read(write(tmp_path / str(i) / "t.jsonl", row)).sources[0].key)
    assert (len(set(keys)), keys[0] == keys[-1]) == (6, True)


def bomb() -> bytes:
    """A PNG of a few bytes that claims 60,000 x 60,000 pixels."""
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0")), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


@pytest.mark.filterwarnings("error")
def test_each_broken_image_fails_alone(tmp_path: Path) -> None:
    good, png = (encoded(noise(0, 64, 64), kind) for kind in ("JPEG", "PNG"))
    files = {
        "cut.jpg": (good[: len(good) // 2], "truncated"),
        "cut2.png": (png[:-600], "truncated"),
        "end.jpg": (good[:-2000], "truncated"),
        "empty.png": (b"", "the file is empty"),
        "text.png": (b"hello, I am a text\n" * 9, "not an image"),
        "ps.png": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "not an image"),
        "dot.png": (encoded(Image.new("RGB", (1, 1))), "too small (1 x 1); at least 8 x 8 is needed"),
        "line.png": (encoded(Image.new("RGB", (500, 7))), "too small (500 x 7)"),
        "bomb.png": (bomb(), "too large; at most 80 million pixels are read; save it smaller"),
        "scan.png": (encoded(Image.new("1", (9000, 9000))), "too large (9000 x 9000); at most 80 million pixels"),
        "flip.png": (png[:60] + bytes(255 - b for b in png[60:300]) + png[300:], "broken"),
        "float.tif": (encoded(Image.new("F", (16, 16)), "TIFF"), "32-bit float pixels have no agreed white"),
        "phone.HEIC": (b"x", ".HEIC files are not read; convert them"),
    }
    scan = good.index(b"\xff\xda")
    files["grey.jpg"] = (good[: scan + 900] + b"\xff\xd9", "a broken JPEG: its data end before the picture does")
    files["hole.jpg"] = (good[: scan + 200] + good[scan + 900 :], "a broken JPEG: ")
    files["sensor.png"] = (encoded(np.arange(4096, dtype=np.uint16).reshape(64, 64)), "it would be dark or black")
    for file, (data, _) in files.items():
        (tmp_path / file).write_bytes(data)
    (tmp_path / "good.jpg").write_bytes(good)
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "gone.png").symlink_to(tmp_path / "nowhere")
    (tmp_path / "self.png").symlink_to(tmp_path / "self.png")
    found = read(tmp_path)
    assert [source.name for source in found.sources] == ["good"]
    expected = {file: reason for file, (_, reason) in files.items()}
    expected |= {"pipe.png": "not a regular file", "gone.png": "there is no file", "self.png": "cannot be read"}
    assert reasons(found).keys() == expected.keys()
    assert [file for file, reason in expected.items() if reason not in reasons(found)[file]] == []


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@settings(max_examples=60)
@given(st.binary(max_size=80), st.integers(0, 400), st.sampled_from(["PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP"]))
def test_damaged_bytes_decode_or_are_unreadable(data: bytes, at: int, kind: str) -> None:
    whole = encoded(noise(0, 16, 16), kind)
    for function in (read_picture, read_mask):
        with contextlib.suppress(UnreadableError):
            assert function(whole[:at] + data + whole[at + len(data) :]).dtype in (np.uint8, np.uint16)


def test_loops_of_links_end_and_a_folder_counts_once(tmp_path: Path) -> None:
    root = tmp_path / "set"
    save(root / "bus" / "a.png")
    save(tmp_path / "far" / "b.png")
    links = {"bus/up": root, "again": root / "bus", "car": tmp_path / "far", "itself": root / "itself"}
    for name, target in links.items():
        (root / name).symlink_to(target)
    (tmp_path / "far" / "back").symlink_to(root)
    for i in range(9):
        (root / f"d{i}").mkdir()
        for j in range(9):
            (root / f"d{i}" / f"to{j}").symlink_to(root / f"d{j}")
    found = read(root)
    assert labels(found) == [("bus/a", "bus"), ("car/b", "car")]
    assert {"again", "bus/up", "car/back"} <= reasons(found).keys()
    assert all("has been read already" in p.reason for p in found.problems)


def test_names_that_are_no_text_are_reported_printably(tmp_path: Path) -> None:
    for name in (b"ok \xc3\xbc\xe2\x80\xaf.png", b"bad\xff.png", b"esc\x1b[31m.png"):
        Path(os.fsdecode(bytes(tmp_path) + b"/" + name)).write_bytes(encoded(noise()))
    found = read(tmp_path)
    assert labels(found) == [("ok ü\u202f", None)]
    assert list(reasons(found)) == ["bad\\udcff.png", "esc\\x1b[31m.png"]
    assert all("rename it" in problem.reason for problem in found.problems)


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (encoded(Image.new("L", (32, 23))), "mask a.png: is 32 x 23, the image 32 x 24"),
        (encoded(Image.new("L", (24, 32))), "mask a.png: is 24 x 32"),
        (encoded(Image.new("L", (32, 24)), "JPEG"), "a JPEG mask blurs class numbers"),
        (encoded(Image.new("F", (32, 24)), "TIFF"), "mode F"),
        (encoded(np.full((24, 32), 70_000, np.int32), "TIFF"), "beyond 0..65535"),
        (b"", "the file is empty"),
    ],
)
def test_a_mask_that_cannot_be_carried_over_is_a_problem(tmp_path: Path, mask: bytes, reason: str) -> None:
    save(tmp_path / "images" / "a.jpg")
    write(tmp_path / "masks" / "a.png", "").write_bytes(mask)
    assert reason in reasons(read(tmp_path))["a.jpg"]


def test_loading_gives_pixels_and_mask_at_one_size_and_refuses_what_changed(tmp_path: Path) -> None:
    path, mask = save(tmp_path / "images" / "a.png", 0, 60, 200), tmp_path / "masks" / "a.png"
    mask.parent.mkdir()
    Image.fromarray(np.full((60, 200), 300, np.uint16)).save(mask)
    (source,), sizes = read(tmp_path).sources, ImageSettings(32, 16, 64)
    pixels, numbers = load_pixels(source, sizes), load_mask(source, (32, 64))
    assert (pixels.shape, pixels.dtype, numbers.shape, numbers.dtype) == ((32, 64, 3), np.uint8, (32, 64), np.uint16)
    save(path, 5)
    with pytest.raises(CounterfactoryError, match=r"a\.png: the file has changed"):
        load_pixels(source, sizes)
    Image.new("L", (200, 60)).save(mask)
    with pytest.raises(CounterfactoryError, match=r"masks.a\.png: the file has changed"):
        load_mask(source, (16, 16))
    path.unlink()
    with pytest.raises(CounterfactoryError, match="there is no file"):
        load_pixels(source, sizes)
    with pytest.raises(ValueError, match="has no mask"):
        load_mask(Source("a", "a", path, (8, 8), None, None, "", ""), (16, 16))


def forbid(monkeypatch: pytest.MonkeyPatch, folder: Path, *calls: str) -> None:
    """Lets calls fail for what is in a folder, or for the folder itself where they list it: root may read all."""
    for call in calls:
        real, listing = getattr(os, call), call in ("scandir", "listdir")

        def fail(path: Any = ".", *rest: Any, real: Any = real, listing: bool = listing, **more: Any) -> Any:
            name = path if isinstance(path, int) else Path(os.fsdecode(path))
            if isinstance(name, Path) and (name == folder if listing else folder in name.parents):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return real(path, *rest, **more)

        monkeypatch.setattr(os, call, fail)


@pytest.mark.parametrize("calls", [("stat", "open"), ("stat", "open", "scandir", "listdir")])
def test_a_class_folder_costs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: tuple[str, ...]) -> None:
    for name in ("bus/0", "car/0", "car/1"):
        save(tmp_path / f"{name}.png")
    forbid(monkeypatch, tmp_path / "bus", *calls)
    sources, problems = find_sources(tmp_path)
    assert [source.name for source in sources] == ["car/0", "car/1"]
    (problem,) = problems
    assert problem.name.startswith("bus")
    assert "Permission denied" in problem.reason


def test_folders_above_a_set_need_not_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "closed" / "set"
    save(root / "images" / "0.png")
    write(root / "labels" / "0.txt", "0 0.5 0.5 0.5 0.5\n")
    write(root / "data.yaml", "names: [bus]\n")
    real = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        if path in root.parents:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    (source,), problems = find_sources(root)
    assert [box.label for box in source.boxes] == ["bus"]
    assert not problems
