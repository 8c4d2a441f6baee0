"""Detectors of edges by profile: each against its oracle, what is refused, and who has to know of a network."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import openvino as ov
import pytest
import torch
from conftest import MadeSuite, quick_profile
from numpy.typing import NDArray
from PIL import Image
from profiles import profile_with

from counterfactory.engine.cli.arguments import main
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.estimate.estimate import estimate
from counterfactory.engine.estimate.formulas import known_facts
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of, networks_of
from counterfactory.engine.models.picture_networks import Hed
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.maps import DetectorSettings, HedSettings
from counterfactory.engine.profile.models import ModelPaths
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.runtime import onnxruntime as ort_sessions
from counterfactory.engine.stages.maps.edges import edge_maps
from counterfactory.engine.stages.recording import content_keys_of
from counterfactory.export.production import hed as hed_export
from counterfactory.export.production.artefact import Asked, export_graph
from counterfactory.export.production.graph import Request, batches_of
from counterfactory.kernels.canny import CannySettings
from counterfactory.kernels.edges import EdgeSettings, canny_edges

pytestmark = pytest.mark.usefixtures("shared_plans")

CANNY = DetectorSettings("canny", canny=CannySettings(100, 200))
HED = DetectorSettings("hed", hed=HedSettings(batch=2))
SMALL = Request(small=True)
SETTINGS = SuiteRequest(street_task("classification"), variants=1, controls=0, edits=(1, 1), seed=0)
Pixels = NDArray[np.uint8]


@pytest.fixture(scope="module")
def pictures() -> Pixels:
    """Three streets, uint8 [3, 128, 128, 3]."""
    return np.stack([EMBEDDED.draw(EMBEDDED.scene(5, i)).picture for i in range(3)])


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exporter's small HED as ONNX in float32."""
    out = tmp_path_factory.mktemp("hed")
    (row,) = export_graph(partial(hed_export.graph, SMALL), out, Asked("fp32"), random=True)
    assert row.faults == []
    return out / "onnx" / "hed" / "model.onnx"


@pytest.fixture
def models(exported: Path, packed_models: Path, tmp_path: Path) -> Path:
    """The pocket's networks, and the small HED beside them."""
    folder = tmp_path / "models"
    folder.mkdir()
    for file in packed_models.iterdir():
        (folder / file.name).symlink_to(file)
    ov.save_model(ov.Core().read_model(exported), folder / "hed.xml", compress_to_fp16=False)
    return folder


@pytest.fixture
def quick(models: Path) -> Profile:
    """The pocket profile over that folder."""
    return quick_profile(models)


def by_torch(pictures: Pixels) -> NDArray[Any]:
    """The exported network's edges in 0..1, by its torch module."""
    image = torch.from_numpy(pictures.transpose(0, 3, 1, 2) / np.float32(255))
    with torch.no_grad():
        found: NDArray[Any] = hed_export.build(SMALL)(image).numpy()
    return found


def test_detectors_without_a_network_are_those_that_denoisers_were_trained_on(pictures: Pixels) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (2, 40, 56, 3), np.uint8)
    for images in (pictures, noise):
        found = edge_maps(images, CANNY)
        assert found.dtype == np.uint8
        np.testing.assert_array_equal(found, np.stack([cv2.Canny(image, 100, 200) for image in images]))
        assert 0.01 < (found > 0).mean() < 0.9
    relative = edge_maps(pictures, load_profile("pocket").edges)
    np.testing.assert_array_equal(relative, canny_edges(pictures, EdgeSettings()))
    assert not np.array_equal(edge_maps(pictures, CANNY), relative)
    assert [load_profile(name).edges for name in ("a10g", "a10g-fast", "lance")] == [CANNY] * 3


def over_openvino(quick: Profile, exported: Path) -> Hed:
    exact = replace(quick, runtime=replace(quick.runtime, precision="f32"))
    opened = ModelPool(library_of(replace(exact, edges=HED)), Meter(lambda _: None)).hed(128, 128)
    assert opened is not None
    return opened


def over_onnxruntime(quick: Profile, exported: Path) -> Hed:
    return Hed(Batched(ort_sessions.open_session(exported, batch=2, provider="cpu", sizes={"image": (128, 128)})))


@pytest.mark.parametrize("opened", [over_openvino, over_onnxruntime])
def test_hed_is_the_network_s_map_in_grey_levels_cut_off(
    opened: Callable[[Profile, Path], Hed], quick: Profile, exported: Path, pictures: Pixels
) -> None:
    """As controlnet_aux writes them: RGB in, (edge * 255) without rounding out; three pictures in batches of two."""
    network = opened(quick, exported)
    found = edge_maps(pictures, HED, network)
    exact = by_torch(pictures).astype(np.float64) * 255
    assert exact.std() > 5, "edges that are all alike prove nothing"
    assert (found.dtype, found.shape) == (np.uint8, pictures.shape[:3])
    # Either the whole level below or, where float32's rounding crosses one, its neighbour.
    assert np.abs(found - np.floor(exact)).max() <= 1
    assert (found == np.floor(exact)).mean() > 0.99
    assert (found == np.rint(exact)).mean() < 0.9, "rounded maps would pass as well"
    turned = edge_maps(np.ascontiguousarray(pictures[..., ::-1]), HED, network)
    assert (turned != found).mean() > 0.01, "red and blue might be mixed up unseen"
    for images in (np.zeros((1, 128, 128, 3)), np.zeros((128, 128, 3), np.uint8), np.zeros((0, 8, 8, 3), np.uint8)):
        with pytest.raises(ValueError, match="edges need uint8 images"):
            network.edges(images)  # type: ignore[arg-type]
    with pytest.raises(CounterfactoryError, match=r'^\[edges\] detector = "hed" finds edges with the network hed'):
        edge_maps(pictures, HED)


