"""Compiled plans have one size of pictures, and a profile says so before anything is painted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterfactory.engine.config.profile import load_profile


def test_buckets_on_a_gpu_are_of_one_size() -> None:
    for name in ("pocket", "a10g"):
        profile = load_profile(name)
        side = profile.image.short_side
        one = replace(profile.image, buckets=((side, side), (side, side)))
        several = replace(profile.image, max_long_side=2 * side, buckets=((side, side), (side, 2 * side)))
        assert replace(profile, image=one).image == one
        if name == "pocket":
            assert replace(profile, image=several).image == several
        else:
            with pytest.raises(ValueError, match='buckets has one size with backend = "tensorrt"'):
                replace(profile, image=several)
