"""Decodes the bytes of image files and masks, and fits both to one size. Colour profiles are ignored: values are taken
as sRGB.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from ..files.reading import open_file
from ..profile.image import crop_box

# The list of formats keeps a file called .png from an unexpected decoder (EPS starts Ghostscript).
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF", "PPM")
MIN_SIDE = 8
MAX_PIXELS = 80_000_000  # below the 89 million where Pillow itself warns of decompression bombs
# A blank picture of so many pixels has 300 kB. Larger ones than this are decoded one at a time, and made opaque some
# rows at a time, so that the memory of a run is that of one of them.
_LARGE, _ROWS = 16_000_000, 512
_ALONE = Lock()
T = TypeVar("T")
_SMALLER = f"at most {MAX_PIXELS // 10**6} million pixels are read; save it smaller"
# Scans of a JPEG. Cameras write 1, progressive encoders about 10; each costs a pass over all pixels however few bytes
# it has, so that a small file of many scans would be decoded for hours.
MAX_SCANS = 100

# Of the range of 16-bit values: sensors of 14 bits and less use less than the first, thermal ones less than the second.
_DIM, _NARROW = 0.25, 0.125
# Percentiles: dead pixels are fewer.
_DARK, _BRIGHTEST = 0.1, 99.99
_STRETCH = "stretch them to the whole range, and save it with 8 or 16 bits"

_ORIENTATION_TAG, _BITS_TAG = 0x0112, 258
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_ON_SIDE = (5, 6, 7, 8)
# After 0xFF: a stuffed zero, fill, a temporary marker, restarts, and the start of the picture, none with a length.
_BARE_MARKERS = frozenset((0x00, 0x01, 0xFF, *range(0xD0, 0xD9)))
# Pillow's modes of masks, those with 16 bits apart. Palette masks keep their indices, which are the classes.
_DEEP_MODES = ("I;16", "I;16B", "I;16L", "I")
_CLEAR_MODES = ("LA", "RGBA")
_MASK_MODES = ("1", "L", "P", "RGB", *_CLEAR_MODES, *_DEEP_MODES)


class UnreadableError(ValueError):
    """The bytes are not a usable image. The message reads well after a file's name and a colon."""


def read_picture(data: bytes) -> NDArray[np.uint8]:
    """Decode a photograph as viewers show it: uint8 [H, W, 3] RGB, upright, over white where it is transparent.

    Of an animation the first frame is taken. 16-bit values are scaled by 1/257 and rounded. Raises `UnreadableError`
    for bytes that are empty, truncated or no image, for sizes below `MIN_SIDE` or above `MAX_PIXELS`, and for 16-bit
    values of so small a range that the picture would be black or flat.
    """
    return decode(data, _as_picture)


def _as_picture(image: Image.Image, data: bytes) -> NDArray[np.uint8]:
    deep = _is_deep(image, data)
    image = _turn_upright(image)
    if image.mode == "F":
        raise UnreadableError("32-bit float pixels have no agreed white; save it with 8 or 16 bits a channel")
    if image.mode.startswith("I"):
        grey = _as_uint16(image)
        _require_range(grey)
        shown = np.empty(grey.shape, np.uint8)
        for top in range(0, len(grey), _ROWS):
            shown[top : top + _ROWS] = (grey[top : top + _ROWS].astype(np.uint32) + 128) // 257
        return np.repeat(shown[:, :, None], 3, axis=2)
    try:
        pixels = _over_white(image)
    except Exception as error:  # see `decode`
        raise UnreadableError(f"pixels of mode {image.mode} cannot be turned into RGB") from error
    if deep:  # of which Pillow keeps the upper byte
        _require_light(int(np.percentile(pixels, _BRIGHTEST)) * 257, 0)
    return pixels


