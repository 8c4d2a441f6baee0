"""A plan's bytes and a run's peak are of the memory that plans are loaded into: on a GPU, of the stand-in's device."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stand_in_cuda import Error, Memory

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.meter.memory import DeviceMemory, memory_of
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.runtime import RuntimeSettings
from counterfactory.engine.runtime import cuda

GPU = RuntimeSettings("tensorrt", "f16", 0, 24.0)


def test_a_plans_bytes_are_the_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the process's own memory does meanwhile is not looked at."""
    device = Memory(limit=10_000_000)
    monkeypatch.setattr(cuda, "load_runtime", lambda: device)
    meter = Meter(lambda _: None, memory=memory_of(GPU))
    with meter.stage("paint"):
        with meter.loading("denoiser"):
            host = bytearray(b"x" * 50_000_000)
            held = cuda.Cuda(device).allocate(3_000_000)
        with meter.loading("hint"):
            pass
    assert {use.plan: use.bytes for use in meter.plans()} == {"denoiser": 3_000_000, "hint": 0}
    assert (len(host), held.nbytes) == (50_000_000, 3_000_000)


def test_a_devices_peak_is_the_most_that_was_read() -> None:
    device = Memory(limit=10_000_000)
    meter = Meter(lambda _: None, memory=DeviceMemory(device))
    held = cuda.Cuda(device).allocate(3_000_000)
    meter.advance("paint", 1, 2)
    del held
    assert (meter.peak_memory_bytes, device.bytes_of("device")) == (3_000_000, 0)


@pytest.mark.parametrize("missing", ["package", "device"])
def test_without_a_device_nothing_is_known(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = Memory()
    monkeypatch.setattr(device, "cudaMemGetInfo", lambda: (Error.cudaErrorInvalidValue, None, None), raising=False)

    def load() -> Memory:
        if missing == "package":
            raise CounterfactoryError("cuda-bindings is not installed")
        return device

    monkeypatch.setattr(cuda, "load_runtime", load)
    found = memory_of(GPU)
    assert (found.taken(), found.peak()) == (0, 0)


def test_a_cpus_memory_is_the_process() -> None:
    pocket = load_profile("pocket").runtime
    assert not isinstance(memory_of(pocket), DeviceMemory)
    onnx = replace(pocket, backend="onnxruntime", provider="cpu", precision="f32")
    assert not isinstance(memory_of(onnx), DeviceMemory)
    assert Meter(lambda _: None).peak_memory_bytes > 1_000_000
