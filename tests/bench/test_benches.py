"""Every bench still imports what it names and answers to --help; what they measure is not run here."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
# What benches share; the others are programs.
SHARED = {
    "caption_file",
    "ceiling",
    "coco_sets",
    "equal_quality",
    "edit_judges",
    "journeys",
    "lance_peer",
    "lite0",
    "measure",
    "openvino_peer",
}
SHARED |= {"openvino_peer", "peer_networks", "reference", "versus", "effect_coverage", "simulated_suites", "orders"}
SHARED |= {"sentence_coverage", "gpu_card", "gpu_language", "gpu_networks", "gpu_peer", "training_pictures"}
SHARED |= {"published_names"}
MODULES = sorted(path.stem for path in BENCH.glob("*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_it_imports_says_how_to_call_it_and_is_listed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(name)
    assert Path(str(module.__file__)).parent == BENCH, f"another module {name} is in the way"
    if name in SHARED:
        assert not hasattr(module, "main")
        return
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 0
    assert f"usage: {name}.py" in capsys.readouterr().out
    assert f"`{name}.py`" in (BENCH / "README.md").read_text()
