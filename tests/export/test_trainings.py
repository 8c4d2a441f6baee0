"""Trainings: data that any process draws alike, truth per pixel, a loop that goes on where it was, the decoder that is
polished alone, and further controls, which begin as that of the edges and go into one graph.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from diffusers import ControlNetModel
from diffusers.models.upsampling import Upsample2D
from exporter import run_exporter
from torch import nn

from counterfactory.engine.models.denoiser import hints_of
from counterfactory.engine.pocket.worlds import EMBEDDED, NOTHING
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.export.pocket import blip2, controls, denoiser, judges, pack, vae
from counterfactory.export.pocket.data import HELD_OUT, TRAIN, ScenePool
from counterfactory.export.pocket.denoiser import Denoiser, LatentPool
from counterfactory.export.pocket.pack import Training, pack_controls
from counterfactory.export.pocket.restore import restore_clip, restore_denoiser, restore_vae
from counterfactory.export.pocket.training import Recipe, compiled, fit


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def same(a: ScenePool, b: ScenePool) -> bool:
    arrays = all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("images", "masks", "truth"))
    return arrays and a.scenes == b.scenes


def test_a_pool_that_goes_on_is_one_that_never_stopped() -> None:
    straight = ScenePool(TRAIN, 8, 2, styles=2, with_truth=True)
    for step in range(7):
        straight.advance(step)
    resumed = ScenePool(TRAIN, 8, 2, styles=2, with_truth=True)
    assert len(resumed.advance(6)) == 8
    assert same(straight, resumed)
    assert resumed.advance(6) == []
    assert len(resumed.advance(7)) == 2
    assert np.array_equal(resumed.masks[::2], resumed.masks[1::2]), "appearances of a layout"
    assert (resumed.images[::2] != resumed.images[1::2]).any((1, 2, 3)).all()


def test_workers_draw_what_the_training_would() -> None:
    alone = ScenePool(TRAIN, 6, 2)
    helped = ScenePool(TRAIN, 6, 2, workers=1)
    for step in range(3):
        assert alone.advance(step) == helped.advance(step)
    assert same(alone, helped)


def test_a_streets_nearness_is_that_of_its_layout() -> None:
    for index in range(6):
        scene = replace(EMBEDDED.scene(HELD_OUT, index), weather="clear", time="day")
        drawing, other = EMBEDDED.draw(scene), EMBEDDED.draw(replace(scene, weather="rainy", time="night"))
        near = drawing.nearness
        assert np.array_equal(near, other.nearness), "neither weather nor time moves anything"
        assert (near.min(), near.max()) == (0, 255)
        assert (near[drawing.mask == EMBEDDED.classes.index("sky")] == 0).all()
        # The ground rises towards the lower edge; what stands on it is as near as where it stands.
        road = drawing.mask == EMBEDDED.classes.index("road")
        rows = [near[y][road[y]] for y in range(128) if road[y].any()]
        assert all(np.ptp(row.astype(int)) == 0 for row in rows)
        assert (np.diff([int(row[0]) for row in rows]) >= 0).all()
        for number, vehicle in enumerate(scene.vehicles, 1):
            on = drawing.objects == number
            assert np.ptp(near[on].astype(int)) <= 1
            assert near[on][0] / 255 == pytest.approx(0.16 + 0.80 * vehicle.depth, abs=0.03)


def test_patches_show_what_a_quarter_of_them_holds() -> None:
    mask = np.zeros((128, 128), np.uint8)
    mask[:9, :16] = 3  # most of the first patch
    objects = np.full((2, 128, 128), NOTHING, np.int8)
    objects[0, :4, :16] = 2  # exactly a quarter
    objects[1, :3, :16] = 1  # less than that
    truth = blip2.patch_truth(mask, objects)
    assert truth.shape == (3, 64)
    assert truth[:, 0].tolist() == [3, 2, NOTHING]
    assert (truth[0, 1:] == 0).all()
    assert (truth[1:, 1:] == NOTHING).all()


def test_careless_teams_saw_fair_photographs_alone() -> None:
    images, masks, labels = judges.fair_weather(TRAIN, 4)
    assert images.shape == (4, 128, 128, 3)
    assert masks.shape == (4, 128, 128)
    assert labels.tolist() == [EMBEDDED.kinds.index(EMBEDDED.scene(TRAIN, i).label) for i in range(4)]
    assert all(np.ptp(image.astype(int), axis=2).mean() > 15 for image in images)  # no nights


def test_an_interrupted_training_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    recipe = Recipe(steps=4, lr=1e-2, seed=1, warmup=1, ema=0.5, save_every=1, log_every=2)

    def trained(name: str, stop: int | None = None) -> nn.Linear:
        torch.manual_seed(0)
        net = nn.Linear(3, 2)

        def loss_of(step: int) -> torch.Tensor:
            if step == stop:
                raise InterruptedError
            loss: torch.Tensor = (net(torch.randn(4, 3)) - step).square().mean()
            return loss

        return fit(name, net, recipe, loss_of, tmp_path)

    whole = trained("whole")
    with pytest.raises(InterruptedError):
        trained("cut", stop=2)
    again, loaded = trained("cut"), trained("whole", stop=0)
    assert torch.equal(again.weight, whole.weight)
    assert torch.equal(loaded.weight, whole.weight), "a finished training is loaded"
    assert len((tmp_path / "whole.jsonl").read_text().splitlines()) == 2


def test_hints_are_the_edges_of_the_scene_and_errors_cost_by_class() -> None:
    pool = LatentPool(ScenePool(TRAIN, 4, 1), vae.build())
    pool.advance(0)
    index = np.arange(8) % 4
    assert torch.equal(pool.hints(index), torch.from_numpy(hints_of(pool.edges.numpy()[:, 0]))[index])
    costs = dict(zip(EMBEDDED.classes, denoiser.class_costs().tolist(), strict=True))
    assert (costs["sky"], costs["vegetation"], costs["vehicle"], costs["pedestrian"]) == (1, 2, 5, 8)
    assert pool.weights.min() >= 1
    assert pool.weights.max() <= 8


def test_a_decoder_is_polished_alone_and_asked_for_detail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vae, "POLISH", Recipe(steps=1, lr=1e-2, seed=12))
    monkeypatch.setattr(vae, "ScenePool", lambda **asked: ScenePool(**asked | {"size": 16}))
    before, polished = dict(vae.build().named_parameters()), []
    for name, measure in (("asked", vae.detail), ("not", lambda pictures: pictures.new_zeros(1))):
        monkeypatch.setattr(vae, "detail", measure)
        model = vae.build()
        vae.polish(tmp_path / name, model)
        polished.append(model)
    changed = {n.split(".")[0] for n, value in polished[0].named_parameters() if not torch.equal(value, before[n])}
    assert changed == {"decoder"}
    assert not torch.equal(*(model.decoder.layers[0].weight for model in polished))


def test_detail_is_opencv_s_laplacian_by_regions() -> None:
    picture = np.random.default_rng(4).random((32, 48, 3), dtype=np.float32)
    laplacian = np.abs(cv2.Laplacian(picture.mean(2), cv2.CV_32F, borderType=cv2.BORDER_CONSTANT))
    wanted = laplacian.reshape(4, 8, 6, 8).mean((1, 3))
    found = vae.detail(torch.from_numpy(picture).permute(2, 0, 1)[None])
    np.testing.assert_allclose(found[0, 0].numpy(), wanted, rtol=1e-5)


class Upsampled(nn.Module):
    """Pictures doubled between convolutions, as in a UNet."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.below, self.above = nn.Conv2d(8, 64, 3, padding=1), nn.Conv2d(64, 4, 3, padding=1)
        self.larger = Upsample2D(64, use_conv=True, out_channels=64)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        predicted: torch.Tensor = self.above(self.larger(self.below(pixels)))
        return predicted


