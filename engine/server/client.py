"""Pictures that a server edits by an instruction: what a painter calls, from a pool of threads.

The same request with the same seed need not give the same picture again, on another machine or on this one: a suite
keeps what came, under the key of what was asked for.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..keys import generator
from ..profile.server import ServerSettings
from ..sources.pixels import UnreadableError, read_picture
from .comfyui import ComfyUi
from .exchange import Exchange, PictureRefusedError, ServerBusyError, ServerGoneError
from .openai_edits import OpenAiEdits

# Seeds that all servers take: PyTorch's, NumPy's and ComfyUI's generators, and what is read into 32 bits.
SEEDS = 2**31
_IN_A_ROW = 3  # pictures for which a server had no time
# A picture is the one that was sent where the means of blocks of so many pixels a side differ by no more grey levels,
# in brightness and in any channel: JPEG and WebP from quality 75 on, and another way to scale, change 26
# photographs and drawings less (scikit-image's), an edit that can be seen changes some block more.
_BLOCK, _LUMA, _CHANNEL = 8, 5, 16
_SIGNATURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF")


class SamePictureError(PictureRefusedError):
    """The server returned the picture that it was sent, `picture` (uint8 [H, W, 3]): of a variant it refused the edit,
    to a control it did nothing.
    """

    def __init__(self, message: str, picture: NDArray[np.uint8]) -> None:
        super().__init__(message)
        self.picture = picture


def open_client(settings: ServerSettings, wait: Callable[[float], object] | None = None) -> PaintClient:
    """The client of a server; nothing is asked yet. `wait` takes seconds, and stands in for waiting between tries.

    Raises CounterfactoryError for a secret's variable that is not set, and for a workflow that cannot be used.
    """
    exchange = Exchange(settings, wait)
    return PaintClient(exchange, OpenAiEdits(exchange) if settings.api == "openai" else ComfyUi(exchange))


def seed_of(noise_key: str) -> int:
    return int(generator(noise_key, "server").integers(SEEDS))


class PaintClient:
    """Edits pictures; any thread may call it."""

    def __init__(self, exchange: Exchange, api: OpenAiEdits | ComfyUi) -> None:
        self._exchange, self._api = exchange, api
        self._lock, self._busy = threading.Lock(), 0

    def paint(self, picture: NDArray[np.uint8], instruction: str, seed: int) -> NDArray[np.uint8]:
        """A picture (uint8 [H, W, 3] RGB) edited, of the same size. `seed` is 0 or more and less than `SEEDS`.

        Raises PictureRefusedError, SamePictureError among it, for one picture, ServerGoneError where the run stops.
        """
        height, width = picture.shape[:2]
        size = self._exchange.settings.size_for(height, width)
        pixels, file = _scaled(picture, size), io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG", compress_level=1)
        try:
            answer = self._read(self._api.edit(file.getvalue(), size, instruction, seed), size)
        except PictureRefusedError as error:
            self._count(error)
            raise
        self._count(None)
        painted = _scaled(answer, (height, width))
        if _alike(_scaled(pixels, answer.shape[:2]), answer):
            raise SamePictureError(f"{self._exchange.origin} returned the picture that it was sent", painted)
        return painted

    def close(self) -> None:
        """Break off what other threads ask for, which raises ServerGoneError there, and ask for nothing any more."""
        self._exchange.close()

    def _count(self, error: PictureRefusedError | None) -> None:
        """Raises ServerGoneError where the server had no time for several pictures in a row."""
        with self._lock:
            self._busy = self._busy + 1 if isinstance(error, ServerBusyError) else 0
            if self._busy < _IN_A_ROW:
                return
        raise ServerGoneError(f"{error}, {_IN_A_ROW} pictures in a row: lower parallel, or raise timeout_s")

    def _read(self, data: bytes, size: tuple[int, int]) -> NDArray[np.uint8]:
        """The pixels of an answer. Raises PictureRefusedError for what is no picture, or one of another shape."""
        origin = self._exchange.origin
        if not data.startswith(_SIGNATURES):
            words = self._exchange.words(data)
            raise PictureRefusedError(f"{origin} answered no picture in PNG, JPEG or WebP: {words}")
        try:
            picture = read_picture(data)
        except UnreadableError as error:
            words = self._exchange.words(str(error))
            raise PictureRefusedError(f"{origin} answered a picture that cannot be used: {words}") from error
        (height, width), (other_height, other_width) = size, picture.shape[:2]
        # Each side is rounded to the multiple.
        stray = abs(other_width * height - other_height * width) * 2
        if stray > self._exchange.settings.multiple * (height + width):
            raise PictureRefusedError(
                f"{origin} answered {other_width} x {other_height} pixels to {width} x {height}, another shape: have "
                "it keep the size that it is sent"
            )
        return picture


def _scaled(picture: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """uint8 [H, W, 3] as uint8 [height, width, 3], all of it; itself where it has the size."""
    if picture.shape[:2] == size:
        return picture
    return np.array(Image.fromarray(picture).resize((size[1], size[0]), Image.Resampling.BICUBIC))


def _alike(sent: NDArray[np.uint8], answer: NDArray[np.uint8]) -> bool:
    one, other = Image.fromarray(sent), Image.fromarray(answer)
    return _stray(one.convert("L"), other.convert("L")) <= _LUMA and _stray(one, other) <= _CHANNEL


def _stray(one: Image.Image, other: Image.Image) -> int:
    means = [np.asarray(image.reduce(_BLOCK), np.int16) for image in (one, other)]
    return int(np.abs(means[0] - means[1]).max())
