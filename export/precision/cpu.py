"""ONNX graphs on this CPU, to compare with: ONNX Runtime's CPU provider, as written or optimised."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from counterfactory.engine.runtime.session import Array, Port, Signature

_TYPES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(int64)": "int64", "tensor(bool)": "bool"}


class OnnxCpu:
    """A graph file, opened; a session by the engine's contract, whose batch may vary."""

    def __init__(self, path: Path, *, as_written: bool = False, batch: int | None = None) -> None:
        """`as_written` runs each node by itself, in the order of the graph; `batch` fixes what the signature says."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        level = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = level.ORT_DISABLE_ALL if as_written else level.ORT_ENABLE_BASIC
        options.log_severity_level = 3
        # Planning which buffers to use again is quadratic in the nodes (7 s for 4,000) and saves nothing here.
        options.enable_mem_reuse = not as_written
        if as_written:
            # The default order computes everything that depends on weights alone beforehand: a copy of them all.
            options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
        # A pattern asks for one block as large as all weights, of which nothing is used where they are mapped; beyond
        # the machine's memory it is refused.
        options.enable_mem_pattern = False
        # Weights laid out anew for speed would double the memory of what is run a few times.
        options.add_session_config_entry("session.disable_prepacking", "1")
        self._session: Any = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.name = path.stem
        self.signature = Signature(
            tuple(_port(port, batch) for port in self._session.get_inputs()),
            tuple(_port(port, batch) for port in self._session.get_outputs()),
        )

    def run(self, feeds: Mapping[str, Array], hold: Collection[str] = ()) -> dict[str, Array]:
        """All outputs by name; nothing is held anywhere but here."""
        self.signature.check(self.name, feeds)
        names = [port.name for port in self.signature.outputs]
        found = self._session.run(names, {name: np.ascontiguousarray(array) for name, array in feeds.items()})
        return dict(zip(names, (np.asarray(array) for array in found), strict=True))


def _port(port: Any, batch: int | None) -> Port:
    shape = tuple(n if isinstance(n, int) else None for n in port.shape)
    return Port(port.name, (batch, *shape[1:]) if batch and shape else shape, _TYPES.get(port.type, port.type))
