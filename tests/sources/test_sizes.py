"""Sizes to paint at: the bucket that loses least of a picture, by counting its pixels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfactory.engine.profile.image import crop_box, lost_share
from counterfactory.engine.sources.source import ImageSettings

BUCKETS = ((512, 512), (512, 704), (704, 512), (512, 832), (832, 512), (512, 1024))


def settings(*buckets: tuple[int, int]) -> ImageSettings:
    return ImageSettings(512, 64, 1024, buckets or None)


@pytest.mark.parametrize(
    ("height", "width", "bucket", "most"),
    [
        (800, 1280, (512, 832), 0.03),  # SHIFT
        (375, 500, (512, 704), 0.04),  # ImageNet, COCO
        (500, 375, (704, 512), 0.04),
        (1024, 2048, (512, 1024), 0.0),  # Cityscapes
        (720, 960, (512, 704), 0.04),  # CamVid
        (100, 100, (512, 512), 0.0),
    ],
)
def test_published_sizes_keep_their_aspect(height: int, width: int, bucket: tuple[int, int], most: float) -> None:
    assert settings(*BUCKETS).size_for(height, width) == bucket
    assert lost_share(height, width, bucket) <= most


@given(st.integers(8, 5000), st.integers(8, 5000))
def test_no_other_bucket_keeps_more(height: int, width: int) -> None:
    def kept(size: tuple[int, int]) -> float:
        left, top, right, bottom = crop_box(height, width, size)
        return (right - left) * (bottom - top)

    chosen = settings(*BUCKETS).size_for(height, width)
    assert kept(chosen) == pytest.approx(max(map(kept, BUCKETS)))
    assert lost_share(height, width, chosen) == pytest.approx(1 - kept(chosen) / (height * width))


def test_of_equal_buckets_the_first_is_taken() -> None:
    assert settings((1024, 1024), (512, 512)).size_for(99, 99) == (1024, 1024)
    assert settings((512, 512), (1024, 1024)).size_for(99, 99) == (512, 512)


def test_without_buckets_sizes_are_in_proportion() -> None:
    assert settings().size_for(800, 1280) == (512, 832)
    assert settings().size_for(800, 16000) == (512, 1024)


@pytest.mark.parametrize(
    ("bucket", "reason"),
    [
        ((512, 500), "buckets are of multiples of 64, found 512 x 500"),
        ((0, 512), "buckets are of multiples of 64, found 0 x 512"),
        ((448, 512), "sides of buckets go from 512 to 1024, found 448 x 512"),
        ((512, 1088), "sides of buckets go from 512 to 1024, found 512 x 1088"),
    ],
)
def test_buckets_that_contradict_the_other_sizes_are_refused(bucket: tuple[int, int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        settings((512, 512), bucket)


def test_no_bucket_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="buckets needs one size or more"):
        ImageSettings(512, 64, 1024, ())
