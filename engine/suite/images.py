"""Pictures and masks as PNG files.

Arrays are encoded to bytes and decoded again; `NewPicture` is a picture on its way into a suite. The same array gives
the same bytes on one installation. The suite decides where the file lies, and keeps its record.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from counterfactory.kernels.opencv import cv2

from ..sources.blobs import read_blob
from ..sources.pixels import MAX_PIXELS, decode

T = TypeVar("T")
# Painted pictures hardly compress: level 6 saves 3 % of level 1's bytes at four times its time (OpenCV and Pillow
# alike). Masks are flat, so that a higher level is cheap and halves them.
_PICTURE_LEVEL = 1
_MASK_LEVEL = 6
# A picture of more pixels gets the filter of means: OpenCV's own choice costs half as much again and saves 1 to 3 %.
_LARGE = 2**18


# What a picture is, in the words of IPTC (cv.iptc.org/newscodes/digitalsourcetype): all of a network, a photograph that
# a network edited, a photograph that rules changed.
SourceType = Literal["trainedAlgorithmicMedia", "compositeWithTrainedAlgorithmicMedia", "algorithmicallyEnhanced"]
_XMP = (
    '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?><x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF '
    'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about="" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" '
    'dc:identifier="{key}" Iptc4xmpExt:DigitalSourceType="http://cv.iptc.org/newscodes/digitalsourcetype/{kind}"/>'
    '</rdf:RDF></x:xmpmeta><?xpacket end="r"?>'
)
_HEADER = 33  # bytes of a PNG before whatever may follow its IHDR chunk

# The folder of a suite that a picture is kept in.
Top = Literal["images", "originals"]


@dataclass(frozen=True)
class Provenance:
    """What a picture says of itself: the `key` of its variant in the table, and what `kind` of picture it is."""

    key: str
    kind: SourceType


@dataclass(frozen=True)
class NewPicture:
    """A picture to be kept.

    `key` is its content key, paint settings included (at least 16 hex digits, the first 16 name the file);
    `source` is the source's name; `pixels` uint8 [H, W, 3] RGB; `mask` uint8 or uint16 [H, W] (or uint8 [H, W, 3]),
    the source's, resized as the pixels were; `self_attention` as in PaintedRow. `provenance` goes into the file; None
    of what is a source's own picture, or whose maker is not known.
    """

    key: str
    source: str
    pixels: NDArray[np.uint8]
    mask: NDArray[np.uint8] | NDArray[np.uint16] | None = None
    top: Top = "images"
    self_attention: float | None = None
    provenance: Provenance | None = None


def mark_picture(data: bytes, provenance: Provenance) -> bytes:
    """The PNG file with XMP that says so, in the chunk that the PNG specification (11.3.3.4, iTXt) has for it."""
    xmp = _XMP.format(key=provenance.key, kind=provenance.kind).encode()
    chunk = b"iTXt" + b"XML:com.adobe.xmp" + bytes(5) + xmp
    framed = (len(chunk) - 4).to_bytes(4) + chunk + zlib.crc32(chunk).to_bytes(4)
    return data[:_HEADER] + framed + data[_HEADER:]


def encode_picture(pixels: NDArray[np.uint8]) -> bytes:
    """PNG bytes of uint8 [H, W, 3] RGB. Raises ValueError for any other array."""
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise ValueError(f"a picture is uint8 [H, W, 3], got {pixels.dtype} {list(pixels.shape)}")
    large = pixels.shape[0] * pixels.shape[1] > _LARGE
    return _encode(pixels, _PICTURE_LEVEL, (cv2.IMWRITE_PNG_FILTER, cv2.IMWRITE_PNG_FILTER_AVG) if large else ())


def encode_mask(mask: NDArray[np.uint8] | NDArray[np.uint16]) -> bytes:
    """PNG bytes of uint8 or uint16 [H, W], or uint8 [H, W, 3]; every value is kept. Raises ValueError otherwise."""
    flat = mask.ndim == 2 and mask.dtype in (np.uint8, np.uint16)
    coloured = mask.ndim == 3 and mask.shape[2] == 3 and mask.dtype == np.uint8
    if not (flat or coloured):
        raise ValueError(f"a mask is uint8 or uint16 [H, W], or uint8 [H, W, 3], got {mask.dtype} {list(mask.shape)}")
    return _encode(mask, _MASK_LEVEL)


def _encode(array: NDArray[Any], level: int, more: tuple[int, ...] = ()) -> bytes:
    channels_last = cv2.cvtColor(array, cv2.COLOR_RGB2BGR) if array.ndim == 3 else array
    settings = [cv2.IMWRITE_PNG_COMPRESSION, level, *more]
    done, data = cv2.imencode(".png", np.ascontiguousarray(channels_last), settings)
    if not done:
        raise ValueError(f"OpenCV cannot encode {array.dtype} {list(array.shape)} as PNG")
    return data.tobytes()


def open_png(path: Path, use: Callable[[Image.Image], T]) -> T:
    """What `use` makes of a picture or mask of a suite, which may be anybody's. Raises UnreadableError, a ValueError,
    for what is no PNG file, whatever else it may be, or has more pixels than a source may have.
    """
    return decode(read_blob(str(path)), lambda image, _: use(image), formats=("PNG",), least=1)


def read_png(data: bytes) -> NDArray[Any]:
    """The array that `encode_picture` or `encode_mask` was given. Raises ValueError for bytes that are no PNG, and
    for more pixels than a source may have.
    """
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    sound = data[12:16] == b"IHDR" and width * height <= MAX_PIXELS
    array = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED) if sound else None
    if array is None:
        raise ValueError("not a PNG file")
    return cv2.cvtColor(array, cv2.COLOR_BGR2RGB) if array.ndim == 3 else array
