"""Networks that an earlier run compiled: the same bytes out, under a key of all that could change them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from small_graphs import picture_graph, sized_graph

from counterfactory.engine.content_keys import STAGES
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.keys import file_digest
from counterfactory.engine.language import llama
from counterfactory.engine.language.llama import Llama
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.pocket.judges import Classifier, Segmenter
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.runtime import openvino as sessions
from counterfactory.engine.runtime.blob_cache import BlobCache
from counterfactory.engine.runtime.compiling import CompileInputs, blob_key, compile_model, compiler
from counterfactory.engine.runtime.openvino import OpenVinoSession, open_core, open_session
from counterfactory.export.pocket.packed import RUNTIME

SHAPE = (2, 4, 16, 16)


@pytest.fixture
def cache(tmp_path: Path) -> BlobCache:
    return BlobCache(tmp_path / "compiled")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """x [B, 4, H, W] to y in OpenVINO's own format, with f16 weights; static where it is opened."""
    folder = tmp_path_factory.mktemp("network")
    model = open_core().read_model(sized_graph(folder / "picture.onnx"))
    (folder / "picture.onnx").unlink()
    ov.save_model(model, folder / "network.xml")
    return folder / "network.xml"


def opened(network: Path, cache: BlobCache | None, **asked: Any) -> OpenVinoSession:
    settings: dict[str, Any] = {"precision": "f32", "sizes": {"x": SHAPE[2:]}, "batch": SHAPE[0]}
    return open_session(network, **{**settings, **asked}, blobs=cache)


def outputs(session: OpenVinoSession, seed: int = 0) -> list[bytes]:
    random = np.random.default_rng(seed)
    feeds: dict[str, Any] = {}
    for port in session.signature.inputs:
        shape = [3 if axis is None else axis for axis in port.shape]
        whole = np.issubdtype(port.dtype, np.integer)
        values = random.integers(0, 4, shape) if whole else random.standard_normal(shape)
        feeds[port.name] = values.astype(port.dtype)
    return [array.tobytes() for array in session.run(feeds).values()]


def test_what_is_larger_than_the_cache_is_not_written_down(network: Path, cache: BlobCache) -> None:
    held = sum(file.stat().st_size for file in (network, network.with_suffix(".bin")))
    opened(network, BlobCache(cache.folder, held - 1))
    assert not list(cache.sizes())
    opened(network, BlobCache(cache.folder, 100 * held))
    assert len(list(cache.sizes())) == 1


@pytest.fixture
def compile_nothing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on, a network that is not taken from the cache fails the test."""

    def refuse() -> None:
        def prepared(*_: Any) -> Any:
            raise AssertionError("it is compiled again")

        for module in (sessions, llama):
            monkeypatch.setattr(module, "_prepared", prepared)

    return refuse


@pytest.mark.parametrize("asked", [{}, {"precision": "auto", "streams": 2}, {"threads": 1}])
def test_what_was_kept_is_the_same(asked: Any, network: Path, cache: BlobCache, compile_nothing: Any) -> None:
    alone, first = opened(network, None, **asked), opened(network, cache, **asked)
    assert len(cache.sizes()) == 1
    compile_nothing()
    kept = opened(network, cache, **asked)
    assert kept.signature == first.signature == alone.signature
    assert kept.name == "network"
    for seed in (0, 1, 0):  # memory is lent from run to run
        assert outputs(kept, seed) == outputs(first, seed) == outputs(alone, seed)
    assert len({tuple(outputs(kept, seed)) for seed in range(3)}) == 3


def test_other_settings_are_other_networks(network: Path, cache: BlobCache, tmp_path: Path) -> None:
    opened(network, cache)
    for asked in ({"batch": 3}, {"threads": 1}, {"streams": 2}):
        before = len(cache.sizes())
        opened(network, cache, **asked)
        assert len(cache.sizes()) == before + 1, asked
    (tmp_path / "network.xml").write_bytes(network.read_bytes())
    (tmp_path / "network.bin").write_bytes(network.with_suffix(".bin").read_bytes())
    before = len(cache.sizes())
    opened(tmp_path / "network.xml", cache)
    assert len(cache.sizes()) == before, "a copy elsewhere is the same network"


@pytest.fixture
def making(tmp_path: Path) -> CompileInputs:
    for name in ("graph.xml", "graph.bin", "code.py"):
        (tmp_path / name).write_text(name)
    files = [tmp_path / "graph.xml", tmp_path / "graph.bin"]
    return CompileInputs(files, (str(tmp_path / "code.py"),), {"batch": 2, "sizes": {"x": (8, 8)}}, {"NUM_STREAMS": 1})


def test_the_key_has_all_that_makes_another_network(making: CompileInputs, monkeypatch: pytest.MonkeyPatch) -> None:
    core, keys = open_core(), list[str | None]()

    def key(changed: CompileInputs = making) -> str | None:
        keys.append(blob_key(core, changed, file_digest))
        return keys[-1]

    assert key() == key()
    keys.clear()
    key()
    for file in (*making.files, Path(making.code[0])):
        file.write_text(f"another {file.name}")
        key()
    key(replace(making, files=making.files[::-1]))
    key(replace(making, files=making.files[:1]))
    key(replace(making, settings={"batch": 3, "sizes": {"x": (8, 8)}}))
    key(replace(making, config={"NUM_STREAMS": 2}))
    key(replace(making, config={"NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": 1}))
    monkeypatch.setattr(os, "cpu_count", lambda: 96)
    key()
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(33), raising=False)
    key()
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "OV_CPU_X", "OPENVINO_X"):
        monkeypatch.setenv(name, "1")
        key()
    monkeypatch.setattr(ov, "get_version", lambda: "2026.4.2")
    key()
    assert None not in keys
    assert len(set(keys)) == len(keys) == 16
    monkeypatch.setenv("HOME", "/elsewhere")
    assert key() == keys[-2]
    Path(making.code[0]).unlink()
    assert key() is None, "code without a source file: nobody knows what it does"


CPUINFO = """processor : 0
vendor_id\t: AuthenticAMD
model\t\t: 2
model name\t: AMD EPYC
cpu MHz\t\t: {mhz}
flags\t\t: fpu vme {flags}

