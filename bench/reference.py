"""What a user would write instead of the engine: transformers and diffusers in torch, on the same weights.

From sources with the engine's captions, prompts and variants it makes captions, answers, PNG files and scores. The way
through is that of DILLEMA's scripts (arXiv 2502.04378): edge map, caption, the three questions, a pipeline call for
each variant, then the checks. `REFERENCE` does one thing at a time in float32, as the libraries do unless told
otherwise; `DIFFUSERS_BATCHED` is their best documented configuration on a CPU. Every step is guided, as in diffusers'
pipelines. Painting takes the engine's edited captions, whatever the language model says here without a grammar.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from diffusers import DDIMScheduler, LCMScheduler, StableDiffusionControlNetPipeline, UniPCMultistepScheduler
from journeys import Call, Image, Work
from measure import with_masters
from numpy.typing import NDArray
from PIL import Image as Pictures

from counterfactory.engine.config.profile import Profile
from counterfactory.engine.keys import generator
from counterfactory.engine.language.request import Request
from counterfactory.engine.models.clip import to_pixel_values
from counterfactory.engine.models.sampler import SamplerSettings
from counterfactory.engine.sources.source import load_pixels
from counterfactory.engine.stages.check import Embedded, score
from counterfactory.engine.stages.edges import edge_maps
from counterfactory.engine.variant import Variant
from counterfactory.export.graphs import modules
from counterfactory.export.pocket import llama
from counterfactory.export.pocket.convnets import channels_last
from counterfactory.export.pocket.restore import (
    restore_blip2,
    restore_clip,
    restore_denoiser,
    restore_llm,
    restore_vae,
)

T = TypeVar("T")
# The engine's grammars bound its answers; a script sets a limit. No answer of the engine comes near this one.
MAX_ANSWER_TOKENS = 128


@dataclass(frozen=True)
class Way:
    """How the libraries are used: precision, memory layout, and how many things go through a call at once.

    `compiled` puts the painter under torch.compile: minutes of compiling for each new shape, so not unless asked for.
    """

    dtype: torch.dtype
    channels_last: bool
    captions: int
    answers: int
    pictures: int
    checks: int
    compiled: bool = False


REFERENCE = Way(torch.float32, False, captions=1, answers=1, pictures=1, checks=1)
DIFFUSERS_BATCHED = Way(torch.bfloat16, True, captions=8, answers=16, pictures=8, checks=8)


@dataclass
class Made:
    """What came out: captions by source key, answers in order, pictures and scores by variant key; the tokens that were
    written, and how long each stage took.
    """

    captions: dict[str, str] = field(default_factory=dict)
    answers: list[tuple[Call, str]] = field(default_factory=list)
    pictures: dict[str, Image] = field(default_factory=dict)
    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    tokens: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time spent inside belongs to the stage."""
        since = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - since


