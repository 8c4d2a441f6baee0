"""Each shipped profile with networks goes its whole way in small, beams and Florence-2 too, with nothing mocked."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import Command
from full_size import FIGURES, PROFILES
from PIL import Image
from rehearsals import folder_of

from counterfactory.engine.cli.rehearse import Rehearsal
from counterfactory.engine.cli.terminal import Terminal
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.suite import read_metadata


def test_those_on_record_are_shipped() -> None:
    """`python tests/rehearsals.py --write` puts them there; the test below is what holds them."""
    known = json.loads(FIGURES.read_text(encoding="utf-8")).get("rehearsed_profiles", [])
    assert known == [name for name in PROFILES if name in known]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rehearsals")


@pytest.mark.slow
@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_rehearsed_to_its_end(
    name: str, work: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the bench, which test_assembled.py has."""
    for package in ("tensorrt_rtx", "onnxruntime"):
        pytest.importorskip(package, reason=f"no {package}: that profiles are rehearsed to their end goes unchecked")
    monkeypatch.setattr(Rehearsal, "measured", lambda *_: "not here")
    keep = folder_of(name, work)
    told = run.json("rehearse", "--profile", name, "--keep", keep)
    steps = {step["step"]: step["result"] for step in told["steps"]}
    left_out = {step["step"] for step in told["steps"] if step["holds"] is None}
    profile = load_profile(name)
    assert told["holds"] is True
    assert left_out == {*(["openvino"] * (profile.invert is not None)), *(["compile"] * (not profile.runtime.on_gpu))}
    for runtime in {"onnxruntime", "openvino"} - left_out:
        assert re.fullmatch(r"6 of 6 variants accepted, .*", steps[runtime])
    if profile.invert is None:
        assert re.fullmatch(r"9 pictures, [5-9]\d dB apart at most .*", steps["compare"])
    if name == "a10g":  # other pictures are seen to be others
        rows = [row for row in read_metadata(keep / "openvino") if row.kind != "original"]
        picture = keep / "openvino" / rows[0].file_name
        Image.fromarray(255 - np.asarray(Image.open(picture).convert("RGB"))).save(picture)
        with pytest.raises(CounterfactoryError, match=r"pictures are \d+ dB apart, and 45 are the least"):
            Rehearsal(profile, name, keep, sys.executable, Terminal(as_json=True)).compared()