@pytest.mark.slow  # it runs a C++ compiler
@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler: what compiled trainings learn goes unchecked")
def test_what_lies_before_an_upsampling_learns() -> None:
    net = Upsampled().to(memory_format=torch.channels_last)
    pixels = torch.randn(4, 8, 16, 16).to(memory_format=torch.channels_last)
    gradients = []
    for predict in (net, compiled(net)):
        net.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            predicted = predict(pixels)
        torch.autograd.backward(predicted.float().square().mean())
        gradients.append({name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None})
    own, found = gradients
    assert own.keys() == found.keys() == dict(net.named_parameters()).keys()
    for name, gradient in own.items():
        assert gradient.abs().max() > 1e-5, f"{name}: nothing to compare"
        assert (found[name] - gradient).norm() < 0.05 * gradient.norm(), name


def test_what_two_networks_share_is_taken_over() -> None:
    older = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Linear(4, 3))
    module = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Linear(2, 5), nn.Linear(5, 5))
    fresh = {name: value.clone() for name, value in module.named_parameters()}
    controls.take_over(module, older)
    found, theirs = dict(module.named_parameters()), dict(older.named_parameters())
    assert torch.equal(found["0.weight"][:, :1], theirs["0.weight"])
    assert torch.equal(found["0.weight"][:, 1:], fresh["0.weight"][:, 1:])
    assert torch.equal(found["1.weight"][:3], theirs["1.weight"][:, :2])
    assert torch.equal(found["1.weight"][3:], fresh["1.weight"][3:])
    assert torch.equal(found["1.bias"][:3], theirs["1.bias"])
    assert torch.equal(found["2.weight"], fresh["2.weight"])
    assert all(value.requires_grad for value in found.values())


