"""Pictures that somebody painted of an original: an edited picture of any painter's, or a control, by its file.

Such a picture has its original's size, or the same aspect; then it is scaled to it. Of another aspect nobody could say
where masks and boxes lie.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..edit import Edit
from ..errors import CounterfactoryError
from ..keys import content_key
from .blobs import read_blob, read_known
from .jpeg import damage
from .pixels import UnreadableError, fit, read_picture

_TYPE = re.compile("[a-z][a-z0-9 _-]{0,39}")
_ARROW = re.compile("->|\N{RIGHTWARDS ARROW}")
# What joins edits in a text.
JOINT = ";"
_FORM = "write 'weather: foggy' or 'weather: sunny -> foggy', several with ';' between"


@dataclass(frozen=True, slots=True)
class GivenPicture:
    """A picture that lies in the file `path`, which the user calls `file`, with its edits, none of a control, and the
    edited caption, None where nobody says one. A variant without edits has a caption that says what was edited.
    `level` is its number among those at which the same edits are there, 0 where nobody says one: in full. `digest` is
    the SHA-256 of its bytes.
    """

    file: str
    path: str
    edits: tuple[Edit, ...]
    edited_caption: str | None = None
    kind: Literal["variant", "control"] = "variant"
    level: int = 0
    digest: str = ""

    @property
    def key(self) -> str:
        """Names it, whatever its file is called."""
        return content_key(self.digest, self.edits, self.edited_caption, self.kind, self.level)


@dataclass(frozen=True, slots=True)
class GivenPictures:
    """The pictures of an original, its caption, None where nobody says one, and how many levels pictures have."""

    pictures: tuple[GivenPicture, ...]
    caption: str | None = None
    levels: int = 1

    @property
    def key(self) -> str:
        """Names all of it."""
        return content_key([picture.key for picture in self.pictures], self.caption, self.levels)


def leads_out(root: str) -> str:
    """The end of a sentence about a file of a table that does not lie in the table's folder `root`."""
    return f"leads out of {root}; put the table into a folder that holds all pictures"


def parse_edits(text: str) -> tuple[Edit, ...]:
    """The edits that a text names: "weather: foggy" adds, "weather: sunny -> foggy" replaces, "object: a bus ->"
    removes. Raises ValueError for any other form.
    """
    edits: list[Edit] = []
    for part in filter(None, map(str.strip, text.split(JOINT))):
        type_, colon, change = (piece.strip() for piece in part.partition(":"))
        words = [" ".join(side.split()) for side in _ARROW.split(change)]
        old, new = ("", *words) if len(words) == 1 else words if len(words) == 2 else ("", "")
        if not colon or not _TYPE.fullmatch(type_.lower()) or old == new:
            raise ValueError(f"the edit {part!r} has an unknown form; {_FORM}")
        if (edit := Edit(type_.lower(), old, new)) in edits:
            raise ValueError(f"the edit {part!r} is there twice")
        edits.append(edit)
    if not edits:
        raise ValueError(f"the edit {text!r} names nothing; {_FORM}")
    return tuple(edits)


def open_given(picture: GivenPicture, size: tuple[int, int]) -> GivenPicture:
    """The picture with its digest, of an original of `size` (height, width). Raises UnreadableError."""
    data = read_blob(picture.path)
    pixels = read_picture(data)
    if (wrong := damage(data, pixels)) is not None:
        raise UnreadableError(f"a broken JPEG: {wrong}; save it again")
    (height, width), (own_height, own_width) = size, pixels.shape[:2]
    # The same aspect, as far as whole pixels allow.
    if abs(own_width * height - own_height * width) > max(height, width):
        raise UnreadableError(
            f"is {own_width} x {own_height}, its original {width} x {height}: of another aspect, it does not lie where "
            "its original does; paint it at its original's aspect"
        )
    return replace(picture, digest=hashlib.sha256(data).hexdigest())


def load_given(picture: GivenPicture, size: tuple[int, int]) -> NDArray[np.uint8]:
    """The picture at `size` (height, width), that of its original's own picture, uint8 RGB [H, W, 3]. Raises
    CounterfactoryError, which says why alone, if the file has changed since it was opened.
    """
    try:
        pixels = read_picture(read_known(picture.path, picture.digest))
    except UnreadableError as error:
        raise CounterfactoryError(str(error)) from error
    return pixels if pixels.shape[:2] == size else fit(pixels, size)
