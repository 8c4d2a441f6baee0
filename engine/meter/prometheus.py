"""A meter's record as Prometheus text (exposition format 0.0.4), as node_exporter's textfile collector wants it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from prometheus_client import CollectorRegistry, generate_latest, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


@dataclass(frozen=True)
class _Family:
    """One metric of the exposition: its name without the prefix, its type, its sentence of help."""

    name: str
    type: Literal["counter", "gauge"]
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
    "peak_memory_bytes": _Family("peak_memory_bytes", "gauge", "The most memory taken, of the process or the GPU."),
    "energy_j": _Family("energy_joules_total", "counter", "Energy that the machine took since the run began."),
}
_VERDICTS = _Family("variants_total", "counter", "Variants by verdict.")


def prometheus_text(record: Mapping[str, Any]) -> str:
    """A record of `metrics_file.as_record` in Prometheus' text exposition format."""
    return generate_latest(_registry(record)).decode()


def write_prometheus(path: Path, record: Mapping[str, Any] | None) -> None:
    """Put the record's text, or none, in the place of the file, whole. Raises OSError.

    Not synced: a record is worth a second, waiting for a disk is not.
    """
    write_to_textfile(str(path), CollectorRegistry() if record is None else _registry(record))


def _registry(record: Mapping[str, Any]) -> CollectorRegistry:
    """A registry of its own for each record: nothing is counted here, the meter has counted."""
    registry = CollectorRegistry()
    registry.register(_Families(record))
    return registry


class _Families(Collector):
    """The families of one record; what is not known (None) has no sample, and a family without samples is left out."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self._record = record

    def collect(self) -> Iterator[Metric]:
        record = self._record
        for field, family in _RUN.items():
            yield from _metric(family, (), [((), record[field])])
        yield from _metric(_VERDICTS, ("verdict",), [((name,), record[name]) for name in ("accepted", "rejected")])
        for field, family in _STAGE.items():
            yield from _metric(family, ("stage",), [((row["stage"],), row[field]) for row in record["stages"]])
        for field, family in _PLAN.items():
            samples = [((row["stage"], row["plan"]), row[field]) for row in record["plans"]]
            yield from _metric(family, ("stage", "plan"), samples)


def _metric(
    family: _Family, labels: Sequence[str], samples: Sequence[tuple[Sequence[str], float | None]]
) -> Iterator[Metric]:
    numbers = [(values, value) for values, value in samples if value is not None]
    if numbers:
        kind = CounterMetricFamily if family.type == "counter" else GaugeMetricFamily
        metric = kind(f"counterfactory_{family.name}", family.help, labels=labels)
        for values, value in numbers:
            metric.add_metric(values, value)
        yield metric
