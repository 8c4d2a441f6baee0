"""Pictures become inputs as the libraries' own pipelines make them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from counterfactory.engine.asking.preparation import LETTERBOX, Preparation
from counterfactory.engine.asking.published_inputs import read_preparation
from counterfactory.engine.errors import CounterfactoryError

SIDES = st.integers(9, 90)


def picture(height: int, width: int) -> NDArray[np.uint8]:
    return np.random.default_rng(height * 1000 + width).integers(0, 256, (height, width, 3), dtype=np.uint8)


@given(height=SIDES, width=SIDES, short=st.integers(8, 60), crop=st.integers(4, 20), squash=st.booleans())
def test_a_configuration_of_hugging_face_makes_what_its_processor_makes(
    tmp_path_factory: pytest.TempPathFactory, height: int, width: int, short: int, crop: int, squash: bool
) -> None:
    transformers = pytest.importorskip("transformers")
    sides = (short, short + 3) if squash else [int(short * side / min(height, width)) for side in (height, width)]
    # Of an odd rest this processor cuts a pixel elsewhere than torchvision, which the default one asks.
    assume(squash or all(side >= crop and (side - crop) % 2 == 0 for side in sides))
    size = {"height": short, "width": short + 3} if squash else {"shortest_edge": short}
    processor = transformers.CLIPImageProcessorPil(
        size=size, crop_size={"height": crop, "width": crop}, do_center_crop=not squash
    )
    file = tmp_path_factory.mktemp("config") / "preprocessor_config.json"
    file.write_text(processor.to_json_string())
    pixels = picture(height, width)
    expected = processor(images=[pixels], return_tensors="np")["pixel_values"][0]
    made = read_preparation(str(file)).apply(pixels).transpose(2, 0, 1)
    assert made.shape == expected.shape
    assert np.abs(made - expected).max() < 1e-4


def test_words_are_the_sizes_and_numbers_of_torchvision() -> None:
    """Of its Resize(6), CenterCrop((4, 8)) and Normalize, worked out by hand for a grey picture."""
    preparation = read_preparation("resize=6 crop=4x8 mean=imagenet std=imagenet")
    prepared = preparation.apply(np.full((12, 20, 3), 51, np.uint8))
    assert (prepared.shape, prepared.dtype) == ((4, 8, 3), np.float32)
    by_hand = [(0.2 - 0.485) / 0.229, (0.2 - 0.456) / 0.224, (0.2 - 0.406) / 0.225]
    assert prepared[0, 0] == pytest.approx(by_hand, abs=1e-5)


def test_without_words_pixels_stay_as_they_are_and_the_text_declares_the_same_again() -> None:
    pixels = picture(10, 14)
    assert np.array_equal(Preparation().apply(pixels), pixels)
    assert np.array_equal(read_preparation("channels=bgr").apply(pixels), pixels[:, :, ::-1])
    assert read_preparation("scale=255").apply(pixels).max() <= 1
    whole = "resize=256 crop=224 interpolation=bicubic scale=255 mean=0.5,0.5,0.5 std=0.5,0.25,0.5"
    for words in (whole, "resize=224x320 interpolation=bilinear", "scale=127.5 mean=1,1,1 channels=bgr"):
        declared = read_preparation(words)
        assert read_preparation(declared.text) == declared


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "got nothing"),
        ("size=3", "there is no 'size'; did you mean 'resize'?"),
        ("resize", "got 'resize'"),
        ("resize=3 resize=4", "got 'resize=4'"),
        ("resize=0", "resize is a length such as 224"),
        ("crop=1x2x3", "crop is a length"),
        ("mean=1,2", "mean is imagenet, or one or three numbers"),
        ("std=0", "std is imagenet, or one or three numbers above 0"),
        ("scale=-1", "scale is a number above 0"),
        ("scale=nan", "scale is a number above 0"),
        ("interpolation=sharp", "interpolation is one of nearest"),
        ("channels=hsv", "channels is rgb or bgr"),
        ("antialias=maybe", "antialias is yes or no"),
        ("keep=half", "keep is one of fit or cover or nearest"),
        ("letterbox=640 resize=3", "leave out resize"),
        ("letterbox=640x2x2", "letterbox is a length"),
        ("letterbox=0", "letterbox is a length"),
        ("resize=3 keep=fit", "keep goes with resize=HEIGHTxWIDTH"),
        ("resize=3x4 longest=9", "longest goes with resize=LENGTH"),
        ("multiple=32", "multiple goes with resize"),
        ("multiple=32x3 resize=9", "multiple is a whole number above 0"),
        ("crop=3 pad=4", "crop and pad do not go together"),
        ("crop=3 middle=0.5", "crop and middle do not go together"),
        ("middle=1.5", "middle is a share"),
        ("fill=300", "fill is one or three whole numbers"),
        ("fill=0.5", "fill is one or three whole numbers"),
        ("resize=9 antialias=no interpolation=bicubic", "antialias=no goes with interpolation=bilinear"),
    ],
)
def test_words_that_say_nothing_are_refused(words: str, message: str) -> None:
    with pytest.raises(CounterfactoryError) as refused:
        read_preparation(words)
    assert message in str(refused.value)


@pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"size": {"depth": 3}}), '{"resample": 99, "size": 3}'])
def test_a_file_that_declares_nothing_is_refused(content: str, tmp_path: Path) -> None:
    file = tmp_path / "preprocessor_config.json"
    file.write_text(content)
    with pytest.raises(CounterfactoryError, match=r"preprocessor_config\.json"):
        read_preparation(str(file))


NUMBERS = st.floats(-300, 300, allow_nan=False).map(lambda number: round(number, 9))
LENGTHS = st.integers(1, 999)
SHAPES = st.tuples(LENGTHS, LENGTHS)
COLOURS = st.tuples(*[st.integers(0, 255).map(float)] * 3)
GEOMETRIES = st.one_of(
    *(st.just({}), st.fixed_dictionaries({"resize": LENGTHS}, optional={"longest": LENGTHS})),
    st.fixed_dictionaries({"resize": SHAPES}, optional={"keep": st.sampled_from(["fit", "cover", "nearest"])}),
    SHAPES.map(lambda size: {**LETTERBOX, "resize": size, "crop": size}),
)
AROUND = st.one_of(
    *(st.just({}), st.fixed_dictionaries({"pad": SHAPES}, optional={"fill": COLOURS, "middle": st.floats(0.1, 1)})),
    st.fixed_dictionaries({"crop": SHAPES, "offset": st.sampled_from(["round", "floor"])}, optional={"fill": COLOURS}),
)
NORMS = st.fixed_dictionaries(
    {"scale": st.floats(0.001, 300)},
    optional={"mean": st.tuples(*[NUMBERS] * 3), "std": st.tuples(*[st.floats(0.001, 300)] * 3)},
)


@given(geometry=GEOMETRIES, around=AROUND, norm=st.one_of(st.just({}), NORMS), bgr=st.booleans(), hard=st.booleans())
def test_every_preparation_is_declared_again_by_its_words(
    geometry: dict[str, Any], around: dict[str, Any], norm: dict[str, Any], bgr: bool, hard: bool
) -> None:
    parts = geometry if "crop" in geometry else {**geometry, **around}
    more: dict[str, Any] = {"channels": "bgr" if bgr else "rgb"}
    if hard and "resize" in parts:
        more |= {"multiple": 16, "rounding": "down", "antialias": False}
    preparation = Preparation(**{**parts, **norm, **more})
    assume(preparation != Preparation())
    assert read_preparation(preparation.text) == preparation


def test_a_letterbox_is_called_so() -> None:
    assert read_preparation("letterbox=640 scale=255").text == "letterbox=640x640 scale=255"
    long = "resize=384x640 keep=fit crop=384x640 fill=114 antialias=no"
    assert read_preparation(long) == read_preparation("letterbox=384x640")
    assert read_preparation("letterbox=64 fill=0 interpolation=bilinear").text != "letterbox=64x64"


def test_a_picture_that_is_greater_than_its_padding_is_refused() -> None:
    with pytest.raises(CounterfactoryError, match="keep=fit"):
        read_preparation("pad=20").apply(picture(21, 9))


@given(height=SIDES, width=SIDES, tall=SIDES, wide=SIDES)
def test_sampling_without_antialias_is_as_opencv_s(height: int, width: int, tall: int, wide: int) -> None:
    cv2 = pytest.importorskip("cv2")
    pixels = picture(height, width)
    own = read_preparation(f"resize={tall}x{wide} antialias=no").apply(pixels)
    other = cv2.resize(pixels, (wide, tall), interpolation=cv2.INTER_LINEAR)
    assert np.abs(own.astype(int) - other).max() <= 1
