"""The production networks as a whole: the small random set, exported as a box's, from photographs to a suite.

ONNX Runtime's CPU provider, OpenVINO, and TensorRT's sessions over a stand-in for the driver take the same fp16 graphs
that GPUs are given through the same journey, and come to the same suite. What GPUs compute of them is not checked here.
"""

from __future__ import annotations

import gc
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import cv2
import numpy as np
import onnx
import pytest
import torch
from command_line import Command
from diffusers import UniPCMultistepScheduler
from measure import Bracket
from numpy.typing import NDArray
from PIL import Image
from run import main as run_bench
from stand_in_cuda import Memory
from stand_in_gpu import Engine, Library, write_stand_in
from stand_in_kernels import Driver

from counterfactory.engine import journey
from counterfactory.engine.cli import doctor, setup
from counterfactory.engine.cli.arguments import main
from counterfactory.engine.cli.gpus import Gpu
from counterfactory.engine.keys import generator
from counterfactory.engine.language.llama import Llama
from counterfactory.engine.meter.cards import Card
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.blip2 import Blip2
from counterfactory.engine.models.denoiser import DenoiserRow
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.profile import small
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.runtime import cuda, kernels, openvino
from counterfactory.engine.runtime.cuda_norms import norms_for_cuda
from counterfactory.engine.runtime.onnxruntime import OnnxRuntimeSession
from counterfactory.engine.runtime.openvino import open_core
from counterfactory.engine.runtime.quiet_openvino import ov
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint
from counterfactory.engine.suite import PictureRow, read_metadata
from counterfactory.export.production import denoiser
from counterfactory.export.production.artefact import Asked
from counterfactory.export.production.command import export_one, graphs_of
from counterfactory.export.production.graph import Request

# Half a minute goes into exporting the graphs; .ci/run has it, the quick tests have each part by itself.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
# As a10g's, of small networks.
SMALL = Request(small=True, sizes=load_profile("a10g").image.sizes)
# How networks run, by the runtime's name. The language model is taken for one of full size: with TensorRT there is room
# for it or for all other networks, so that a shard opens both anew.
TENSORRT = {"backend": "tensorrt", "provider": None, "precision": "f16", "memory_gb": 9.5}
RUNTIMES: dict[str, Mapping[str, Any]] = {**small.RUNTIMES, "tensorrt": TENSORRT}


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the export, as `python -m counterfactory.export a10g --random --small` leaves it.

    Beside each graph lie OpenVINO's form of it, and a plan of which the stand-in makes an engine.
    """
    out = tmp_path_factory.mktemp("box")
    for name in graphs_of(SMALL):
        if name != "hed":
            (row,) = export_one(name, SMALL, out, Asked(islands=("timestep", "normalisation")), threads=1)
            assert row.faults == []
            graph = open_core().read_model(out / "onnx" / name / "model.onnx")
            ov.save_model(graph, out / f"{name}.xml", compress_to_fp16=False)
            write_stand_in(out, name)
    return out


def write_profile(box: Path, name: str, **changed: Any) -> Path:
    """The profile of an A10G over its small networks, run by the runtime `name`, as a file beside them."""
    return small.write_small(box / name / "profile.toml", "a10g", box, RUNTIMES[name], **changed)


@pytest.fixture(scope="module")
def profile(box: Path) -> Path:
    """That of ONNX Runtime."""
    return write_profile(box, "onnxruntime")


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three JPEGs of smooth noise: of ImageNet's commonest shape, upright, and of SHIFT's."""
    root, random = tmp_path_factory.mktemp("photographs"), np.random.default_rng(0)
    (root / "bus").mkdir()
    for i, shape in enumerate([(90, 120), (120, 90), (100, 160)]):
        noise = cv2.GaussianBlur(random.integers(0, 255, (*shape, 3), np.uint8), (0, 0), 3)
        cv2.imwrite(str(root / "bus" / f"{i}.jpg"), cv2.normalize(noise, noise, 0, 255, cv2.NORM_MINMAX))
    return root


