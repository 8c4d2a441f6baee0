"""What a distilled denoiser is compared with: itself, in floats and then in int8, and apart from these its teacher."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import peer_networks
import pytest
import run
import versus
from journeys import Bench, in_f32, unquantised
from measure import Ratio, Spent
from reference import REFERENCE

from counterfactory.engine.profile.profile import Profile, load_profile, painting_as_teacher
from counterfactory.engine.runtime.openvino import resolve_precision
from counterfactory.export.graphs.recording import master_of

# Seconds per accepted variant of a peer, by its steps.
PEER_S = {2: 3.0, 8: 12.0}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, str, int]]:
    """The comparisons that `against` makes: what it asked for, with which denoiser and how many steps, in order."""
    found: list[tuple[str, str, int]] = []

    def note(what: str, profile: Profile) -> None:
        found.append((what, profile.paint.denoiser, profile.paint.sampler.steps))

    def peer_of(profile: Profile, name: str, compiled: bool, box: Any) -> Any:
        note("peer", profile)
        assert box is None
        made = SimpleNamespace(pictures={}, scores={}, seconds={}, tokens=0, event_s={}, load_s=0.0)
        return SimpleNamespace(run=lambda works, folder: made, device="cpu", profile=profile, way=REFERENCE)

    def agreement(bench: Bench, name: str, works: Any, made: Any, of_box: bool) -> dict[str, float]:
        note("agreement", bench.profile)
        return {"psnr_db": float(bench.profile.paint.sampler.steps)}

    def by_turns(bench: Bench, peer: Any, *_: Any) -> Any:
        note("engine", bench.profile)
        took = PEER_S[peer.profile.paint.sampler.steps]
        report = SimpleNamespace(models_load_s=0.0)
        runs = [SimpleNamespace(report=report, spent=Spent(1.0, 1.0))]
        assert bench.folder.is_dir()
        return Ratio((took,), Spent(took, took), Spent(1.0, 1.0), 1, (0,), took), runs, [peer.run([], tmp_path)]

    monkeypatch.setattr(versus, "work_of", lambda *_: [])
    monkeypatch.setattr(versus, "compare_quality", lambda *_: {"quality_equal": False, "quality_kid": [0.04, 0.03]})
    monkeypatch.setattr(versus, "accepted_of", lambda *_: 1)
    for name, stand_in in (("peer_of", peer_of), ("agreement", agreement), ("by_turns", by_turns)):
        monkeypatch.setattr(versus, name, stand_in)
    return found


def compared(profile: Profile, folder: Path, name: str = "openvino") -> versus.Comparisons:
    def box_of(one: Profile) -> None:
        assert one.models.folder == "pocket", "masters are no box's"

    return versus.against(Bench(profile, None, [], folder), name, 8, 1, False, box_of)  # type: ignore[arg-type]


def test_equal_work_is_of_equal_precision_and_int8_and_the_teacher_stand_apart(
    asked: list[tuple[str, str, int]], tmp_path: Path
) -> None:
    found = compared(load_profile("pocket"), tmp_path)
    floats, few, full = ("denoiser_few", 2), ("denoiser_few_int8", 2), ("denoiser", 8)
    assert asked == [
        *(("peer", *floats), ("agreement", *floats), ("engine", *floats)),
        *(("peer", *few), ("agreement", *few), ("engine", *few)),
        *(("peer", *full), ("agreement", *full), ("engine", *few)),
    ]
    assert found.int8 is not None
    assert found.teacher is not None
    precisions = [one.told["engine_precision"] for one in (found.work, found.int8, found.teacher)]
    assert precisions == [resolve_precision("auto"), "int8", "int8"]
    assert found.teacher.ratio.median == 12.0
    wanted = {"ratio": 3.0, "ratio_min": 3.0, "ratio_max": 3.0, "rounds": 1, "rounds_dropped": 0}
    wanted |= {"peer_steps": 2, "peer_rows": 2, "engine_precision": "int8"}
    assert run.told_apart(found.int8, "int8") == {f"{name}_int8": value for name, value in wanted.items()}
    apart = run.told_apart(found.teacher, "teacher")
    assert (apart["peer_steps_teacher"], apart["peer_rows_teacher"]) == (8, 16)
    assert (apart["quality_equal"], apart["quality_kid"]) == (False, [0.04, 0.03])
    assert run.told_apart(None, "int8") == {}


def test_the_reference_computes_in_f32_and_so_does_the_engine(asked: list[Any], tmp_path: Path) -> None:
    assert compared(load_profile("pocket"), tmp_path, "reference").work.told["engine_precision"] == "f32"


def test_without_a_teacher_and_integers_there_is_one_comparison(
    asked: list[tuple[str, str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versus, "precision_of", lambda _: "bf16")
    found = compared(load_profile("pocket-full"), tmp_path)
    assert (found.int8, found.teacher) == (None, None)
    assert [what for what, _, _ in asked] == ["peer", "agreement", "engine"]


def test_the_shipped_few_step_profile_meets_the_weights_that_it_was_distilled_from() -> None:
    fast, full = load_profile("a10g-fast"), load_profile("a10g")
    taught = painting_as_teacher(fast)
    assert (taught.paint, taught.weights) == (full.paint, full.weights)
    assert taught == replace(fast, paint=full.paint, weights=full.weights, teacher=None)


def test_a_plan_s_master_is_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = [master_of(name) for name in ("denoiser_few_int8", "denoiser_int8", "denoiser", "denoiser_lcm")]
    assert names == ["denoiser_few", "denoiser", "denoiser", "denoiser_lcm"]
    profile = replace(load_profile("pocket"), models=load_profile("a10g").models)  # no folder is made of the masters
    assert {one(profile).paint.denoiser for one in (unquantised, in_f32)} == {"denoiser_few"}
    restored = []

    def restore(weights: Path, plan: str) -> Any:
        restored.append(plan)
        raise InterruptedError

    for name in ("restore_blip2", "restore_clip"):
        monkeypatch.setattr(peer_networks, name, lambda _: (None, None))
    monkeypatch.setattr(peer_networks, "restore_denoiser", restore)
    with pytest.raises(InterruptedError):
        peer_networks.pocket_networks(profile)
    assert restored == ["denoiser_few"]
