"""A denoiser's two forms, cut from one file, against the torch modules of the same weights, whose deep features are
overwritten in the whole network.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.estimate.flops import count_flops
from counterfactory.engine.runtime.openvino import OpenVinoSession, open_session
from counterfactory.engine.runtime.quiet_openvino import ov
from counterfactory.engine.runtime.session import Array, GraphForm
from counterfactory.export.graphs import modules
from counterfactory.export.graphs.parity import relative_error
from counterfactory.export.graphs.tracing import to_ir
from counterfactory.export.pocket.restore import restore_denoiser

ROWS, H, W, HINT, TOKENS, WIDTH, DEEP = 2, 16, 24, 32, 64, 192, 64


def feeds(seed: int) -> dict[str, Array]:
    random = np.random.default_rng(seed)

    def drawn(*shape: int) -> Array:
        return random.standard_normal(shape).astype(np.float32)

    given = {"latents": drawn(ROWS, 4, H, W), "text": drawn(ROWS, TOKENS, WIDTH), "timestep": np.array([900, 40])}
    scales = np.array([1.6, 0.5], np.float32)
    return given | {"hint_embedding": drawn(ROWS, HINT, H, W), "control_scale": scales}


def opened(file: Path, form: GraphForm | None) -> OpenVinoSession:
    sizes = {"latents": (H, W), "hint_embedding": (H, W)}
    return open_session(file, batch=ROWS, precision="f32", sizes=sizes, form=form)


def around(given: dict[str, Array], deep: Array) -> dict[str, Array]:
    """The shallow form's feeds: nothing in these layers reads the text."""
    return {name: array for name, array in given.items() if name != "text"} | {"deep": deep}


@pytest.mark.slow
@torch.no_grad()
def test_the_two_forms_are_the_whole_network_with_its_deep_features_shown_or_overwritten(packed_models: Path) -> None:
    file, given, others = packed_models / "denoiser.xml", feeds(0), feeds(1)
    plain, whole, shallow = (opened(file, form) for form in (None, "whole", "shallow"))
    (found, before) = whole.run(given), whole.run(others)
    np.testing.assert_array_equal(found["prediction"], plain.run(given)["prediction"])
    assert relative_error(shallow.run(around(given, found["deep"]))["prediction"], found["prediction"]) < 1e-5

    trained = restore_denoiser(packed_models)
    fused, layer = modules.FusedDenoiser(trained.unet, trained.controlnet).eval(), trained.unet.up_blocks[-1].resnets[0]
    shown: list[torch.Tensor] = []

    def overwritten(joined: torch.Tensor) -> torch.Tensor:
        shown.append(joined[:, :DEEP])
        return torch.cat([torch.from_numpy(before["deep"]), joined[:, DEEP:]], 1)

    layer.register_forward_pre_hook(lambda _, passed: (overwritten(passed[0]), *passed[1:]))
    reference = fused(**{name: torch.from_numpy(array) for name, array in given.items()})
    assert relative_error(found["deep"], shown[0]) < 5e-3  # weights are restored from fp16
    reused = shallow.run(around(given, before["deep"]))["prediction"]
    assert relative_error(reused, reference) < 1e-3
    assert relative_error(reused, found["prediction"]) > 1e-2


@pytest.mark.slow
def test_integers_are_rounded_alike_in_both_forms(packed_models: Path) -> None:
    file, given = packed_models / "denoiser_few_int8.xml", feeds(0)
    whole, shallow = (opened(file, form) for form in ("whole", "shallow"))
    found = whole.run(given)
    assert relative_error(shallow.run(around(given, found["deep"]))["prediction"], found["prediction"]) < 1e-5
    assert {port.name for port in shallow.signature.inputs} == around(given, found["deep"]).keys()


def test_the_shallow_form_is_counted_by_what_is_left(packed_models: Path) -> None:
    """By hand: convolutions of 3 x 3 at the latents' size, the shortcut, the time's linear layers."""
    sizes = {"latents": (H, W), "hint_embedding": (H, W)}
    file = packed_models / "denoiser.xml"
    narrow, time = 32, 4 * 32
    of_conv = [(4, narrow), (narrow, narrow), (narrow, narrow)]  # of the first layer of UNet and of ControlNet
    products = 2 * sum(9 * a * b for a, b in of_conv) + 2 * narrow * narrow  # and the ControlNet's two outputs
    for joined in (DEEP + narrow, 2 * narrow):  # the last two layers
        products += 9 * joined * narrow + 9 * narrow * narrow + joined * narrow
    products += 9 * narrow * 4
    linear = 2 * (narrow * time + time * time + time * narrow) + 2 * time * narrow
    assert count_flops(file, 1, sizes, shallow=True) == 2 * (products * H * W + linear)
    assert count_flops(file, 1, sizes) > 4 * count_flops(file, 1, sizes, shallow=True)


def test_what_is_no_denoiser_has_no_deep_features(tmp_path: Path) -> None:
    to_ir(torch.nn.Conv2d(4, 4, 3), {"latents": torch.zeros(2, 4, 8, 8)}, ["prediction"], tmp_path / "flat.xml")
    for form in ("whole", "shallow"):
        with pytest.raises(CounterfactoryError, match=r"no denoiser whose deep features.*take \[paint.reuse\] out"):
            open_session(tmp_path / "flat.xml", batch=2, precision="f32", form=form)


def test_deep_features_are_float32_between_forms_that_compute_in_half(tmp_path: Path) -> None:
    """A graph in half precision, as one that was exported in it: what one form gives, the other takes."""
    ops = ov.opset13
    latents = ops.parameter([2, 4, 8, 8], ov.Type.f32, "latents")
    latents.output(0).set_names({"latents"})
    half = ops.convert(latents, ov.Type.f16)
    last = ops.concat([ops.concat([ops.multiply(half, half), half], 1), half], 1)
    prediction = ops.convert(last, ov.Type.f32)
    prediction.output(0).set_names({"prediction"})
    file = tmp_path / "half.xml"
    ov.save_model(ov.Model([prediction], [latents]), file, compress_to_fp16=False)
    whole, shallow = (open_session(file, batch=2, precision="f32", form=form) for form in ("whole", "shallow"))
    given = np.random.default_rng(0).standard_normal((2, 4, 8, 8)).astype(np.float32)
    found = whole.run({"latents": given})
    assert found["deep"].dtype == np.float32
    np.testing.assert_allclose(found["deep"], given**2, rtol=4e-3, atol=1e-3)
    again = shallow.run({"latents": given, "deep": found["deep"]})
    np.testing.assert_array_equal(again["prediction"], found["prediction"])
