"""Each shipped profile with networks goes its whole way in small, beams and Florence-2 too, with nothing mocked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from full_size import FIGURES, PROFILES
from rehearsals import rehearse

from counterfactory.engine.profile.profile import load_profile


def test_all_of_them_are_on_record() -> None:
    """Else: python tests/rehearsals.py --write."""
    assert json.loads(FIGURES.read_text(encoding="utf-8"))["rehearsed_profiles"] == list(PROFILES)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rehearsals")


@pytest.mark.slow
@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_rehearsed_to_its_end(name: str, work: Path) -> None:
    for package in ("tensorrt_rtx", "onnxruntime"):
        pytest.importorskip(package, reason=f"no {package}: that profiles are rehearsed to their end goes unchecked")
    told = rehearse(name, work)
    assert told["status"] == 0, told
    steps = {step["step"]: step for step in told["steps"]}
    left_out = {step for step, said in steps.items() if said["holds"] is None}
    profile = load_profile(name)
    assert left_out == {*(["openvino"] * (profile.invert is not None)), *(["compile"] * (not profile.runtime.on_gpu))}
    assert steps.keys() - left_out >= {"export", "onnxruntime", "bench"}
    assert profile.invert is not None or "compare" in steps
    assert "6 of 6 variants accepted" in steps["onnxruntime"]["result"]
