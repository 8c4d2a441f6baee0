"""Further controls: they begin as that of the edges, learn beside a UNet that stands still, and go into one graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import ControlNetModel

from counterfactory.engine.pocket.worlds import STREETS
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.export.__main__ import main
from counterfactory.export.pocket import controls, pack
from counterfactory.export.pocket.data import TRAIN, ScenePool
from counterfactory.export.pocket.denoiser import Denoiser
from counterfactory.export.pocket.pack import Training, pack_controls
from counterfactory.export.pocket.restore import restore_clip, restore_denoiser, restore_vae


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def residuals(controlnet: ControlNetModel, maps: torch.Tensor) -> list[torch.Tensor]:
    inputs = (normal(2, 4, 8, 8), torch.tensor([10, 800]), normal(2, 5, 192, seed=1))
    with torch.no_grad():
        down, mid = controlnet.eval()(*inputs, controlnet_cond=maps, return_dict=False)
    return [*down, mid]


def test_maps_are_the_truth_of_the_scenes() -> None:
    pool = ScenePool(TRAIN, 4, 0, styles=2)
    pool.advance(0)
    index = np.array([3, 1])
    depth, classes = (controls.Maps(pool).of(name, index) for name in controls.CHANNELS)
    drawing = STREETS.draw(pool.scenes[3])
    assert np.array_equal((depth[0, 0] * 255).round().numpy(), drawing.nearness)
    vehicle = torch.from_numpy(drawing.mask == STREETS.classes.index("vehicle"))
    assert (classes[0][:, vehicle] * 255).round().int().unique(dim=1).T.tolist() == [[0, 0, 142]]
    assert {name: maps.shape[1] for name, maps in (("depth", depth), ("classes", classes))} == controls.CHANNELS
    pair = controls.Maps(pool).of("classes", np.array([2, 3]))
    assert torch.equal(*pair), "both appearances of a layout have the same maps"


def test_a_control_begins_as_that_of_the_edges(packed_models: Path) -> None:
    edges = restore_denoiser(packed_models).controlnet
    grey = torch.rand(2, 1, 32, 32, generator=torch.Generator().manual_seed(3))
    same = residuals(controls.begin("depth", edges), grey)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(same, residuals(edges, grey), strict=True))
    assert max(float(residual.std()) for residual in same) > 0.01
    colours = controls.begin("classes", edges)
    own, theirs = dict(colours.named_parameters()), dict(edges.named_parameters())
    first = "controlnet_cond_embedding.conv_in.weight"
    assert own[first].shape[1] == 3
    assert torch.equal(own[first][:, :1], theirs[first])
    assert all(torch.equal(own[name], theirs[name]) for name in own if name != first)


def test_it_learns_beside_a_unet_that_stands_still_and_goes_on_where_it_was(
    packed_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controls, "compiled", lambda module: module)
    monkeypatch.setattr(controls, "_POOL", 6)
    monkeypatch.setattr(controls, "_BATCH", 3)
    whole = restore_denoiser(packed_models)
    models = (restore_vae(packed_models), *restore_clip(packed_models))
    recipe = replace(controls.RECIPE, steps=3, save_every=2, log_every=1, warmup=1)

    def trained(work: Path, steps: int) -> tuple[Denoiser, ControlNetModel]:
        denoiser = restore_denoiser(packed_models)
        asked = replace(recipe, steps=steps)
        return denoiser, controls.train(work, "depth", denoiser, *models, recipe=asked)

    denoiser, straight = trained(tmp_path / "straight", 3)
    before, after = dict(whole.unet.named_parameters()), dict(denoiser.unet.named_parameters())
    assert all(torch.equal(before[name], after[name]) for name in before)
    begun = dict(controls.begin("depth", whole.controlnet).named_parameters())
    moved = [name for name, value in straight.named_parameters() if not torch.equal(value, begun[name])]
    assert len(moved) > 0.9 * len(begun)
    assert len((tmp_path / "straight" / "control_depth.jsonl").read_text().splitlines()) == 3
    _, again = trained(tmp_path / "straight", 3)
    assert all(torch.equal(a, b) for a, b in zip(straight.parameters(), again.parameters(), strict=True))


@pytest.mark.slow
def test_all_controls_are_one_graph_whose_edges_are_those_of_the_packed_denoiser(
    packed_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in packed_models.iterdir():
        (tmp_path / file.name).symlink_to(file)
    monkeypatch.setattr(
        pack.controls, "train", lambda work, name, denoiser, *_: controls.begin(name, denoiser.controlnet).eval()
    )
    pack_controls(Training(tmp_path / "work"), tmp_path)
    sizes = {"latents": (16, 16), "hint_embedding": (16, 16)}
    plain, several = (
        open_session(tmp_path / f"{name}.xml", batch=2, precision="f32", sizes=sizes)
        for name in ("denoiser", controls.PLAN)
    )
    channels = {port.name: port.shape for port in plain.signature.inputs}["latents"][1]
    assert channels is not None
    feeds = {
        "latents": normal(2, channels, 16, 16).numpy(),
        "timestep": np.array([999, 250]),
        "text": normal(2, *(n or 0 for n in {p.name: p.shape for p in plain.signature.inputs}["text"][1:])).numpy(),
    }
    hint = normal(2, 32, 16, 16, seed=4).numpy()
    alone = plain.run({**feeds, "hint_embedding": hint, "control_scale": np.array([1.6, 0.5], np.float32)})
    scales = np.array([[1.6, 0, 0], [0.5, 0, 0]], np.float32)
    stacked = np.stack([hint, hint[::-1], hint * 2], axis=1)
    among = several.run({**feeds, "hint_embedding": stacked, "control_scale": scales})
    error = np.abs(alone["prediction"] - among["prediction"]).max()
    assert error < 0.02 * alone["prediction"].std()
    # Of equal ControlNets on equal hints only the sum of the scales counts.
    equal = np.stack([hint, hint, hint], axis=1)
    shared = several.run(
        {**feeds, "hint_embedding": equal, "control_scale": np.array([[1, 0.6, 0], [0.25, 0.25, 0]], np.float32)}
    )
    assert np.abs(alone["prediction"] - shared["prediction"]).max() < 0.02 * alone["prediction"].std()
    for name, width in controls.CHANNELS.items():
        encoder = open_session(tmp_path / f"hint_{name}.xml", batch=1, precision="f32", sizes={"hint": (64, 64)})
        assert encoder.signature.inputs[0].shape[1] == width


def test_controls_want_a_folder_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["export", "pocket", "--only", "controls"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert (
        "the package does not hold what controls makes; name a folder for it with --weights" in capsys.readouterr().err
    )
