"""Decoding and scaling: what of a file becomes which pixels, and masks that meet their pictures."""

from __future__ import annotations

import io
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image, ImageOps
from small_sets import encoded, noise

from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.image import ImageSettings, crop_box, lost_share, target_size
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.sources.pixels import UnreadableError, fit, fit_mask, read_mask, read_picture

SIZES = st.integers(8, 70)


@pytest.mark.parametrize("orientation", [*range(10), 65535])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_exif_rotation_as_pillow_does_it(orientation: int, kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(noise(), kind, exif=exif)
    oracle = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    assert read_picture(data).tolist() == np.asarray(oracle).tolist()
    assert read_picture(data).shape == ((32, 24, 3) if orientation in range(5, 9) else (24, 32, 3))


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_broken_exif_says_nothing_about_the_pixels() -> None:
    data = encoded(noise(), "PNG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff" + b"\x01" * 30)
    assert read_picture(data).tolist() == noise().tolist()


def test_sixteen_bits_are_scaled_and_rounded() -> None:
    values = np.arange(0, 65536, dtype=np.uint16).reshape(256, 256)
    oracle = np.round(values.astype(np.float64) / 257).astype(np.uint8)
    for kind in ("PNG", "TIFF", "PPM"):
        assert (read_picture(encoded(values, kind)) == np.repeat(oracle[:, :, None], 3, 2)).all()


def deep(values: NDArray[Any], kind: str) -> bytes:
    """A file of 16 bits, also in colours, which Pillow does not write."""
    return cv2.imencode(f".{kind.lower()}", values.astype(np.uint16))[1].tobytes()


SCENE = EMBEDDED.draw(EMBEDDED.sample(np.random.default_rng(1))).picture.astype(int)
GREY = SCENE.mean(2)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
@pytest.mark.parametrize(
    ("values", "reason"),
    [
        *((values, "dark or black") for values in (GREY * 4, GREY * 16, GREY * 64, SCENE * 16, SCENE * 64)),
        (np.where(np.arange(128) + np.arange(128)[:, None] == 0, 65535, GREY * 16), "dark or black"),
        (20000 + 18 * GREY, "flat"),
    ],
    ids=["10 bits", "12 bits", "14 bits", "12 bits of colours", "14 bits of colours", "a dead pixel", "thermal"],
)
def test_a_sensor_s_values_are_no_picture_yet(values: NDArray[Any], reason: str, kind: str) -> None:
    told = rf"its 16-bit values are about \d+ to \d+ of 65535: it would be {reason}"
    with pytest.raises(UnreadableError, match=told):
        read_picture(deep(values, kind))


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
@pytest.mark.parametrize(
    "values",
    [
        *(GREY * 257, SCENE * 257, np.round(GREY) * 256, GREY * 128),
        *(np.round(GREY / 9) * 257, (100 + np.round(GREY / 20)) * 257, np.full((20, 20), 65535), np.zeros((20, 20))),
    ],
    ids=["full", "colours", "8 bits", "15 bits", "a dark one of 8 bits", "fog of 8 bits", "white", "black"],
)
def test_pictures_of_16_bits_are_read(values: NDArray[Any], kind: str) -> None:
    grey = values if values.ndim == 2 else values[:, :, ::-1]
    oracle = np.round(grey.astype(np.uint16) / 257)
    picture = read_picture(deep(values, kind)).astype(int)
    assert np.abs(picture - (oracle[:, :, None] if oracle.ndim == 2 else oracle)).max() <= 1


def test_alpha_lies_over_white() -> None:
    rgba = np.random.default_rng(2).integers(0, 256, (16, 16, 4), dtype=np.uint8)
    alpha = rgba[:, :, 3:].astype(float) / 255
    oracle = rgba[:, :, :3] * alpha + 255 * (1 - alpha)
    for kind in ("PNG", "TIFF"):
        assert np.abs(read_picture(encoded(Image.fromarray(rgba), kind)) - oracle).max() <= 1
    grey = Image.fromarray(rgba).convert("LA")
    oracle = np.asarray(grey)[:, :, :1] * alpha + 255 * (1 - alpha)
    assert np.abs(read_picture(encoded(grey, "PNG")) - oracle).max() <= 1


def test_a_transparent_palette_entry_is_white() -> None:
    image = Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16) % 3, "P")
    image.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255])
    index = np.asarray(image)
    oracle = np.array([[255, 0, 0], [255, 255, 255], [0, 0, 255]], np.uint8)[index]
    for kind in ("PNG", "GIF"):
        assert read_picture(encoded(image, kind, transparency=1)).tolist() == oracle.tolist()
    assert read_picture(encoded(image, "PNG", transparency=b"\xff\x00\xff")).tolist() == oracle.tolist()
    plain = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255]], np.uint8)[index]
    assert read_picture(encoded(image, "PNG")).tolist() == plain.tolist()


