"""What a control takes over of another, what the denoiser follows, and the decoder that is polished alone."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from torch import nn

from counterfactory.engine.models.denoiser import hints_of
from counterfactory.export.pocket import vae
from counterfactory.export.pocket.controls import take_over
from counterfactory.export.pocket.data import TRAIN, ScenePool
from counterfactory.export.pocket.denoiser import LatentPool
from counterfactory.export.pocket.training import Recipe


def test_what_two_networks_share_is_taken_over() -> None:
    older = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Linear(4, 3))
    module = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Linear(2, 5), nn.Linear(5, 5))
    fresh = {name: value.clone() for name, value in module.named_parameters()}
    take_over(module, older)
    found, theirs = dict(module.named_parameters()), dict(older.named_parameters())
    assert torch.equal(found["0.weight"][:, :1], theirs["0.weight"])
    assert torch.equal(found["0.weight"][:, 1:], fresh["0.weight"][:, 1:])
    assert torch.equal(found["1.weight"][:3], theirs["1.weight"][:, :2])
    assert torch.equal(found["1.weight"][3:], fresh["1.weight"][3:])
    assert torch.equal(found["1.bias"][:3], theirs["1.bias"])
    assert torch.equal(found["2.weight"], fresh["2.weight"])
    assert all(value.requires_grad for value in found.values())


def test_hints_are_the_edges_of_the_scene() -> None:
    pool = LatentPool(ScenePool(TRAIN, 4, 1), vae.build())
    pool.advance(0)
    index = np.arange(8) % 4
    assert torch.equal(pool.hints(index), torch.from_numpy(hints_of(pool.edges.numpy()[:, 0]))[index])


def test_a_decoder_is_polished_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = vae.build()
    before = {name: value.clone() for name, value in model.named_parameters()}
    monkeypatch.setattr(vae, "POLISH", Recipe(steps=2, lr=1e-2, seed=12, save_every=1))
    monkeypatch.setattr(vae, "ScenePool", lambda **asked: ScenePool(**asked | {"size": 16}))
    vae.polish(tmp_path, model)
    changed = {name.split(".")[0] for name, value in model.named_parameters() if not torch.equal(value, before[name])}
    assert changed == {"decoder"}
    again = vae.build()
    vae.polish(tmp_path, again)
    assert torch.equal(again.decoder.layers[0].weight, model.decoder.layers[0].weight)


def test_polishing_asks_for_detail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vae, "POLISH", Recipe(steps=1, lr=1e-2, seed=12))
    monkeypatch.setattr(vae, "ScenePool", lambda **asked: ScenePool(**asked | {"size": 16}))
    decoders = []
    for name, measure in (("asked", vae.detail), ("not", lambda pictures: pictures.new_zeros(1))):
        monkeypatch.setattr(vae, "detail", measure)
        model = vae.build()
        vae.polish(tmp_path / name, model)
        decoders.append(model.decoder.layers[0].weight)
    assert not torch.equal(*decoders)


def test_detail_is_opencv_s_laplacian_by_regions() -> None:
    picture = np.random.default_rng(4).random((32, 48, 3), dtype=np.float32)
    grey = picture.mean(2)
    laplacian = np.abs(cv2.Laplacian(grey, cv2.CV_32F, borderType=cv2.BORDER_CONSTANT))
    wanted = laplacian.reshape(4, 8, 6, 8).mean((1, 3))
    found = vae.detail(torch.from_numpy(picture).permute(2, 0, 1)[None])
    np.testing.assert_allclose(found[0, 0].numpy(), wanted, rtol=1e-5)
