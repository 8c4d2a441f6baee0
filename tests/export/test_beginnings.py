"""Trainings that begin with older weights, and the controls that the wide world's denoiser follows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models
from torch import nn

from counterfactory.engine.models.denoiser import hints_of
from counterfactory.engine.pocket.worlds import STREETS, WIDE, World
from counterfactory.engine.runtime.openvino import open_core
from counterfactory.export.graphs.tracing import to_ir
from counterfactory.export.pocket import denoiser, vae
from counterfactory.export.pocket.data import TRAIN, ScenePool
from counterfactory.export.pocket.denoiser import CONTROLS, Hints, LatentPool, hint_encoders
from counterfactory.export.pocket.older import take_over, take_over_tokens
from counterfactory.export.pocket.training import Recipe


def test_what_two_networks_share_is_taken_over() -> None:
    older = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Linear(4, 3))
    module = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Linear(2, 5), nn.Linear(5, 5))
    fresh = {name: value.clone() for name, value in module.named_parameters()}
    assert take_over(module, older) == 4
    found, theirs = dict(module.named_parameters()), dict(older.named_parameters())
    assert torch.equal(found["0.weight"][:, :1], theirs["0.weight"])
    assert torch.equal(found["0.weight"][:, 1:], fresh["0.weight"][:, 1:])
    assert torch.equal(found["1.weight"][:3], theirs["1.weight"][:, :2])
    assert torch.equal(found["1.weight"][3:], fresh["1.weight"][3:])
    assert torch.equal(found["1.bias"][:3], theirs["1.bias"])
    assert torch.equal(found["2.weight"], fresh["2.weight"])
    assert all(value.requires_grad for value in found.values())


def test_tokens_are_taken_over_by_their_text() -> None:
    def numbered(*tokens: str) -> Tokenizer:
        return Tokenizer(models.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token="?"))

    rows, older = torch.zeros(4, 2), torch.tensor([[1.0, 1], [2, 2], [3, 3]])
    assert take_over_tokens(rows, older, numbered("?", "car", "van", "red"), numbered("red", "?", "car")) == 3
    assert rows[:, 0].tolist() == [2, 3, 0, 1]


def test_a_training_begins_with_older_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vae.RECIPES, "wide", Recipe(steps=0, lr=1e-3, seed=1))
    monkeypatch.setattr(vae, "ScenePool", lambda **_: None)
    older = vae.build(4)
    with torch.no_grad():
        for parameter in older.parameters():
            parameter += 1
    found, theirs = dict(vae.train(tmp_path, WIDE, 0, older).named_parameters()), dict(older.named_parameters())
    assert found["decoder.layers.0.weight"].shape[1] == 8
    assert torch.equal(found["decoder.layers.0.weight"][:, :4], theirs["decoder.layers.0.weight"])
    same = [name for name in found if found[name].shape == theirs[name].shape]
    assert len(same) > 20
    assert all(torch.equal(found[name], theirs[name]) for name in same)


def test_a_denoiser_of_several_controls_begins_with_one_of_edges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(denoiser.RECIPES, "wide", Recipe(steps=0, lr=1e-3, seed=1))
    monkeypatch.setattr(denoiser, "LatentPool", lambda *_: None)
    monkeypatch.setattr(denoiser, "ScenePool", lambda **_: None)
    monkeypatch.setattr(denoiser, "encode", lambda *_: None)
    older = denoiser.build(STREETS)
    with torch.no_grad():
        for parameter in older.parameters():
            parameter += 1
    any_vae, any_clip = vae.build(4), nn.Identity()
    wide = denoiser.train(tmp_path, any_vae, any_clip, None, WIDE, 0, older)  # type: ignore[arg-type]
    theirs = dict(older.controlnet.controlnet_cond_embedding.named_parameters())
    encoders = hint_encoders(wide)
    assert list(encoders) == ["hint.xml", "hint_depth.xml", "hint_classes.xml"]
    assert all(torch.equal(value, theirs[name]) for name, value in encoders["hint.xml"].named_parameters())
    deep = "down_blocks.1.resnets.0.conv1.weight"  # in blocks that read the text in the wide world alone
    assert torch.equal(dict(wide.unet.named_parameters())[deep], dict(older.unet.named_parameters())[deep])


def test_embeddings_of_what_is_given_are_added(tmp_path: Path) -> None:
    torch.manual_seed(0)
    hints = Hints(32)
    edges, depth, classes = torch.rand(3, 1, 32, 48), torch.rand(3, 1, 32, 48), torch.rand(3, 3, 32, 48)
    depth[0], classes[0], edges[1], depth[2] = 0, 0, 0, 0
    found = hints(torch.cat([edges, depth, classes], 1))
    encoder = {name: hints.encoder(name) for name in CONTROLS}
    torch.testing.assert_close(found[0], encoder["edges"](edges[:1])[0])
    torch.testing.assert_close(found[1], (encoder["depth"](depth[1:2]) + encoder["classes"](classes[1:2]))[0])
    torch.testing.assert_close(found[2], (encoder["edges"](edges[2:]) + encoder["classes"](classes[2:]))[0])

    to_ir(
        encoder["classes"],
        {"hint": classes},
        ["hint_embedding"],
        tmp_path / "hint.xml",
        {"hint": {0: "b", 2: "h", 3: "w"}},
    )
    plan = open_core().compile_model(tmp_path / "hint.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    with torch.no_grad():
        wanted = encoder["classes"](classes)
    np.testing.assert_allclose(plan({"hint": classes.numpy()})["hint_embedding"], wanted, atol=2e-3)


@pytest.mark.parametrize("world", [STREETS, WIDE], ids=lambda world: world.name)
def test_hints_are_of_the_scene_and_of_what_is_given(world: World) -> None:
    pool = LatentPool(ScenePool(TRAIN, 4, 1, world=world), vae.build(4))
    pool.advance(0)
    index = np.arange(400) % 4
    hints = pool.hints(index, np.random.default_rng(1))
    assert torch.equal(hints, pool.hints(index, np.random.default_rng(1)))
    edges = torch.from_numpy(hints_of(pool.edges.numpy()[:, 0]))
    if world is STREETS:
        assert torch.equal(hints, edges[index])
        return
    given, drawings = set(), [world.draw(scene) for scene in pool.scenes.scenes]
    for row, item in zip(hints, index, strict=True):
        drawing = drawings[item]
        assert drawing.nearness is not None
        whole = {
            "edges": edges[item],
            "depth": torch.from_numpy(drawing.nearness)[None] / 255,
            "classes": torch.tensor(world.palette)[drawing.mask.astype(int)].permute(2, 0, 1) / 255,
        }
        parts = dict(zip(CONTROLS, row.split(list(CONTROLS.values())), strict=True))  # type: ignore[no-untyped-call]
        shown = {name for name, part in parts.items() if part.any()}
        assert all(torch.allclose(parts[name], whole[name]) for name in shown)
        given.add(frozenset(shown))
    assert given == {frozenset(one) for one in denoiser._GIVEN}


def test_what_is_near_is_bright() -> None:
    drawing = WIDE.draw(replace(WIDE.scene(TRAIN, 3)))
    assert drawing.nearness is not None
    assert drawing.nearness.max() == 255
    assert (drawing.nearness[drawing.mask == WIDE.classes.index("sky")] == 0).all()
    road = drawing.nearness * (drawing.mask == WIDE.classes.index("road"))
    rows = [int(row.max()) for row in road if row.any()]
    assert rows == sorted(rows)
    assert len(WIDE.palette) == len(WIDE.classes) == len(set(WIDE.palette))


def test_a_decoder_is_polished_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = vae.build(8)
    before = {name: value.clone() for name, value in model.named_parameters()}
    monkeypatch.setitem(vae.POLISH, "wide", Recipe(steps=2, lr=1e-2, seed=12, save_every=1))
    monkeypatch.setattr(vae, "ScenePool", lambda **asked: ScenePool(**asked | {"size": 16}))
    vae.polish(tmp_path, model, WIDE)
    changed = {name.split(".")[0] for name, value in model.named_parameters() if not torch.equal(value, before[name])}
    assert changed == {"decoder"}
    again = vae.build(8)
    vae.polish(tmp_path, again, WIDE)
    assert torch.equal(again.decoder.layers[0].weight, model.decoder.layers[0].weight)


def test_polishing_asks_for_detail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vae.POLISH, "streets", Recipe(steps=1, lr=1e-2, seed=12))
    monkeypatch.setattr(vae, "ScenePool", lambda **asked: ScenePool(**asked | {"size": 16}))
    decoders = []
    for name, measure in (("asked", vae.detail), ("not", lambda pictures: pictures.new_zeros(1))):
        monkeypatch.setattr(vae, "detail", measure)
        model = vae.build()
        vae.polish(tmp_path / name, model, STREETS)
        decoders.append(model.decoder.layers[0].weight)
    assert not torch.equal(*decoders)


def test_detail_is_opencv_s_laplacian_by_regions() -> None:
    picture = np.random.default_rng(4).random((32, 48, 3), dtype=np.float32)
    grey = picture.mean(2)
    laplacian = np.abs(cv2.Laplacian(grey, cv2.CV_32F, borderType=cv2.BORDER_CONSTANT))
    wanted = laplacian.reshape(4, 8, 6, 8).mean((1, 3))
    found = vae.detail(torch.from_numpy(picture).permute(2, 0, 1)[None])
    np.testing.assert_allclose(found[0, 0].numpy(), wanted, rtol=1e-5)
