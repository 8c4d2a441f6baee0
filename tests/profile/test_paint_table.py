"""[paint]: which steps are guided, and where few-step weights are sampled."""

from __future__ import annotations

from profiles import SCHEDULER

from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.models.schedule import settle
from counterfactory.engine.profile.profile import load_profile


def test_half_of_the_production_steps_are_guided() -> None:
    paint = load_profile("a10g").paint
    assert [i for i in range(20) if paint.guidance.guides(i, paint.sampler.steps)] == list(range(5, 15))
    assert paint.rows_per_variant == 30


def test_few_step_weights_are_sampled_where_they_were_distilled() -> None:
    """Hyper-SD asks for diffusers' "trailing" spacing, LCM-LoRA knows the timesteps of its LCMScheduler; both have
    guidance in their weights.
    """
    paint = load_profile("a10g-fast").paint
    assert Sampler(*settle(paint.sampler, SCHEDULER, "denoiser")).timesteps.tolist() == [999, 499]
    assert paint.rows_per_variant == 2
    paint = load_profile("cpu").paint
    assert paint.sampler.kind == "lcm"
    assert Sampler(*settle(paint.sampler, SCHEDULER, "denoiser")).timesteps.tolist() == [999, 759, 499, 259]
    assert paint.rows_per_variant == 4
