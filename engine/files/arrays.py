"""NumPy files (.npy): an array of numbers or texts from bytes, in memory that the bytes bound."""

from __future__ import annotations

import io
import math
import tokenize
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ..errors import CounterfactoryError
from .reading import read_bytes

MAGIC = npy.MAGIC_PREFIX
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def parse_array(data: bytes) -> NDArray[Any]:
    """The array of real numbers or texts in a NumPy file of version 1 or 2, a view of its bytes. Raises ValueError."""
    file = io.BytesIO(data)
    try:
        shape, columns_first, dtype = _HEADERS[npy.read_magic(file)](file)
    except (SyntaxError, tokenize.TokenError, KeyError, TypeError, RecursionError, MemoryError) as error:
        # The header is a Python expression, read by Python's own parser.
        raise ValueError(f"its header cannot be read ({error})") from error
    if dtype.kind not in "fiubcU" or not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError(f"it holds {dtype} {list(shape)}, and numbers or texts are needed")
    count, start = math.prod(shape), file.tell()
    if count * dtype.itemsize > len(data) - start:
        raise ValueError(f"it ends before its {list(shape)} numbers do")
    numbers = np.frombuffer(data, dtype, count, start) if count else np.empty(0, dtype)
    return numbers.reshape(shape, order="F" if columns_first else "C")


def read_array(path: Path, advice: str) -> NDArray[Any]:
    """`parse_array` of a file. Raises CounterfactoryError, which ends in `advice`, for what cannot be read."""
    try:
        return parse_array(read_bytes(path))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
        raise CounterfactoryError(f"{path} is no array that can be read: {reason}; {advice}") from error
