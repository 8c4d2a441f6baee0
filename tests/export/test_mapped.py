"""Weights in files: an export holds a few tensors at a time, whatever the network's depth, and makes the same graph."""

from __future__ import annotations

import gc
import json
import mmap
import resource
import sys
import time
from functools import partial
from pathlib import Path

import onnx
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from transformers import OPTForCausalLM

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.export.graphs.mapped import build_empty, lay_out, mapped_files
from counterfactory.export.graphs.tracing import to_onnx
from counterfactory.export.graphs.weights import digest, fill
from counterfactory.export.precision import islands
from counterfactory.export.precision.cpu import OnnxCpu
from counterfactory.export.precision.islands import find_islands, write_half
from counterfactory.export.precision.stored import Stored, fold_transposes
from counterfactory.export.production import blip2, command
from counterfactory.export.production.artefact import Asked, export_graph, work_folder
from counterfactory.export.production.graph import Graph, Request, Sources, static
from counterfactory.export.production.peak import PeakMemory

WIDTH = 1024
LAYER_BYTES = 4 * WIDTH * WIDTH


class Deep(nn.Module):
    """Layers of 4 MB, a norm between them and a table that the last of them shares."""

    def __init__(self, layers: int, width: int = WIDTH) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(layers)])
        self.table = nn.Embedding(width, width)
        self.head = nn.Linear(width, width, bias=False)
        self.head.weight = self.table.weight

    def forward(self, states: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        states = states + self.table(ids)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            states = states + layer(norm(states))
        found = self.head(states)
        assert isinstance(found, torch.Tensor)
        return found

    def tie_weights(self) -> None:
        self.head.weight = self.table.weight


def inputs(width: int = WIDTH) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    states = torch.randn(2, 3, width, generator=generator)
    return {"states": states, "ids": torch.randint(width, (2, 3), generator=generator)}


def test_a_module_without_memory_takes_its_place_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "new" / "deep.weights"
    deep = build_empty(lambda: Deep(2))
    assert {parameter.device.type for parameter in deep.parameters()} == {"meta"}
    fill(lay_out(deep, file), 3)
    assert 3 * LAYER_BYTES <= file.stat().st_size < 4 * LAYER_BYTES
    assert deep.head.weight is deep.table.weight
    plain = Deep(2)
    fill(plain, 3)
    wanted = digest(plain)
    assert digest(deep) == digest(lay_out(plain, tmp_path / "moved.weights")) == wanted
    assert digest(lay_out(plain, None)) == wanted
    assert mapped_files(plain) == []
    assert [mapped.path for mapped in mapped_files(deep)] == [file]


def test_a_disk_without_room_is_named_before_anything_is_written(tmp_path: Path) -> None:
    deep, limits = build_empty(lambda: Deep(2)), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LAYER_BYTES, limits[1]))
    try:
        with pytest.raises(CounterfactoryError, match=r"cannot write .*deep\.weights: file too large"):
            lay_out(deep, tmp_path / "deep.weights")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_weights_in_a_file_make_the_same_graph_and_are_not_copied(tmp_path: Path) -> None:
    files = {}
    for place in ("memory", "file"):
        deep = Deep(2, 64)
        fill(deep, 3)
        full = tmp_path / place / "model.onnx"
        full.parent.mkdir()
        if place == "file":
            lay_out(deep, full.with_name("deep.weights"))
        to_onnx(deep, inputs(64), ["found"], full, {})
        half = write_half(full, tmp_path / place / "half" / "model.onnx", ("normalisation",))
        stored = Stored.read(full)
        turned = fold_transposes(stored)
        stored.save(tmp_path / place / "same" / "model.onnx")
        onnx.checker.check_model(str(tmp_path / place / "same" / "model.onnx"), full_check=True)
        graphs = (half, tmp_path / place / "same" / "model.onnx")
        files[place] = [path.with_name(f"model.onnx{end}").read_bytes() for path in graphs for end in ("", ".data")]
        if place == "file":
            assert turned == 3  # the head too: its table is looked up as it is
            large = [one for one in onnx.load(str(full), load_external_data=False).graph.initializer if one.dims]
            places = {entry.value for one in large for entry in one.external_data if entry.key == "location"}
            assert places == {"deep.weights"}
            assert not full.with_name("model.onnx.data").exists()
    assert files["memory"] == files["file"]


def deep_graph(layers: int, folder: Path) -> Graph:
    deep = lay_out(build_empty(lambda: Deep(layers)), folder / "deep.weights")
    fill(deep, 3)
    given = inputs()
    return Graph("deep", deep.eval(), given, ("found",), {name: {0: "batch"} for name in given}, static(2, given))


