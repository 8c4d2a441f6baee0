"""Pictures as networks read them, held against the processors of published networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image
from skimage import data
from transformers import BlipImageProcessor, CLIPImageProcessor

from counterfactory.engine.models.clip import to_pixel_values


@pytest.mark.parametrize("size", [(512, 512), (512, 832), (1024, 1024), (300, 1200)])
@pytest.mark.parametrize(
    ("processor", "side"), [(CLIPImageProcessor, 224), (CLIPImageProcessor, 768), (BlipImageProcessor, 364)]
)
def test_pictures_are_resized_as_published_processors_do(processor: Any, side: int, size: tuple[int, int]) -> None:
    """Of CLIP, Florence-2 and BLIP-2; CLIP's, which would cut pictures to a square, is let squash them as we do."""
    image = np.asarray(Image.fromarray(data.astronaut()).resize(size[::-1], Image.Resampling.BICUBIC))
    how = {"do_center_crop": False} if processor is CLIPImageProcessor else {}
    made = processor(size={"height": side, "width": side}, do_normalize=False, do_rescale=False, **how)
    theirs = np.asarray(made(image, return_tensors="np")["pixel_values"][0], np.float64)
    assert np.abs((to_pixel_values([image], side)[0].astype(np.float64) + 1) * 127.5 - theirs).max() <= 1.01


def test_pictures_of_embedded_networks_are_resized_by_area() -> None:
    image = np.random.default_rng(1).integers(0, 256, (256, 384, 3)).astype(np.uint8)
    blocks = image.reshape(128, 2, 128, 3, 3).mean((1, 3)).transpose(2, 0, 1)
    assert np.abs((to_pixel_values([image], 128)[0] + 1) * 127.5 - blocks).max() <= 0.51