processor : 1
model name\t: another
"""


def test_a_processor_is_its_model_and_features(tmp_path: Path) -> None:
    def found(mhz: str = "2596.0", flags: str = "avx512f") -> Any:
        (tmp_path / "cpuinfo").write_text(CPUINFO.format(mhz=mhz, flags=flags))
        return compiler(open_core(), tmp_path / "cpuinfo")["processor"]

    assert found()[2:] == ["vendor_id: AuthenticAMD", "model: 2", "model name: AMD EPYC", "flags: fpu vme avx512f"]
    assert found() == found(mhz="3100.5") != found(flags="avx512f amx_int8")
    assert compiler(open_core(), tmp_path / "none")["processor"] == found()[:2]
    assert compiler(open_core()) == compiler(open_core())


def test_a_blob_that_openvino_refuses_is_replaced(network: Path, cache: BlobCache) -> None:
    """It is whole and of that key, such as one that a faulty release exported."""
    core = open_core()
    making = CompileInputs((network,), (), {}, {"INFERENCE_PRECISION_HINT": "f32"})
    key = blob_key(core, making, file_digest)
    assert key is not None
    cache.store(key, b"no network" * 100)
    made: list[str] = []

    def prepare() -> ov.Model:
        made.append("compiled")
        return core.read_model(network)

    for _ in range(2):
        compile_model(core, making, prepare, cache)
    assert made == ["compiled"]
    assert not (cache.load(key) or b"no network").startswith(b"no network")


def test_a_network_that_cannot_be_exported_or_kept_runs_all_the_same(network: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    unwritable = BlobCache(tmp_path / "file" / "compiled")
    assert outputs(opened(network, unwritable)) == outputs(opened(network, None))
    assert str(tmp_path / "file") in str(unwritable.problem)

    class Compiled:
        def export_model(self) -> Any:
            raise RuntimeError("Exception from somewhere\n[CPU] cannot export\n")

    class Core:
        get_property = open_core().get_property

        def compile_model(self, *_: Any) -> Any:
            return Compiled()

    cache = BlobCache(tmp_path / "compiled")
    making = CompileInputs((network,), (), {}, {})
    assert isinstance(compile_model(Core(), making, lambda: None, cache), Compiled)
    assert str(cache.problem).endswith("OpenVINO does not export them ([CPU] cannot export)")


def test_only_what_has_a_key_is_kept(network: Path, cache: BlobCache, tmp_path: Path) -> None:
    """An ONNX file may have weights in files that are known once it is read."""
    open_session(picture_graph(tmp_path / "picture.onnx"), batch=2, precision="f32", blobs=cache)
    assert not cache.folder.exists()
    opened(network, None)
    assert not cache.folder.exists()
    (tmp_path / "broken.xml").write_text("<net")
    for _ in range(2):
        with pytest.raises(CounterfactoryError, match="cannot be loaded at batch 2"):
            opened(tmp_path / "broken.xml", cache)
    with pytest.raises(CounterfactoryError, match="missing"):
        opened(tmp_path / "none.xml", cache)
    assert not cache.folder.exists()


def test_networks_are_kept_where_their_library_says(cache: BlobCache, compile_nothing: Callable[[], None]) -> None:
    library = replace(library_of(load_profile("pocket")), blobs=cache)
    digests = {stage: library.digest(stage) for stage in STAGES}

    def open_some() -> None:
        models = ModelPool(library, Meter(lambda _: None))
        models.clip_text()
        models.llm()
        for judge in (Classifier, Segmenter):
            judge.load(library.folder, batch=1, blobs=cache)

    open_some()
    assert len(cache.sizes()) == 4
    compile_nothing()
    open_some()
    assert len(cache.sizes()) == 4
    assert {stage: library_of(load_profile("pocket")).digest(stage) for stage in STAGES} == digests


def test_the_language_model_answers_the_same(cache: BlobCache, compile_nothing: Callable[[], None]) -> None:
    found = []
    for blobs in (None, cache, cache):
        if len(cache.sizes()):
            compile_nothing()
        model = Llama(RUNTIME / "llm", precision="f32", threads=1, blobs=blobs)
        common = model.beginning(*model.encode(["a clear street"]))
        runs = model.encode(["a red car", "two blue trucks at night"])
        found.append(model.step(runs, common, model.rows(2, 32), 0, np.zeros(2, np.int64)).tobytes())
    assert found[0] == found[1] == found[2]
    assert len(cache.sizes()) == 1
