"""Depth maps beside pictures: which file is whose, what its numbers mean, and what the painter is given of them."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_sets
from numpy.typing import NDArray
from PIL import Image
from small_sets import encoded, save, write

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.sources.data_set import DataSet
from counterfactory.engine.sources.depth import DepthValues, fit_depth, read_depth
from counterfactory.engine.sources.pixels import UnreadableError
from counterfactory.engine.sources.source import load_depth, load_mask

SIZE = (16, 24)


def npy(array: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two pictures with masks and depth maps in class folders: one map as a NumPy file, one as a 16-bit picture."""
    for seed, (name, form) in enumerate((("car/a", "npy"), ("bus/b", "png"))):
        save(tmp_path / "set" / "images" / f"{name}.png", seed, *SIZE)
        numbers = np.random.default_rng(seed).integers(1, 60000, SIZE).astype(np.uint16)
        data = npy(numbers.astype(np.float32)) if form == "npy" else encoded(numbers)
        write(tmp_path / "set" / "masks" / f"{name}.png", "").write_bytes(encoded(numbers % 3))
        write(tmp_path / "set" / "depth" / f"{name}.{form}", "").write_bytes(data)
    return tmp_path / "set"


def read(folder: Path, **options: Any) -> DataSet:
    return small_sets.read(folder, **{"depth": folder / "depth", **options})


def test_a_picture_s_depth_is_the_file_of_its_name(folder: Path) -> None:
    found = read(folder)
    assert ([source.name for source in found.sources], found.problems) == (["bus/b", "car/a"], [])
    for source, form in zip(found.sources, ("png", "npy"), strict=True):
        assert source.depth is not None
        assert source.depth.of == str(folder / "depth" / f"{source.name}.{form}")
        data = (folder / "depth" / f"{source.name}.{form}").read_bytes()
        np.testing.assert_array_equal(load_depth(source, SIZE), fit_depth(read_depth(data), "distance", SIZE))
        assert load_mask(source, SIZE).shape == SIZE, "a mask is known again beside a depth map"
    (folder / "depth" / "a.npy").write_bytes((folder / "depth" / "car" / "a.npy").read_bytes())
    (folder / "depth" / "car" / "a.npy").unlink()
    top = next(source for source in read(folder).sources if source.name == "car/a")
    assert top.depth is not None
    assert top.depth.of == str(folder / "depth" / "a.npy")
    (folder / "masks").rename(folder.parent / "masks")
    assert [source.name for source in read(folder).sources] == ["bus/b", "car/a"], "depth maps are no pictures"


def test_a_depth_map_names_its_source_anew_and_its_absence_leaves_the_name(folder: Path) -> None:
    plain = {s.name: s.key for s in small_sets.read(folder).sources}
    keys = [{s.name: s.key for s in read(folder, depth_values=values).sources} for values in ("distance", "inverse")]
    file = folder / "depth" / "car" / "a.npy"
    file.write_bytes(npy(np.load(file) + 1))
    keys.append({s.name: s.key for s in read(folder).sources})
    assert len({one["car/a"] for one in (plain, *keys)}) == 4
    assert keys[2]["bus/b"] == keys[0]["bus/b"]


def test_what_has_no_usable_depth_is_a_problem_by_itself(folder: Path) -> None:
    (folder / "depth" / "bus" / "b.png").unlink()
    found, file = read(folder), folder / "depth" / "bus" / "b.npy"
    assert [source.name for source in found.sources] == ["car/a"]
    assert small_sets.reasons(found) == {"bus/b.png": f"depth b.npy: there is no file {file}"}
    file.write_bytes(npy(np.ones((16, 23))))
    assert read(folder).problems[0].reason == "depth b.npy: is 23 x 16, the image 24 x 16; save both at one size"
    file.write_bytes(npy(np.zeros(SIZE)))
    assert read(folder).problems[0].reason == "depth b.npy: has no distance above 0"
    assert "has no inverse distance above 0" in read(folder, depth_values="inverse").problems[0].reason


