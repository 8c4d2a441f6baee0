"""Plans that do not serve are refused, and profiles that do not suit a graph become none. Nothing compiles here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from small_graphs import mixing_graph, pair_graph, picture_graph

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime import plans
from counterfactory.engine.runtime.onnx_header import read_ports
from counterfactory.engine.runtime.plans import PlanKey, PlanRequirements, Shapes, read_key, require_fresh, write_key
from counterfactory.export.plans.checks import check_profile

DYNAMIC = Shapes((1, 4, 16, 16), (4, 4, 16, 16), (8, 4, 16, 16))
DIGEST = sha256(b"plan").hexdigest()
KEY = PlanKey("a" * 64, ({"x": DYNAMIC},), "fp16", "tensorrt_rtx 1.7.1.116", "SM86", DIGEST, seconds=1.5)
WANTED = PlanRequirements(KEY.onnx_sha256, KEY.profiles, KEY.library, KEY.device)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A plan's bytes, which nothing here reads, and its key."""
    path = tmp_path / "denoiser.plan"
    path.write_bytes(b"plan")
    write_key(path, KEY)
    return path


def test_a_key_is_read_as_it_was_written(plan: Path) -> None:
    assert read_key(plan) == require_fresh(plan, WANTED) == require_fresh(plan, PlanRequirements()) == KEY
    assert KEY.held_bytes is None
    told = replace(KEY, weights_bytes=5, scratch_bytes=7, io_bytes=4)
    write_key(plan, told)
    assert (read_key(plan), told.held_bytes) == (told, 9)
    assert plans.key_path(plan).name == "denoiser.plan.json"
    assert not list(plan.parent.glob("*.tmp"))


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (replace(WANTED, onnx_sha256="b" * 64), "graph aaaaaaaaaaaa, and the graph is bbbbbbbbbbbb"),
        (replace(WANTED, library="tensorrt_rtx 1.8.0.1"), "tensorrt_rtx 1.7.1.116, and tensorrt_rtx 1.8.0.1 is inst"),
        (replace(WANTED, device="SM89"), "for SM86, and the device is SM89"),
        (replace(WANTED, profiles=[{"x": Shapes.static(8, 4, 16, 16)}]), r"shapes of x are .* wanted \[8, 4, 16, 16\]"),
        (replace(WANTED, profiles=[{"y": DYNAMIC}]), "shapes of x are .* wanted none; its shapes of y are none"),
    ],
)
def test_a_stale_plan_is_refused_with_reason_and_remedy(plan: Path, wanted: PlanRequirements, says: str) -> None:
    with pytest.raises(CounterfactoryError, match=f"denoiser.plan is stale: .*{says}.*build it again"):
        require_fresh(plan, wanted)


def test_every_reason_is_given_at_once(plan: Path) -> None:
    plan.write_bytes(b"plan!")
    wanted = PlanRequirements("b" * 64, [{"x": Shapes.static(1)}], "tensorrt 11.0", "SM89")
    assert len(plans.find_mismatches(plan, KEY, wanted)) == 5
    # What a doctor asks of many large plans: everything but their bytes.
    assert len(plans.find_mismatches(plan, KEY, PlanRequirements(device="SM89"), digest=None)) == 1


@pytest.mark.parametrize("content", [b"", b"pla", b"plbn", b"plan and more"])
def test_a_damaged_plan_is_refused(plan: Path, content: bytes) -> None:
    plan.write_bytes(content)
    with pytest.raises(CounterfactoryError, match="its bytes are not those that were written"):
        require_fresh(plan, WANTED)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("min", "least"),
        lambda text: text.replace('"SM86"', "86"),
        lambda text: json.dumps({key: value for key, value in json.loads(text).items() if key != "device"}),
        lambda text: json.dumps(json.loads(text) | {"profiles": [{"x": {"min": [9], "opt": [4], "max": [8]}}]}),
        lambda text: json.dumps(json.loads(text) | {"colour": "blue"}),
        lambda text: json.dumps(json.loads(text) | {"io_bytes": -1}),
        lambda text: "[]",
    ],
)
def test_a_damaged_key_is_refused(plan: Path, spoil: Callable[[str], str]) -> None:
    file = plans.key_path(plan)
    before = file.read_text()
    file.write_text(spoil(before))
    assert file.read_text() != before
    with pytest.raises(CounterfactoryError, match=r"denoiser.plan.json of a plan is damaged .*build it again"):
        read_key(plan)


def test_a_missing_plan_or_key_is_refused(plan: Path) -> None:
    plans.key_path(plan).unlink()
    with pytest.raises(CounterfactoryError, match=r"denoiser.plan has no key denoiser.plan.json"):
        read_key(plan)
    plan.unlink()
    with pytest.raises(CounterfactoryError, match=r"denoiser.plan is missing; build it again"):
        read_key(plan)


@pytest.mark.parametrize(
    "shapes", [((2,), (1,), (3,)), ((1,), (4,), (3,)), ((-1,), (1,), (1,)), ((1, 1), (1,), (1,)), ((1,), (1,), (1, 2))]
)
def test_shapes_are_ordered(shapes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match="0 <= min <= opt <= max"):
        Shapes(*shapes)


