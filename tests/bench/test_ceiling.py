"""The ceiling of a run on a GPU: refused in time where there is none, and its arithmetic on the figures of a box."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from ceiling import ceiling, gpu_yardstick, measure_product, refuse_without_device
from measure import Bracket
from run import box_of, main, parser_of
from session_records import stage_cost

from counterfactory.engine.meter.meter import PlanUse
from counterfactory.engine.models.plan_facts import plan_facts
from counterfactory.engine.profile.profile import Profile, load_profile


@pytest.fixture
def a10g() -> Profile:
    return load_profile("a10g")


def report_of_painting(rows: int, busy_s: float) -> Any:
    """A run that painted for `busy_s` seconds and did nothing else, as far as the ceiling goes."""
    stage = stage_cost("paint", wall_s=busy_s + 1.0, load_s=1.0, busy_s=busy_s, idle_s=0.0, generated_tokens=0)
    plan = PlanUse("denoiser", "paint", 2, rows, 1.0, busy_s, 1.0, 1, 1000)
    return SimpleNamespace(stages=(stage,), plans=(plan,), wall_s=busy_s + 1.0, models_load_s=1.0)


def test_shares_on_a_gpu_are_of_the_product_measured_there(a10g: Profile) -> None:
    """Eight rows in as many seconds as they take at 50 TFLOP/s, of which the device is said to do 100."""
    flops = 8 * plan_facts(a10g)["denoiser"].flops
    asked: list[set[str]] = []

    def measured(profile: Profile, precisions: set[str]) -> dict[str, float]:
        asked.append(precisions)
        return {"f16": 100e12}

    table, shares, whole = ceiling(a10g, report_of_painting(8, flops / 50e12), measured)
    assert asked == [{"f16"}]
    assert (shares["paint"], whole) == pytest.approx((0.5, 0.5))
    assert "100.000 TFLOP/s in f16" in table.title


def test_a_gpu_profile_is_refused_before_its_run(
    a10g: Profile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if torch.cuda.is_available():
        pytest.skip("a GPU is here, so that what is said without one went unchecked")
    with pytest.raises(SystemExit, match=r"profile a10g runs on a GPU, and torch .* sees none; run it on the box"):
        main(["--profile", "a10g"])
    refuse_without_device(load_profile("pocket"))


def test_a_peer_is_refused_before_the_run(a10g: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    for peer in ("reference", "openvino"):
        with pytest.raises(SystemExit, match=f"--against {peer} is for the pocket networks"):
            main(["--profile", "a10g", "--against", peer])
    monkeypatch.setattr("run.load_profile", lambda _: replace(a10g, weights=None))
    with pytest.raises(SystemExit, match=r"profile a10g names, and it has no table \[weights\]"):
        main(["--profile", "a10g", "--against", "diffusers-batched"])


def test_a_peer_is_of_the_weights_that_the_profile_names(a10g: Profile) -> None:
    asked = parser_of().parse_args(["--profile", "a10g", "--against", "diffusers-batched"])
    request = box_of(asked, a10g)
    assert request is not None
    assert request.sources is not None
    assert a10g.weights is not None
    assert (request.sources.blip2, request.sources.controlnets) == (a10g.weights.blip2, a10g.weights.controlnets)
    assert box_of(asked, load_profile("pocket")) is None


def test_a_gpu_s_products_are_counted_and_tell_busy_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU's code on a CPU: between a hundredth and a thousand TFLOP/s, whatever else the machine does."""
    monkeypatch.setattr("ceiling.open_yardstick", lambda: lambda: Bracket(1.0, 0.75))
    bracket = gpu_yardstick("cpu")()
    assert (bracket.wall_s > 0, bracket.share) == (True, 0.75)
    assert 1e8 < measure_product("cpu", sides=(256,), rounds=3) < 1e15
    with pytest.raises(ValueError, match="start at 1"):
        measure_product("cpu", sides=())
