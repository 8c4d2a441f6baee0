"""Maps that pictures follow: where each comes from, what lacks one, and who has to know of their networks."""

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
from tiny_desk import TinyRun, tiny_run, tiny_sources
from tiny_painting import RELATIVE, pixels_of

from counterfactory.engine.cli.arguments import main
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.estimate.estimate import estimate
from counterfactory.engine.estimate.formulas import known_facts
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.hints import hints_of
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of, networks_of
from counterfactory.engine.models.picture_networks import DepthEstimator, Hed
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.maps import DepthSettings, DetectorSettings, HedSettings, HintSettings
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.engine.runtime import onnxruntime as ort_sessions
from counterfactory.engine.sources.data_set import SetOptions, read_set
from counterfactory.engine.sources.source import Source, load_depth, load_mask, load_pixels
from counterfactory.engine.stages.maps.draw_maps import Maps, draw_maps, edge_maps, without_maps
from counterfactory.engine.stages.recording import content_keys_of
from counterfactory.export.production import hed as hed_export
from counterfactory.export.production.artefact import Asked, export_graph
from counterfactory.export.production.graph import Request, batches_of, names_of
from counterfactory.kernels.canny import CannySettings
from counterfactory.kernels.edges import EdgeSettings, canny_edges

pytestmark = pytest.mark.usefixtures("shared_plans")

CANNY = DetectorSettings("canny", canny=CannySettings(100, 200))
EDGES, DEPTH = HintSettings("edges", "hint", 1.0), HintSettings("depth", "hint_depth", 0.5)


@pytest.fixture
def palette(tmp_path: Path) -> Path:
    """Colours of three classes, by number and by name."""
    file = tmp_path / "palette.toml"
    file.write_text('order = ["a", "b", "c"]\n[classes]\na = "1 2 3"\nb = "4 5 6"\nc = "7 8 9"\n')
    return file


@pytest.fixture
def sources(tmp_path: Path) -> list[Source]:
    """Five pictures of three sizes with masks of three classes, c, b and a, and a depth map of each."""
    root = tmp_path / "set"
    for source in tiny_sources(root, 5):
        rng = np.random.default_rng(int(source.name))
        Image.fromarray(rng.integers(0, 3, source.size, np.uint8)).save(root / "masks" / f"{source.name}.png")
        (tmp_path / "depth").mkdir(exist_ok=True)
        np.save(tmp_path / "depth" / f"{source.name}.npy", rng.random(source.size) + 0.1)
    (tmp_path / "map.toml").write_text('[classes]\n0 = "c"\n1 = "b"\n2 = "a"\n')
    return read_set(str(root), SetOptions(depth=tmp_path / "depth", class_map=str(tmp_path / "map.toml"))).sources


def found(run: TinyRun, sources: list[Source], *wanted: HintSettings) -> dict[Source, Maps]:
    return draw_maps(run.of(edges=CANNY, hints=tuple(wanted) or None), sources, sources, run.pictures)


def test_each_hint_has_its_map(sources: list[Source], palette: Path, tmp_path: Path) -> None:
    classes = HintSettings("segmentation", "hint_classes", 1.0, str(palette))
    with tiny_run(tmp_path / "suite", sources) as run:
        maps = found(run, sources, EDGES, DEPTH, classes)
        assert (run.done("edges"), run.made("edges"), run.networks.entered) == ((5, 5), 5, ["edges"])
        plain = draw_maps(run.of(edges=CANNY), sources, sources, run.pictures)
        assert run.networks.opened == []
    colours = np.array([[7, 8, 9], [4, 5, 6], [1, 2, 3]], np.uint8)
    for source, (outline, near, coloured) in maps.items():
        (alone,) = plain[source]
        assert outline is not None
        assert alone is not None
        size = alone.shape
        np.testing.assert_array_equal(outline, alone)
        np.testing.assert_array_equal(near, load_depth(source, (size[0], size[1])))
        np.testing.assert_array_equal(coloured, colours[load_mask(source, (size[0], size[1]))])
    assert list(maps) == sources


def test_a_hint_of_no_weight_is_not_looked_for(sources: list[Source], tmp_path: Path) -> None:
    for source in sources:
        assert source.depth is not None
        Path(str(source.depth.of)).unlink()
    with tiny_run(tmp_path / "suite", sources) as run:
        maps = found(run, sources, EDGES, replace(DEPTH, weight=0.0))
        assert run.pictures.problems == []
    assert {(outline is None, near) for outline, near in maps.values()} == {(False, None)}


