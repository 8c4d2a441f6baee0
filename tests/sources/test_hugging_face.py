"""Hugging Face's sets: folders of images with a table, sets on the disk, and sets of the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from PIL import Image
from small_sets import labels, read, refuse, save, write

from counterfactory.engine.sources.shapes import Box
from counterfactory.engine.sources.source import ImageSettings, load_pixels


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("metadata.csv", "file_name,split,label\ntrain/a.png,x,cat\n"),
        ("metadata.jsonl", '{"file_name": "train/a.png", "label": "cat", "split": "x"}'),
    ],
)
def test_hugging_face_s_image_folders(name: str, text: str, tmp_path: Path) -> None:
    save(tmp_path / "train" / "a.png")
    write(tmp_path / name, text)
    found = read(tmp_path)
    assert labels(found) == [("train/a", "cat")]
    assert found.notes == [f"{name}: columns that are not used: 'split'"]


def test_hugging_face_s_data_sets_on_the_disk(tmp_path: Path) -> None:
    pictures = [Image.open(save(tmp_path / f"{i}.png", i)) for i in range(3)]
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "objects": [{"bbox": [datasets.Value("float32")], "category": datasets.ClassLabel(names=["nose", "ear"])}],
            "caption": datasets.Value("string"),
        }
    )
    rows = {
        "image": pictures,
        "label": [1, 0, -1],
        "objects": [[{"bbox": [1, 2, 3, 4], "category": 1}], [], []],
        "caption": ["x"] * 3,
    }
    saved = datasets.Dataset.from_dict(rows, features=features)
    saved.save_to_disk(tmp_path / "saved")
    found = read(tmp_path / "saved")
    assert found.layout == "datasets"
    assert labels(found) == [("00000000", "dog"), ("00000001", "cat"), ("00000002", None)]
    assert found.sources[0].boxes == (Box(1, 2, 4, 6, "ear"),)
    assert (load_pixels(found.sources[1], ImageSettings(24, 8, 32)) == np.asarray(pictures[1])).all()
    assert found.notes == ["columns that are not used: 'caption'"]
    datasets.DatasetDict({"train": saved, "test": saved}).save_to_disk(tmp_path / "several")
    refuse("has the splits train, test: name the folder of one of them", tmp_path / "several")


def test_a_folder_is_loaded_as_a_set_of_the_hub_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the real library: splits, and class folders as ClassLabels. Without a network a sentence says what to do."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for i, place in enumerate(("train/cat", "train/dog", "validation/dog")):
        save(tmp_path / "set" / place / f"{i}.png", i)
    found = read(f"hf:{tmp_path / 'set'}:train")
    assert (found.layout, [source.label for source in found.sources]) == ("datasets", ["cat", "dog"])
    assert [source.label for source in read(f"hf:{tmp_path / 'set'}:validation").sources] == ["dog"]
    refuse(r"has the splits train, validation: name one of them, such as hf:", f"hf:{tmp_path / 'set'}")

    def unreachable(*_: Any, **__: Any) -> None:
        raise ConnectionError("Couldn't reach 'beans' on the Hub\nand more lines")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    reason = "hf:beans:train cannot be opened by datasets: Couldn't reach 'beans' on the Hub; without a network, name a"
    refuse(f"^{reason} folder that save_to_disk wrote elsewhere$", "hf:beans:train")
