"""Which pictures are frames of one sequence: no name says it alone, and no likeness of a class."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageEnhance

from counterfactory.engine.sources.sequences import Member, find_sequences, look_of

Picture = NDArray[np.uint8]


def texture(seed: int, size: tuple[int, int] = (96, 96), grain: int = 8) -> Image.Image:
    """A smooth picture that is like no other seed's."""
    grey = np.random.default_rng(seed).integers(0, 256, (grain, grain, 3), np.uint8)
    return Image.fromarray(grey).resize(size, Image.Resampling.BICUBIC)


def drive(seed: int, frames: int, step: int = 3) -> list[Picture]:
    """What a camera sees that turns to the right over a wide scene."""
    wide = texture(seed, (96 + step * frames, 96), 16)
    return [np.asarray(wide.crop((step * k, 0, step * k + 96, 96))) for k in range(frames)]


def photographs(count: int, first: int = 1000) -> list[Picture]:
    return [np.asarray(texture(first + k)) for k in range(count)]


def groups(named: Sequence[tuple[str, Picture]]) -> Counter[str]:
    return Counter(find_sequences([Member(name, name, look_of(picture)) for name, picture in named]).values())


def named(form: str, pictures: Sequence[Picture], first: int = 1) -> list[tuple[str, Picture]]:
    return [(form.format(k), picture) for k, picture in enumerate(pictures, start=first)]


@pytest.mark.parametrize(
    "form", ["img_{}.jpg", "n01440764/n01440764_{}.JPEG", "val/{:012}.jpg", "frame_{:06}.png", "DSC{:05}.JPG"]
)
@pytest.mark.parametrize("count", [4, 13, 40, 120])
def test_photographs_that_are_numbered_are_no_sequence(form: str, count: int) -> None:
    assert groups(named(form, photographs(count))) == {}


@pytest.mark.parametrize("count", [5, 13, 60])
def test_pictures_of_a_class_are_alike_and_no_sequence(count: int) -> None:
    """Each is half its class, which is sorted, and half its own."""
    classes = [np.asarray(texture(k)) for k in range(2)]
    alike = [
        (classes[2 * k // count] // 2 + picture // 2).astype(np.uint8) for k, picture in enumerate(photographs(count))
    ]
    assert groups(named("{:04}.png", alike)) == {}


@pytest.mark.parametrize("form", ["frame_{:06}.png", "seq/a_{}_rgb8.png", "{:010}.jpg"])
def test_frames_are_a_sequence_beside_photographs(form: str) -> None:
    frames, others = named(form, drive(1, 14)), named("photo_{}.jpg", photographs(14))
    assert groups(frames + others) == {form.split("{")[0] + "*" + form.split("}")[1].partition(".")[0]: 14}


def test_folders_are_sequences_of_their_own() -> None:
    frames = [one for d in range(4) for one in named(f"drive{d}/{{:06}}.png", drive(d, 9))]
    assert groups(frames) == {f"drive{d}/*": 9 for d in range(4)}


def test_a_drive_in_the_folders_of_its_classes_is_one() -> None:
    frames = [(f"{'ab'[k % 2]}/d{d}_{k:04}.png", one) for d in range(2) for k, one in enumerate(drive(d, 14))]
    assert groups(frames) == {"d0_*": 14, "d1_*": 14}
    photos = [(f"{'ab'[k % 2]}/d1_{k:04}.png", one) for k, one in enumerate(photographs(14))]
    assert groups(frames[:14] + photos) == {"d0_*": 14}


def test_short_drives_are_told_by_each_other() -> None:
    """Frames that are too far apart for five of them to say it."""
    frames = [one for d in range(12) for one in named(f"d{d}/frame_{{:04}}.png", drive(d, 5, step=5))]
    assert groups(frames) == {f"d{d}/frame_*": 5 for d in range(12)}


@pytest.mark.parametrize(
    ("form", "sequence"),
    [
        ("leftImg8bit/val/aachen/aachen_{:06}_000019_leftImg8bit.png", "aachen"),
        ("701/0001TP_{:06}.png", "0001TP"),
        ("test/Seq05VD_f{:05}.png", "Seq05VD"),
        ("2011_09_26/2011_09_26_drive_0001_sync/image_02/data/{:010}.png", "2011_09_26_drive_0001"),
        ("images/0003-17fb/{:08}_img_front.jpg", "0003-17fb"),
        ("b1c66a42-6f7d68ca/b1c66a42-6f7d68ca-{:07}.jpg", "b1c66a42-6f7d68ca"),
    ],
)
def test_published_names_say_the_drive(form: str, sequence: str) -> None:
    assert groups(named(form, photographs(3))) == {sequence: 3}


@pytest.mark.parametrize(
    "change",
    [
        lambda image: image.resize((67, 71)),
        lambda image: ImageEnhance.Brightness(image).enhance(0.8),
        lambda image: image.crop((1, 1, 95, 95)),
    ],
)
def test_copies_are_found_by_any_name(change: Callable[[Image.Image], Image.Image]) -> None:
    copies = [
        ("x/sunset.png", np.asarray(texture(1003, grain=6))),
        ("holiday.png", np.asarray(change(texture(1003, grain=6)))),
    ]
    assert groups([*named("{}.png", photographs(20)), *copies]) == {"x/sunset.png": 2}


def test_what_shows_nothing_and_what_nobody_looked_at_is_like_nothing() -> None:
    grey = [np.full((32, 32, 3), level, np.uint8) for level in range(90, 110)]
    assert groups(named("frame_{:03}.png", grey)) == {}
    assert find_sequences([Member(str(k), f"frame_{k}.png") for k in range(20)]) == {}
    assert find_sequences([]) == {}


def test_the_order_in_which_pictures_come_is_nothing() -> None:
    every = named("frame_{:06}.png", drive(1, 14)) + named("x_{}.jpg", photographs(9))
    mixed = random.Random(3).sample(every, len(every))
    assert groups(every) == groups(mixed) == {"frame_*": 14}


def test_a_look_does_not_change_with_the_size_of_a_picture() -> None:
    small, large = (
        np.unpackbits(np.frombuffer(look_of(np.asarray(texture(5, (side, side)))), np.uint8)) for side in (60, 1700)
    )
    assert small.size == 128
    assert 0 < (small != large).sum() + 1 <= 10
