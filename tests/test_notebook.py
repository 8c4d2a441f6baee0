"""The notebook runs: its cells one after another, as a person would run them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "quickstart.ipynb"


@pytest.mark.slow
@pytest.mark.usefixtures("shared_plans")
def test_the_quick_start_s_cells_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed: the notebook's tables went unchecked")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 5
    for number, cell in enumerate(cells):
        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    result, suite = names["result"], names["suite"]
    assert {row.kind for row in suite.rows} == {"original", "control", "variant"}
    assert result.evaluation.originals.score.value == 1
    assert list(result.effects().columns) == ["edit", "points", "low", "high", "q", "sources"]
    assert (tmp_path / "quickstart" / "report" / "index.html").is_file()


def test_the_notebook_is_committed_light() -> None:
    assert NOTEBOOK.stat().st_size < 100_000
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells)