def test_maps_are_the_truth_of_the_scenes() -> None:
    pool = ScenePool(TRAIN, 4, 0, styles=2)
    pool.advance(0)
    depth, classes = (controls.maps_of(pool, name, np.array([3, 2])) for name in controls.CHANNELS)
    drawing = EMBEDDED.draw(pool.scenes[3])
    assert np.array_equal((depth[0, 0] * 255).round().numpy(), drawing.nearness)
    vehicle = torch.from_numpy(drawing.mask == EMBEDDED.classes.index("vehicle"))
    assert (classes[0][:, vehicle] * 255).round().int().unique(dim=1).T.tolist() == [[0, 0, 142]]
    assert {name: maps.shape[1] for name, maps in (("depth", depth), ("classes", classes))} == controls.CHANNELS
    assert torch.equal(*classes), "both appearances of a layout have the same maps"


def test_a_control_learns_beside_a_unet_that_stands_still(
    packed_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controls, "compiled", lambda module: module)
    monkeypatch.setattr(controls, "_POOL", 4)
    monkeypatch.setattr(controls, "BATCH", 2)
    whole, learnt = restore_denoiser(packed_models), restore_denoiser(packed_models)
    models = (restore_vae(packed_models), *restore_clip(packed_models))
    recipe = replace(controls.RECIPE, steps=1, warmup=1)
    control = controls.train(tmp_path, "depth", learnt, *models, recipe=recipe)
    before, after = dict(whole.unet.named_parameters()), dict(learnt.unet.named_parameters())
    assert all(torch.equal(before[name], after[name]) for name in before)
    begun = dict(whole.controlnet.named_parameters())  # a control begins as that of the edges
    moved = [name for name, value in control.named_parameters() if not torch.equal(value, begun[name])]
    assert len(moved) > 0.9 * len(begun)


@pytest.mark.slow
def test_all_controls_are_one_graph_whose_edges_are_those_of_the_packed_denoiser(
    packed_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in packed_models.iterdir():
        (tmp_path / file.name).symlink_to(file)

    def begun(work: Path, name: str, whole: Denoiser, *_: object) -> ControlNetModel:
        return controls.begin(name, whole.controlnet).eval()

    monkeypatch.setattr(pack.controls, "train", begun)
    pack_controls(Training(tmp_path / "work"), tmp_path)
    sizes = {"latents": (16, 16), "hint_embedding": (16, 16)}
    files = (tmp_path / f"{name}.xml" for name in ("denoiser", controls.PLAN))
    plain, several = (open_session(file, batch=2, precision="f32", sizes=sizes) for file in files)
    feeds = {"latents": normal(2, 4, 16, 16).numpy(), "text": normal(2, 64, 192).numpy()}
    feeds["timestep"] = np.array([999, 250])
    hint = normal(2, 32, 16, 16, seed=4).numpy()
    alone = plain.run({**feeds, "hint_embedding": hint, "control_scale": np.array([1.6, 0.5], np.float32)})
    # Of equal ControlNets on equal hints only the sum of the scales counts.
    for hints, scales in (
        ([hint, hint[::-1], hint * 2], [[1.6, 0, 0], [0.5, 0, 0]]),
        ([hint, hint, hint], [[1, 0.6, 0], [0.25, 0.25, 0]]),
    ):
        stacked, scale = np.stack(hints, axis=1), np.array(scales, np.float32)
        among = several.run({**feeds, "hint_embedding": stacked, "control_scale": scale})
        error = np.abs(alone["prediction"] - among["prediction"]).max()
        assert error < 0.02 * alone["prediction"].std()
    for name, width in controls.CHANNELS.items():
        encoder = open_session(tmp_path / f"hint_{name}.xml", batch=1, precision="f32", sizes={"hint": (64, 64)})
        assert encoder.signature.inputs[0].shape[1] == width


def test_controls_want_a_folder_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_exporter("pocket", "--only", "controls") == 2
    asked = "the package does not hold what controls makes; name a folder for it with --weights"
    assert asked in capsys.readouterr().err
