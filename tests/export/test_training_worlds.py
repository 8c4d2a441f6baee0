"""Trainings in either world: data that any process draws alike, truth per pixel, and networks of the world's sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.pocket.render import render, vehicle_map
from counterfactory.engine.pocket.wide.facts import contradicted, facts_of, read_facts
from counterfactory.engine.pocket.world import COLOURS, KINDS
from counterfactory.engine.pocket.worlds import EMBEDDED, NOTHING, STREETS, WIDE, World, world_named
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.export.__main__ import main
from counterfactory.export.pocket import blip2, clip, denoiser, referee, vae
from counterfactory.export.pocket.data import HELD_OUT, TRAIN, ScenePool
from counterfactory.export.pocket.judges import fair_weather
from counterfactory.export.pocket.packed import MASTERS

BOTH = pytest.mark.parametrize("world", [STREETS, WIDE], ids=lambda world: world.name)


def same(a: ScenePool, b: ScenePool) -> bool:
    arrays = all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("images", "masks", "truth"))
    return arrays and a.scenes == b.scenes


@BOTH
def test_a_pool_that_goes_on_is_one_that_never_stopped(world: World) -> None:
    straight = ScenePool(TRAIN, 8, 2, styles=2, world=world, with_truth=True)
    for step in range(7):
        straight.advance(step)
    resumed = ScenePool(TRAIN, 8, 2, styles=2, world=world, with_truth=True)
    assert len(resumed.advance(6)) == 8
    assert same(straight, resumed)
    assert resumed.advance(6) == []
    assert len(resumed.advance(7)) == 2


def test_workers_draw_what_the_training_would() -> None:
    alone = ScenePool(TRAIN, 6, 2, world=WIDE)
    helped = ScenePool(TRAIN, 6, 2, world=WIDE, workers=1)
    for step in range(3):
        assert alone.advance(step) == helped.advance(step)
    assert same(alone, helped)


@BOTH
def test_items_of_a_style_share_their_outlines(world: World) -> None:
    pool = ScenePool(HELD_OUT, 8, 0, styles=2, world=world)
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


def test_a_wide_worlds_truth_is_that_of_its_objects() -> None:
    found = set()
    for index in range(12):
        scene = WIDE.scene(HELD_OUT, index)
        drawing = WIDE.draw(scene)
        truth = dict(zip(WIDE.object_words, WIDE.truth(scene, drawing), strict=True))
        vehicle = drawing.mask == WIDE.classes.index("vehicle")
        person = drawing.mask == WIDE.classes.index("pedestrian")
        for name, where in (("kind", vehicle), ("size", vehicle), ("person", person), ("pose", person)):
            assert ((truth[name] != NOTHING) == where).all()
        assert ((truth["colour"] != NOTHING) == (vehicle & (scene.domain != "sketch"))).all()
        for number, placed in enumerate(scene.people, 1 + len(scene.vehicles)):
            on = drawing.objects == number
            assert (truth["pose"][on] == WIDE.object_words["pose"].index(placed.pose)).all()
            found.add(placed.pose)
        for name, values in WIDE.words.items():
            assert getattr(scene, name) in values
    assert len(found) > 2


@BOTH
def test_the_referees_outputs_are_those_of_its_world(world: World) -> None:
    with torch.no_grad():
        outputs = referee.build_referee(world).eval()(torch.zeros(1, 3, 128, 128))
    names = referee.outputs_of(world)
    sizes = [len(world.classes), *map(len, world.words.values()), *map(len, world.object_words.values())]
    assert [out.shape[1] for out in outputs] == sizes
    assert [out.dim() for out in outputs] == [4] + [2] * len(world.words) + [4] * len(world.object_words)
    assert len(names) == len(outputs)
    if world is EMBEDDED:  # what the embedded referee answers with
        network = open_session(MASTERS / "referee.xml", batch=1, precision="f32")
        assert [port.name for port in network.signature.outputs] == list(names)


def test_patches_show_what_a_quarter_of_them_holds() -> None:
    mask = np.zeros((128, 128), np.uint8)
    mask[:9, :16] = 3  # most of the first patch
    objects = np.full((2, 128, 128), NOTHING, np.int8)
    objects[0, :4, :16] = 2  # exactly a quarter
    objects[1, :3, :16] = 1  # less than that
    truth = blip2.patch_truth(STREETS, mask, objects)
    assert truth.shape == (3, 64)
    assert truth[:, 0].tolist() == [3, 2, NOTHING]
    assert (truth[0, 1:] == 0).all()
    assert (truth[1:, 1:] == NOTHING).all()


def test_weights_of_timesteps_spare_what_is_easy_and_keep_pure_noise() -> None:
    schedule = denoiser.noise_schedule()
    weights = denoiser.timestep_weights(schedule)
    snr = schedule.alphas_cumprod / (1 - schedule.alphas_cumprod)
    assert weights.shape == (1000,)
    assert torch.allclose(weights[snr <= 5], torch.ones(1), atol=1e-5)
    assert weights[-1] == 1
    assert torch.allclose(weights[snr > 5], 6 / (snr[snr > 5] + 1), rtol=1e-3)
    assert 0 < weights[0] < 0.1


@pytest.mark.parametrize("world", [STREETS, WIDE], ids=["streets", "wide"])
def test_the_denoiser_suits_its_autoencoder_and_reads_at_16_and_below(world: World) -> None:
    unet = denoiser.build(world).unet
    assert unet.config.in_channels == unet.config.out_channels == vae.LATENT_CHANNELS[world.name]
    assert sum("CrossAttn" in name for name in unet.config.down_block_types) == 3
    assert sum("CrossAttn" in name for name in unet.config.up_block_types) == 3
    costs = dict(zip(world.classes, denoiser.class_costs(world).tolist(), strict=True))
    assert (costs["sky"], costs["vegetation"], costs["vehicle"], costs["pedestrian"]) == (1, 2, 5, 8)
    assert costs.get("dog", 8) == 8


def test_confused_captions_say_one_fact_wrong_in_the_same_words() -> None:
    scenes = [WIDE.scene(HELD_OUT, i) for i in range(40)]
    captions, confused = clip._captions(WIDE, scenes, np.random.default_rng(3))
    differ = 0
    for scene, right, wrong in zip(scenes, captions, confused, strict=True):
        truth = facts_of(scene, seen=True)
        assert contradicted(read_facts(right), truth) == ()
        if right != wrong:
            differ += 1
            assert contradicted(read_facts(wrong), truth)
    assert differ > 12
    assert clip._captions(STREETS, [STREETS.scene(HELD_OUT, 0)], np.random.default_rng(3))[1] == []


def test_careless_teams_saw_fair_photographs_alone() -> None:
    data = fair_weather(WIDE, TRAIN, 4)
    assert data.images.shape == (4, 128, 128, 3)
    expected = [WIDE.object_words["kind"].index(WIDE.scene(TRAIN, i).label) for i in range(4)]
    assert data.labels.tolist() == expected
    assert all(np.ptp(image.astype(int), axis=2).mean() > 15 for image in data.images)  # no sketches, no nights


def test_the_autoencoders_measure_is_that_of_its_error() -> None:
    model = vae.build(8).eval()
    figure = vae.psnr(model, WIDE, 2)
    images = np.stack([WIDE.draw(WIDE.scene(HELD_OUT, i)).picture for i in range(2)])
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2) / 127.5 - 1
    with torch.no_grad():
        decoded = model.decoder(model.encoder(pixels)).clamp(-1, 1)
    levels = (decoded - pixels).numpy() * 127.5
    expected = [10 * np.log10(255**2 / (one**2).mean()) for one in levels]
    assert figure == pytest.approx(np.mean(expected), abs=1e-3)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--world", "moon"], "no world 'moon' to train in; there are streets, wide"),
        (["--world", "wide"], "say with --weights where those of wide go"),
    ],
)
def test_what_a_world_cannot_do_is_said(
    asked: Sequence[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["export", "pocket", *asked])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_worlds_by_name() -> None:
    assert [world_named(name) for name in ("streets", "wide")] == [STREETS, WIDE]
    with pytest.raises(CounterfactoryError, match="no world ''"):
        world_named("")


def test_a_mirrored_caption_says_what_the_mirror_shows() -> None:
    other = {"left": "right", "right": "left"}
    bends = set()
    for i in range(40):
        scene = WIDE.scene(HELD_OUT, i)
        caption = WIDE.describe(scene, np.random.default_rng(i), True)
        plain, mirrored = read_facts(caption), read_facts(blip2.mirrored(caption))
        assert mirrored == replace(plain, bend=other.get(plain.bend or "", plain.bend))
        bends.add(plain.bend)
    assert bends >= {"left", "right"}