def test_what_cannot_be_read_fails_its_own_source(sources: list[Source], palette: Path, tmp_path: Path) -> None:
    (tmp_path / "depth" / "1.npy").unlink()
    palette.write_text('order = ["a", "b"]\n[classes]\na = "1 2 3"\nb = "4 5 6"\n')
    for source in (sources[0], sources[3]):
        assert source.mask_path is not None
        Image.fromarray(np.zeros(source.size, np.uint8)).save(source.mask_path)
    again = read_set(str(tmp_path / "set"), SetOptions()).sources
    changed = [sources[i] if i in (1, 2, 4) else replace(again[i], depth=sources[i].depth) for i in range(5)]
    with tiny_run(tmp_path / "suite", sources) as run:
        maps = found(run, changed, DEPTH)
        (problem,) = run.pictures.problems
        assert (problem.name, "1.npy: there is no file" in problem.reason) == ("1", True)
        assert [source.name for source in maps] == ["0", "2", "3", "4"]
        assert run.made("edges") == 4
        run.pictures.problems.clear()
        named = [replace(a, depth=None) for a in again]
        maps = found(run, named, HintSettings("segmentation", "hint", 1.0, str(palette)))
        assert [source.name for source in maps] == ["0", "3"]
        assert "2.png: shows 2, for which " in run.pictures.problems[1].reason


def test_a_network_finds_depth_in_batches_of_a_size(sources: list[Source], tmp_path: Path) -> None:
    with tiny_run(tmp_path / "suite", sources) as run:
        run.networks.estimates_depth = True
        maps = found(run, sources, DEPTH)
        assert [len(call) for call in run.networks.calls["depth"]] == [2, 2, 1]
        assert run.networks.opened == ["depth 32 32", "depth 32 48", "depth 48 32"]
        for source, (near,) in maps.items():
            image = load_pixels(source, run.pictures._settings)
            np.testing.assert_array_equal(near, image[..., 1].astype(np.uint16) * 257)
    assert list(maps) == sources


def test_estimated_depth_goes_from_the_farthest_pixel_to_the_nearest() -> None:
    class Network:
        def run(self, feeds: Any) -> Any:
            assert feeds["image"].dtype == np.float32
            return {"depth": feeds["image"].sum(1) * np.array([1, -3, 0], np.float32)[:, None, None]}

    images = np.zeros((3, 2, 2, 3), np.uint8)
    images[:, 0, 1], images[:, 1, 0] = (255, 0, 0), (255, 255, 255)
    near = DepthEstimator(Network()).nearness(images)  # type: ignore[arg-type]
    assert near.dtype == np.uint16
    assert near.tolist() == [[[0, 21845], [65535, 0]], [[65535, 43690], [0, 65535]], [[0, 0], [0, 0]]]


def test_maps_of_8_and_16_bits_and_of_colours_go_from_0_to_1() -> None:
    for array, wanted in (
        (np.array([[[0, 51, 255]]], np.uint8), [[[[0, 0.2, 1]]]]),
        (np.array([[[0, 13107, 65535]]], np.uint16), [[[[0, 0.2, 1]]]]),
        (np.array([[[[0, 51, 255]]]], np.uint8), [[[[0]], [[0.2]], [[1]]]]),
    ):
        planes = hints_of(array)
        assert (planes.dtype, planes.flags.c_contiguous) == (np.float32, True)
        np.testing.assert_allclose(planes, wanted, rtol=1e-6)


# What a source lacks.


def following(*hints: HintSettings, network: bool = False) -> Profile:
    return replace(load_profile("pocket"), hints=hints or None, depth=DepthSettings(1) if network else None)


def test_sources_without_what_hints_show_are_left_out_with_advice(sources: list[Source]) -> None:
    classes = HintSettings("segmentation", "hint_classes", 1.0, "ade20k")
    bare, maskless = replace(sources[1], depth=None, key="b"), replace(sources[2], mask_path=None, key="m")
    some = [sources[0], bare, maskless]
    assert without_maps(following(), some) == {}
    assert without_maps(following(EDGES), some) == {}
    reasons = without_maps(following(EDGES, DEPTH, classes), some)
    assert [(source.name, reason) for source, reason in reasons.items()] == [
        ("1", 'it has no depth map (--depth DIR, or a network: [depth]), which [[hints]] kind = "depth" needs'),
        ("2", 'it has no mask (masks/ beside images/, or --masks DIR), which [[hints]] kind = "segmentation" needs'),
    ]
    assert without_maps(following(EDGES, replace(DEPTH, weight=0.0)), some) == {}
    assert without_maps(following(EDGES, DEPTH, network=True), some) == {}, "a network finds it"
    with pytest.raises(CounterfactoryError) as caught:
        without_maps(following(DEPTH), [bare])
    assert str(caught.value) == (
        '[[hints]] kind = "depth" needs a depth map (--depth DIR, or a network: [depth]), and no source has one: give '
        "them, or take the hint out"
    )
    assert without_maps(following(DEPTH), []) == {}


def test_an_editor_follows_hints_where_they_have_a_scale() -> None:
    hinted = replace(load_profile("pocket-lance"), hints=(EDGES, DEPTH))
    found, plain = networks_of(hinted), networks_of(load_profile("pocket-lance"))
    assert [n.name for n in found.of("paint") if n.name.startswith("hint")] == ["hint", "hint_1"]
    free = networks_of(replace(load_profile("pocket-lance"), paint=replace(hinted.paint, control_scale=0.0)))
    two, one, none = (networks["denoiser"].moved_bytes for networks in (found, plain, free))
    assert two - one == one - none


# What plans a run.


def hinted(name: str, *wanted: HintSettings, depth: int | None = None) -> Profile:
    return replace(load_profile(name), hints=wanted, depth=None if depth is None else DepthSettings(depth))