def test_a_graphs_digest_sees_its_external_data(tmp_path: Path) -> None:
    path = picture_graph(tmp_path / "model.onnx")
    inline = plans.onnx_digest(path)
    model = onnx.load(str(path))
    onnx.save(model, str(path), save_as_external_data=True, location="model.onnx.data", size_threshold=0)
    outside = plans.onnx_digest(path)
    data = bytearray((tmp_path / "model.onnx.data").read_bytes())
    data[0] ^= 1
    (tmp_path / "model.onnx.data").write_bytes(data)
    assert len({inline, outside, plans.onnx_digest(path)}) == 3
    with pytest.raises(CounterfactoryError, match=r"no.onnx is missing"):
        plans.onnx_digest(tmp_path / "no.onnx")


def test_ports_are_those_that_onnx_reads(tmp_path: Path) -> None:
    for path in (picture_graph(tmp_path / "a.onnx"), pair_graph(tmp_path / "b.onnx", 3, "rows")):
        graph, found = onnx.load(str(path)).graph, read_ports(path)
        for ours, theirs in ((found.inputs, graph.input), (found.outputs, graph.output)):
            assert [port.name for port in ours] == [port.name for port in theirs]
            for port, value in zip(ours, theirs, strict=True):
                dims = value.type.tensor_type.shape.dim
                assert list(port.axes) == [
                    d.dim_param or (d.dim_value if d.HasField("dim_value") else None) for d in dims
                ]


def test_files_that_are_no_graphs_are_refused(tmp_path: Path) -> None:
    whole = picture_graph(tmp_path / "whole.onnx").read_bytes()
    wrong = {"cut": whole[: len(whole) // 2], "text": b"not a graph", "ends": b"\x80" * 20, "empty": b""}
    for name, content in wrong.items():
        (tmp_path / f"{name}.onnx").write_bytes(content)
        with pytest.raises(CounterfactoryError, match=f"{name}.onnx is no ONNX file that can be read"):
            read_ports(tmp_path / f"{name}.onnx")


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        ({"x": DYNAMIC, "latents": DYNAMIC}, r"shapes are given for \['latents'\], which are no inputs"),
        ({}, r"inputs \['x'\] have no shapes"),
        ({"x": Shapes.static(1, 4, 16)}, "x has 4 axes .* its shapes have 3"),
        ({"x": Shapes.static(1, 3, 16, 16)}, "x is fixed to 4 along axis 1, its shapes say 3"),
        ({"x": Shapes((1, 4, 8, 16), (1, 4, 16, 16), (1, 4, 16, 16))}, "fixed to 16 along axis 2, .* say 8 to 16"),
    ],
)
def test_a_profile_that_does_not_suit_is_refused(tmp_path: Path, profile: dict[str, Shapes], says: str) -> None:
    path = picture_graph(tmp_path / "picture.onnx")
    with pytest.raises(CounterfactoryError, match=f"picture.onnx cannot become a plan of these shapes: .*{says}"):
        check_profile(path, profile)


@pytest.mark.parametrize("names", [("batch", "batch"), ("batch", "rows"), (None, None)])
def test_batches_that_end_at_different_lengths_are_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    path = pair_graph(tmp_path / "pair.onnx", *names)
    to_eight, to_sixteen = Shapes((1, 8), (4, 8), (8, 8)), Shapes((1, 8), (4, 8), (16, 8))
    check_profile(path, {"a": to_eight, "b": to_eight})
    with pytest.raises(CounterfactoryError, match=r"the batch must be of one length .* a\[0\] 1/4/8, b\[0\] 1/4/16"):
        check_profile(path, {"a": to_eight, "b": to_sixteen})


def test_a_batch_fixed_by_a_reshape_is_refused_where_it_shows(tmp_path: Path) -> None:
    path = picture_graph(tmp_path / "picture.onnx", rows=4)
    check_profile(picture_graph(tmp_path / "right.onnx"), {"x": DYNAMIC})
    check_profile(path, {"x": Shapes.static(4, 4, 16, 16)})  # at its own batch it is right
    with pytest.raises(CounterfactoryError, match="it gives y of 4 along axis 0, declared batch = 8"):
        check_profile(path, {"x": Shapes.static(8, 4, 16, 16)})
    with pytest.raises(CounterfactoryError, match=r"channels_first reshapes .* to \[4, 64, -1\]: a fixed number"):
        check_profile(path, {"x": DYNAMIC})


def test_a_reshape_that_mixes_rows_is_refused_though_every_shape_holds(tmp_path: Path) -> None:
    shapes = Shapes((2, 8, 4), (4, 8, 4), (8, 8, 4))
    check_profile(mixing_graph(tmp_path / "right.onnx", 0), {"x": shapes})
    with pytest.raises(CounterfactoryError, match=r"flat reshapes .* to \[2, -1\]: a fixed number of rows"):
        check_profile(mixing_graph(tmp_path / "mixing.onnx", 2), {"x": shapes})


def test_a_constant_of_one_batch_is_refused_at_the_others(tmp_path: Path) -> None:
    """As an exporter leaves it that wrote down what it saw: a table with the example's number of rows."""
    path = pair_graph(tmp_path / "pair.onnx")
    model = onnx.load(str(path))
    del model.graph.input[1]
    model.graph.initializer.append(numpy_helper.from_array(np.ones((3, 8), np.float32), "b"))
    onnx.save(model, str(path))
    check_profile(path, {"a": Shapes.static(3, 8)})
    with pytest.raises(CounterfactoryError, match="does not hold at its max shapes"):
        check_profile(path, {"a": Shapes.static(4, 8)})
