"""ONNX files say of themselves what the package onnx reads in them, and name their weights' files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime.onnx_file import external_files, read_onnx_file


def outside(location: str, name: str = "w") -> TensorProto:
    tensor = numpy_helper.from_array(np.ones(300, np.float32), name)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", "1200")):
        tensor.external_data.add(key=key, value=value)
    return tensor


def saved(path: Path, *locations: str) -> Path:
    """A graph with an If, whose branches have weights of their own, by turns in files of these names."""
    first, *others = locations
    branches = {}
    for kind, place in zip(("then_branch", "else_branch"), [*others, first, first], strict=False):
        node = helper.make_node("Constant", [], [kind], value=outside(place, kind))
        out = helper.make_tensor_value_info(kind, TensorProto.FLOAT, [300])
        branches[kind] = helper.make_graph([node], kind, [], [out])
    inputs = [helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    labels = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    outputs = [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [300]),
        helper.make_value_info("z", helper.make_sequence_type_proto(labels)),
    ]
    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["y"], **branches)], "g", inputs, outputs, [outside(first)]
    )
    model = helper.make_model(graph)
    helper.set_model_props(model, {"task": "detect", "names": "{0: 'Straße'}"})
    path.write_bytes(model.SerializeToString())
    for place in locations:
        if not place.startswith(("/", "..")):
            (path.parent / place).parent.mkdir(parents=True, exist_ok=True)
            (path.parent / place).write_bytes(bytes(1200))
    return path


def test_a_file_s_own_words(tmp_path: Path) -> None:
    read = read_onnx_file(saved(tmp_path / "m.onnx", "m.onnx_data"))
    assert read.metadata == {"task": "detect", "names": "{0: 'Straße'}"}


def test_weights_of_any_name_also_of_graphs_in_graphs(tmp_path: Path) -> None:
    path = saved(tmp_path / "M.ONNX", "m.onnx_data", "part/a", "b")
    assert {file.relative_to(tmp_path).as_posix() for file in external_files(path)} == {"m.onnx_data", "part/a", "b"}
    (tmp_path / "b").unlink()
    with pytest.raises(CounterfactoryError, match="'b'"):
        external_files(path)


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname", "part/../../secret", ""])
def test_weights_out_of_the_folder_are_refused(location: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(1200))
    (tmp_path / "in").mkdir()
    with pytest.raises(CounterfactoryError, match="folder"):
        external_files(saved(tmp_path / "in" / "m.onnx", location or ".."))


def test_openvino_s_weights(tmp_path: Path) -> None:
    assert external_files(tmp_path / "m.xml") == []
    (tmp_path / "m.bin").write_bytes(b"")
    assert external_files(tmp_path / "m.xml") == [tmp_path / "m.bin"]


def test_no_cut_of_a_file_is_more_than_a_sentence(tmp_path: Path) -> None:
    whole = saved(tmp_path / "m.onnx", "d").read_bytes()
    for end in range(0, len(whole) - 1, 7):
        (tmp_path / "cut.onnx").write_bytes(whole[:end])
        try:
            read_onnx_file(tmp_path / "cut.onnx")
        except CounterfactoryError as error:
            assert "cut.onnx" in str(error)  # noqa: PT017  # some cuts end between two fields, and are whole
    for text in (b"no graph", b"", b"\xff" * 90, b"<html>"):
        (tmp_path / "cut.onnx").write_bytes(text)
        with pytest.raises(CounterfactoryError, match=r"cut\.onnx cannot be loaded"):
            read_onnx_file(tmp_path / "cut.onnx")