def read_mask(data: bytes, colours: bool = False, greyscale: bool = False) -> NDArray[Any]:
    """Decode a mask with its numbers unchanged: uint8 or uint16, [H, W] or, if colour-coded, [H, W, 3]. Those of a
    palette are its indices, unless `colours` are asked for: then its colours, [H, W, 3]. Of a mask of one colour that
    is transparent in part they are the alpha channel.

    Raises `UnreadableError` as `read_picture` does, for JPEG, which changes numbers, for colours of 16 bits, for alpha
    that leaves open what a pixel is, and for colours and palettes where the picture has to be `greyscale`.
    """
    return decode(data, lambda image, data: _as_mask(image, data, colours, greyscale))


def _as_mask(image: Image.Image, data: bytes, colours: bool, greyscale: bool) -> NDArray[Any]:
    if image.format in ("JPEG", "MPO"):
        what = "blurs numbers; save them as a 16-bit greyscale PNG, or with numpy.save"
        raise UnreadableError(f"a JPEG {what if greyscale else 'mask blurs class numbers; save masks as PNG'}")
    image = _turn_upright(image)
    if greyscale and (image.mode not in _MASK_MODES or image.mode in ("P", "RGB", *_CLEAR_MODES)):
        raise UnreadableError(f"of mode {image.mode}, not greyscale; save numbers as a 16-bit greyscale PNG")
    if image.mode not in _MASK_MODES:
        raise UnreadableError(f"a mask of mode {image.mode} is not read; save it as an 8 or 16 bit greyscale PNG")
    if image.mode in _DEEP_MODES:
        return _as_uint16(image)
    if colours and image.mode in ("P", "1"):
        image = image.convert("RGB")
    pixels = np.array(image, dtype=np.uint8)
    # Of such colours Pillow keeps the upper byte.
    if pixels.ndim == 3 and _is_deep(image, data) and not pixels[..., : len(image.mode.rstrip("A"))].any():
        raise UnreadableError("has 16 bits a channel and would be black; save it as a 16 bit greyscale PNG")
    return _without_alpha(pixels, colours) if image.mode in _CLEAR_MODES else pixels


def _without_alpha(pixels: NDArray[np.uint8], colours: bool) -> NDArray[np.uint8]:
    """A mask [H, W, 2 or 4] without its last channel, alpha; or that channel where the others are of one colour."""
    kept, alpha = pixels[..., :-1].squeeze(-1) if pixels.shape[2] == 2 else pixels[..., :-1], pixels[..., -1]
    if (kept == kept[:1, :1]).all() and (alpha < 255).any():
        if colours:
            raise UnreadableError("has one colour, and classes in its alpha channel alone; name these by numbers")
        return alpha
    if not colours and (alpha != alpha[0, 0]).any():
        clear, opaque = kept[alpha == 0], kept[alpha == 255]
        told = len(clear) + len(opaque) == alpha.size and (clear == clear[0]).all()
        if not told or (opaque == clear[0]).reshape(len(opaque), -1).all(axis=1).any():
            raise UnreadableError("has an alpha channel that may mean classes or nothing; save it without one")
    return kept


def mask_palette(data: bytes) -> NDArray[np.uint8] | None:
    """The colours [N, 3] of the numbers in a mask that `read_mask` has read; None where it has no palette."""
    image = Image.open(io.BytesIO(data), formats=FORMATS)
    palette = image.getpalette("RGB") if image.mode == "P" else None
    return None if palette is None else np.array(palette, np.uint8).reshape(-1, 3)


def count_numbers(mask: NDArray[Any]) -> NDArray[np.int64]:
    """How many pixels each number has, 0 up to the largest, as `np.bincount`: it would hold eight bytes a pixel."""
    counts = np.zeros(int(mask.max(initial=0)) + 1, np.int64)
    for top in range(0, len(mask), _ROWS):
        counts += np.bincount(mask[top : top + _ROWS].ravel(), minlength=counts.size)
    return counts