def test_memory_does_not_grow_with_depth(tmp_path: Path) -> None:
    """From nothing to a compared fp16 graph: 24 layers more are 100 MB in float32."""
    peaks = []
    for layers in (4, 28):
        out = tmp_path / str(layers)
        gc.collect()
        build = partial(deep_graph, layers, work_folder(out, "deep"))
        (row,) = export_graph(build, out, Asked(islands=("normalisation",)), random=True)
        assert row.faults == []
        peaks.append(row.peak_memory_bytes)
        assert not (out / "work").exists()
    assert peaks[1] - peaks[0] < 24 * LAYER_BYTES / 3


def test_no_block_as_large_as_the_weights_is_asked_for(tmp_path: Path) -> None:
    """Opened to be run as written, weights take addresses once: a second block of them may be more than there is."""
    deep = lay_out(build_empty(lambda: Deep(24)), tmp_path / "deep.weights")
    to_onnx(deep, inputs(), ["found"], tmp_path / "model.onnx", {})

    def asked_for() -> int:
        status = Path("/proc/self/status").read_text().splitlines()
        return int(next(line.split()[1] for line in status if line.startswith("VmData:"))) * 1024

    before = asked_for()
    opened = OnnxCpu(tmp_path / "model.onnx", as_written=True)
    assert asked_for() - before < 1.7 * (tmp_path / "deep.weights").stat().st_size
    assert opened.signature.outputs[0].name == "found"


def test_a_checkpoint_in_shards_is_never_loaded_whole(tmp_path: Path) -> None:
    """What was written in bf16, in several files, reaches its place a tensor at a time."""
    config = blip2.config_of(Request(small=True))
    text = config.text_config
    text.hidden_size, text.word_embed_proj_dim, text.ffn_dim, text.num_hidden_layers = 512, 512, 2048, 12
    whole = OPTForCausalLM(text)
    fill(whole, 5)
    tensors = {f"language_model.{name}": value.bfloat16() for name, value in whole.state_dict().items()}
    tensors.pop("language_model.lm_head.weight")
    names = sorted(tensors)
    files = {name: f"model-{i % 3}.safetensors" for i, name in enumerate(names)}
    for file in set(files.values()):
        save_file({name: tensors[name] for name in names if files[name] == file}, tmp_path / file)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    config.save_pretrained(tmp_path)
    wanted = {name: value.bfloat16().float() for name, value in whole.state_dict().items()}
    total = sum(value.nbytes for value in wanted.values())
    assert total > 120e6
    del tensors
    gc.collect()
    request = Request(sources=Sources(blip2=str(tmp_path)), scratch=tmp_path / "scratch")
    with PeakMemory() as peak:
        before = peak.bytes
        opt = blip2.build_opt(request)
    assert peak.bytes - before < total / 8
    for name, value in opt.state_dict().items():
        torch.testing.assert_close(value, wanted[name], rtol=0, atol=0)
    assert [mapped.path.parent for mapped in mapped_files(opt)] == [tmp_path / "scratch"]


def test_the_command_gives_large_networks_a_place_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[Path | None] = []
    plain = blip2.build_opt

    def build(request: Request) -> OPTForCausalLM:
        opt = plain(request)
        places.extend(mapped.path.parent for mapped in mapped_files(opt))
        return opt

    def on_streets(graph: Graph, request: Request) -> Graph:
        places.append(request.scratch)
        return graph

    monkeypatch.setattr(blip2, "build_opt", build)
    monkeypatch.setattr(command, "on_streets", on_streets)
    command.export_one("opt_decoder", Request(small=True), tmp_path, Asked(islands=()), 1)
    assert places == [work_folder(tmp_path, "opt_decoder")] * 2  # the second: of networks that make its examples
    assert not (tmp_path / "work").exists()


def test_one_form_with_islands_is_on_the_disk_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = Deep(1, 64)
    fill(deep, 3)
    full = tmp_path / "full" / "model.onnx"
    full.parent.mkdir()
    to_onnx(deep, inputs(64), ["found"], full, {})
    feeds = {name: value.numpy() for name, value in inputs(64).items()}
    seen = []

    def alone(full: Path, path: Path, chosen: tuple[str, ...]) -> Path:
        seen.append(path.with_name("model.onnx.data").exists())
        return write_half(full, path, chosen)

    monkeypatch.setattr(islands, "write_half", alone)
    with torch.no_grad():
        find_islands(full, tmp_path / "work", feeds, {"found": deep(*inputs(64).values()).numpy()}, 1e-2)
    assert len(seen) > 1
    assert not any(seen)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells anonymous memory apart: unchecked elsewhere")
def test_a_peak_is_seen_after_it_passed_and_mapped_files_are_none(tmp_path: Path) -> None:
    size, file = 64 << 20, tmp_path / "weights"
    file.write_bytes(bytes(size))
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        with PeakMemory() as peak:
            before = peak.bytes
            assert not any(mapped[begin] for begin in range(0, size, 4096))  # every page is read
            time.sleep(0.1)
        assert peak.bytes - before < size // 8
    with PeakMemory() as peak:
        before = peak.bytes
        held = bytearray(b"1" * size)
        time.sleep(0.1)
        del held
        time.sleep(0.1)
        assert peak.bytes - before > 0.9 * size
