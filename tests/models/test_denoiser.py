"""Rows become a batch: each array under its input's name, each row in its place, in memory that is used again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.denoiser import DenoiserRow, PaintPlans, blend
from counterfactory.engine.models.hints import hints_of
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.profile.paint import SamplerSettings
from counterfactory.engine.runtime.session import Array, Port, Signature

LATENT = (2, 3, 4)


class Recording:
    """A network that keeps what it was given and answers with sums that tell the rows apart."""

    def __init__(self) -> None:
        self.given: list[dict[str, Array]] = []

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        self.given.append(dict(feeds))
        if "hint" in feeds:
            return {"hint_embedding": feeds["hint"] + 1}
        if list(feeds) == ["latents"]:
            return {"pixel_values": feeds["latents"] / 100}
        return {"prediction": feeds["latents"] * 2}


def plans(network: Recording) -> PaintPlans:
    batched = cast(Batched, network)
    return PaintPlans(batched, batched, batched, LATENT)


def row(number: int) -> DenoiserRow:
    return DenoiserRow(
        latents=np.full(LATENT, number, np.float32),
        timestep=10 * number,
        text=np.full((5, 6), 100 + number, np.float32),
        hint=np.full((7, 3, 4), 200 + number, np.float32),
        control_scale=number / 4,
    )


@pytest.mark.parametrize("count", [1, 3])
def test_each_input_holds_the_rows_in_order(count: int) -> None:
    network = Recording()
    rows = [row(number) for number in range(count)]
    predictions = plans(network).evaluate(rows)
    (fed,) = network.given
    assert {name: (array.dtype, array.shape) for name, array in fed.items()} == {
        "latents": (np.float32, (count, *LATENT)),
        "timestep": (np.int64, (count,)),
        "text": (np.float32, (count, 5, 6)),
        "hint_embedding": (np.float32, (count, 7, 3, 4)),
        "control_scale": (np.float32, (count,)),
    }
    for number in range(count):
        assert (fed["latents"][number] == number).all()
        assert (predictions[number] == 2 * number).all()
        assert (fed["text"][number] == 100 + number).all()
        assert (fed["hint_embedding"][number] == 200 + number).all()
    assert fed["timestep"].tolist() == [0, 10, 20][:count]
    assert fed["control_scale"].tolist() == [0, 0.25, 0.5][:count]


def test_memory_is_used_again_and_only_other_rows_are_copied() -> None:
    network = Recording()
    painter = plans(network)
    rows = [row(number) for number in range(3)]
    painter.evaluate(rows)
    first = network.given[0]["text"]
    rows[1].text[:] = -1  # a row that is where it was is not read again, so this is not seen
    painter.evaluate([rows[0], rows[1], row(9)])
    painter.evaluate(rows[:2])
    for fed in network.given:
        assert np.shares_memory(fed["text"], first)
    assert len(network.given[2]["text"]) == 2
    assert network.given[1]["text"][:, 0, 0].tolist() == [100, 101, 109]
    painter.evaluate([row(number) for number in range(4)])
    assert not np.shares_memory(network.given[3]["text"], first)
    assert network.given[3]["text"][:, 0, 0].tolist() == [100, 101, 102, 103]


def test_hints_are_edges_from_nothing_to_one() -> None:
    network = Recording()
    edges = np.array([[[0, 255], [51, 102]], [[255, 255], [0, 0]]], np.uint8)
    assert hints_of(edges).dtype == np.float32
    assert hints_of(edges).shape == (2, 1, 2, 2)
    assert hints_of(edges)[0, 0].ravel().tolist() == pytest.approx([0, 1, 0.2, 0.4])
    first, second = plans(network).embed_hints(edges)
    assert np.array_equal(network.given[0]["hint"], hints_of(edges))
    assert np.array_equal(first, hints_of(edges)[0] + 1)
    assert np.array_equal(second, hints_of(edges)[1] + 1)


def test_latents_become_pictures_at_once() -> None:
    network = Recording()
    painter = plans(network)
    assert painter.behind == 0
    finish = painter.decode([np.zeros((3, 2, 2), np.float32), np.full((3, 2, 2), 100, np.float32)])
    assert [fed["latents"].shape for fed in network.given] == [(2, 3, 2, 2)]
    black_or_grey, white = finish()
    assert black_or_grey.shape == white.shape == (2, 2, 3)
    assert white.dtype == np.uint8
    assert (white == 255).all()
    assert (black_or_grey < 255).all()


def test_noise_is_scaled_as_the_sampler_begins_and_guidance_takes_both_outputs() -> None:
    class Steps:
        initial_scale = 3.0
        start = "start"

        def __init__(self) -> None:
            self.asked: list[tuple[Any, ...]] = []

        def step(self, i: int, latents: Any, output: Any, history: Any, noise: Any) -> tuple[Any, Any]:
            self.asked.append((i, history, noise))
            return latents + output, f"after {i}"

    steps = Steps()
    denoising = plans(Recording()).begin(np.ones(LATENT, np.float32), cast(Sampler, steps))
    assert denoising.latents.dtype == np.float32
    assert (np.asarray(denoising.latents) == 3).all()
    with_text, without = np.full(LATENT, 5, np.float32), np.full(LATENT, 4, np.float32)
    noise = np.zeros(LATENT, np.float32)
    denoising.step(0, [with_text], None, None)
    assert (np.asarray(denoising.latents) == 8).all()
    denoising.step(1, [with_text, without], 2.0, noise)  # 4 + 2 (5 - 4)
    assert (np.asarray(denoising.latents) == 14).all()
    assert [(i, history) for i, history, _ in steps.asked] == [(0, "start"), (1, "after 0")]
    assert steps.asked[0][2] is None
    assert steps.asked[1][2] is noise


def test_a_blend_is_exact_at_its_ends() -> None:
    latents, source = np.full((2, 1, 3), 1e8, np.float32), np.full((2, 1, 3), 0.1, np.float32)
    found = blend(latents, source, np.array([[0, 0.25, 1]], np.float32))
    assert found.dtype == np.float32
    assert found[:, 0].tolist() == [[1e8, 7.5e7, float(np.float32(0.1))]] * 2


def test_a_variant_is_blended_where_it_stands() -> None:
    painter = plans(Recording())
    denoising = painter.begin(
        np.ones(LATENT, np.float32), Sampler(SamplerSettings("ddim", 2, "epsilon", "leading", False))
    )
    share = np.zeros(LATENT[1:], np.float32)
    share[0] = 1
    denoising.blend(np.full(LATENT, 7, np.float32), share)
    assert np.asarray(denoising.latents)[0, :, 0].tolist() == [7, 1, 1]
    states = np.zeros((2, 3), np.float32)
    assert painter.put_text(states) is states


class Encoder(Recording):
    """A hint encoder of `channels`, or a denoiser for hint embeddings of some shape."""

    def __init__(self, *shape: int, name: str = "hint") -> None:
        super().__init__()
        self.signature = Signature((Port(name, shape, "float32"),), ())


def test_hints_are_joined_as_the_denoiser_takes_them() -> None:
    """Each encoder has its own maps; of hints that are added, a map of zeros alone was not given."""
    grey, colours = Encoder(1, 1, 2, 2), Encoder(1, 3, 2, 2)
    edges = np.array([[[0, 255], [0, 0]], [[0, 0], [0, 0]]], np.uint8)
    classes = np.full((2, 2, 2, 3), 51, np.uint8)
    together, apart = (Encoder(*shape, name="hint_embedding") for shape in ((4, 1, 2, 2), (4, 2, 1, 2, 2)))

    def painter(denoiser: Recording) -> PaintPlans:
        batched = [cast(Batched, one) for one in (grey, denoiser, denoiser)]
        return PaintPlans(*batched, LATENT, other_hints=(cast(Batched, grey),))

    near = np.full((2, 2, 2), 13107, np.uint16)
    assert not painter(together).hints_apart
    first, second = painter(together).embed_several([edges, near], [0.5, 2.0])
    np.testing.assert_allclose(first, 0.5 * (edges[:1] / 255 + 1) + 2 * (0.2 + 1), rtol=1e-6)
    np.testing.assert_allclose(second, np.full((1, 2, 2), 2 * 1.2), rtol=1e-6)
    assert painter(apart).hints_apart
    first, second = painter(apart).embed_several([edges, near], [0.5, 2.0])
    np.testing.assert_allclose(second, [np.ones((1, 2, 2)), np.full((1, 2, 2), 1.2)], rtol=1e-6)
    (first, _) = painter(apart).embed_several([None, edges], [0.0, 2.0])
    np.testing.assert_allclose(first, [np.zeros((1, 2, 2)), edges[:1] / 255 + 1], rtol=1e-6)
    with pytest.raises(CounterfactoryError, match="has 2 ControlNets, and the profile names 1 hint:"):
        painter(apart).embed_several([edges], [1.0])
    only = PaintPlans(cast(Batched, colours), cast(Batched, together), cast(Batched, together), LATENT)
    only.embed_several([edges], [1.0])
    only.embed_several([classes], [1.0])
    assert [fed["hint"].shape for fed in colours.given] == [(2, 3, 2, 2)] * 2
