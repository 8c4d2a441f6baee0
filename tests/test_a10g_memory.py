"""A card of 24 GB has room for a run at full size, shard after shard, at every moment of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="no torch: what plans of full size take and give is not known")

from a10g_memory import BAR_BYTES, GPU_CARDS, PROFILES, SHARE, by_stage, run
from full_size import FIGURES

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.profile.profile import load_profile


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_a_run_stays_within_the_card(profile: str, tmp_path: Path) -> None:
    """Two shards: the second begins with what the first one left open; and a second run in the same process."""
    peaks = run(profile, 2, tmp_path)
    edits = load_profile(profile).invert is not None
    assert {(peak.shard, peak.stage) for peak in peaks} >= {
        *((shard, stage) for shard in (1, 2) for stage in ("caption", "rewrite", "paint")),
        # The second shard's may take nothing anew, nor the first's of an editor, which has looked by CLIP already.
        *([] if edits else [(1, "check")]),
        (3, "rewrite"),
    }
    assert max(peak.taken for peak in peaks) <= BAR_BYTES
    captions = [peak.parts for peak in peaks if peak.stage == "caption"]
    assert min(parts["weights"] for parts in captions) > 15e9, "the captioner is there at full size"
    assert min(peak.parts["language model"] for peak in peaks if peak.stage == "rewrite") > 12e9, "and so is the other"
    if profile == "a10g":
        said = json.loads(FIGURES.read_text())
        assert said["peak_gb_by_stage"] == pytest.approx(by_stage(peaks), abs=0.5), "run tests/a10g_memory.py --write"
        assert said["peak_gb"] == max(said["peak_gb_by_stage"].values())


@pytest.mark.slow
def test_profile_gpu_stays_within_a_card_of_8_gb(tmp_path: Path) -> None:
    """With all its networks at full size; a larger card holds no less of it."""
    peaks = run("gpu", 1, tmp_path, again=False, card_bytes=GPU_CARDS[0] * 10**9)
    assert {peak.stage for peak in peaks} >= {"caption", "paint", "check"}
    assert max(peak.taken for peak in peaks) <= SHARE * GPU_CARDS[0] * 10**9
    assert max(peak.parts.get("weights", 0) for peak in peaks) > 3e9, "the painter is there at full size"
    said = json.loads(FIGURES.read_text())["gpu_peak_gb"]
    assert list(said) == [str(card) for card in GPU_CARDS]
    assert said["8"] == pytest.approx(max(by_stage(peaks).values()), abs=0.5), "run tests/a10g_memory.py --write"


@pytest.mark.slow
def test_a_language_model_that_keeps_its_memory_is_missed(tmp_path: Path) -> None:
    """What torch keeps, plans cannot have: without `empty_cache` the second shard has no room for the captioner."""
    with pytest.raises(CounterfactoryError, match=r"of the device's 24,000,000,000 are free"):
        run("a10g", 2, tmp_path, again=False, keeps=True)
