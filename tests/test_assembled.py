"""The production networks as a whole: the small random set, exported as a box's, from photographs to a suite.

ONNX Runtime's CPU provider, OpenVINO, and TensorRT's sessions over a stand-in for the driver take the same fp16 graphs
that GPUs are given through the same journey, and come to the same suite. What GPUs compute of them is not checked here.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import cv2
import numpy as np
import pytest
import torch
from diffusers import UniPCMultistepScheduler
from measure import Bracket
from numpy.typing import NDArray
from PIL import Image
from profiles import profile_with
from run import main as run_bench
from stand_in_cuda import Memory
from stand_in_gpu import Library, write_stand_in
from stand_in_kernels import Driver

from counterfactory.engine.cli.arguments import main
from counterfactory.engine.keys import generator
from counterfactory.engine.language.llama import Llama
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.blip2 import Blip2
from counterfactory.engine.models.denoiser import DenoiserRow
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.runtime import cuda, kernels, openvino
from counterfactory.engine.runtime.onnxruntime import OnnxRuntimeSession
from counterfactory.engine.runtime.openvino import open_core
from counterfactory.engine.runtime.quiet_openvino import ov
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint
from counterfactory.engine.suite import PictureRow, read_metadata
from counterfactory.export.pocket.packed import RUNTIME
from counterfactory.export.production import denoiser
from counterfactory.export.production.artefact import Asked
from counterfactory.export.production.command import export_one, graphs_of
from counterfactory.export.production.graph import Request

# Half a minute goes into exporting the graphs; .ci/run has it, the quick tests have each part by itself.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
# As a10g's, of small networks.
SMALL = Request(small=True, sizes=load_profile("a10g").image.sizes)
SIZES = [list(size) for size in SMALL.pictures]
CAPTIONS = {"min_tokens": 6, "max_tokens": 12}
# What a10g.toml says otherwise: the language model that comes with us, pictures of the small networks.
CHANGES: dict[str, Any] = {
    "name": "assembled",
    "shard_sources": 2,
    "llm": {"backend": "openvino", "model": str(RUNTIME / "llm"), "style": "pocket", "exllama": None},
    "grounding": None,  # the small language model does not converse, so that it points at nothing either
    "image": {"short_side": 32, "multiple": 4, "max_long_side": 52, "buckets": SIZES},
    "caption": {"batch": 2, "texts": 1, "decoding": CAPTIONS},
    "rewrite": {"types": ["weather", "time", "colour"], "verbatim": True},
    "paint": {"batch": 2, "decode_batch": 2, "sampler": {"steps": 3}, "guidance": {"stop": 0.5}},
    "text": {"batch": 2},
    "check": {"batch": 2, "min_image_text": -1.0, "min_directional": -1.0}
    | {f"min_{score}": 0.0 for score in ("spread", "exposed", "changed", "distinct")},
}
# How networks run, by the runtime's name. The language model is taken for one of full size: with TensorRT there is room
# for it or for all other networks, so that a shard opens both anew.
RUNTIMES: dict[str, dict[str, object]] = {
    "onnxruntime": {"backend": "onnxruntime", "provider": "cpu", "precision": "f32", "memory_gb": 0},
    "openvino": {"backend": "openvino", "precision": "f32", "memory_gb": 0},
    "tensorrt": {"backend": "tensorrt", "precision": "f16", "memory_gb": 9.5},
}


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
    """The profile of an A10G, changed as CHANGES and `changed` say and run by the runtime `name`, as a file beside the
    networks.
    """
    device = {} if name == "tensorrt" else {"device": None}
    tables = CHANGES | device | {"models": {"folder": str(box)}, "runtime": RUNTIMES[name]} | changed
    return profile_with(box / name, "a10g", **tables)


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


def test_runtimes_come_to_the_same_suite(
    box: Path, profile: Path, photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Captions and edits are equal, pictures above 45 dB of each other, scores near. TensorRT's sessions break no rule
    of the driver while its work happens at random times, and give all of its memory back.
    """
    # Beside a GPU the language model computes in what the CPU likes best, which may write another sentence.
    monkeypatch.setattr(openvino, "resolve_precision", lambda asked: "f32")
    driver = Memory(seed=0)
    monkeypatch.setattr(cuda, "load_runtime", lambda: driver)
    monkeypatch.setattr(kernels, "load_driver", lambda: Driver(driver))
    monkeypatch.setitem(sys.modules, "tensorrt", Library(driver))  # type: ignore[arg-type]
    captions: dict[str, list[Any]] = {name: [] for name in RUNTIMES}
    for name in RUNTIMES:
        # Sampled captions would take another turn at the first number that falls between two roundings.
        greedy = CHANGES["caption"] | {"decoding": {"mode": "greedy", **CAPTIONS}}
        asked = write_profile(box, name, caption=greedy)
        assert generate(asked, photographs, tmp_path / name, captions[name]) == 0
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


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    "network", ["blip2_vision", "opt_decoder", "llm", "clip_text", "hint", "denoiser", "vae_decoder", "clip_image"]
)
def test_a_network_that_goes_wrong_in_one_row_ends_the_run(
    profile: Path,
    photographs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    network: str,
    value: float,
) -> None:
    """Its name is said, and nothing of it is painted, accepted or kept."""
    run, read = OnnxRuntimeSession.run, Llama._run

    def poisoned(outputs: dict[str, Any]) -> dict[str, Any]:
        name = next(
            name for name, array in outputs.items() if isinstance(array, np.ndarray) and array.dtype.kind == "f"
        )
        array = np.array(outputs[name])
        array[0].flat[-1] = value
        return outputs | {name: array}

    def running(self: OnnxRuntimeSession, feeds: Any, hold: Any = ()) -> dict[str, Any]:
        outputs = run(self, feeds, hold)
        return poisoned(outputs) if self.name == network else outputs

    monkeypatch.setattr(OnnxRuntimeSession, "run", running)
    if network == "llm":
        monkeypatch.setattr(Llama, "_run", lambda *arguments: poisoned(dict(read(*arguments))))
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
        (tmp_path / name).symlink_to(box / name)
    profile = load_profile(str(write_profile(tmp_path, "onnxruntime")))
    models = ModelPool(library_of(profile), Meter(lambda _: None))
    plans, rng = models.paint_plans(*SIZES[0]), np.random.default_rng(0)
    hint = plans.embed_hints((rng.random((1, *SIZES[0])) < 0.2).astype(np.uint8) * 255)[0]
    width = next(port for port in plans.denoiser.signature.inputs if port.name == "text").shape[1:]
    text = rng.standard_normal([int(length or 0) for length in width], np.float32)
    alone = replace(profile.paint, guidance=replace(profile.paint.guidance, scale=1.0))
    ((_, picture),) = paint([PaintJob("a" * 64, text, hint, plans)], text, alone, models.sampler())
    theirs = UniPCMultistepScheduler.from_config(config)
    theirs.set_timesteps(3)
    latents = torch.from_numpy(generator("a" * 64, "noise").standard_normal((1, *plans.latent_shape), np.float32))
    for timestep in theirs.timesteps:
        row = DenoiserRow(latents[0].numpy(), int(timestep), text, hint, alone.control_scale)
        latents = theirs.step(torch.from_numpy(plans.evaluate([row])[0])[None], timestep, latents).prev_sample
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


def test_doctor_finds_all_that_it_needs(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--profile", str(profile), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runtime"]["uses"] == "onnxruntime, f32, CPUExecutionProvider"
    assert {plan["state"] for plan in found["plans"]} == {"found"}
    assert set(found["packages"]) == {"onnxruntime", "onnx", "openvino", "llguidance"}
    assert found["ready"]
