"""Rows become a batch: each array under its input's name, each row in its place, in memory that is used again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
import pytest

from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.denoiser import DenoiserRow, PaintPlans, blend
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
    shapes = {0: LATENT, 100: (5, 6), 200: (7, 3, 4)}
    latents, text, hint = (np.full(shape, base + number, np.float32) for base, shape in shapes.items())
    return DenoiserRow(latents, 10 * number, text, hint, control_scale=number / 4)


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


def test_a_blend_is_exact_at_its_ends() -> None:
    latents, source = np.full((2, 1, 3), 1e8, np.float32), np.full((2, 1, 3), 0.1, np.float32)
    found = blend(latents, source, np.array([[0, 0.25, 1]], np.float32))
    assert found.dtype == np.float32
    assert found[:, 0].tolist() == [[1e8, 7.5e7, float(np.float32(0.1))]] * 2


def test_a_variant_is_blended_where_it_stands() -> None:
    painter = plans(Recording())
    sampler = Sampler(SamplerSettings("ddim", 2, "epsilon", "leading", False))
    denoising = painter.begin(np.ones(LATENT, np.float32), sampler)
    share = np.zeros(LATENT[1:], np.float32)
    share[0] = 1
    denoising.blend(np.full(LATENT, 7, np.float32), share)
    assert np.asarray(denoising.latents)[0, :, 0].tolist() == [7, 1, 1]
    states = np.zeros((2, 3), np.float32)
    assert painter.put_text(states) is states


class Encoder(Recording):
    """A hint encoder, or a denoiser for hint embeddings of some shape."""

    def __init__(self, *shape: int, name: str = "hint") -> None:
        super().__init__()
        self.signature = Signature((Port(name, shape, "float32"),), ())


def test_several_hints_are_embedded_by_their_encoders_in_order() -> None:
    """That they are joined as denoisers take them tests/export/test_several_hints.py holds against diffusers."""
    first, second, denoiser = Encoder(1, 1, 2, 2), Encoder(1, 1, 2, 2), Encoder(4, 1, 2, 2, name="hint_embedding")
    own, follower, other = (cast(Batched, network) for network in (first, denoiser, second))
    painter = PaintPlans(own, follower, follower, LATENT, other_hints=(other,))
    assert not painter.hints_apart
    maps = [np.full((1, 2, 2), 255, np.uint8), np.full((1, 2, 2), 13107, np.uint16)]
    (joined,) = painter.embed_several(maps, [0.5, 2.0])
    np.testing.assert_allclose(joined, np.full((1, 2, 2), 0.5 * 2 + 2 * 1.2), rtol=1e-6)
    assert [network.given[0]["hint"].max() for network in (first, second)] == [1, pytest.approx(0.2)]
