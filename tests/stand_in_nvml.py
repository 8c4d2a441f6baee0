"""NVIDIA's management library for tests without a driver, below the real bindings: nvidia-ml-py calls it through ctypes
and writes its answers to where they belong, so that names, constants and order of arguments are the package's own.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

_FUNCTION_NOT_FOUND = {"nvmlDeviceGetCurrentClocksEventReasons": 535}


@dataclass
class StandInCard:
    """What a card answers; None is "not supported". `ecc` by (kind of error, counter) as NVML numbers them."""

    uuid: str = "GPU-0a000000-0000-0000-0000-000000000000"
    name: str = "NVIDIA A10G"
    temperature: int | None = 61
    clocks: dict[int, int] = field(default_factory=lambda: {0: 1700, 1: 1710, 2: 6251, 3: 1500})
    reasons: int | None = 0
    ecc: dict[tuple[int, int], int] = field(default_factory=lambda: {(0, 0): 3, (1, 0): 0, (0, 1): 30, (1, 1): 10})
    lost: bool = False
    memory: tuple[int, int] = (24 * 10**9, 23 * 10**9)


class _Library:
    """The functions of libnvidia-ml.so by their names in it."""

    def __init__(self, bindings: Any, cards: list[StandInCard], driver: str, instances: dict[str, int]) -> None:
        self._bindings, self.cards, self._driver, self._instances = bindings, cards, driver, instances
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., int]:
        answer = getattr(type(self), f"_{name.removesuffix('_v2').removeprefix('nvml')}", None)
        if answer is None or int(self._driver.partition(".")[0]) < _FUNCTION_NOT_FOUND.get(name, 0):
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            self.asked.append(name)
            values = [getattr(one, "_obj", one) for one in arguments]  # what byref points to
            return int(answer(self, *values))

        return call

    def _put(self, to: Any, value: int | None) -> int:
        if value is None:
            return int(self._bindings.NVML_ERROR_NOT_SUPPORTED)
        to.value = value
        return 0

    def _text(self, to: Any, text: str, length: Any) -> int:
        assert len(text) < length.value
        to.value = text.encode()
        return 0

    def _card(self, handle: Any) -> StandInCard:
        return self.cards[_number(handle)]

    def _InitWithFlags(self, flags: int) -> int:  # noqa: N802
        return 0

    def _SystemGetDriverVersion(self, to: Any, length: Any) -> int:  # noqa: N802
        return self._text(to, self._driver, length)

    def _DeviceGetCount(self, to: Any) -> int:  # noqa: N802
        return self._put(to, len(self.cards))

    def _DeviceGetHandleByIndex(self, index: Any, to: Any) -> int:  # noqa: N802
        if self.cards[index.value].lost:
            return int(self._bindings.NVML_ERROR_GPU_IS_LOST)
        _point(to, index.value)
        return 0

    def _DeviceGetHandleByUUID(self, uuid: Any, to: Any) -> int:  # noqa: N802
        known = {card.uuid: at for at, card in enumerate(self.cards)} | {
            name: 100 + at for name, at in self._instances.items()
        }
        if uuid.value.decode() not in known:
            return int(self._bindings.NVML_ERROR_NOT_FOUND)
        _point(to, known[uuid.value.decode()])
        return 0

    def _DeviceGetDeviceHandleFromMigDeviceHandle(self, handle: Any, to: Any) -> int:  # noqa: N802
        _point(to, _number(handle) - 100)
        return 0

    def _DeviceGetIndex(self, handle: Any, to: Any) -> int:  # noqa: N802
        return self._put(to, _number(handle))

    def _DeviceGetUUID(self, handle: Any, to: Any, length: Any) -> int:  # noqa: N802
        return self._text(to, self._card(handle).uuid, length)

    def _DeviceGetName(self, handle: Any, to: Any, length: Any) -> int:  # noqa: N802
        return self._text(to, self._card(handle).name, length)

    def _DeviceGetTemperature(self, handle: Any, sensor: Any, to: Any) -> int:  # noqa: N802
        return self._put(to, self._card(handle).temperature if sensor.value == 0 else None)

    def _DeviceGetClockInfo(self, handle: Any, clock: Any, to: Any) -> int:  # noqa: N802
        return self._put(to, self._card(handle).clocks.get(clock.value))

    def _DeviceGetCurrentClocksEventReasons(self, handle: Any, to: Any) -> int:  # noqa: N802
        return self._put(to, self._card(handle).reasons)

    _DeviceGetCurrentClocksThrottleReasons = _DeviceGetCurrentClocksEventReasons

    def _DeviceGetTotalEccErrors(self, handle: Any, kind: Any, counter: Any, to: Any) -> int:  # noqa: N802
        return self._put(to, self._card(handle).ecc.get((kind.value, counter.value)))

    def _DeviceGetCudaComputeCapability(self, handle: Any, major: Any, minor: Any) -> int:  # noqa: N802
        return self._put(major, 8) or self._put(minor, 6)

    def _DeviceGetMemoryInfo(self, handle: Any, to: Any) -> int:  # noqa: N802
        to.total, to.free = self._card(handle).memory
        return 0


def _point(handle: Any, number: int) -> None:
    """A handle is a pointer, and that of the first card is not null."""
    handle.contents = type(handle)._type_.from_address(4096 * (number + 1))


def _number(handle: Any) -> int:
    return int(ctypes.cast(handle, ctypes.c_void_p).value or 0) // 4096 - 1


def bindings_over(
    *cards: StandInCard, driver: str = "580.65.06", instances: dict[str, int] | None = None, stale: bool = False
) -> Any:
    """A module pynvml of its own over these cards; `instances` of MIG name the cards that they are of. `stale` is a
    package from before the names of clock events.
    """
    spec = importlib.util.find_spec("pynvml")
    assert spec is not None
    assert spec.loader is not None, "it is in the development tools"
    bindings = importlib.util.module_from_spec(spec)
    with patch.dict(sys.modules, {"pynvml": bindings}):  # where it looks for itself while it is made
        spec.loader.exec_module(bindings)
    made: Any = bindings
    made.nvmlLib = _Library(made, list(cards), driver, instances or {})
    if stale:
        del made.nvmlDeviceGetCurrentClocksEventReasons
    return made
