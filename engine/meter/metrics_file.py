"""A file that dashboards follow while a run goes on: JSON lines, or Prometheus text where its name ends in `.prom`.

A meter arrives every time that it changes; at most one record an interval is written. JSON lines are appended, one
object a record. Prometheus text (exposition format 0.0.4) is one file replaced as a whole, as node_exporter's textfile
collector wants it. What cannot be written is found before anything is spent; after that nothing here stops a run.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from .energy import EnergyMeter, peak_memory_bytes
from .meter import Meter

_PROMETHEUS = ".prom"


class MetricsFile:
    """Writes a meter's counts to `path`.

    `devices` are those held, by which hours are counted: on a CPU its cores, all of the machine's unless told. `energy`
    is read with every record. Raises CounterfactoryError if `path` cannot be written.
    """

    def __init__(
        self,
        path: Path,
        interval_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        devices: int | None = None,
        energy: EnergyMeter | None = None,
    ) -> None:
        self.path = path
        self.problem: str | None = None  # why a record was lost, the first time that one was
        self._interval_s, self._clock, self._energy = interval_s, clock, energy
        self._devices = devices if devices is not None else os.cpu_count() or 1
        self._next: float | None = None
        try:
            self._try()
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
        record = as_record(meter, self._devices, energy_j, final)
        try:
            if self.path.suffix == _PROMETHEUS:
                _replace(self.path, prometheus_text(record))
            else:
                _append(self.path, json.dumps(record, allow_nan=False) + "\n")
        except OSError as error:
            if self.problem is None:
                self.problem = f"metrics are not written to {self.path}: {_reason(error)}; the run goes on without them"
                return self.problem
        return None

    def _try(self) -> None:
        """Raise OSError where a record could not be written. Metrics of an earlier run do not stay under this one."""
        if self.path.suffix == _PROMETHEUS:
            _replace(self.path, "")
        else:
            _append(self.path, "")


def as_record(meter: Meter, devices: int, energy_j: float | None, final: bool) -> dict[str, Any]:
    """What a meter says now, in JSON's own types; `time` is in seconds since 1970."""
    hours = meter.device_hours(devices)
    return {
        "time": round(time.time(), 3),
        "elapsed_s": round(meter.elapsed_s, 3),
        "final": final,
        "stages": [_rounded(asdict(cost)) | {"total": meter.totals.get(cost.stage)} for cost in meter.costs()],
        "plans": [_rounded(asdict(cost)) for cost in meter.plans()],
        "accepted": meter.accepted,
        "rejected": meter.rejected,
        "devices": devices,
        "device_hours": hours.held,
        "device_hours_per_1k": hours.per_1k_accepted,
        "peak_memory_bytes": peak_memory_bytes(),
        "energy_j": energy_j,
    }


def _rounded(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in fields.items()}


@dataclass(frozen=True)
class _Family:
    """One metric of the exposition: its name without the prefix, its type, its sentence of help."""

    name: str
    type: str
    help: str


