"""JPEGs that lost bytes are seen, whole ones of every kind are not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage.data
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from small_sets import encoded, noise, read, save

from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.sources.jpeg import damage, ends_grey
from counterfactory.engine.sources.pixels import UnreadableError, read_picture

WAYS: list[dict[str, Any]] = [
    *({}, {"quality": 20}, {"quality": 100, "subsampling": 0}, {"optimize": True}, {"progressive": True}),
    *({"restart_marker_blocks": 4}, {"subsampling": 1}),
]


def pictures() -> Iterator[NDArray[np.uint8]]:
    """Photographs, rendered scenes and drawings, with flat borders and flat altogether."""
    photograph = skimage.data.astronaut()[:200, :270]
    yield photograph
    yield skimage.data.camera()[:128, :128]
    for low, high, value in ((150, 200, 128), (170, 200, 0), (160, 200, 255), (0, 90, 128)):
        framed = photograph.copy()
        framed[low:high] = value
        yield framed
    yield EMBEDDED.draw(EMBEDDED.sample(np.random.default_rng(3))).picture
    drawing = Image.new("RGB", (130, 90), (120, 180, 250))
    ImageDraw.Draw(drawing).rectangle((0, 60, 130, 90), fill=(60, 160, 60))
    yield np.asarray(drawing)
    yield noise(1, 9, 70)
    for value in (0, 128, 200, 255):
        yield np.full((70, 90, 3), value, np.uint8)


def seen(data: bytes) -> str | None:
    """What is said of a file, also by the decoder itself."""
    try:
        return damage(data, read_picture(data))
    except UnreadableError as error:
        return str(error)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_whole_pictures_are_whole(way: dict[str, Any]) -> None:
    for picture in pictures():
        data = encoded(picture, "JPEG", **way)
        assert seen(data) is None
        assert seen(data + data) is None, "what follows a picture is another"
    assert seen(encoded(Image.fromarray(noise()).convert("CMYK"), "JPEG", **way)) is None
    assert seen(encoded(noise())) is None, "a PNG"


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 0.9])
def test_a_file_that_was_cut_off_and_ended_is_seen(way: dict[str, Any], share: float) -> None:
    data = encoded(skimage.data.astronaut()[:200, :270], "JPEG", **way)
    start = data.index(b"\xff\xda")
    reason = seen(data[: start + int(share * (len(data) - start))] + b"\xff\xd9")
    if way == {"progressive": True} and share < 0.9:
        assert reason == "its last scans are missing, and it is blurred"
    elif way != {"progressive": True}:
        assert reason == "its data end before the picture does, and the rest is grey"


def test_a_hole_in_the_middle_is_mostly_seen() -> None:
    """Decoders find back to the blocks by themselves, sometimes without one too few or too many."""
    rng = random.Random(0)
    for holes, least in ((40, 0.4), (400, 0.7), (4000, 0.9)):
        reasons = []
        for picture in (skimage.data.astronaut(), skimage.data.coffee(), EMBEDDED.draw(EMBEDDED.scene(1, 0)).picture):
            data = encoded(picture, "JPEG", quality=90)
            start = data.index(b"\xff\xda") + 20
            for _ in range(5):
                at = rng.randrange(start, max(start + 1, len(data) - holes - 20))
                hole = bytes(min(holes, len(data) - at - 4))
                reasons.append(seen(data[:at] + hole + data[at + holes : -2] + b"\xff\xd9"))
        assert sum(reason is not None for reason in reasons) >= least * len(reasons)


def test_a_broken_picture_that_was_saved_again_is_named(tmp_path: Path) -> None:
    """A note, since a border of that grey looks the same."""
    broken = skimage.data.astronaut()[:200, :270].copy()
    broken[150:] = 128
    assert [ends_grey(picture) for picture in (broken, broken[:170], broken[::-1])] == [True, False, False]
    whole = [one for one in pictures() if one.ndim == 3 and ((one[-1] != 128).any() or (one[0] == 128).all())]
    assert len(whole) > 8
    assert not any(map(ends_grey, whole))
    for name in ("a.png", "b.jpg"):
        Image.fromarray(broken).save(tmp_path / name)
    save(tmp_path / "c.jpg")
    found = read(tmp_path)
    said = "2 pictures end in plain grey, as broken files do that were saved again, the first is a"
    assert (len(found.sources), found.notes) == (3, [said])
