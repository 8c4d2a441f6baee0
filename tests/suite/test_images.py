"""What lies in a suite: names that are safe as paths, and pictures and masks as PNG."""

import io
import re
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree

import cv2
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from counterfactory.engine.suite import image_path, mask_path
from counterfactory.engine.suite.folder_names import safe_name
from counterfactory.engine.suite.images import Provenance, encode_mask, encode_picture, mark_picture, read_png


def pixels(number: int) -> NDArray[np.uint8]:
    return np.random.default_rng(number).integers(0, 256, (16, 24, 3), np.uint8)


names = st.one_of(
    st.text(),
    st.text("ab/.=-_ 0", max_size=12),
    st.lists(st.sampled_from(["test", "val", "=", "..", "", "a", "CON", "0123456789abcdef.png"]), max_size=4).map(
        "/".join
    ),
    st.text("äo\u0301/", min_size=60, max_size=300),
)


@given(names)
@example("../../etc/passwd")
@example("/etc/passwd")
@example("..\\..\\boot")
@example("nul.txt/COM1")
@example("\ud800")
@example("a" * 400)
@example("/".join(["deep"] * 100))
@example("")
def test_any_name_is_a_safe_path(name: str) -> None:
    path = safe_name(name)
    assert not path.is_absolute()
    assert len(str(path).encode()) <= 200
    for part in path.parts:
        assert part not in (".", "..", "")
        assert part.isprintable()
        assert not set(part) & set('<>:"|?*\\/[]')
        assert part[0] not in ". "
        assert part[-1] not in ". "
        assert len(part.encode()) <= 150
        assert not re.fullmatch(r"[0-9a-f]{16}\.png", part)
        assert part.split(".")[0].upper() not in {"CON", "NUL", "COM1"}
        words = set(re.split(r"[-._ 0-9]", part))
        assert not words & {"train", "training", "valid", "validation", "val", "dev", "test", "testing", "eval"}
    assert PurePosixPath(*path.parts) == PurePosixPath(str(path))


@given(names, names)
@example("a/b", "a//b")
@example("test", "=test=")
@example("a:b", "a?b")
@example("é", "e\u0301")
def test_other_names_give_other_paths(one: str, other: str) -> None:
    assert (safe_name(one) == safe_name(other)) == (one == other)


@pytest.mark.parametrize("name", ["bus/0003", "IMG_0001", "a photo (2)", "straße/Ünal 7", "latest/contest", "x.y"])
def test_ordinary_names_stay(name: str) -> None:
    assert str(safe_name(name)) == name
    assert str(safe_name("test/my_val_1")) == "=test=/my_=val=_1", "words for splits stay readable"


def test_an_images_path_wants_a_key() -> None:
    assert image_path("0123456789abcdef" * 4, "bus/1") == "images/bus/1/0123456789abcdef.png"
    assert mask_path("images/images/1/0123456789abcdef.png") == "masks/images/1/0123456789abcdef.png"
    for bad in ("0123", "../../../../etc/passwd", "ABCDEFABCDEFABCDEF"):
        with pytest.raises(ValueError, match="hex digits"):
            image_path(bad, "bus/1")


def test_pictures_come_back_and_other_readers_agree(tmp_path: Path) -> None:
    data = encode_picture(pixels(1))
    assert data == encode_picture(np.asfortranarray(pixels(1)))
    np.testing.assert_array_equal(read_png(data), pixels(1))
    (tmp_path / "a.png").write_bytes(data)
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "a.png")), pixels(1))


def test_large_pictures_come_back_in_no_more_bytes_to_speak_of(tmp_path: Path) -> None:
    small = np.asarray(Image.fromarray(pixels(2)).resize((700, 520), Image.Resampling.BICUBIC))
    noisy = np.random.default_rng(3).normal(0, 3, small.shape)
    large = (small + noisy).clip(0, 255).astype(np.uint8)
    data = encode_picture(large)
    np.testing.assert_array_equal(read_png(data), large)
    (tmp_path / "a.png").write_bytes(data)
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "a.png")), large)
    done, usual = cv2.imencode(".png", large[..., ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 1])
    assert done
    assert data != usual.tobytes(), "by the filter of means, which is quicker"
    assert len(data) < 1.05 * len(usual)
    little = large[:500, :500]
    assert (
        encode_picture(little) == cv2.imencode(".png", little[..., ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()
    )


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_masks_keep_every_value(tmp_path: Path, kind: Any) -> None:
    mask = np.random.default_rng(0).integers(0, np.iinfo(kind).max + 1, (5, 9)).astype(kind)
    (tmp_path / "a.png").write_bytes(encode_mask(mask))
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "a.png")), mask)
    assert read_png(encode_mask(mask)).dtype == kind
    np.testing.assert_array_equal(read_png(encode_mask(pixels(3))), pixels(3), "coloured ones too")


@pytest.mark.parametrize("bad", [np.zeros((4, 4)), np.zeros((4, 4, 4), np.uint8), np.zeros((4, 4, 3), np.int32)])
def test_other_arrays_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="uint8"):
        encode_picture(bad)
    with pytest.raises(ValueError, match="uint8"):
        encode_mask(bad)
    with pytest.raises(ValueError, match="PNG"):
        read_png(b"")


@settings(max_examples=10)
@given(seed=st.integers(0, 99), key=st.text("0123456789abcdef", min_size=64, max_size=64))
def test_a_marked_picture_says_what_it_is_to_other_readers_and_keeps_its_pixels(seed: int, key: str) -> None:
    data = encode_picture(pixels(seed))
    marked = mark_picture(data, Provenance(key, "algorithmicallyEnhanced"))
    with Image.open(io.BytesIO(marked)) as picture:
        picture.load()
        assert np.array_equal(np.asarray(picture), pixels(seed))
        text = picture.info["XML:com.adobe.xmp"]
    described = ElementTree.fromstring(text).find(".//{http://www.w3.org/1999/02/22-rdf-syntax-ns#}Description")
    assert described.get("{http://purl.org/dc/elements/1.1/}identifier") == key
    kind = described.get("{http://iptc.org/std/Iptc4xmpExt/2008-02-29/}DigitalSourceType")
    assert kind == "http://cv.iptc.org/newscodes/digitalsourcetype/algorithmicallyEnhanced"
    assert np.array_equal(read_png(marked), pixels(seed))
    chunk = marked[33 : len(marked) - len(data) + 33]
    assert data == marked.replace(chunk, b"", 1)  # all else is as it was