def test_folders_that_cannot_be_told_are_refused(folder: Path) -> None:
    with pytest.raises(CounterfactoryError, match=r"no folder of depth maps at .*nowhere; --depth takes a folder"):
        read(folder, depth=folder / "nowhere")
    (folder / "depth" / "car" / "a.png").write_bytes((folder / "depth" / "bus" / "b.png").read_bytes())
    with pytest.raises(CounterfactoryError, match=r"holds car/a\.npy and car/a\.png, two depth maps of one picture"):
        read(folder)
    (folder / "depth" / "car" / "a.png").unlink()
    (folder / "depth" / "car" / ".a.png").write_bytes(b"what a file system leaves behind")
    (folder / "depth" / "car" / "a.txt").write_bytes(b"a note")
    assert len(read(folder).sources) == 2


def test_a_map_that_changes_under_a_run_is_refused(folder: Path) -> None:
    source = next(source for source in read(folder).sources if source.name == "car/a")
    with pytest.raises(ValueError, match="source car/a has no depth map"):
        load_depth(replace(source, depth=None), SIZE)
    (folder / "depth" / "car" / "a.npy").write_bytes(npy(np.ones(SIZE)))
    with pytest.raises(CounterfactoryError, match=r"a\.npy: the file has changed since the run began"):
        load_depth(source, SIZE)


@pytest.mark.parametrize(
    ("values", "numbers", "nearness"),
    [
        ("distance", [[1.0, 2.0], [4.0, np.inf]], [[1, 0.5], [0.25, 0]]),
        ("distance", [[2.0, 0.0], [np.nan, -3.0]], [[1, 0], [0, 0]]),
        ("inverse", [[1.0, 2.0], [4.0, 0.0]], [[0.25, 0.5], [1, 0]]),
        ("inverse", [[np.inf, 8.0], [np.nan, -3.0]], [[0, 1], [0, 0]]),
    ],
)
def test_the_painter_gets_the_inverse_of_distance_over_the_nearest_one_s(
    values: DepthValues, numbers: list[list[float]], nearness: list[list[float]]
) -> None:
    found = fit_depth(np.repeat(np.repeat(np.array(numbers), 8, 0), 8, 1), values, (16, 16))
    assert found.dtype == np.uint16
    np.testing.assert_array_equal(found[::8, ::8], np.rint(np.array(nearness) * 65535))
    assert len(np.unique(found)) == len(np.unique(nearness)), "nothing lies between a thing and what is behind it"


def test_depth_is_cropped_as_its_picture_and_its_nearest_pixel_is_one_that_is_shown() -> None:
    numbers = np.full((16, 32), 4.0)
    numbers[:, :8], numbers[:, 8:16] = 1.0, 2.0
    found = fit_depth(numbers, "distance", (16, 16))
    assert (found[:, :8] == 65535).all()
    assert (found[:, 8:] == round(65535 / 2)).all()
    with pytest.raises(UnreadableError, match="has no distance above 0"):
        fit_depth(np.where(np.arange(32) < 8, numbers, 0), "distance", (16, 16))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (npy(np.ones((4, 4, 1))), r"a plane of numbers \[H, W\], found float64 \[4, 4, 1\]"),
        (npy(np.ones((4, 4), complex)), r"found complex128"),
        (npy(np.ones((0, 4))), r"of 0 pixels"),
        (npy(np.ones((4, 4)))[:90], r"a broken NumPy file"),
        (npy(np.array([[{}]], dtype=object)), r"a broken NumPy file"),
        (encoded(Image.new("RGB", (16, 16))), r"of mode RGB, not greyscale; save numbers as a 16-bit"),
        (encoded(Image.new("P", (16, 16))), r"of mode P, not greyscale"),
        (encoded(Image.new("L", (16, 16)), "JPEG"), r"a JPEG blurs numbers; save them as a 16-bit"),
        (b"", "the file is empty"),
    ],
)
def test_files_that_hold_no_depth_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        read_depth(data)


def test_pictures_of_depth_keep_their_numbers() -> None:
    numbers = np.arange(256, dtype=np.uint16).reshape(16, 16) * 255
    for array in (numbers, (numbers // 255).astype(np.uint8)):
        np.testing.assert_array_equal(read_depth(encoded(array)), array)
