"""Rows of any number through plans of a fixed batch, one after another and side by side."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.meter.meter import Work
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.engine.runtime.session import Array, Port, Session, Signature

BATCH, WIDTH = 3, 5


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """x [B, 5] to its squares and to the sum of each row."""
    x = ops.parameter([-1, WIDTH], np.float32, "x")
    x.output(0).get_tensor().set_names({"x"})
    squares, total = ops.multiply(x, x), ops.reduce_sum(x, np.array([1]))
    for op, name in ((squares, "squares"), (total, "total")):
        op.output(0).get_tensor().set_names({name})
    path = tmp_path_factory.mktemp("batching") / "net.xml"
    ov.save_model(ov.Model([squares, total], [x]), path, compress_to_fp16=False)
    return path


def opened(network: Path, streams: int) -> Session:
    return open_session(network, batch=BATCH, precision="f32", threads=2, streams=streams)


@pytest.mark.parametrize("streams", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 6, 7, 9, 10, 20])
def test_any_rows_come_back_in_order_and_all_are_counted(network: Path, streams: int, rows: int) -> None:
    work = Work()
    x = np.random.default_rng(rows).standard_normal((rows, WIDTH)).astype(np.float32)
    out = Batched(opened(network, streams), lambda: work, streams).run({"x": x})
    np.testing.assert_array_equal(out["squares"], x * x)
    np.testing.assert_allclose(out["total"], x.sum(1), rtol=1e-5, atol=1e-5)
    assert work.rows == rows
    assert work.capacity == -(-rows // BATCH) * BATCH  # a batch without a row of its own is not run
    assert work.busy_s > 0


@dataclass
class _Meeting:
    """A session in which a run ends only when two have begun."""

    session: Session
    barrier: Barrier = field(default_factory=lambda: Barrier(2, timeout=10))

    @property
    def signature(self) -> Signature:
        return self.session.signature

    def run(self, feeds: Mapping[str, Any], hold: Collection[str] = ()) -> dict[str, Any]:
        self.barrier.wait()
        return self.session.run(feeds, hold)


def test_two_streams_are_two_runs_at_a_time(network: Path) -> None:
    x = np.arange(2 * BATCH * WIDTH, dtype=np.float32).reshape(-1, WIDTH)
    meeting = _Meeting(opened(network, 2))
    np.testing.assert_array_equal(Batched(meeting, streams=2).run({"x": x})["squares"], x * x)
    alone = _Meeting(opened(network, 1), Barrier(2, timeout=0.2))
    with pytest.raises(BrokenBarrierError):
        Batched(alone).run({"x": x})


def test_time_is_that_of_the_clock_and_not_of_every_stream(network: Path) -> None:
    class Slow(_Meeting):
        def run(self, feeds: Mapping[str, Any], hold: Collection[str] = ()) -> dict[str, Any]:
            time.sleep(0.2)
            return self.session.run(feeds, hold)

    work, began = Work(), time.perf_counter()
    Batched(Slow(opened(network, 2)), lambda: work, 2).run({"x": np.zeros((2 * BATCH, WIDTH), np.float32)})
    assert 0.2 <= work.busy_s <= time.perf_counter() - began


def test_work_of_many_runs_goes_side_by_side_and_its_time_counts_once(network: Path) -> None:
    work, meeting = Work(), _Meeting(opened(network, 2))
    batched = Batched(meeting, lambda: work, 2)
    assert batched.at_once == 2 * BATCH

    def sum_of(number: int) -> float:
        """One run after another, as a decoder's steps are."""
        x = np.full((BATCH, WIDTH), number, np.float32)
        return sum(float(batched.run_full({"x": x}, rows=1)["total"][0]) for _ in range(3))

    began = time.perf_counter()
    assert batched.each(sum_of, [1, 2]) == [3 * WIDTH, 6 * WIDTH]
    assert work.rows == 6
    assert work.capacity == 6 * BATCH
    assert 0 < work.busy_s <= time.perf_counter() - began


def test_an_error_of_one_stream_is_told(network: Path) -> None:
    x: Array = np.zeros((2 * BATCH, WIDTH + 1), np.float32)
    with pytest.raises(CounterfactoryError, match=r"plan net takes x as float32 \[3, 5\], got float32 \[3, 6\]"):
        Batched(opened(network, 2), streams=2).run({"x": x})


def test_a_session_serves_more_threads_than_it_has_streams(network: Path) -> None:
    x = np.random.default_rng(0).standard_normal((8 * BATCH, WIDTH)).astype(np.float32)
    out = Batched(opened(network, 2), streams=8).run({"x": x})
    np.testing.assert_array_equal(out["squares"], x * x)


def test_a_full_batch_that_failed_is_no_work(network: Path) -> None:
    work = Work()
    batched = Batched(opened(network, 1), lambda: work)
    x = np.ones((BATCH, WIDTH), np.float32)
    batched.run_full({"x": x}, rows=2)
    with pytest.raises(CounterfactoryError, match="float64"):
        batched.run_full({"x": x.astype(np.float64)}, rows=2)
    assert (work.calls, work.rows, work.capacity) == (1, 2, BATCH)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_end_the_run_with_the_network_s_name(value: float) -> None:
    class Poisoned:
        """Of five rows the last one's, in a batch of three."""

        signature = Signature(
            (Port("x", (BATCH, WIDTH), "float32"),),
            (Port("ids", (BATCH, WIDTH), "int64"), Port("y", (BATCH, WIDTH), "float32")),
        )

        def run(self, feeds: Any, hold: Any = ()) -> Any:
            return {"ids": feeds["x"].astype(np.int64), "y": np.where(feeds["x"] == 4, np.float32(value), feeds["x"])}

    batched, rows = Batched(Poisoned(), name="vae"), np.repeat(np.arange(5, dtype=np.float32)[:, None], WIDTH, 1)
    with np.errstate(invalid="ignore"):
        assert batched.run({"x": rows[:4]})["y"].max() == 3
        with pytest.raises(CounterfactoryError, match=r"network vae gives numbers that are not finite \(y\)"):
            batched.run({"x": rows})
        with pytest.raises(CounterfactoryError, match=r"network vae gives numbers that are not finite \(y\)"):
            batched.run_full({"x": rows[-BATCH:]})