def commonest_share(picture: NDArray[np.uint8], count: int) -> float:
    """The share of pixels of a picture [H, W, 3] in its `count` commonest colours, of 32 levels a channel."""
    red, green, blue = (picture[:, :, channel].astype(np.int16) >> 3 for channel in range(3))
    codes = red << 10 | green << 5 | blue
    return float(np.sort(np.bincount(codes.ravel()))[-count:].sum() / codes.size)


def fit(pixels: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Crop and scale uint8 [H, W, 3] to uint8 [height, width, 3]: the largest centred crop of that aspect, undistorted.
    Shrinking averages over areas, enlarging is cubic.
    """
    height, width = size
    left, top, right, bottom = crop_box(pixels.shape[0], pixels.shape[1], size)
    how = Image.Resampling.BOX if bottom - top > height else Image.Resampling.BICUBIC
    return np.asarray(Image.fromarray(pixels).resize((width, height), how, box=(left, top, right, bottom)))


def fit_mask(mask: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    """A mask [H, W, ...] at [height, width, ...] as `fit` does it, by nearest neighbour: numbers and dtype are kept."""
    left, top, right, bottom = crop_box(mask.shape[0], mask.shape[1], size)
    rows = _nearest_indices(top, bottom, size[0], mask.shape[0])
    columns = _nearest_indices(left, right, size[1], mask.shape[1])
    return np.ascontiguousarray(mask[rows][:, columns])


def picture_size(path: Path) -> tuple[int, int]:
    """(height, width) of a photograph as viewers show it, by its header alone. Raises `UnreadableError` for a file that
    `read_picture` would refuse for that.
    """
    try:
        with open_file(path) as file:
            image = _open_header(file, FORMATS, MIN_SIDE)
            # Without the tag in the header Pillow looks for it behind the pixels, which it decodes for that.
            turned = "exif" in image.info and _orientation(image) in _ON_SIDE
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror or error}") from error
    return image.size if turned else image.size[::-1]


def _over_white(image: Image.Image) -> NDArray[np.uint8]:
    """uint8 [H, W, 3], some rows at a time."""
    pixels, clear = np.empty((image.height, image.width, 3), np.uint8), image.has_transparency_data
    for top in range(0, image.height, _ROWS):
        rows = image.crop((0, top, image.width, min(top + _ROWS, image.height)))
        if clear:
            rows = Image.alpha_composite(Image.new("RGBA", rows.size, "white"), rows.convert("RGBA"))
        pixels[top : top + _ROWS] = np.asarray(rows if rows.mode == "RGB" else rows.convert("RGB"))
    return pixels


def decode(
    data: bytes, use: Callable[[Image.Image, bytes], T], formats: tuple[str, ...] = FORMATS, least: int = MIN_SIDE
) -> T:
    """What `use` makes of the first frame of an image, decoded completely, and of its bytes. Raises `UnreadableError`
    for bytes that are no image in one of the formats, and for sizes below `least` or above `MAX_PIXELS`.
    """
    if not data:
        raise UnreadableError("the file is empty")
    if data.startswith(b"version https://git-lfs"):
        raise UnreadableError("a pointer of Git LFS, not the file itself; run git lfs pull where it comes from")
    if data[:2] == b"\xff\xd8" and (scans := _count_scans(data)) > MAX_SCANS:
        raise UnreadableError(f"a JPEG of {scans} scans; at most {MAX_SCANS} are read; save it again")
    image = _open_header(data, formats, least)
    with _ALONE if image.width * image.height > _LARGE else nullcontext():
        try:
            image.load()
        except Exception as error:
            raise UnreadableError(f"broken or truncated image data ({error})") from error
        return use(image, data)


def _open_header(file: bytes | BinaryIO, formats: tuple[str, ...], least: int) -> Image.Image:
    """An image that is not decoded yet, of a size that is read."""
    try:
        image = Image.open(io.BytesIO(file) if isinstance(file, bytes) else file, formats=formats)
    except UnidentifiedImageError as error:
        raise UnreadableError(f"not an image in a format that is read ({', '.join(formats)})") from error
    except Image.DecompressionBombError as error:
        raise UnreadableError(f"too large; {_SMALLER}") from error
    except Exception as error:  # broken files make Pillow raise nearly anything, from struct.error to SyntaxError
        raise UnreadableError(f"broken image header ({error})") from error
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise UnreadableError(f"too large ({width} x {height}); {_SMALLER}")
    if min(width, height) < least:
        raise UnreadableError(f"too small ({width} x {height}); at least {least} x {least} is needed")
    return image


def _count_scans(data: bytes) -> int:
    """The scans of a JPEG's first picture, by its markers (ITU-T T.81, annex B); what segments hold is no scan."""
    # The marker's bytes may occur by chance in a segment, and then there are more of them than scans, never fewer.
    most = data.count(b"\xff\xda")
    if most <= MAX_SCANS:
        return most
    scans, at = 0, 2
    while 0 <= at < len(data) - 3:
        marker = data[at + 1]
        if data[at] != 0xFF or marker in _BARE_MARKERS:
            at = data.find(b"\xff", at + 1)  # within a scan, or between segments
        elif marker == 0xD9:
            break
        else:
            scans += marker == 0xDA
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return scans


def _turn_upright(image: Image.Image) -> Image.Image:
    method = _UPRIGHT.get(_orientation(image))
    return image if method is None else image.transpose(method)


def _orientation(image: Image.Image) -> int:
    """What the EXIF block says; 1, as it is, where it says nothing that can be understood."""
    # ImageOps.exif_transpose would also rewrite the EXIF block, and fail on a good photograph with an odd tag in it.
    try:
        orientation = image.getexif().get(_ORIENTATION_TAG, 1)
    except Exception:  # unreadable EXIF says nothing about the pixels
        return 1
    # A tag of the wrong type may come as a tuple or bytes: anything but 2..8 means "as it is".
    return orientation if isinstance(orientation, int) else 1


def _as_uint16(image: Image.Image) -> NDArray[np.uint16]:
    values = np.array(image)
    if values.size and (int(values.min()) < 0 or int(values.max()) > 65535):
        raise UnreadableError("32-bit values beyond 0..65535; save it with 8 or 16 bits")
    return values.astype(np.uint16)


def _is_deep(image: Image.Image, data: bytes) -> bool:
    """Whether a file has 16 bits a channel, although Pillow decodes it to 8."""
    if image.format == "PNG":
        return data[24:25] == b"\x10"
    bits = getattr(image, "tag_v2", {}).get(_BITS_TAG, 8)
    return bool(max(bits if isinstance(bits, tuple) else (bits,)) > 8)


def _require_range(values: NDArray[np.uint16]) -> None:
    """Raises UnreadableError for 16-bit values of a part of their range: a sensor's, which are no picture yet."""
    if not (values % 257).any() or not (values % 256).any():
        return  # a picture of 8 bits, scaled to white or shifted
    low, high, brightest = (int(value) for value in np.percentile(values, (_DARK, 100 - _DARK, _BRIGHTEST)))
    _require_light(brightest, low)
    if high - low < _NARROW * 65535:
        raise UnreadableError(f"its 16-bit values are about {low} to {high} of 65535: it would be flat; {_STRETCH}")


def _require_light(brightest: int, low: int) -> None:
    if brightest < _DIM * 65535:
        dark = f"about {low} to {brightest} of 65535: it would be dark or black; {_STRETCH}"
        raise UnreadableError(f"its 16-bit values are {dark}")


def _nearest_indices(start: float, stop: float, count: int, limit: int) -> NDArray[np.intp]:
    centres = start + (np.arange(count) + 0.5) * ((stop - start) / count)
    return np.asarray(np.minimum(np.floor(centres).astype(np.intp), limit - 1))
