"""Trainings: data that any process draws alike, truth per pixel, and networks of the world's sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.pocket.render import render, vehicle_map
from counterfactory.engine.pocket.world import COLOURS, KINDS
from counterfactory.engine.pocket.worlds import NOTHING, STREETS, world_named
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.export.pocket import blip2, denoiser, referee, vae
from counterfactory.export.pocket.data import HELD_OUT, TRAIN, ScenePool
from counterfactory.export.pocket.judges import fair_weather
from counterfactory.export.pocket.packed import MASTERS


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


def test_workers_draw_what_the_training_would() -> None:
    alone = ScenePool(TRAIN, 6, 2)
    helped = ScenePool(TRAIN, 6, 2, workers=1)
    for step in range(3):
        assert alone.advance(step) == helped.advance(step)
    assert same(alone, helped)


def test_items_of_a_style_share_their_outlines() -> None:
    pool = ScenePool(HELD_OUT, 8, 0, styles=2)
    pool.advance(0)
    assert np.array_equal(pool.masks[::2], pool.masks[1::2])
    assert (pool.images[::2] != pool.images[1::2]).any((1, 2, 3)).all()


def test_a_streets_truth_is_that_of_its_vehicles() -> None:
    for index in range(6):
        scene = STREETS.scene(HELD_OUT, index)
        drawing = STREETS.draw(scene)
        picture, mask = render(scene)
        assert np.array_equal(drawing.picture, picture)
        assert np.array_equal(drawing.mask, mask)
        which = vehicle_map(scene, mask)
        colours, kinds = STREETS.truth(scene, drawing)
        assert ((colours == NOTHING) == (which < 0)).all()
        for number, vehicle in enumerate(scene.vehicles):
            assert (colours[which == number] == COLOURS.index(vehicle.colour)).all()
            assert (kinds[which == number] == KINDS.index(vehicle.kind)).all()


def test_a_streets_nearness_is_that_of_its_layout() -> None:
    for index in range(6):
        scene = replace(STREETS.scene(HELD_OUT, index), weather="clear", time="day")
        drawing, other = STREETS.draw(scene), STREETS.draw(replace(scene, weather="rainy", time="night"))
        near = drawing.nearness
        assert near.dtype == np.uint8
        assert np.array_equal(near, other.nearness), "neither weather nor time moves anything"
        assert (near.min(), near.max()) == (0, 255)
        assert (near[drawing.mask == STREETS.classes.index("sky")] == 0).all()
        # The ground rises towards the lower edge; what stands on it is as near as where it stands.
        road = drawing.mask == STREETS.classes.index("road")
        rows = [near[y][road[y]] for y in range(128) if road[y].any()]
        assert all(np.ptp(row.astype(int)) == 0 for row in rows)
        assert (np.diff([int(row[0]) for row in rows]) >= 0).all()
        for number, vehicle in enumerate(scene.vehicles, 1):
            on = drawing.objects == number
            assert np.ptp(near[on].astype(int)) <= 1
            assert near[on][0] / 255 == pytest.approx(0.16 + 0.80 * vehicle.depth, abs=0.03)


def test_the_referees_outputs_are_those_of_its_world() -> None:
    with torch.no_grad():
        outputs = referee.build_referee().eval()(torch.zeros(1, 3, 128, 128))
    names = referee.OUTPUTS
    sizes = [len(STREETS.classes), *map(len, STREETS.words.values()), *map(len, STREETS.object_words.values())]
    assert [out.shape[1] for out in outputs] == sizes
    assert [out.dim() for out in outputs] == [4] + [2] * len(STREETS.words) + [4] * len(STREETS.object_words)
    assert len(names) == len(outputs)
    network = open_session(MASTERS / "referee.xml", batch=1, precision="f32")
    assert [port.name for port in network.signature.outputs] == list(names)


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


def test_the_denoiser_suits_its_autoencoder_and_reads_at_16_and_below() -> None:
    unet = denoiser.build().unet
    assert unet.config.in_channels == unet.config.out_channels == vae.LATENT_CHANNELS
    assert sum("CrossAttn" in name for name in unet.config.down_block_types) == 3
    assert sum("CrossAttn" in name for name in unet.config.up_block_types) == 3
    costs = dict(zip(STREETS.classes, denoiser.class_costs().tolist(), strict=True))
    assert (costs["sky"], costs["vegetation"], costs["vehicle"], costs["pedestrian"]) == (1, 2, 5, 8)


def test_careless_teams_saw_fair_photographs_alone() -> None:
    data = fair_weather(TRAIN, 4)
    assert data.images.shape == (4, 128, 128, 3)
    expected = [STREETS.object_words["kind"].index(STREETS.scene(TRAIN, i).label) for i in range(4)]
    assert data.labels.tolist() == expected
    assert all(np.ptp(image.astype(int), axis=2).mean() > 15 for image in data.images)  # no nights


def test_worlds_by_name() -> None:
    assert world_named("streets") is STREETS
    with pytest.raises(CounterfactoryError, match="no world ''"):
        world_named("")
