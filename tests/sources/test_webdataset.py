"""WebDataset's shards: labels, masks, and members that are wrong."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image
from small_sets import read, reasons, save, save_mask

from counterfactory.engine.sources.source import ImageSettings, load_mask, load_pixels


def test_webdataset_s_shards(tmp_path: Path) -> None:
    picture, mask = save(tmp_path / "x.jpg").read_bytes(), save_mask(tmp_path / "x.png", (1, 3)).read_bytes()
    shards = tmp_path / "shards"
    shards.mkdir()
    members = {
        "n01/0001.jpg": picture, "n01/0001.cls": b"0\n", "n01/0001.seg.png": mask,
        "0002.jpg": picture, "0002.json": b'{"label": "1", "url": "x"}',
        "0003.txt": b"no picture", "0004.jpg": picture, "0004.cls": b"\xff",
        "0005.jpg": picture, "0005.cls": b"\x1b",
    }  # fmt: skip
    with tarfile.open(shards / "train-000000.tar", "w") as tar:
        for name, data in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))
    (shards / "train-000001.tar").write_bytes(b"x" * 600)
    found = read(shards)
    assert found.layout == "webdataset"
    assert [(s.name, s.file, s.label) for s in found.sources] == [
        ("0002", "train-000000.tar/0002.jpg", "1"),
        ("n01/0001", "train-000000.tar/n01/0001.jpg", "0"),
    ]
    assert (load_pixels(found.sources[1], ImageSettings(24, 8, 32)) == np.asarray(Image.open(tmp_path / "x.jpg"))).all()
    assert np.unique(load_mask(found.sources[1], (24, 32))).tolist() == [1, 3]
    assert "has no picture among txt" in reasons(found)["train-000000.tar/0003"]
    assert "its .cls cannot be read" in reasons(found)["train-000000.tar/0004"]
    assert reasons(found)["train-000000.tar/0005"] == "its .cls holds no label that can be printed"
    assert "cannot be read as a tar file" in reasons(found)["train-000001.tar"]
