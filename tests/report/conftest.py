"""What tests of reports share."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """A green picture whose name needs care in an address."""
    path = tmp_path / "a b#?(1)'\".png"
    Image.new("RGB", (128, 128), (10, 200, 30)).save(path)
    return path