def test_grey_bilevel_and_cmyk_become_rgb() -> None:
    grey = noise()[:, :, 0]
    for image, shown in ((grey, grey), (grey > 127, (grey > 127) * 255)):
        assert read_picture(encoded(image)).tolist() == np.repeat(shown[:, :, None], 3, 2).tolist()
    flat = Image.new("RGB", (16, 16), (200, 30, 60))
    assert np.abs(read_picture(encoded(flat.convert("CMYK"), "JPEG", quality=95)).astype(int) - (200, 30, 60)).max() < 8
    assert np.abs(read_picture(encoded(flat.convert("CMYK"), "TIFF")).astype(int) - (200, 30, 60)).max() < 3


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_of_an_animation_the_first_frame_counts(kind: str) -> None:
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue", "lime")]
    options = {"lossless": True} if kind == "WEBP" else {}
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options)
    assert (read_picture(data) == (255, 0, 0)).all()


@settings(max_examples=40)
@given(st.integers(8, 20_000), st.integers(8, 20_000), st.integers(1, 40), st.integers(1, 80), st.integers(1, 64))
def test_sizes_are_multiples_within_bounds(height: int, width: int, short: int, long: int, multiple: int) -> None:
    sides = ((3000, 4000, 176), (1080, 1920, 224), (1000, 1001, 128), (8, 90_000, 256))
    assert all(target_size(one, other, 128, 16, 256) == (128, found) for one, other, found in sides)
    size = target_size(height, width, short * multiple, multiple, long * multiple)
    assert min(size) == short * multiple
    assert max(size) <= max(short, long) * multiple
    assert size[0] % multiple == size[1] % multiple == 0
    assert size == target_size(width, height, short * multiple, multiple, long * multiple)[::-1]
    assert (size[0] <= size[1]) if height <= width else (size[0] >= size[1])


@settings(max_examples=40)
@given(SIZES, SIZES, st.integers(1, 40), st.integers(1, 40))
def test_the_crop_is_the_largest_centred_box_of_that_aspect(height: int, width: int, h: int, w: int) -> None:
    left, top, right, bottom = crop_box(height, width, (h, w))
    assert (right - left) * h == pytest.approx((bottom - top) * w)
    assert (left + right, top + bottom) == pytest.approx((width, height))
    assert min(left, top) == 0


def test_down_each_pixel_is_the_mean_of_its_area_and_up_is_smooth_and_keeps_flat_what_is() -> None:
    pixels = noise(0, 64, 96)
    oracle = pixels.reshape(16, 4, 24, 4, 3).mean((1, 3))
    assert np.abs(fit(pixels, (16, 24)) - oracle).max() <= 1  # it is rounded along each axis
    assert fit(pixels, (64, 96)).tolist() == pixels.tolist()
    ramp = np.repeat(np.arange(0, 160, 10, dtype=np.uint8)[None, :, None], 16, 0).repeat(3, 2)
    large = fit(ramp, (128, 128))
    assert (np.diff(large[0, :, 0].astype(int)) >= 0).all()
    assert len(np.unique(large)) > 60
    flat = np.full((8, 8, 3), 77, np.uint8)
    assert (fit(flat, (128, 128)) == 77).all()


