"""DDIM taken backwards, and an edit's step beside a source's: each against what the sampler itself does."""

from __future__ import annotations

import numpy as np
import pytest

from counterfactory.engine.models.inversion import Path, step_back, step_weights
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.profile.paint import SamplerSettings

SAMPLERS = {
    "epsilon": Sampler(SamplerSettings("ddim", 5, "epsilon", "leading", False)),
    "v": Sampler(SamplerSettings("ddim", 4, "v_prediction", "trailing", True)),
}
SHAPE = (2, 3, 4)


def noise(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)


@pytest.mark.parametrize("kind", SAMPLERS)
def test_a_step_back_is_undone_by_the_step(kind: str) -> None:
    sampler = SAMPLERS[kind]
    for i in range(len(sampler.timesteps)):
        latents, output = noise(i), noise(100 + i)
        before = step_back(sampler, i, latents, output)
        assert before.dtype == np.float32
        again, _ = sampler.step(i, before, output, sampler.start)
        np.testing.assert_allclose(again, latents, rtol=1e-5, atol=1e-5)
        kept, added = step_weights(sampler, i)
        np.testing.assert_allclose(kept * before + added * output, again, rtol=1e-5, atol=1e-5)


def test_other_samplers_do_not_go_back() -> None:
    unipc = Sampler(SamplerSettings("unipc", 3, "v_prediction", "trailing", True))
    with pytest.raises(ValueError, match="steps of ddim can be taken back, those of unipc have a history"):
        step_weights(unipc, 0)


@pytest.mark.parametrize("kind", SAMPLERS)
def test_an_edit_goes_beside_the_record(kind: str) -> None:
    """Its own step, and what the source's step misses the record by."""
    sampler = SAMPLERS[kind]
    path = Path(sampler, noise(1))
    last = len(sampler.timesteps) - 1
    assert path.latents[last + 1] is path.clean
    path.latents[last] = noise(2)
    edited, edited_output, output = noise(3), noise(4), noise(5)
    found = path.follow(last, edited, edited_output, output)
    assert found.dtype == np.float32
    own, _ = sampler.step(last, edited, edited_output, sampler.start)
    missed = path.clean - sampler.step(last, path.latents[last], output, sampler.start)[0]
    np.testing.assert_allclose(found, own + missed, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(path.follow(last, path.latents[last], output, output), path.clean)