def generate(profile: Path, photographs: Path, out: Path, written: list[Any] | None = None, *more: str) -> int:
    """What random networks make of photographs is no sentence, and goes to `written`; the language model is given
    sentences in its place.
    """
    caption = Blip2.caption

    def captioned(self: Blip2, *arguments: Any) -> list[list[str]]:
        texts = caption(self, *arguments)
        if written is not None:
            written.extend(texts)
        return [[f"a red bus on a {sky} street at noon."] for sky, _ in zip(("clear", "foggy"), texts, strict=False)]

    asked = ["generate", str(photographs), "--task", "classification", "--out", str(out), "--variants", "2"]
    with mock.patch.object(Blip2, "caption", captioned):
        return main([*asked, "--profile", str(profile), *more])


def pictures(suite: Path) -> list[NDArray[np.uint8]]:
    return [np.asarray(Image.open(suite / row.file_name).convert("RGB")) for row in painted(suite)]


def painted(suite: Path) -> list[PictureRow]:
    return [row for row in read_metadata(suite) if row.kind != "original"]


# What graphs of opset 23 held when ONNX Runtime's CUDA provider ran them on a card; what is left of ConstantOfShape,
# Shape and their like is computed when a graph of fixed shapes is opened.
RAN = (
    "Add And ArgMax Attention Cast Clip Concat ConstantOfShape Conv Cos Div Equal Expand Gather GatherElements "
    "GatherND Gelu Gemm LayerNormalization LessOrEqual MatMul Max MaxPool Mul Range ReduceL2 ReduceSum Relu Reshape "
    "Resize Shape Sigmoid Sin Slice Softmax Split Squeeze Sub Tanh Tile Transpose Unsqueeze Where"
)


def test_no_graph_holds_what_the_cuda_provider_was_not_seen_to_run(box: Path) -> None:
    for folder in (box / "onnx").iterdir():
        graph = onnx.ModelProto.FromString(norms_for_cuda(folder / "model.onnx")).graph
        assert {node.op_type for node in graph.node} <= set(RAN.split()), folder.name


@pytest.mark.parametrize("name", ["denoiser", "denoiser_shallow", "vae_decoder", "clip_text"])
def test_graphs_with_norms_for_cuda_compute_the_same(box: Path, name: str) -> None:
    ort, path, random = pytest.importorskip("onnxruntime"), box / "onnx" / name / "model.onnx", np.random.default_rng(3)
    options, feeds = ort.SessionOptions(), dict[str, Any]()
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent))
    theirs, ours = (
        ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        for graph in (path.read_bytes(), norms_for_cuda(path))
    )
    for port in theirs.get_inputs():
        shape = [{"batch": 2}.get(n, 16) if isinstance(n, str) else n for n in port.shape]
        dtype = {"tensor(int64)": np.int64, "tensor(float)": np.float32, "tensor(float16)": np.float16}[port.type]
        numbers = random.integers(0, 40, shape) if dtype == np.int64 else random.standard_normal(shape)
        feeds[port.name] = numbers.astype(dtype)
    for right, output in zip(theirs.run(None, feeds), ours.run(None, feeds), strict=True):
        assert np.isfinite(right).all()
        assert right.std() > 0
        assert np.abs(output.astype(np.float64) - right).max() < 0.01 * np.abs(right).max()


