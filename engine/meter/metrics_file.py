"""A file that dashboards follow while a run goes on: JSON lines, or Prometheus text where its name ends in `.prom`.

It is called whenever the meter changes, and writes at most one record per interval. JSON lines are appended, one
object per record. Prometheus text is one file, replaced as a whole. What cannot be written is found before anything is
spent; after that nothing here stops a run.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from ..files.writing import open_to_append, write_whole
from ..packages import missing_package
from .cards import Card
from .energy import EnergyMeter
from .meter import Meter, device_hours_per_1k


class MetricsFile:
    """Writes a meter's counts to `path`.

    `devices` are those held, by which hours are counted: on a CPU its cores, all of the machine's where None. `energy`
    is read with every record, and so are the `cards` (`read_cards`). `earlier_device_hours` are what earlier sessions
    over the suite took. Raises CounterfactoryError if `path` cannot be written.
    """

    def __init__(
        self,
        path: Path,
        interval_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        devices: int | None = None,
        energy: EnergyMeter | None = None,
        earlier_device_hours: float = 0.0,
        cards: Callable[[], Sequence[Card]] = tuple,
    ) -> None:
        self.path = path
        self.problem: str | None = None  # why a record was lost, the first time that one was
        self._interval_s, self._clock, self._energy = interval_s, clock, energy
        self._devices = devices if devices is not None else os.cpu_count() or 1
        self._earlier, self._cards = earlier_device_hours, cards
        self._next: float | None = None
        try:  # metrics of an earlier run do not stay under this one
            self._put(None)
        except OSError as error:
            todo = "name a file in a folder that exists and can be written to"
            raise CounterfactoryError(f"metrics cannot be written to {path}: {_reason(error)}; {todo}") from error

    def write(self, meter: Meter, final: bool = False) -> str | None:
        """Write a record, unless the last one is younger than the interval; a `final` one is always written.

        Returns a sentence the first time that a record cannot be written, for a person to see. Later ones are tried.
        """
        now = self._clock()
        if not final and self._next is not None and now < self._next:
            return None
        self._next = now + self._interval_s
        energy_j = self._energy.joules() if self._energy is not None else None
        record = as_record(meter, self._devices, energy_j, final, self._earlier, self._cards())
        try:
            self._put(record)
        except OSError as error:
            if self.problem is None:
                self.problem = f"metrics are not written to {self.path}: {_reason(error)}; the run goes on without them"
                return self.problem
        return None

    def _put(self, record: Mapping[str, Any] | None) -> None:
        """Write a record, or nothing. Raises OSError where that cannot be."""
        if self.path.suffix != ".prom":
            _append(self.path, "" if record is None else json.dumps(record, allow_nan=False) + "\n")
            return
        try:
            from .prometheus import prometheus_text  # imports an HTTP server, which most runs need not wait for
        except ModuleNotFoundError as error:
            raise CounterfactoryError(f"metrics in {self.path}: {missing_package(error) or error}") from error

        try:
            write_whole(self.path, prometheus_text(record), sync="nothing")  # worth a second: no disk is waited for
        except CounterfactoryError as error:  # a sentence for those whose work it would stop
            raise error.__cause__ or error from None


def as_record(
    meter: Meter,
    devices: int,
    energy_j: float | None,
    final: bool,
    earlier_device_hours: float = 0.0,
    cards: Sequence[Card] = (),
) -> dict[str, Any]:
    """What a meter says now, in JSON's own types; `time` is in seconds since 1970.

    Accepted variants are those of the suite, so the hours per 1,000 of them include what earlier sessions took.
    """
    hours = meter.device_hours(devices)
    return {
        "time": round(time.time(), 3),
        "elapsed_s": round(meter.elapsed_s, 3),
        "final": final,
        "stages": [_round_fields(asdict(cost)) | {"total": meter.totals.get(cost.stage)} for cost in meter.costs()],
        "plans": [_round_fields(asdict(cost)) for cost in meter.plans()],
        "accepted": meter.accepted,
        "rejected": meter.rejected,
        "devices": devices if meter.held is None else meter.held()[0],
        "device_hours": hours,
        "device_hours_per_1k": device_hours_per_1k(earlier_device_hours + hours, meter.accepted),
        "peak_memory_bytes": meter.peak_memory_bytes,
        "energy_j": energy_j,
        "cards": list(map(asdict, cards)),
    }


def _round_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in fields.items()}


def _append(path: Path, line: str) -> None:
    """Add `line` to the file, or nothing: half a line, as a full disk leaves it, would spoil the next."""
    with open_to_append(path) as file:
        end = os.fstat(file.fileno()).st_size
        data = memoryview(line.encode())
        try:
            while data:
                data = data[file.write(data) :]
        except OSError:
            with suppress(OSError):
                file.truncate(end)
            raise


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
