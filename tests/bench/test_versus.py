"""What a distilled denoiser is compared with: its teacher at equal quality, itself at equal work."""

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
        assert box == f"box of {profile.paint.denoiser}"
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
    monkeypatch.setattr(versus, "accepted_of", lambda *_: 1)
    for name, stand_in in (("peer_of", peer_of), ("agreement", agreement), ("by_turns", by_turns)):
        monkeypatch.setattr(versus, name, stand_in)
    return found


def compared(profile: Profile, folder: Path) -> tuple[versus.Comparison, versus.Comparison]:
    bench = Bench(profile, None, [], folder)  # type: ignore[arg-type]  # nothing runs
    return versus.against(bench, "reference", 8, 1, False, lambda one: f"box of {one.paint.denoiser}")  # type: ignore[arg-type, return-value]


def test_a_student_meets_its_teacher_at_equal_quality_and_itself_at_equal_work(
    asked: list[tuple[str, str, int]], tmp_path: Path
) -> None:
    quality, work = compared(load_profile("pocket"), tmp_path)
    few, full = ("denoiser_few_int8", 2), ("denoiser", 8)
    assert asked == [
        *(("peer", *full), ("agreement", *full), ("engine", *few)),
        *(("peer", *few), ("agreement", *few), ("engine", *few)),
    ]
    assert (quality.ratio.median, work.ratio.median) == (12.0, 3.0)
    assert (quality.told["peer_steps"], quality.told["psnr_db"]) == (8, 8.0)
    assert quality.told["peer_rows"] == 16
    wanted = {"ratio": 3.0, "ratio_min": 3.0, "ratio_max": 3.0, "rounds": 1, "rounds_dropped": 0}
    wanted |= {"peer_steps": 2, "peer_rows": 2}
    assert run.of_equal_work(work) == {f"{name}_equal_work": value for name, value in wanted.items()}


def test_without_a_teacher_both_are_one_comparison(asked: list[tuple[str, str, int]], tmp_path: Path) -> None:
    quality, work = compared(load_profile("pocket-full"), tmp_path)
    assert quality is work
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
