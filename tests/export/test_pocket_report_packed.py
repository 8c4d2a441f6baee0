"""The one command that measures the wide world's models, on packed networks: those of the streets, which know half of
it, with a referee of the wide world."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from counterfactory.engine.pocket.worlds import WIDE
from counterfactory.export.__main__ import main
from counterfactory.export.graphs.tracing import to_ir
from counterfactory.export.pocket.packed import gather
from counterfactory.export.pocket.page import BARS
from counterfactory.export.pocket.referee import build_referee, outputs_of


@pytest.mark.slow
def test_one_command_measures_models_in_the_wide_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = gather(tmp_path / "weights")
    inputs = {"pixel_values": torch.zeros(2, 3, 128, 128)}
    to_ir(build_referee(WIDE), inputs, outputs_of(WIDE), weights / "referee.xml")  # untrained: it sees what it likes
    where = ["--weights", str(weights), "--docs", str(tmp_path / "docs"), "--work", str(tmp_path / "work")]
    command = ["export", "pocket", "--report", "--world", "wide", "--scenes", "4", "--threads", "1", *where]
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 0
    figures = json.loads((tmp_path / "docs" / "pocket.json").read_text())
    assert figures["world"] == "wide"
    assert [bar.key for bar in BARS if bar.of(figures) is None] == []
    assert figures["sharpness_truth"] > 0.3  # pictures, and not noise or nothing
    assert figures["kid_extractor"].startswith("pocket CLIP image encoder (clip_image.bin ")
    assert {"gate_variants", "gate_chosen", "gate_edits"} <= figures.keys()
    page = (tmp_path / "docs" / "pocket.md").read_text()
    assert "--report --world wide" in page
    assert "## What the checks let pass" in page
