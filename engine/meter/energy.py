"""The energy that a run costs, in joules.

It comes from counters of the hardware: RAPL for processors (Linux, `/sys/class/powercap`, microjoules, package
domains only: the whole chip, without the memory modules) and NVML for NVIDIA GPUs (millijoules, through the package
`pynvml` if it is installed). Both count the whole machine, other programs included. Since Linux 5.10 only root may
read RAPL; where nothing can be read the answer is None, never zero.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from .machine import import_nvml, open_gpus

POWERCAP = Path("/sys/class/powercap")


class _Counter:
    """A hardware counter in units of `unit_j` joules that wraps around to 0 at `range_` (None: never)."""

    def __init__(self, read: Callable[[], int], unit_j: float, range_: int | None) -> None:
        self._read, self._unit_j, self._range = read, unit_j, range_
        self._last, self._sum = read(), 0

    def joules(self) -> float:
        now = self._read()
        passed = now - self._last
        if passed < 0:  # Without a known range the counter was reset: only its count since then is known.
            passed = passed + self._range if self._range is not None else now
        self._sum += passed
        self._last = now
        return self._sum * self._unit_j


class EnergyMeter:
    """Joules that the machine used since this object was made.

    A RAPL counter wraps around at its range, 262 kJ on many machines, which is some twenty minutes at 200 W: call
    `joules()` more often than that, or whole rounds are lost. `root` is the folder of RAPL's domains; `nvml` returns
    the module `pynvml` or raises ImportError.
    """

    def __init__(self, root: Path = POWERCAP, nvml: Callable[[], Any] = import_nvml) -> None:
        counters = {"rapl": _processors(root), "nvml": _gpus(nvml)}
        self.sources = tuple(name for name, group in counters.items() if group)  # what `joules` counts
        self._counters = [counter for group in counters.values() for counter in group]
        self._one_at_a_time = Lock()

    def joules(self) -> float | None:
        """Joules so far by all `sources`; None if no counter can be read, and from the first failure on. Any thread."""
        with self._one_at_a_time:
            if not self._counters:
                return None
            try:
                return sum(counter.joules() for counter in self._counters)
            except Exception:  # NVML's errors share no base class with OSError; half a sum would look like a saving
                self._counters = []
                return None


def _processors(root: Path) -> list[_Counter]:
    """Counters of RAPL's packages; none at all if one cannot be read, since a partial sum would look like a saving."""
    try:
        # Not `core`, which is part of a package, nor `psys`, which holds all of them.
        domains = sorted(root.glob("intel-rapl:*"))
        packages = [path for path in domains if (path / "name").read_text(encoding="utf-8").startswith("package")]
        return [
            _Counter(partial(_number, path / "energy_uj"), 1e-6, _number(path / "max_energy_range_uj") + 1)
            for path in packages
        ]
    except (OSError, ValueError):
        return []


def _number(path: Path) -> int:
    return int(path.read_text(encoding="utf-8"))


def _gpus(nvml: Callable[[], Any]) -> list[_Counter]:
    """Counters of NVML's GPUs; none at all if one of them has no energy counter."""
    try:
        pynvml, handles = open_gpus(nvml)
        energy = pynvml.nvmlDeviceGetTotalEnergyConsumption
        return [_Counter(partial(energy, handle), 1e-3, None) for handle in handles]
    except Exception:  # no module, no driver, an old GPU: NVML has an exception for each
        return []
