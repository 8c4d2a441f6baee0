"""Suites in others' forms, read by their own loaders."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from light_sets import make_suite, photographs
from PIL import Image
from refusing import refusal

from counterfactory.engine.cli import cluster_arguments
from counterfactory.engine.cluster import packing
from counterfactory.engine.cluster.packing import pack_suite
from counterfactory.engine.suite import read_metadata
from counterfactory.engine.suite.contents import suite_digest


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pack")
    return make_suite(photographs(root / "photos", range(4)), root / "suite").path


def test_webdataset_reads_its_shards(suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    webdataset = pytest.importorskip("webdataset")
    files = [one.stat().st_size for one in suite.rglob("*.png")]
    monkeypatch.setattr(packing, "_size", lambda sample: 250_000)  # four a shard
    counted: list[int] = []
    shards = pack_suite(suite, tmp_path / "tars", "webdataset", 1, counted.append)
    rows = read_metadata(suite)
    assert len(rows) == len(files) == 12
    assert counted == list(range(1, 13))
    assert [path.name for path in shards] == [f"suite-{number:06d}.tar" for number in range(3)]
    samples = list(webdataset.WebDataset([str(path) for path in shards], shardshuffle=False))
    assert [sample["__key__"] for sample in samples] == [row.file_name.removesuffix(".png") for row in rows]
    for sample, row in zip(samples, rows, strict=True):
        assert sample["png"] == (suite / row.file_name).read_bytes()
        assert sample["cls"].decode() == row.label
        assert json.loads(sample["json"]) == json.loads(json.dumps(row.to_json()))
    again = pack_suite(suite, tmp_path / "again", "webdataset", 1)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in shards]


def test_datasets_reads_its_set_with_a_card(suite: Path, tmp_path: Path) -> None:
    datasets: Any = pytest.importorskip("datasets")
    pack_suite(suite, tmp_path / "set", "datasets")
    loaded = datasets.load_dataset(str(tmp_path / "set"), split="test", cache_dir=str(tmp_path / "cache"))
    rows = read_metadata(suite)
    assert len(loaded) == len(rows)
    for line, row in zip(loaded, rows, strict=True):
        with Image.open(suite / row.file_name) as picture:
            assert np.array_equal(np.asarray(line["image"]), np.asarray(picture))
        assert (line["kind"], line["verdict"], line["label"], line["mask"]) == (row.kind, row.verdict, row.label, None)
        assert [(edit["type"], edit["alternative"]) for edit in line["edits"]] == [
            (edit.type, edit.alternative) for edit in row.edits
        ]
        assert json.loads(line["scores"]) == dict(row.scores)
    card = (tmp_path / "set" / "README.md").read_text()
    assert str(suite_digest(suite)) in card
    assert "| original | accepted | 4 |" in card
    assert card.startswith("---\npretty_name: suite\n")


def test_masks_come_along(made_suite: Any, tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    shards = pack_suite(made_suite.path, tmp_path / "tars", "webdataset")
    rows = read_metadata(made_suite.path)
    for sample, row in zip(webdataset.WebDataset(list(map(str, shards)), shardshuffle=False), rows, strict=True):
        assert sample["mask.png"] == (made_suite.path / str(row.mask)).read_bytes()
        assert Image.open(io.BytesIO(sample["mask.png"])).size == (128, 128)


def test_what_cannot_be_packed_is_said(suite: Path, tmp_path: Path) -> None:
    assert cluster_arguments.FORMS == packing.FORMS
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    with refusal("is there already: name a new folder for the webdataset files"):
        pack_suite(suite, tmp_path / "full", "webdataset")
    with refusal("holds no finished suite"):
        pack_suite(tmp_path / "full", tmp_path / "new", "webdataset")
    assert not (tmp_path / "new").exists()
