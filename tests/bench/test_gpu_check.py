"""bench/gpu_check.py over the stand-in for a driver: each check holds there, and says so where something is broken."""

from __future__ import annotations

from typing import Any

import gpu_card
import numpy as np
import pytest
from stand_in_cuda import Memory

from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.runtime import cuda, kernels

pytest.importorskip("triton", reason="triton is not installed: the check of a GPU goes unchecked")

from stand_in_kernels import Driver


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> gpu_card.Card:
    memory = Memory(seed=1)
    monkeypatch.setattr(cuda, "load_runtime", lambda: memory)
    monkeypatch.setattr(kernels, "load_driver", lambda: Driver(memory))
    for name, value in {"_SIDE": 24, "_ROWS": 2, "_BYTES": 4096}.items():
        monkeypatch.setattr(gpu_card, name, value)
    return gpu_card.Card()


@pytest.mark.slow
def test_kernels_hold(card: gpu_card.Card, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_card.Card, "seconds", lambda *_, **__: 1.0)
    assert gpu_card.check_kernels(card)["steps"] == 2 * 3 * (6 + 4 + 3 + 1)
    step = Sampler.step
    monkeypatch.setattr(Sampler, "step", lambda self, i, *a: (step(self, i, *a)[0] + np.float32(1e-6), ()))
    with pytest.raises(AssertionError, match="step 0 of unipc differs"):
        gpu_card.check_kernels(card)


def test_calls_hold(card: gpu_card.Card, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = gpu_card.check_cuda(card)
    assert figures["left_mb"] <= 0.1
    wrong: Any = lambda *_, **__: None  # noqa: E731
    monkeypatch.setattr(cuda.Cuda, "on_device", wrong)
    with pytest.raises(AssertionError, match="turn 0 brought other bytes back"):
        gpu_card.check_cuda(card)