def test_runtimes_come_to_the_same_suite(
    box: Path, profile: Path, photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Captions and edits are equal, pictures above 45 dB of each other, scores near. TensorRT's sessions break no rule
    of the driver while its work happens at random times, and give all of its memory back. That Triton's kernels cannot
    be kept is told once.
    """
    monkeypatch.setenv("TRITON_CACHE_DIR", "/proc/nowhere")
    # Beside a GPU the language model computes in what the CPU likes best, which may write another sentence.
    monkeypatch.setattr(openvino, "resolve_precision", lambda asked: "f32")
    driver = Memory(seed=0)
    monkeypatch.setattr(cuda, "load_runtime", lambda: driver)
    monkeypatch.setattr(kernels, "load_driver", lambda: Driver(driver))
    monkeypatch.setitem(sys.modules, "tensorrt", Library(driver))  # type: ignore[arg-type]
    monkeypatch.setattr(journey, "read_cards", lambda: (Card(0, "NVIDIA A10G", 61),))
    captions: dict[str, list[Any]] = {name: [] for name in RUNTIMES}
    for name in RUNTIMES:
        metrics = tmp_path / f"{name}.prom"
        more = "--metrics", str(metrics)
        assert generate(write_profile(box, name), photographs, tmp_path / name, captions[name], *more) == 0
        assert ("card_temperature_celsius" in metrics.read_text()) == (name == "tensorrt")
    assert " ".join(capsys.readouterr().err.split()).count("TRITON_CACHE_DIR") == 1
    assert captions["onnxruntime"] == captions["openvino"] == captions["tensorrt"]
    assert len({str(caption) for caption in captions["tensorrt"]}) > 1
    gc.collect()
    assert (driver.left, driver.faults) == ({}, [])
    assert driver.recordings > 6, "of six plans of fixed shapes, some were opened again"
    rows, shown = ([read(tmp_path / name) for name in RUNTIMES] for read in (painted, pictures))
    assert len({row.source for row in rows[0]}) == 3
    assert {picture.shape for picture in shown[0]} == {(32, 44, 3), (44, 32, 3), (32, 52, 3)}
    assert all(picture.std() > 1 for picture in shown[0])
    assert len({picture.tobytes() for picture in shown[0]}) == len(shown[0]) == len(rows[0]) > 3
    assert all(np.isfinite(list(row.scores.values())).all() for row in rows[0])
    record = (tmp_path / "onnxruntime" / "run.json").read_text()
    assert ("onnxruntime" in record, '"core": ' in record, "GPU" in record) == (True, True, False)
    for suite, images in zip(rows[1:], shown[1:], strict=True):
        for a, b, picture, other in zip(rows[0], suite, shown[0], images, strict=True):
            assert (a.source, a.kind, a.number, a.caption, a.edited_caption, a.edits) == (
                (b.source, b.kind, b.number, b.caption, b.edited_caption, b.edits)
            )
            assert noise_ratio(picture, other) > 45
            # Pictures are a grey level apart, of which a random CLIP makes up to 0.007. Of an edit the score is a
            # probability, whose logit is 100 times a difference of cosines; noise lies nowhere in particular.
            loose = {
                name: pytest.approx(score, abs=0.05)
                for name, score in a.scores.items()
                if name.partition("_")[0] == "edit" or name in ("in_place", "aligned", "shift", "scale")
            }
            assert b.scores == {name: pytest.approx(score, abs=0.01) for name, score in a.scores.items()} | loose


def test_setup_makes_tries_and_keeps_a_line_of_figures(
    box: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    """The whole of it for a GPU, which is the stand-in, over networks that lie where the exporter puts them."""
    driver = Memory(seed=0)
    monkeypatch.setattr(cuda, "load_runtime", lambda: driver)
    monkeypatch.setattr(kernels, "load_driver", lambda: Driver(driver))
    monkeypatch.setitem(sys.modules, "tensorrt", Library(driver))  # type: ignore[arg-type]
    card = Gpu("NVIDIA A10G", "8.6", 24 * 10**9, 23 * 10**9, "580.65")
    monkeypatch.setattr(doctor, "find_gpus", lambda _: (card,))
    monkeypatch.setattr(doctor, "version", lambda _: "1.0")
    monkeypatch.setattr(doctor, "requires", lambda _: [])
    monkeypatch.setattr(
        "counterfactory.engine.cli.room.shutil", SimpleNamespace(disk_usage=lambda _: SimpleNamespace(free=10**12))
    )
    made, ran = tmp_path / "made", list[list[str]]()
    profile = small.write_small(tmp_path / "box.toml", "a10g", made, RUNTIMES["tensorrt"])

    def export(command: list[str], *_: Any) -> None:
        ran.append(command)
        shutil.copytree(box, made, dirs_exist_ok=True)

    monkeypatch.setattr(setup, "run_program", export)
    told = run.json("setup", "--profile", profile)
    assert told["accepted"] == told["variants"] == 2
    kept = (made / "runs.txt").read_text()
    assert re.fullmatch(
        rf"run on {date.today()}, NVIDIA A10G, driver 580\.65: \d\.\d+ images/s with loading, 2 of 2 accepted, .* GB\n",
        kept,
    )
    assert told["figures"] == kept.strip()
    assert Path(told["sheet"]).is_file()
    assert run.json("setup", "--profile", profile)["reused"] == 2
    assert [command[3:6] for command in ran] == [["a10g", "--profile", str(profile)]], "nothing is made twice"


NETWORKS = ("blip2_vision", "opt_decoder", "llm", "clip_text", "hint", "denoiser", "vae_decoder", "clip_image")
# Every network, value and runtime; the language model is OpenVINO's under each of them, and counts once.
POISONS = [
    (runtime, network, value)
    for runtime in RUNTIMES
    for network in NETWORKS
    for value in (np.nan, np.inf)
    if network != "llm" or runtime == "onnxruntime"
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """All poisons where poison.py asks for them; else those of ONNX Runtime, and the painter's on a device."""
    if "poison" in metafunc.fixturenames:
        every = getattr(metafunc.config, "all_poisons", False)
        few = [one for one in POISONS if one[0] == "onnxruntime" or one in (("tensorrt", "denoiser", np.inf),)]
        metafunc.parametrize("poison", POISONS if every else few, ids=lambda one: "-".join(map(str, one)))


def poisoned(outputs: dict[str, Any], value: float) -> dict[str, Any]:
    """One value of the first row of the first output of floats is wrong."""
    name = next(name for name, array in outputs.items() if isinstance(array, np.ndarray) and array.dtype.kind == "f")
    array = np.array(outputs[name])
    array[0].flat[-1] = value
    return outputs | {name: array}


def put_poison(monkeypatch: pytest.MonkeyPatch, runtime: str, network: str, value: float) -> None:
    """Let a network give a wrong value under a runtime; TensorRT's engines on the stand-in for a device."""
    if network == "llm":
        read = Llama._run
        monkeypatch.setattr(Llama, "_run", lambda *arguments: poisoned(dict(read(*arguments)), value))
    elif runtime == "tensorrt":
        driver = Memory(seed=0)

        def make_engine(plan: Mapping[str, Any]) -> Engine:
            engine = Library(driver)._engine(plan)
            if Path(plan["onnx"]).parent.name == network:
                compute = engine.compute

                def wrong(feeds: Any) -> dict[str, Any]:
                    results = compute(feeds)
                    return poisoned({name: results[name] for name in engine.outputs}, value)

                engine.compute = wrong
            return engine

        monkeypatch.setattr(cuda, "load_runtime", lambda: driver)
        monkeypatch.setattr(kernels, "load_driver", lambda: Driver(driver))
        monkeypatch.setitem(sys.modules, "tensorrt", Library(driver, make_engine))  # type: ignore[arg-type]
    else:
        session = OnnxRuntimeSession if runtime == "onnxruntime" else openvino.OpenVinoSession
        run = session.run

        def running(self: Any, feeds: Any, hold: Any = ()) -> dict[str, Any]:
            outputs: dict[str, Any] = run(self, feeds, hold)
            return poisoned(outputs, value) if self.name == network else outputs

        monkeypatch.setattr(session, "run", running)


def test_a_network_that_goes_wrong_in_one_row_ends_the_run(
    box: Path,
    photographs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    poison: tuple[str, str, float],
) -> None:
    """Its name is said, and nothing of it is painted, accepted or kept."""
    runtime, network, value = poison
    profile = write_profile(box, runtime)
    put_poison(monkeypatch, runtime, network, value)
    few = "--sample", "1", "--variants", "1", "--controls", "0"
    assert generate(profile, photographs, tmp_path / "suite", None, *few) == 2
    assert f"network {network} gives numbers that are not finite" in " ".join(capsys.readouterr().err.split())
    assert network == "clip_image" or not list((tmp_path / "suite").glob("images/**/*.png"))


def test_painting_follows_the_scheduler_that_the_denoiser_was_exported_with(
    box: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trailing timesteps, predicted velocities and no signal at the start, as diffusers makes its scheduler of the
    file; the profile says steps and kind alone, as ever.
    """
    config = json.loads((ROOT / "tests" / "export" / "published" / "sd2.1-base-zsnr.scheduler.json").read_text())
    monkeypatch.setattr(denoiser, "SCHEDULER", config)
    export_one("denoiser", SMALL, tmp_path, Asked(islands=("timestep", "normalisation")), threads=1)
    for name in ("onnx/hint", "onnx/vae_decoder", "latent.json"):
        copy = shutil.copytree if (box / name).is_dir() else shutil.copy
        copy(box / name, tmp_path / name)
    paints = {"reuse": None, "sampler": {"steps": 3}}
    profile, size = load_profile(str(write_profile(tmp_path, "onnxruntime", paint=paints))), SMALL.pictures[0]
    models = ModelPool(library_of(profile), Meter(lambda _: None))
    plans, rng = models.paint_plans(*size), np.random.default_rng(0)
    hint = plans.embed_hints((rng.random((1, *size)) < 0.2).astype(np.uint8) * 255)[0]
    width = next(port for port in plans.denoiser.signature.inputs if port.name == "text").shape[1:]
    text = rng.standard_normal([int(length or 0) for length in width], np.float32)
    alone = replace(profile.paint, guidance=replace(profile.paint.guidance, scale=1.0))
    ((_, picture),) = paint([PaintJob("a" * 64, text, hint, plans)], text, alone, models.sampler())
    theirs = UniPCMultistepScheduler.from_config(config)
    theirs.set_timesteps(3)
    latents = torch.from_numpy(generator("a" * 64, "noise").standard_normal((1, *plans.latent_shape), np.float32))
    for timestep in theirs.timesteps:
        row = DenoiserRow(latents[0].numpy(), int(timestep), text, hint, alone.control_scale)
        latents = theirs.step(
            torch.from_numpy(plans.evaluate([row])[0].prediction)[None], timestep, latents
        ).prev_sample
    wanted = plans.decode([latents[0].numpy()])()[0]
    assert theirs.timesteps.tolist() == [999, 666, 332]
    assert picture.std() > 1
    assert np.abs(picture.astype(int) - wanted).max() <= 1


def noise_ratio(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> float:
    """Peak signal to noise in dB."""
    return float(-10 * np.log10(max(((a.astype(float) - b) / 255).var(), 1e-12)))


def test_the_bench_of_a_whole_run_takes_it(profile: Path, tmp_path: Path) -> None:
    """bench/run.py with a profile that is not the pocket's: its ceiling is counted in the networks of the profile."""
    command = [sys.executable, "bench/run.py", "--profile", str(profile), "--sources", "2", "--variants", "1"]
    subprocess.run([*command, "--json", str(tmp_path / "row.json")], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    row = json.loads((tmp_path / "row.json").read_text())
    assert (row["device"], row["accepted"] > 0) == ("core", True)
    assert 0 < row["ceiling_share"] < 1
    assert row["device_hours_per_1k"] > 0
    assert row["cpu_s"] > 0
    assert {stage["stage"] for stage in row["stages"] if stage["ceiling_share"] > 0} >= {"caption", "rewrite", "paint"}


def test_the_bench_s_peer_on_a_box_paints_the_same_pictures(profile: Path, tmp_path: Path) -> None:
    """What compares with diffusers on a GPU, on a CPU and in float32: the peer is built of the export's own weights.

    No round counts as busy here. CUDA's events and the moving of networks go unchecked without a GPU.
    """
    threads = torch.get_num_threads()
    words = [*("--against", "diffusers-batched"), "--random", "--small", *("--sources", "4", "--variants", "2")]
    try:
        run_bench(
            ["--profile", str(profile), *words, "--rounds", "1", "--json", str(tmp_path / "row.json")],
            lambda: Bracket(1.0, 1.0),
        )
    finally:
        torch.set_num_threads(threads)
    row = json.loads((tmp_path / "row.json").read_text())
    assert (row["peer"], row["peer_device"], row["rounds_dropped"]) == ("diffusers-batched", "cpu", 0)
    assert row["psnr_db"] > 35
    assert row["answers_equal"] == 1
    assert row["ratio"] == pytest.approx(row["peer_device_hours_per_1k"] / row["engine_device_hours_per_1k"], rel=0.01)
    assert row["baseline_cpu_s"] > 0
    assert set(row["peer_stage_s"]) == {"read", "caption", "rewrite", "paint", "check"}


def test_doctor_finds_all_that_it_needs(profile: Path, run: Command) -> None:
    found = run.json("doctor", "--profile", profile)
    assert found["runtime"]["uses"] == "onnxruntime, f32, CPUExecutionProvider"
    assert {plan["state"] for plan in found["plans"]} == {"found"}
    assert set(found["packages"]) == {"onnxruntime", "onnx", "openvino", "llguidance"}
    assert found["ready"]