# By field of a stage's or plan's record. Idle time is what the others leave of wall time, so it falls when a batch that
# was under way is counted: a gauge, as a counter must never fall.
_STAGE = {
    "items": _Family("stage_items_total", "counter", "Items finished, those on record from earlier runs included."),
    "made": _Family("stage_made_items_total", "counter", "Items that this run made."),
    "total": _Family("stage_goal_items", "gauge", "Items that the stage will have when it is complete."),
    "wall_s": _Family("stage_wall_seconds_total", "counter", "Wall time inside the stage."),
    "load_s": _Family("stage_load_seconds_total", "counter", "Time of loading models."),
    "busy_s": _Family("stage_busy_seconds_total", "counter", "Time inside models."),
    "idle_s": _Family("stage_idle_seconds", "gauge", "Wall time that was neither loading nor busy."),
    "items_per_s": _Family("stage_items_per_second", "gauge", "Items made per second of wall time so far."),
    "calls": _Family("stage_batches_total", "counter", "Batches run."),
    "rows": _Family("stage_rows_total", "counter", "Rows evaluated."),
    "fill": _Family("stage_batch_fill_ratio", "gauge", "Rows over the capacity of the batches, 0 to 1."),
    "prompt_tokens": _Family("stage_prompt_tokens_total", "counter", "Tokens into language models."),
    "generated_tokens": _Family("stage_generated_tokens_total", "counter", "Tokens out of language models."),
}
_PLAN = {
    "load_s": _Family("plan_load_seconds_total", "counter", "Time of loading the plan."),
    "busy_s": _Family("plan_busy_seconds_total", "counter", "Time inside the plan."),
    "calls": _Family("plan_batches_total", "counter", "Batches that the plan ran."),
    "rows": _Family("plan_rows_total", "counter", "Rows that the plan evaluated."),
    "fill": _Family("plan_batch_fill_ratio", "gauge", "Rows over the capacity of the plan's batches, 0 to 1."),
}
_RUN = {
    "elapsed_s": _Family("elapsed_seconds", "gauge", "Time since the run began."),
    "final": _Family("finished", "gauge", "1 when the run has ended, 0 before."),
    "devices": _Family("devices", "gauge", "Devices held; on a CPU its cores."),
    "device_hours": _Family("device_hours_total", "counter", "Devices held times wall time, in hours."),
    "device_hours_per_1k": _Family("device_hours_per_1000_accepted", "gauge", "Hours held per 1,000 accepted."),
    "peak_memory_bytes": _Family("peak_memory_bytes", "gauge", "The most memory that was ever resident."),
    "energy_j": _Family("energy_joules_total", "counter", "Energy that the machine took since the run began."),
}
_VERDICTS = _Family("variants_total", "counter", "Variants by verdict.")

_Sample = tuple[Mapping[str, str], float | int | None]


def prometheus_text(record: Mapping[str, Any]) -> str:
    """A record in Prometheus' text exposition format; what is not known (None) has no sample."""
    return "".join(line + "\n" for family, samples in _families(record) for line in _lines(family, samples))


def _families(record: Mapping[str, Any]) -> Iterator[tuple[_Family, list[_Sample]]]:
    for field, family in _RUN.items():
        yield family, [({}, record[field])]
    yield _VERDICTS, [({"verdict": verdict}, record[verdict]) for verdict in ("accepted", "rejected")]
    for field, family in _STAGE.items():
        yield family, [({"stage": stage["stage"]}, stage[field]) for stage in record["stages"]]
    for field, family in _PLAN.items():
        yield family, [({"stage": plan["stage"], "plan": plan["plan"]}, plan[field]) for plan in record["plans"]]


def _lines(family: _Family, samples: Iterable[_Sample]) -> Iterator[str]:
    known = [(labels, value) for labels, value in samples if value is not None]
    if not known:
        return
    name = f"counterfactory_{family.name}"
    yield f"# HELP {name} {family.help}"
    yield f"# TYPE {name} {family.type}"
    for labels, value in known:
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{name}{{{inside}}} {value + 0}" if inside else f"{name} {value + 0}"  # + 0: True is 1


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _replace(path: Path, text: str) -> None:
    """Put `text` in the place of the file, whole. Not synced: a record is worth a second, waiting for a disk is not."""
    aside = path.with_name(f"{path.name}.{os.getpid()}.tmp")  # a name that the collector does not read
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise


def _append(path: Path, line: str) -> None:
    """Add `line` to the file, or nothing: half a line, as a full disk leaves it, would spoil the next."""
    with path.open("ab", buffering=0) as file:
        end = file.tell() if file.seekable() else None
        data = memoryview(line.encode())
        try:
            while data:
                data = data[file.write(data) :]
        except OSError:
            if end is not None:
                with suppress(OSError):
                    file.truncate(end)
            raise


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