@settings(max_examples=40)
@given(SIZES, SIZES, st.integers(1, 6), st.integers(1, 6))
def test_a_mask_meets_its_picture_and_invents_no_number(height: int, width: int, h: int, w: int) -> None:
    size = (8 * h, 8 * w)
    mask = np.zeros((height, width), np.uint16)
    mask[height // 3 :, width // 2 :] = 65_000
    small = fit_mask(mask, size)
    assert (small.shape, small.dtype) == (size, np.uint16)
    assert set(np.unique(small)) <= {0, 65_000}
    # Where the scaled picture of the same shape is fully white or black, the mask says so too.
    shown = fit(np.repeat(((mask > 0) * 255).astype(np.uint8)[:, :, None], 3, 2), size)[:, :, 0]
    if height >= size[0] and width >= size[1]:
        assert (small[shown == 255] == 65_000).all()
        assert (small[shown == 0] == 0).all()


def nearest_oracle(mask: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    left, top, right, bottom = crop_box(mask.shape[0], mask.shape[1], size)
    result = np.zeros(size + mask.shape[2:], mask.dtype)
    for y in range(size[0]):
        for x in range(size[1]):
            row = int(top + (y + 0.5) * (bottom - top) / size[0])
            column = int(left + (x + 0.5) * (right - left) / size[1])
            result[y, x] = mask[min(row, mask.shape[0] - 1), min(column, mask.shape[1] - 1)]
    return result


@pytest.mark.parametrize("shape", [(24, 32), (33, 17), (9, 50, 3), (16, 16, 4)])
def test_masks_scale_by_nearest_neighbour(shape: tuple[int, ...]) -> None:
    mask = np.random.default_rng(3).integers(0, 255, shape).astype(np.uint8)
    for size in ((16, 32), (32, 16), (48, 48), (shape[0], shape[1])):
        assert fit_mask(mask, size).tolist() == nearest_oracle(mask, size).tolist()


def test_masks_keep_their_numbers_whatever_their_mode() -> None:
    numbers = np.arange(256, dtype=np.uint8).reshape(16, 16)
    palette = Image.fromarray(numbers, "P")
    palette.putpalette(noise(0, 16, 16).tobytes())
    deep = numbers.astype(np.uint16) * 255
    for image, kind, mask in (
        *((palette, "PNG", numbers), (numbers, "PNG", numbers), (numbers > 9, "PNG", (numbers > 9).astype(np.uint8))),
        *((deep, "PNG", deep), (deep, "TIFF", deep), (deep.astype(np.int32), "TIFF", deep), (noise(), "PNG", noise())),
    ):
        decoded = read_mask(encoded(image, kind))
        assert (decoded.tolist(), decoded.dtype) == (mask.tolist(), mask.dtype)


def scans(count: int) -> bytes:
    """A JPEG of 16 x 16 with so many scans: its last one again and again."""
    data = encoded(noise(0, 16, 16), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * (count - data.count(b"\xff\xda") + 1) + data[-2:]


@pytest.mark.parametrize("channels", [3, 4])
def test_masks_of_16_bits_a_channel_are_refused_where_their_numbers_are_lost(channels: int) -> None:
    """Pillow keeps their upper bytes, in which small numbers are all 0."""
    numbers = np.arange(256, dtype=np.uint16).reshape(16, 16, 1).repeat(channels, 2)
    numbers[..., 3:] = 65_535
    with pytest.raises(UnreadableError, match="16 bits a channel"):
        read_mask(cv2.imencode(".png", numbers)[1].tobytes())
    scaled = np.where(np.arange(channels) < 3, numbers * 257, numbers).astype(np.uint16)
    assert (read_mask(cv2.imencode(".png", scaled)[1].tobytes()) == numbers[..., :3]).all()


def test_a_pointer_of_git_lfs_is_called_so() -> None:
    data = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
    for reader in (read_picture, read_mask):
        with pytest.raises(UnreadableError, match="git lfs pull"):
            reader(data)


def test_a_jpeg_of_endless_scans_is_not_decoded() -> None:
    """Each costs a pass over all pixels, however few bytes it has."""
    assert read_picture(scans(100)).shape == (16, 16, 3)
    for count in (101, 3000):
        with pytest.raises(UnreadableError, match=f"a JPEG of {count} scans; at most 100 are read; save it again"):
            read_picture(scans(count))


def test_what_a_jpeg_s_segments_hold_is_no_scan() -> None:
    """A thumbnail, or bytes that happen to look like a scan."""
    plain = encoded(noise(0, 16, 16), "JPEG")
    for filling in (b"\xff\xda" * 500, b"\xff\xd9\xff\xda" * 200):
        segment = b"\xff\xe5" + (len(filling) + 2).to_bytes(2, "big") + filling
        assert (read_picture(plain[:2] + segment + plain[2:]) == read_picture(plain)).all()
    assert (read_picture(plain + b"\x00\x02" + b"\xff\xda\x00\x02" * 500) == read_picture(plain)).all()
    segment = b"\xff\xe5\x00\x04\xff\xff"
    with pytest.raises(UnreadableError, match="a JPEG of 101 scans"):
        read_picture(scans(101)[:2] + segment + scans(101)[2:])


BUCKETS = ((512, 512), (512, 704), (704, 512), (512, 832), (832, 512), (512, 1024))


@given(st.integers(8, 5000), st.integers(8, 5000))
@example(800, 1280)  # SHIFT
@example(1024, 2048)  # Cityscapes
@example(375, 500)  # ImageNet, COCO
def test_no_other_bucket_keeps_more(height: int, width: int) -> None:
    def kept(size: tuple[int, int]) -> float:
        left, top, right, bottom = crop_box(height, width, size)
        return (right - left) * (bottom - top)

    chosen = ImageSettings(512, 64, 1024, BUCKETS).size_for(height, width)
    assert kept(chosen) == pytest.approx(max(map(kept, BUCKETS)))
    assert lost_share(height, width, chosen) == pytest.approx(1 - kept(chosen) / (height * width))


@pytest.mark.parametrize("profile", ["a10g", "a10g-fast", "lance"])
@pytest.mark.parametrize(("height", "width"), [(300, 451), (400, 600), (427, 640), (1000, 1500), (3456, 5184)])
def test_photographs_of_3_by_2_lose_nothing_on_a_box(profile: str, height: int, width: int) -> None:
    image = load_profile(profile).image
    for shape, painted in (((height, width), (512, 768)), ((width, height), (768, 512))):
        assert image.size_for(*shape) == painted
        assert lost_share(*shape, painted) < 0.01
    assert image.size_for(1280, 800) == (832, 512)  # upright, as SHIFT's is not


def test_of_equal_buckets_the_first_is_taken_and_without_buckets_sizes_are_in_proportion() -> None:
    equal = ((1024, 1024), (512, 512))
    for buckets in (equal, equal[::-1]):
        assert ImageSettings(512, 64, 1024, buckets).size_for(99, 99) == buckets[0]
    assert ImageSettings(512, 64, 1024).size_for(800, 1280) == (512, 832)
    assert ImageSettings(512, 64, 1024).size_for(800, 16000) == (512, 1024)