class Peer:
    """The restored networks, used as `way` says."""

    def __init__(self, profile: Profile, way: Way) -> None:
        """Load everything that a run needs. Raises CounterfactoryError when the models were packed without a map."""
        weights = with_masters(profile).models.path
        torch.set_num_threads(profile.runtime.threads or os.cpu_count() or 1)  # as many as the engine
        self.profile, self.way = profile, way
        self.clip, self.clip_tokenizer = restore_clip(weights)
        self.blip2, self.opt_tokenizer = restore_blip2(weights)
        self.llm, self.llm_tokenizer = restore_llm(weights)
        vocabulary = range(self.llm_tokenizer.get_vocab_size())
        self.stops = [llama.END, *(i for i in vocabulary if "\n" in self.llm_tokenizer.decode([i]))]
        vae, denoiser = restore_vae(weights), restore_denoiser(weights)
        for module in (self.clip, self.blip2, self.llm, vae, denoiser):
            module.to(way.dtype)
        if way.channels_last:
            channels_last(vae)
            channels_last(denoiser)
        self.pipeline: Any = StableDiffusionControlNetPipeline(
            vae=vae,
            text_encoder=None,  # prompts are encoded here, by CLIP's text model as in the pipeline
            tokenizer=None,
            unet=denoiser.unet,
            controlnet=denoiser.controlnet,
            scheduler=scheduler_of(profile.paint.sampler),
            safety_checker=None,
            feature_extractor=None,
            requires_safety_checker=False,
        )
        self.pipeline.set_progress_bar_config(disable=True)
        if way.compiled:
            self.pipeline.unet = torch.compile(denoiser.unet)
            self.pipeline.controlnet = torch.compile(denoiser.controlnet)
            vae.decoder = torch.compile(vae.decoder)
        self.text, self.image = modules.ClipTextEncoder(self.clip).eval(), modules.ClipImageEncoder(self.clip).eval()

    @torch.no_grad()
    def run(self, works: Sequence[Work], folder: Path) -> Made:
        """Everything for `works`, from files to files: PNGs go to `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        made, size = Made(), self.profile.image
        with made.stage("read"):
            images = {
                w.source.key: load_pixels(w.source, size.short_side, size.multiple, size.max_long_side) for w in works
            }
        with made.stage("caption"):
            for keys in chunks(images, self.way.captions):
                made.captions.update(zip(keys, self._captions([images[key] for key in keys]), strict=True))
        with made.stage("rewrite"):
            for calls in chunks([call for work in works for call in work.calls], self.way.answers):
                answers, tokens = self._answers([call.request for call in calls])
                made.answers += zip(calls, answers, strict=True)
                made.tokens += tokens
        variants = sorted((v for work in works for v in work.variants), key=lambda v: images[v.source.key].shape)
        with made.stage("paint"):
            for some in self._same_size(variants, images):
                for variant, picture in zip(some, self._pictures(some, images), strict=True):
                    picture.save(folder / f"{variant.key}.png")
                    made.pictures[variant.key] = np.asarray(picture)
        with made.stage("check"):
            made.scores = self._scores(works, images, made.pictures)
        return made

    def _captions(self, images: Sequence[Image]) -> list[str]:
        """Greedy captions of uint8 RGB images."""
        config = self.blip2.config
        pixels = torch.from_numpy(to_pixel_values(images, config.vision_config.image_size)).to(self.way.dtype)
        most = self.profile.caption.decoding.max_tokens
        ids = self.blip2.generate(pixel_values=pixels, max_new_tokens=most, do_sample=False)
        eos = config.text_config.eos_token_id
        # The prompt (query places and the start token) comes back before what was generated.
        start = config.num_query_tokens + 1
        return [self.opt_tokenizer.decode(until(row[start:], [eos])).strip() for row in ids.tolist()]

    def _answers(self, requests: Sequence[Request]) -> tuple[list[str], int]:
        """Greedy answers up to the first line break, and the tokens generated; prompts are padded on the left."""
        rows = [encoded.ids for encoded in self.llm_tokenizer.encode_batch([r.prompt.text for r in requests])]
        length = max(map(len, rows))
        ids = torch.tensor([[llama.END] * (length - len(row)) + row for row in rows])
        mask = torch.tensor([[0] * (length - len(row)) + [1] * len(row) for row in rows])
        out = self.llm.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=MAX_ANSWER_TOKENS,
            do_sample=False,
            eos_token_id=self.stops,
            pad_token_id=llama.END,
        )
        said = [until(row, self.stops) for row in out[:, length:].tolist()]
        return [self.llm_tokenizer.decode(row) for row in said], sum(map(len, said))

    def _same_size(self, variants: Sequence[Variant], images: Mapping[str, Image]) -> Iterator[Sequence[Variant]]:
        sizes = dict.fromkeys(images[v.source.key].shape for v in variants)
        for size in sizes:
            yield from chunks([v for v in variants if images[v.source.key].shape == size], self.way.pictures)

    def _pictures(self, variants: Sequence[Variant], images: Mapping[str, Image]) -> list[Pictures.Image]:
        """One call of diffusers' pipeline, from the noise that the engine starts from."""
        paint, pipeline = self.profile.paint, self.pipeline
        keys = [v.source.key for v in variants]
        # Of a picture by itself this is once a variant, as in the scripts.
        edges = {key: edge_maps(images[key][None], self.profile.edges)[0] for key in dict.fromkeys(keys)}
        hints = np.stack([edges[key] for key in keys])[:, None].astype(np.float32) / 255
        height, width = hints.shape[-2:]
        factor = pipeline.vae_scale_factor
        shape = (pipeline.unet.config.in_channels, height // factor, width // factor)
        noise = np.stack([generator(v.key, "noise").standard_normal(shape, np.float32) for v in variants])
        states = self._texts([v.edited_caption for v in variants])[0]
        negative = self._texts([paint.negative_prompt])[0].expand_as(states)
        result = pipeline(
            prompt_embeds=states,
            negative_prompt_embeds=negative,
            image=torch.from_numpy(hints),
            latents=torch.from_numpy(noise).to(self.way.dtype),
            height=height,
            width=width,
            num_inference_steps=paint.sampler.steps,
            guidance_scale=paint.guidance.scale,
            controlnet_conditioning_scale=float(paint.control_scale),
        )
        pictures: list[Pictures.Image] = result.images
        return pictures

    def _scores(
        self, works: Sequence[Work], images: Mapping[str, Image], pictures: Mapping[str, Image]
    ) -> dict[str, dict[str, float]]:
        """CLIP's scores of every variant."""
        seen = self._embedded(images)
        said: dict[str, NDArray[np.float32]] = {}
        captions = [text for work in works for text in (work.caption, *(v.edited_caption for v in work.variants))]
        for texts in chunks(list(dict.fromkeys(captions)), self.way.checks):
            said |= zip(texts, self._texts(texts)[1].float().numpy(), strict=True)
        painted = self._embedded(pictures)
        variants = [v for work in works for v in work.variants]
        if not variants:
            return {}
        embedded = Embedded(
            source_image=np.stack([seen[v.source.key] for v in variants]),
            source_text=np.stack([said[v.caption] for v in variants]),
            variant_image=np.stack([painted[v.key] for v in variants]),
            variant_text=np.stack([said[v.edited_caption] for v in variants]),
        )
        return dict(zip((v.key for v in variants), score(embedded), strict=True))

    def _embedded(self, images: Mapping[str, Image]) -> dict[str, NDArray[np.float32]]:
        side = self.clip.config.vision_config.image_size
        found: dict[str, NDArray[np.float32]] = {}
        for keys in chunks(images, self.way.checks):
            pixels = torch.from_numpy(to_pixel_values([images[key] for key in keys], side)).to(self.way.dtype)
            found |= zip(keys, self.image(pixels).float().numpy(), strict=True)
        return found

    def _texts(self, captions: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """States [N, T, D] and unit embeddings [N, E]."""
        ids = torch.tensor([encoded.ids for encoded in self.clip_tokenizer.encode_batch(list(captions))])
        states, embeds = self.text(ids)
        return states, embeds


def scheduler_of(settings: SamplerSettings) -> Any:
    """diffusers' scheduler of the engine's sampler settings. LCM's draws the noise of later steps by itself: at the
    same cost its pictures are others than the engine's.
    """
    schedule: dict[str, Any] = {
        "beta_start": 0.00085,
        "beta_end": 0.012,
        "beta_schedule": "scaled_linear",
        "steps_offset": 1,
        "prediction_type": settings.prediction,
        "timestep_spacing": settings.spacing,
        "rescale_betas_zero_snr": settings.zero_snr,
    }
    if settings.kind == "lcm":
        return LCMScheduler(**schedule)
    if settings.kind == "ddim":
        return DDIMScheduler(**schedule, clip_sample=False)
    return UniPCMultistepScheduler(**schedule)


def until(ids: Sequence[int], stops: Sequence[int]) -> list[int]:
    """The ids before the first of `stops`."""
    end = next((i for i, token in enumerate(ids) if token in stops), len(ids))
    return list(ids[:end])


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` items, the last one shorter."""
    everything = list(items)
    for start in range(0, len(everything), size):
        yield everything[start : start + size]