def test_the_table_of_networks_has_the_encoders_that_count() -> None:
    three = (EDGES, replace(DEPTH, weight=0.0), HintSettings("segmentation", "hint_classes", 1.0, "streets"))
    networks = networks_of(hinted("pocket", *three))
    encoders = [(n.name, n.plan) for n in networks if n.name.startswith("hint")]
    assert encoders == [("hint", "hint"), ("hint_2", "hint_classes")]
    assert "depth" not in networks
    plain = networks_of(load_profile("pocket"))["hint"]
    for network in networks.of("paint")[1:3]:
        assert (network.batch, network.rows, network.sizes) == (plain.batch, plain.rows, plain.sizes)


def test_several_hints_move_and_keep_more_on_a_gpu() -> None:
    classes = HintSettings("segmentation", "hint_1", 1.0, "ade20k")
    plain, several = networks_of(load_profile("a10g")), networks_of(hinted("a10g", EDGES, classes))
    pixels, hint = 512 * 512, 320 * 64 * 64
    assert plain["hint"].moved_bytes == 4 * pixels
    assert several["hint"].moved_bytes == 4 * (pixels + 2 * hint)
    assert several["hint_1"].moved_bytes == 4 * (3 * pixels + 2 * hint)
    assert several["denoiser"].kept_bytes > plain["denoiser"].kept_bytes
    gpu = load_profile("a10g")
    ort = replace(gpu, runtime=replace(gpu.runtime, backend="onnxruntime", provider="tensorrt"))
    one, two = (networks_of(p)["denoiser"].moved_bytes for p in (ort, replace(ort, hints=(EDGES, classes))))
    assert two - one == 4 * hint


def test_the_exporter_makes_every_encoder_under_the_profile_s_names() -> None:
    profile = hinted("a10g", HintSettings("depth", "nearness", 0.0), EDGES)
    assert {n: plan for n, plan in names_of(profile).items() if "hint" in n} == {"hint": "nearness", "hint_1": "hint"}
    assert batches_of(profile)["hint"] == batches_of(profile)["hint_1"] == batches_of(load_profile("a10g"))["hint"]


# Detectors of edges by profile: each against its oracle, what is refused, and who has to know of a network.


HED = DetectorSettings("hed", hed=HedSettings(batch=2))
SMALL = Request(small=True)
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
def quick(exported: Path, packed_models: Path, tmp_path: Path) -> Profile:
    """The pocket profile over its own networks, and the small HED beside them."""
    folder = tmp_path / "models"
    folder.mkdir()
    for file in packed_models.iterdir():
        (folder / file.name).symlink_to(file)
    ov.save_model(ov.Core().read_model(exported), folder / "hed.xml", compress_to_fp16=False)
    return quick_profile(folder)


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


def test_hed_is_part_of_what_painted_only_where_it_is_asked_for(quick: Profile) -> None:
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
    file = quick.models.path / "hed.xml"
    file.write_bytes(file.read_bytes() + b"\n")
    after = digests()
    assert (after["relative"], after["canny"]) == (before["relative"], before["canny"])
    assert after["hed"][1] != before["hed"][1]
    file.unlink()
    with pytest.raises(CounterfactoryError, match=r"hed\.xml is missing"):
        library_of(replace(quick, edges=HED)).digest("edges")


def test_the_tokens_that_end_captions_are_part_of_what_captioned(quick: Profile) -> None:
    before = library_of(quick).digest("caption"), library_of(quick).digest("paint")
    found, file = set(), quick.models.path / "opt_tokens.json"
    for eos in (2, 3):
        file.write_text(f'{{"bos": 1, "eos": {eos}}}')
        found.add(library_of(quick).digest("caption"))
        assert library_of(quick).digest("paint") == before[1]
    assert len({*found, before[0]}) == 3
    file.unlink()
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


@pytest.mark.parametrize("settings", [RELATIVE, HED], ids=["relative", "hed"])
def test_each_source_has_its_own_edges(settings: DetectorSettings, tmp_path: Path) -> None:
    sources = tiny_sources(tmp_path / "seven", 7)
    needed = [sources[i] for i in (6, 0, 1, 4, 3, 2)]
    sources[4].path.write_bytes(b"no picture any more")
    with tiny_run(tmp_path / "suite", sources) as run:
        maps = draw_maps(run.of(edges=settings), sources, needed, run.pictures)
        assert set(maps) == set(needed) - {sources[4]}
        for source, (edge_map,) in maps.items():
            image = pixels_of(source)
            alone = 255 - image[..., 0] if settings.hed else edge_maps(image[None], settings)[0]
            np.testing.assert_array_equal(edge_map, alone)
        assert run.networks.entered == ["edges"]
        assert run.done("edges") == (6, 7)  # one was not needed, one cannot be read
        assert run.run.meter.current == "edges"
        assert run.made("edges") == 5
        if settings.hed:
            assert [len(call) for call in run.networks.calls["hed"]] == [2, 1, 1, 1]
            assert run.networks.opened == ["hed 32 32", "hed 32 48", "hed 48 32"]