def test_hed_is_part_of_what_painted_only_where_it_is_asked_for(quick: Profile, models: Path) -> None:
    def digests() -> dict[str, list[str]]:
        return {
            edges.detector: [library_of(replace(quick, edges=edges)).digest(stage) for stage in ("caption", "edges")]
            for edges in (quick.edges, CANNY, HED)
        }

    before = digests()
    assert before["relative"] == before["canny"]
    assert before["hed"][0] == before["canny"][0]
    assert before["hed"][1] != before["canny"][1]
    profiles = [replace(quick, edges=edges) for edges in (quick.edges, CANNY, HED)]
    keys = [content_keys_of(profile, library_of(profile)) for profile in profiles]
    assert len({key.picture_key("variant") for key in keys}) == 3, "another detector paints anew"
    assert len({key.caption_key("image") for key in keys}) == 1, "captions do not hang on edges"
    file = models / "hed.xml"
    file.write_bytes(file.read_bytes() + b"\n")
    after = digests()
    assert (after["relative"], after["canny"]) == (before["relative"], before["canny"])
    assert after["hed"][1] != before["hed"][1]
    file.unlink()
    with pytest.raises(CounterfactoryError, match=r"hed\.xml is missing"):
        library_of(replace(quick, edges=HED)).digest("edges")


def test_the_tokens_that_end_captions_are_part_of_what_captioned(quick: Profile, models: Path) -> None:
    before = library_of(quick).digest("caption"), library_of(quick).digest("paint")
    found = set()
    for eos in (2, 3):
        (models / "opt_tokens.json").write_text(f'{{"bos": 1, "eos": {eos}}}')
        found.add(library_of(quick).digest("caption"))
        assert library_of(quick).digest("paint") == before[1]
    assert len({*found, before[0]}) == 3
    (models / "opt_tokens.json").unlink()
    assert library_of(quick).digest("caption") == before[0]


def test_hed_is_projected_once_a_source(tmp_path: Path) -> None:
    plain = load_profile("a10g")
    profile = replace(plain, edges=HED)
    assert "hed" not in networks_of(plain)
    assert networks_of(profile).plans.count("hed") == 1
    exported = replace(plain, edges=DetectorSettings("hed", hed=HedSettings(7)))
    assert (batches_of(exported)["hed"], batches_of(plain)["hed"]) == (7, 4)
    facts = known_facts(profile, library_of(profile), None)
    stages = {stage.stage: stage.compute_s for stage in estimate(profile, 1, 4).stages}
    before = {stage.stage: stage.compute_s for stage in estimate(plain, 1, 4).stages}
    assert plain.device is not None
    flops = 1e12 * plain.device.tflops * plain.device.share
    assert stages == {**before, "edges": pytest.approx(facts["hed"].flops / flops)}
    # VGG-16's convolutions by hand, at 512 x 512 and 2 operations a product; side outputs add under a thousandth.
    products, side, before = 0, 512, 3
    for width, depth in zip(hed_export.WIDTHS, hed_export.DEPTHS, strict=True):
        for i in range(depth):
            products += side * side * 9 * width * (before if i == 0 else width)
        side, before = side // 2, width
    assert facts["hed"].flops == pytest.approx(2 * products, rel=1e-3)
    rows = [{**asdict(fact), "name": name} for name, fact in facts.items() if name != "hed"]
    (tmp_path / "facts.json").write_text(json.dumps(rows))
    with pytest.raises(CounterfactoryError, match=r"nothing is known of plan hed; export it"):
        estimate(replace(profile, models=ModelPaths(str(tmp_path))), 1, 4)


def test_the_report_draws_what_the_detector_found(
    quick: Profile, made_suite: MadeSuite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hed = {"detector": "hed", "relative": None, "hed": {"batch": 2}}
    profile = profile_with(tmp_path / "mine", edges=hed, models={"folder": quick.models.folder})
    arguments = ["report", str(made_suite.path), "--profile", str(profile)]
    assert main(arguments) == 0
    for name in made_suite.street.names:
        picture = np.asarray(Image.open(made_suite.street.root / "images" / f"{name}.png").convert("RGB"))
        drawn = np.asarray(Image.open(made_suite.path / "report" / "edges" / f"{name}.png"))
        assert np.abs(drawn - np.floor(by_torch(picture[None])[0] * 255.0)).max() <= 4  # maybe bf16
    (quick.models.path / "hed.xml").unlink()
    capsys.readouterr()
    assert main(arguments) == 2
    told = capsys.readouterr().err
    for part in ("the edges of pocket are found by the network hed", "hed.xml is missing", "with --no-edges"):
        assert part in told
    assert main([*arguments[:2], "--no-edges"]) == 0
