"""A detector is judged from a function, and from COCO's results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models_of_tests import pictures
from numpy.typing import NDArray
from picture_rows import picture_row, written

import counterfactory as cf
from counterfactory.engine.sources.shapes import Box
from counterfactory.engine.suite import PictureRow

LEVELS = (20, 120, 220)
Rows = tuple[Path, list[PictureRow]]


@pytest.fixture
def suite(tmp_path: Path) -> tuple[Path, list[PictureRow]]:
    """Three variants that show a bus; the greyer the picture, the further right."""
    plain = pictures(tmp_path / "suite", LEVELS)
    rows = [
        picture_row(i, sha256=row.sha256, label=None, boxes=(Box(i, 1, i + 4, 6, "bus"),))
        for i, row in enumerate(plain)
    ]
    return written(tmp_path / "suite", rows), rows


def detector(pictures: NDArray[np.uint8]) -> list[dict[str, Any]]:
    places = [LEVELS.index(int(picture[0, 0, 0])) for picture in pictures]
    return [{"boxes": [[i, 1, i + 4, 6]], "scores": [0.9], "labels": ["bus"]} for i in places]


def test_a_function_that_gives_boxes_has_a_page(suite: tuple[Path, list[PictureRow]], tmp_path: Path) -> None:
    result = cf.evaluate(suite[0], detector)
    found = result.evaluation
    assert (found.measure, found.variants.score.count) == ("AP", 3)
    assert found.variants.score.value == pytest.approx(1)
    page = result.report(tmp_path / "report", no_edges=True).page.read_text()
    assert "AP50" in page
    assert "recall" in page
    assert result.evaluation.to_json()["boxes"][0]["name"] == "weather"


def results(rows: list[PictureRow], **changes: Any) -> list[dict[str, Any]]:
    same = {"category_id": 3, "score": 0.9, **changes}
    return [{"image_id": row.file_name, "bbox": [i, 1, 4, 5], **same} for i, row in enumerate(rows)]


def test_coco_s_results(suite: tuple[Path, list[PictureRow]], tmp_path: Path) -> None:
    folder, rows = suite
    file, names = tmp_path / "results.json", tmp_path / "names.json"
    names.write_text(json.dumps({"3": "bus", "4": "car"}))
    by_number = [{**one, "image_id": i} for i, one in enumerate(results(rows))]
    for listed in (results(rows), by_number, results(rows, category_id="bus")):
        file.write_text(json.dumps(listed))
        found = cf.evaluate(folder, file, classes=names).evaluation
        assert found.variants.score.value == pytest.approx(1)
    pipeline = {
        row.file_name: [{"label": "bus", "score": 0.9, "box": {"xmin": i, "ymin": 1, "xmax": i + 4, "ymax": 6}}]
        for i, row in enumerate(rows)
    }
    for listed_boxes in (pipeline, {**pipeline, rows[0].file_name: []}):
        file.write_text(json.dumps(listed_boxes))
        found = cf.evaluate(folder, file).evaluation
        whole = listed_boxes is pipeline
        assert (found.variants.score.value == pytest.approx(1)) == whole
    file.write_text(json.dumps(results(rows)[:2]))
    missed = cf.evaluate(folder, file, classes=names).evaluation
    assert missed.variants.score.count == 3, "a picture without a result has no boxes"
    assert missed.variants.score.value == pytest.approx(2 / 3, abs=0.01)
    assert "recall" in cf.evaluate(folder, file, classes=names).judged.failures().splitlines()[0]


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ("{}", "no list of COCO's results"),
        ("3", "no list of COCO's results"),
        ("[", "is not valid JSON"),
        (json.dumps([{"image_id": 0, "category_id": 1, "score": 1}]), "result 0: image_id, category_id, bbox"),
        (json.dumps([{"image_id": 0, "category_id": 1, "bbox": [1, 2, 3], "score": 1}]), "result 0"),
        (json.dumps([{"image_id": 0, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 7}]), "score (0 to 1)"),
        (json.dumps([{"image_id": 77, "category_id": "bus", "bbox": [1, 2, 3, 4], "score": 1}]), "first is '77'"),
        (json.dumps([{"image_id": 0, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 1}]), "--classes FILE"),
    ],
)
def test_other_results_are_refused(listed: str, message: str, suite: Rows, tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text(listed)
    with pytest.raises(cf.CounterfactoryError) as refused:
        cf.evaluate(suite[0], file)
    assert message in str(refused.value)
