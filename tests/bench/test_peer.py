"""Peers of the engine in miniature: the rows that they take, and their networks on OpenVINO."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import openvino_peer
import pytest
import torch
from reference import guide_some, open_pipeline, rows_of
from tiny_blip2 import tiny_blip2
from tiny_llama import tiny_llama, tiny_tokenizer
from tiny_networks import FACTOR, TOKENS, WIDTH, tiny_painter

from counterfactory.engine.profile.paint import GuidanceSettings, PaintSettings
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint

CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "INFERENCE_NUM_THREADS": 1}
SIDE, ROWS = 16, 2


def settings(start: float = 0.25, stop: float = 0.75) -> PaintSettings:
    """Full sampling's, guided on a part of the steps."""
    paint = load_profile("pocket-full").paint
    return PaintSettings(**{**vars(paint), "guidance": GuidanceSettings(2.5, start, stop)})


class Painting:
    """diffusers' pipeline over tiny networks; `rows` are those of every call of the UNet."""

    def __init__(self) -> None:
        random = np.random.default_rng(5)
        self.painter = tiny_painter()
        self.text = random.standard_normal((ROWS, TOKENS, WIDTH)).astype(np.float32)
        self.negative = random.standard_normal((TOKENS, WIDTH)).astype(np.float32)
        self.hint = (random.random((ROWS, 1, SIDE, SIDE)) < 0.2).astype(np.float32)
        self.noise = random.standard_normal((ROWS, 4, SIDE // FACTOR, SIDE // FACTOR)).astype(np.float32)
        self.rows: list[int] = []
        self.painter.unet.register_forward_pre_hook(lambda _, given: self.rows.append(len(given[0])))

    @torch.no_grad()
    def __call__(self, how: PaintSettings, dynamic: bool) -> Any:
        """Pictures [N, H, W, 3] in 0..1."""
        pipeline = open_pipeline(self.painter.unet, self.painter.controlnet, self.painter.vae, how.sampler)
        states, image = torch.from_numpy(self.text), torch.from_numpy(self.hint)
        negative = torch.from_numpy(self.negative).expand_as(states)
        guiding: dict[str, Any] = {"guidance_scale": how.guidance.scale}
        if dynamic:
            guiding = guide_some(how, states, negative, image)
        self.rows.clear()
        given = {"prompt_embeds": states, "negative_prompt_embeds": negative, "image": image, "output_type": "np"}
        given |= {"latents": torch.from_numpy(self.noise), "num_inference_steps": how.sampler.steps}
        return pipeline(**given, controlnet_conditioning_scale=how.control_scale, **guiding).images


@pytest.fixture
def painting() -> Painting:
    return Painting()


def test_a_peer_guides_the_steps_of_the_profile_and_takes_the_rows_that_are_told(
    painting: Painting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """diffusers' own way doubles the rows of all 8 steps; with its callback they are the engine's 12, and so is the
    picture.
    """
    how = settings()
    plain = painting(how, dynamic=False)
    assert painting.rows == [2 * ROWS] * 8
    assert rows_of(how, dynamic=False) == 16
    pictures = painting(how, dynamic=True)
    assert painting.rows == [ROWS] * 2 + [2 * ROWS] * 4 + [ROWS] * 2
    assert rows_of(how, dynamic=True) == 12
    plans = painting.painter.plans(SIDE, SIDE, batch=4, streams=1, decode_batch=1)
    noise = iter(painting.noise)
    drawn = SimpleNamespace(standard_normal=lambda *_: next(noise))
    monkeypatch.setattr("counterfactory.engine.stages.paint.paint_variants.generator", lambda *_: drawn)
    hints = [plans.hint.run({"hint": hint[None]})["hint_embedding"][0] for hint in painting.hint]
    jobs = [PaintJob(str(i), painting.text[i], hints[i], plans) for i in range(ROWS)]
    painted = dict(paint(jobs, painting.negative, how))
    ours = np.stack([painted[i] for i in range(ROWS)]) / 255
    assert ours.std() > 0.05
    np.testing.assert_allclose(pictures, ours, atol=1 / 255)
    assert np.abs(plain - ours).max() > 0.02, "guiding all steps paints the same, so that nothing was told apart"


@pytest.mark.parametrize(("start", "stop"), [(0.0, 1.0), (0.0, 0.5), (0.5, 0.5)], ids=["all", "first half", "none"])
def test_guidance_from_the_first_step_to_the_last(painting: Painting, start: float, stop: float) -> None:
    how = settings(start, stop)
    pictures = painting(how, dynamic=True)
    assert sum(painting.rows) == ROWS * rows_of(how, dynamic=True)
    if start == 0.0 and stop == 1.0:
        np.testing.assert_array_equal(pictures, painting(how, dynamic=False))


def torch_is_done(*modules: Any) -> None:
    """Let modules raise when torch runs them."""

    def refuse(module: Any, *_: Any) -> None:
        raise AssertionError(f"torch runs {type(module).__name__}")

    for module in modules:
        module.register_forward_pre_hook(refuse)


@pytest.mark.slow
def test_painters_on_openvino_paint_what_torch_paints(painting: Painting) -> None:
    how, painter = settings(0.0, 1.0), painting.painter
    before = painting(how, dynamic=True)
    openvino_peer.put_painters(painter.unet, painter.controlnet, painter.vae, CONFIG)
    assert before.std() > 0.05
    np.testing.assert_allclose(painting(how, dynamic=True), before, atol=2e-3)
    torch_is_done(painter.unet.conv_in, painter.controlnet.conv_in, painter.vae.decoder)
    np.testing.assert_allclose(painting(how, dynamic=True), before, atol=2e-3)
    assert painting.rows == [2 * ROWS] * 8


def test_a_language_model_with_states_answers_as_torch_does() -> None:
    """Rows padded on the left, and one question after another."""
    model = tiny_llama(tiny_tokenizer())
    torch.manual_seed(1)
    questions = [torch.randint(3, 200, (3, 9)), torch.randint(3, 200, (2, 5))]

    def answers() -> list[Any]:
        found = []
        for ids in questions:
            mask = torch.ones_like(ids)
            mask[0, :4] = 0
            how: dict[str, Any] = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": 0, "pad_token_id": 0}
            found.append(model.generate(ids, attention_mask=mask, **how).tolist())
        return found

    before = answers()
    model.forward = openvino_peer.StatefulDecoder(model, CONFIG)
    assert answers() == before
    assert len(model.forward._request.query_state()) == 4


@pytest.mark.slow
def test_a_captioner_on_openvino_says_what_torch_says() -> None:
    """Three pictures, then one, which is another set of shapes."""
    blip2 = tiny_blip2()
    torch.manual_seed(2)
    pixels = torch.randn(3, 3, 16, 16)

    @torch.no_grad()
    def captions() -> list[Any]:
        how: dict[str, Any] = {"max_new_tokens": 10, "do_sample": False, "num_beams": 1}
        return [blip2.generate(pixel_values=some, **how).tolist() for some in (pixels, pixels[:1])]

    before = captions()
    assert len({tuple(row) for row in before[0]}) > 1
    openvino_peer.put_language(SimpleNamespace(blip2=blip2, language=None), CONFIG)  # type: ignore[arg-type]
    assert captions() == before
    torch_is_done(blip2.vision_model.encoder, blip2.qformer.encoder, blip2.language_model.model.decoder.layers[0])
    assert captions() == before
