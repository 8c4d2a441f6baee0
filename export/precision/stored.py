"""An ONNX graph whose weights stay on the disk until they are asked for.

Gigabytes of weights are changed one tensor at a time: a change is noted by the tensor's name and made when the graph
is saved, so that memory holds the graph (some megabytes) and one weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from counterfactory.engine.files.writing import open_whole
from counterfactory.engine.runtime.session import Array

# Smaller tensors stand in the graph itself, where shape inference sees them.
_INLINE_BYTES = 1024
_ALIGNMENT = 4096
_Change = Callable[[Array], Array]


@dataclass
class Stored:
    """`proto` is the graph without its large weights, `folder` where they are."""

    proto: Any
    folder: Path
    _changes: dict[str, list[_Change]] = field(default_factory=dict)
    _on_disk: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._remember()

    @staticmethod
    def read(path: Path) -> Stored:
        """The graph at `path`. Raises ValueError for one with branches or loops, which nothing here looks into."""
        proto = onnx.load(str(path), load_external_data=False)
        for node in proto.graph.node:
            if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
                raise ValueError(f"{path.name}: node {node.name} ({node.op_type}) holds a graph of its own")
        return Stored(proto, path.parent)

    @property
    def graph(self) -> Any:
        return self.proto.graph

    def weights(self) -> dict[str, Any]:
        """The weights' headers by name."""
        return {tensor.name: tensor for tensor in self.graph.initializer}

    def weight(self, name: str) -> Array:
        """One weight, changes made."""
        tensor = self._on_disk[name]
        external = tensor.data_location == TensorProto.EXTERNAL
        array = _external(tensor, self.folder) if external else np.asarray(numpy_helper.to_array(tensor))
        for change in self._changes.get(name, ()):
            array = change(array)
        return array

    def change(self, name: str, change: _Change, dtype: type[np.generic] | None = None) -> None:
        """Note a change of a weight; `dtype` is the type that it leaves, for those who read the header meanwhile."""
        self._changes.setdefault(name, []).append(change)
        if dtype is not None:
            self.weights()[name].data_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def add(self, name: str, array: Array) -> str:
        """A new small weight; returns its name."""
        tensor = numpy_helper.from_array(array, name)
        self.graph.initializer.append(tensor)
        self._on_disk[name] = tensor
        return name

    def save(self, path: Path) -> None:
        """Write the graph to `path` and its large weights beside it (.data), all changes made; both or the old ones.

        Kept free of what an exporter notes of the machine it ran on.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        data = path.with_name(path.name + ".data")
        names = [tensor.name for tensor in self.graph.initializer]
        with open_whole(path) as graph, open_whole(data) as file:
            tensors = [_packed(name, self.weight(name), file, data.name) for name in names]
            del self.graph.initializer[:]
            self.graph.initializer.extend(tensors)
            strip(self.proto)
            graph.write(self.proto.SerializeToString(deterministic=True))
        if not data.stat().st_size:
            data.unlink()
        self.folder, self._changes = path.parent, {}
        self._remember()

    def write_graph(self, path: Path) -> Path:
        """Write the graph alone to `path`, in the folder of its weights, which it goes on using; returns `path`."""
        assert path.parent == self.folder
        assert not self._changes, "weights were changed: save them"
        path.write_bytes(self.proto.SerializeToString(deterministic=True))
        return path

    def _remember(self) -> None:
        """Where each weight is and what it is there: changes alter the headers in the graph before they are made."""
        self._on_disk = {}
        for tensor in self.graph.initializer:
            self._on_disk[tensor.name] = TensorProto()
            self._on_disk[tensor.name].CopyFrom(tensor)


def replace_nodes(graph: Any, nodes: Sequence[Any]) -> None:
    del graph.node[:]
    graph.node.extend(nodes)


def strip(proto: Any) -> None:
    """Take away stack traces, notes and other metadata: paths of the machine, and different at each export."""
    del proto.metadata_props[:]
    del proto.graph.metadata_props[:]
    for group in (proto.graph.node, proto.graph.value_info, proto.graph.initializer):
        for one in group:
            del one.metadata_props[:]
            one.doc_string = ""
    for port in (*proto.graph.input, *proto.graph.output):
        del port.metadata_props[:]


def fold_transposes(stored: Stored) -> int:
    """Turn weights that the graph transposes before use, and only there, once and for all; returns how many.

    PyTorch keeps a linear layer's weight as [out, in] and ONNX multiplies by [in, out]. Every runtime would fold this
    itself, each time and in memory.
    """
    weights = stored.weights()
    readers: dict[str, int] = {}
    for node in stored.graph.node:
        for name in node.input:
            readers[name] = readers.get(name, 0) + 1
    kept, renamed = [], {}
    for node in stored.graph.node:
        if node.op_type == "Transpose" and node.input[0] in weights and readers[node.input[0]] == 1:
            name = node.input[0]
            order = next((list(a.ints) for a in node.attribute if a.name == "perm"), None)
            stored.change(name, lambda array, order=order: np.ascontiguousarray(array.transpose(order)))  # type: ignore[misc]
            before = list(weights[name].dims)
            weights[name].dims[:] = [before[i] for i in order or range(len(before))[::-1]]
            renamed[node.output[0]] = name
        else:
            kept.append(node)
    for node in kept:
        for i, name in enumerate(node.input):
            node.input[i] = renamed.get(name, name)
    replace_nodes(stored.graph, kept)
    del stored.graph.value_info[:]  # they said shapes before the turn; whoever wants them infers them again
    return len(renamed)


def _external(tensor: Any, folder: Path) -> Array:
    where = {entry.key: entry.value for entry in tensor.external_data}
    kind = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    count = int(where["length"]) // kind.itemsize
    flat = np.fromfile(folder / where["location"], kind, count, offset=int(where.get("offset", 0)))
    return flat.reshape(tuple(tensor.dims))


def _packed(name: str, array: Array, file: BinaryIO, location: str) -> Any:
    """`array` as a tensor of the graph: inline, or written to `file`."""
    array = np.asarray(array, order="C")
    if array.nbytes < _INLINE_BYTES:
        return numpy_helper.from_array(array, name)
    file.write(bytes(-file.tell() % _ALIGNMENT))
    tensor = TensorProto(name=name, data_type=helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", file.tell()), ("length", array.nbytes)):
        tensor.external_data.add(key=key, value=str(value))
    file.write(array.data)
    return tensor
