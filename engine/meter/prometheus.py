"""A meter's record as Prometheus text (exposition format 0.0.4), as node_exporter's textfile collector wants it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from .cards import REASONS

# By field of a stage, a plan or the run: the name of the metric without its prefix, and its sentence of help. What ends
# in _total is a counter, all else a gauge. Idle time is what the others leave of wall time, so it falls when a batch
# that was under way is counted: a gauge, as a counter must never fall.
_STAGE = {
    "items": ("stage_items_total", "Items finished, those on record from earlier runs included."),
    "made": ("stage_made_items_total", "Items that this run made."),
    "total": ("stage_goal_items", "Items that the stage will have when it is complete."),
    "wall_s": ("stage_wall_seconds_total", "Wall time inside the stage."),
    "load_s": ("stage_load_seconds_total", "Time of loading models."),
    "busy_s": ("stage_busy_seconds_total", "Time inside models."),
    "idle_s": ("stage_idle_seconds", "Wall time that was neither loading nor busy."),
    "items_per_s": ("stage_items_per_second", "Items made per second of wall time so far."),
    "calls": ("stage_batches_total", "Batches run."),
    "rows": ("stage_rows_total", "Rows evaluated."),
    "fill": ("stage_batch_fill_ratio", "Rows over the capacity of the batches, 0 to 1."),
    "prompt_tokens": ("stage_prompt_tokens_total", "Tokens into language models."),
    "generated_tokens": ("stage_generated_tokens_total", "Tokens out of language models."),
}
_PLAN = {
    "load_s": ("plan_load_seconds_total", "Time of loading the plan."),
    "busy_s": ("plan_busy_seconds_total", "Time inside the plan."),
    "calls": ("plan_batches_total", "Batches that the plan ran."),
    "rows": ("plan_rows_total", "Rows that the plan evaluated."),
    "fill": ("plan_batch_fill_ratio", "Rows over the capacity of the plan's batches, 0 to 1."),
}
_CARD = {
    "temperature_c": ("card_temperature_celsius", "Temperature of the GPU."),
    "sm_mhz": ("card_sm_clock_megahertz", "Clock of the GPU's multiprocessors."),
    "memory_mhz": ("card_memory_clock_megahertz", "Clock of the GPU's memory."),
    "ecc_corrected": ("card_ecc_corrected_total", "Memory errors that ECC corrected since the driver was loaded."),
    "ecc_uncorrected": ("card_ecc_uncorrected_total", "Memory errors that ECC could not correct, since then."),
}
_THROTTLE = ("card_throttled", "1 while this holds the GPU's clocks down, 0 otherwise; reasons as nvidia-smi has them.")
_RUN = {
    "elapsed_s": ("elapsed_seconds", "Time since the run began."),
    "final": ("finished", "1 when the run has ended, 0 before."),
    "devices": ("devices", "Devices held; on a CPU its cores."),
    "device_hours": ("device_hours_total", "Devices held times wall time, in hours."),
    "device_hours_per_1k": ("device_hours_per_1000_accepted", "Hours held per 1,000 accepted."),
    "peak_memory_bytes": ("peak_memory_bytes", "The most memory taken, of the process or the GPU."),
    "energy_j": ("energy_joules_total", "Energy that the machine took since the run began."),
}
_VERDICTS = ("variants_total", "Variants by verdict.")


def prometheus_text(record: Mapping[str, Any] | None) -> str:
    """A record of `metrics_file.as_record` in Prometheus' text exposition format; "" without one."""
    registry = CollectorRegistry()  # of its own for each record: nothing is counted here, the meter has counted
    if record is not None:
        registry.register(_Families(record))
    return generate_latest(registry).decode()


class _Families(Collector):
    """The families of one record; what is not known (None) has no sample, and a family without samples is left out."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self._record = record

    def collect(self) -> Iterator[Metric]:
        record = self._record
        for field, family in _RUN.items():
            yield from _metric(*family, (), [((), record[field])])
        yield from _metric(*_VERDICTS, ("verdict",), [((name,), record[name]) for name in ("accepted", "rejected")])
        card = ("number", "name")
        tables = (_STAGE, "stages", ("stage",)), (_PLAN, "plans", ("stage", "plan")), (_CARD, "cards", card)
        for table, rows, labels in tables:
            for field, family in table.items():
                samples = [(tuple(str(row[label]) for label in labels), row[field]) for row in record[rows]]
                yield from _metric(*family, labels, samples)
        slowed = [
            ((str(row["number"]), row["name"], reason), float(reason in row["throttle"]))
            for row in record["cards"]
            if row["throttle"] is not None
            for reason in REASONS.values()
        ]
        yield from _metric(*_THROTTLE, (*card, "reason"), slowed)


def _metric(
    name: str, text: str, labels: Sequence[str], samples: Sequence[tuple[Sequence[str], float | None]]
) -> Iterator[Metric]:
    numbers = [(values, value) for values, value in samples if value is not None]
    if numbers:
        kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        metric = kind(f"counterfactory_{name}", text, labels=labels)
        for values, value in numbers:
            metric.add_metric(values, value)
        yield metric
