"""The page of large photographs shows small copies, and opens the pictures."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from PIL import Image

import counterfactory as cf


def test_large_pictures_are_shown_small_and_opened_whole(tmp_path: Path) -> None:
    gradient = np.linspace(0, 255, 900 * 1200 * 3).reshape(900, 1200, 3).astype(np.uint8)
    for name, size in (("large", (1200, 900)), ("small", (320, 240))):
        path = tmp_path / "photos" / "dog" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(gradient).resize(size).save(path)
    suite = cf.generate(tmp_path / "photos", out=tmp_path / "suite", profile="light", variants=1, warn=lambda _: None)
    files = suite.report(warn=lambda _: None)
    text = files.page.read_text()
    links = re.findall(r'<a class="picture[^"]*" href="([^"]+)"><img src="([^"]+)"', text)
    assert len(links) == 6
    for opened, shown in links:
        assert (files.page.parent / opened).is_file()
        if "/large/" in opened:
            assert shown.startswith("thumbnails/")
            copy, whole = Image.open(files.page.parent / shown), Image.open(files.page.parent / opened)
            assert max(copy.size) == 480
            assert np.abs(np.asarray(copy).mean((0, 1)) - np.asarray(whole).mean((0, 1))).max() < 3
        else:
            assert shown == opened
