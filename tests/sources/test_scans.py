"""A JPEG's scans are counted before it is decoded: each costs a pass over all pixels, however few bytes it has."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from counterfactory.engine.sources.pixels import UnreadableError, read_picture


def jpeg(progressive: bool) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "JPEG", progressive=progressive)
    return file.getvalue()


def scans(count: int) -> bytes:
    """A JPEG of 16 x 16 with so many scans: its last one again and again."""
    data = jpeg(progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * (count - data.count(b"\xff\xda") + 1) + data[-2:]


def test_a_jpeg_of_endless_scans_is_not_decoded() -> None:
    assert read_picture(scans(100)).shape == (16, 16, 3)
    with pytest.raises(UnreadableError, match="a JPEG of 101 scans; at most 100 are read; save it again"):
        read_picture(scans(101))
    with pytest.raises(UnreadableError, match="a JPEG of 3000 scans"):
        read_picture(scans(3000))


def test_what_a_jpeg_s_segments_hold_is_no_scan() -> None:
    """A thumbnail, or bytes that happen to look like a scan."""
    plain = jpeg(progressive=False)
    for filling in (b"\xff\xda" * 500, b"\xff\xd9\xff\xda" * 200):
        segment = b"\xff\xe5" + (len(filling) + 2).to_bytes(2, "big") + filling
        assert (read_picture(plain[:2] + segment + plain[2:]) == read_picture(plain)).all()
    assert (read_picture(plain + b"\x00\x02" + b"\xff\xda\x00\x02" * 500) == read_picture(plain)).all()
    segment = b"\xff\xe5\x00\x04\xff\xff"
    with pytest.raises(UnreadableError, match="a JPEG of 101 scans"):
        read_picture(scans(101)[:2] + segment + scans(101)[2:])
