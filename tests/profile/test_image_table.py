"""[image]: sizes that plans are compiled for."""

from __future__ import annotations

from dataclasses import replace

from counterfactory.engine.estimate.formulas import plan_cost
from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.models.plan_facts import PlanFacts
from counterfactory.engine.profile.profile import load_profile


def test_plans_need_sizes_that_are_known() -> None:
    a10g, pocket = load_profile("a10g"), load_profile("pocket")
    long = (704, 768, 832)
    assert a10g.image.sizes == ((512, 512), *(size for side in long for size in ((512, side), (side, 512))))
    assert pocket.image.sizes == ()
    square = replace(a10g.image, buckets=None, max_long_side=512)
    assert replace(a10g, image=square).image.sizes == ((512, 512),)
    twice = replace(a10g.image, buckets=((512, 512), (512, 704), (512, 512)))
    assert twice.sizes == ((512, 512), (512, 704))


def test_sessions_of_each_size_hold_their_own_weights_but_tensorrt_s() -> None:
    """ONNX Runtime and OpenVINO open a graph for each size; a plan of TensorRT has all of them."""
    a10g, fact = load_profile("a10g"), PlanFacts(1.0, 10**6, 0, graph_bytes=10**3)
    provider = replace(a10g, runtime=replace(a10g.runtime, backend="onnxruntime", provider="cuda"))
    pocket = load_profile("pocket")
    sized = replace(pocket, image=replace(pocket.image, buckets=((128, 128), (128, 192), (192, 128))))
    for profile, times in ((a10g, 1), (provider, 7), (pocket, 1), (sized, 3)):
        one = replace(profile, image=replace(profile.image, buckets=None, max_long_side=profile.image.short_side))
        for name in ("vae_decoder", "hint"):
            several, single = (plan_cost(p, networks_of(p)[name], fact).bytes for p in (profile, one))
            assert several == times * single, (profile.name, name)
        several, single = (plan_cost(p, networks_of(p)["clip_text"], fact).bytes for p in (profile, one))
        assert several == single
