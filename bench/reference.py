"""What a user would write instead of the engine: transformers and diffusers in torch, on the same weights.

From sources with the engine's captions, prompts and variants it makes captions, answers, PNG files and scores. The way
through is that of DILLEMA's scripts (arXiv 2502.04378): edge map, caption, the three questions, a pipeline call for
each variant, then the checks. `REFERENCE` does one thing at a time in float32, as the libraries do unless told
otherwise, and guides every step; `DIFFUSERS_BATCHED` is their best documented configuration on a CPU, `ON_GPU` on a
GPU, `OPENVINO` with the networks on OpenVINO. Painting takes the engine's edited captions, whatever the language model
says here.

Networks go to the device for their stage and back, as they do not fit a small GPU together; that counts as loading.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from ceiling import Device, device_seconds
from diffusers import DDIMScheduler, LCMScheduler, StableDiffusionControlNetPipeline, UniPCMultistepScheduler
from journeys import Call, Work
from measure import Pixels
from numpy.typing import NDArray
from peer_networks import PeerNetworks, TorchLanguage, until
from PIL import Image as Pictures

from counterfactory.engine.english.replacing import undo_edits
from counterfactory.engine.keys import generator
from counterfactory.engine.models.clip import to_pixel_values
from counterfactory.engine.profile.paint import PaintSettings, SamplerSettings
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.runtime.plans import read_exported
from counterfactory.engine.sources.source import load_pixels
from counterfactory.engine.stages.check.clip_scores import edit_scores, score
from counterfactory.engine.stages.maps.draw_maps import edge_maps
from counterfactory.engine.variant import Variant
from counterfactory.export.graphs import modules

T = TypeVar("T")


@dataclass(frozen=True)
class Way:
    """How the libraries are used: precision, memory layout, and how many things go through a call at once.

    `dynamic` guides the steps that the profile guides, by diffusers' callback at the end of a step; else every step is.
    `openvino` has the networks on OpenVINO (openvino_peer.py), in the precision that is "auto" there. `compiled` puts
    the painter under torch.compile in the mode that it names: minutes of compiling for each new shape, so not unless
    asked for.
    """

    dtype: torch.dtype
    channels_last: bool
    captions: int
    answers: int
    pictures: int
    checks: int
    dynamic: bool = True
    openvino: bool = False
    compiled: Literal["default", "max-autotune"] | None = None


REFERENCE = Way(torch.float32, False, captions=1, answers=1, pictures=1, checks=1, dynamic=False)
DIFFUSERS_BATCHED = Way(torch.bfloat16, True, captions=8, answers=16, pictures=8, checks=8)
OPENVINO = replace(DIFFUSERS_BATCHED, dtype=torch.float32, channels_last=False, openvino=True)
# Questions go to the engine's own adapter, which forms the batches.
ON_GPU = Way(torch.float16, True, captions=8, answers=4096, pictures=8, checks=16)


@dataclass
class Made:
    """What came out: captions by source key, answers in order, pictures and scores by variant key; the tokens that were
    written, and how long each stage took, by the clock and, on a GPU, by the device's events. Loading is in neither.
    """

    captions: dict[str, str] = field(default_factory=dict)
    answers: list[tuple[Call, str]] = field(default_factory=list)
    pictures: dict[str, Pixels] = field(default_factory=dict)
    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    tokens: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    event_s: dict[str, float] = field(default_factory=dict)
    load_s: float = 0.0

    @contextmanager
    def stage(self, name: str, device: Device) -> Iterator[None]:
        """Time spent inside belongs to the stage, but for what becomes `load_s` meanwhile."""
        since, loaded = time.perf_counter(), self.load_s
        yield
        if device == "cuda":
            torch.cuda.synchronize()
        took = time.perf_counter() - since - (self.load_s - loaded)
        self.seconds[name] = self.seconds.get(name, 0.0) + took

    def work(self, name: str, device: Device, work: Callable[[], T]) -> T:
        """What a GPU does inside is counted by its events, to the stage."""
        results: list[T] = []
        took = device_seconds(lambda: results.append(work()), device)
        if device == "cuda":
            self.event_s[name] = self.event_s.get(name, 0.0) + took
        return results[0]


class Peer:
    """The networks of `profile`, used as `way` says on `device`."""

    def __init__(self, profile: Profile, way: Way, networks: PeerNetworks, device: Device = "cpu") -> None:
        torch.set_num_threads(profile.runtime.threads or os.cpu_count() or 1)  # as many as the engine
        self.profile, self.way, self.networks, self.device = profile, way, networks, device
        for module in networks.modules:
            module.to(way.dtype)
        if isinstance(networks.language, TorchLanguage):
            networks.language.model.to(way.dtype)
        self._painters = (networks.unet, networks.controlnet, networks.vae)
        if way.channels_last:
            for module in self._painters:
                module.to(memory_format=torch.channels_last)
        published = read_exported(profile.models.path, profile.paint.denoiser.removesuffix("_int8")).scheduler
        self.pipeline = open_pipeline(*self._painters, profile.paint.sampler, published)
        if way.compiled:
            self.pipeline.unet = torch.compile(networks.unet, mode=way.compiled)
            self.pipeline.controlnet = torch.compile(networks.controlnet, mode=way.compiled)
            networks.vae.decoder = torch.compile(networks.vae.decoder, mode=way.compiled)
        self.text: Any = modules.ClipTextEncoder(networks.clip).eval()
        self.image: Any = modules.ClipImageEncoder(networks.clip).eval()
        if way.openvino:
            from openvino_peer import put_on_openvino

            self.text, self.image = put_on_openvino(networks, self.text, self.image)

    @torch.no_grad()
    def run(self, works: Sequence[Work], folder: Path) -> Made:
        """Everything for `works`, from files to files: PNGs go to `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        made, size, device, networks = Made(), self.profile.image, self.device, self.networks
        with made.stage("read", device):
            images = {w.source.key: load_pixels(w.source, size) for w in works}
        with made.stage("caption", device), self._resident(made, networks.blip2):
            for keys in chunks(images, self.way.captions):
                shown = [images[key] for key in keys]
                captions = made.work("caption", device, partial(self._captions, shown))
                made.captions.update(zip(keys, captions, strict=True))
        with made.stage("rewrite", device):
            for calls in chunks([call for work in works for call in work.calls], self.way.answers):
                answers, tokens = networks.language.answer([call.request for call in calls])
                made.answers += zip(calls, answers, strict=True)
                made.tokens += tokens
            made.load_s += networks.language.close()

        def shape(variant: Variant) -> tuple[int, ...]:
            return images[variant.source.key].shape

        variants = sorted((v for work in works for v in work.variants), key=shape)
        batches = (batch for _, same in groupby(variants, shape) for batch in chunks(same, self.way.pictures))
        with made.stage("paint", device), self._resident(made, *self._painters, networks.clip):
            for some in batches:
                pictures = made.work("paint", device, partial(self._pictures, some, images))
                for variant, picture in zip(some, pictures, strict=True):
                    picture.save(folder / f"{variant.key}.png")
                    made.pictures[variant.key] = np.asarray(picture)
        with made.stage("check", device), self._resident(made, networks.clip):
            made.scores = made.work("check", device, lambda: self._scores(works, images, made.pictures))
        return made

    @contextmanager
    def _resident(self, made: Made, *networks: Any) -> Iterator[None]:
        """On the device inside, on the CPU before and after; what that takes is loading."""
        if self.device == "cpu":
            yield
            return

        def move(place: str) -> None:
            began = time.perf_counter()
            for network in networks:
                network.to(place)
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            made.load_s += time.perf_counter() - began

        move(self.device)
        yield
        move("cpu")

    def _pixels(self, images: Sequence[Pixels], side: int) -> torch.Tensor:
        """Uint8 RGB images as the networks take them, float [N, 3, side, side]."""
        pixels = torch.from_numpy(to_pixel_values(images, side)).to(self.device)
        if self.networks.statistics is not None:
            mean, deviation = (torch.tensor(s, device=self.device)[:, None, None] for s in self.networks.statistics)
            pixels = ((pixels + 1) / 2 - mean) / deviation
        return pixels.to(self.way.dtype)

    def _captions(self, images: Sequence[Pixels]) -> list[str]:
        """Captions of uint8 RGB images, decoded as the profile says, by random numbers of torch's own."""
        blip2, how = self.networks.blip2, self.profile.caption.decoding
        config, texts = blip2.config, self.profile.caption.texts
        sampled = {"top_p": how.top_p, "temperature": how.temperature, "top_k": 0, "num_return_sequences": texts}
        ids = blip2.generate(
            pixel_values=self._pixels(images, config.vision_config.image_size), min_new_tokens=how.min_tokens,
            max_new_tokens=how.max_tokens, repetition_penalty=how.repetition_penalty, num_beams=how.beams,
            do_sample=how.mode == "nucleus", **(sampled if how.mode == "nucleus" else {}),
        )  # fmt: skip
        eos = config.text_config.eos_token_id
        # The prompt (query places and the start token) comes back before what was generated.
        start = config.num_query_tokens + 1
        said = [self.networks.opt_tokenizer.decode(until(row[start:], [eos])).strip() for row in ids.tolist()]
        return [". ".join(said[i : i + texts]) for i in range(0, len(said), texts)]

    def _pictures(self, variants: Sequence[Variant], images: Mapping[str, Pixels]) -> list[Pictures.Image]:
        """One call of diffusers' pipeline, from the noise that the engine starts from."""
        paint, pipeline = self.profile.paint, self.pipeline
        keys = [v.source.key for v in variants]
        # Of a picture by itself this is once a variant, as in the scripts.
        edges = {key: edge_maps(images[key][None], self.profile.edges)[0] for key in dict.fromkeys(keys)}
        hints = np.stack([edges[key] for key in keys])[:, None].astype(np.float32) / 255
        hints = hints.repeat(self.networks.controlnet.config.conditioning_channels, axis=1)
        height, width = hints.shape[-2:]
        factor = pipeline.vae_scale_factor
        shape = (pipeline.unet.config.in_channels, height // factor, width // factor)
        noise = np.stack([generator(v.key, "noise").standard_normal(shape, np.float32) for v in variants])
        states = self._texts([v.edited_caption for v in variants])[0]
        negative = self._texts([paint.negative_prompt])[0].expand_as(states)
        image = torch.from_numpy(hints).to(self.device, self.way.dtype)
        guiding: dict[str, Any] = {"guidance_scale": paint.guidance.scale}
        if self.way.dynamic:
            guiding = guide_some(paint, states, negative, image)
        latents = torch.from_numpy(noise).to(self.device, self.way.dtype)
        result = pipeline(
            prompt_embeds=states, negative_prompt_embeds=negative, image=image, latents=latents, height=height,
            width=width, num_inference_steps=paint.sampler.steps,
            controlnet_conditioning_scale=float(paint.control_scale), **guiding,
        )  # fmt: skip
        pictures: list[Pictures.Image] = result.images
        return pictures

    def _scores(
        self, works: Sequence[Work], images: Mapping[str, Pixels], pictures: Mapping[str, Pixels]
    ) -> dict[str, dict[str, float]]:
        """CLIP's scores of every variant; labels are left out, which no profile holds to a threshold."""
        seen = self._embedded(images)
        said: dict[str, NDArray[np.float32]] = {}
        variants = [v for work in works for v in work.variants]
        undone = {v.key: undo_edits(v.caption, v.edited_caption, v.edits) for v in variants}
        captions = [text for v in variants for text in (v.caption, v.edited_caption)]
        captions += [text for pairs in undone.values() for pair in pairs for text in pair]
        for texts in chunks(list(dict.fromkeys(captions)), self.way.checks):
            said |= zip(texts, self._texts(texts)[1].float().cpu().numpy(), strict=True)
        painted = self._embedded(pictures)
        found = {}
        for v in variants:
            scores = score(seen[v.source.key], said[v.caption], painted[v.key], said[v.edited_caption])
            pairs = [(said[made], said[kept]) for made, kept in undone[v.key]]
            scores["edit"] = min(edit_scores(painted[v.key], pairs, self.profile.check.logit_scale))
            found[v.key] = scores
        return found

    def _embedded(self, images: Mapping[str, Pixels]) -> dict[str, NDArray[np.float32]]:
        side = self.networks.clip.config.vision_config.image_size
        found: dict[str, NDArray[np.float32]] = {}
        for keys in chunks(images, self.way.checks):
            pixels = self._pixels([images[key] for key in keys], side)
            found |= zip(keys, self.image(pixels).float().cpu().numpy(), strict=True)
        return found

    def _texts(self, captions: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """States [N, T, D] and unit embeddings [N, E]."""
        words = self.networks.clip_tokenizer.encode_batch(list(captions))
        states, embeds = self.text(torch.tensor([encoded.ids for encoded in words], device=self.device))
        return states, embeds


def open_pipeline(
    unet: Any, controlnet: Any, vae: Any, sampler: SamplerSettings, published: Mapping[str, Any] | None = None
) -> Any:
    """diffusers' pipeline without text networks: prompts are encoded outside, by CLIP's text model as it would."""
    networks = {"unet": unet, "controlnet": controlnet, "vae": vae, "scheduler": scheduler_of(sampler, published)}
    absent = dict.fromkeys(("text_encoder", "tokenizer", "safety_checker", "feature_extractor"))
    pipeline = StableDiffusionControlNetPipeline(**networks, **absent, requires_safety_checker=False)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def guide_some(paint: PaintSettings, states: Any, negative: Any, image: Any) -> dict[str, Any]:
    """Arguments of diffusers' pipeline that guide the steps which `paint` guides, after its documentation of dynamic
    guidance: the callback at the end of a step doubles the next one's rows, or does not.
    """
    both, twice = torch.cat([negative, states]), torch.cat([image, image])

    def scale(step: int) -> float:
        return paint.guidance.scale if paint.guidance.guides(step, paint.sampler.steps) else 1.0

    def end(pipeline: Any, step: int, _timestep: Any, kept: dict[str, Any]) -> dict[str, Any]:
        pipeline._guidance_scale = scale(step + 1)
        guided = pipeline.do_classifier_free_guidance
        return kept | {"prompt_embeds": both if guided else states, "image": twice if guided else image}

    inputs = ["prompt_embeds", "image"]
    return {"guidance_scale": scale(0), "callback_on_step_end": end, "callback_on_step_end_tensor_inputs": inputs}


def rows_of(paint: PaintSettings, dynamic: bool) -> int:
    """Rows of UNet and ControlNet that a variant takes."""
    steps = paint.sampler.steps
    if dynamic:
        return steps + sum(paint.guidance.guides(i, steps) for i in range(steps))
    return steps * (2 if paint.guidance.scale > 1 else 1)


def scheduler_of(settings: SamplerSettings, published: Mapping[str, Any] | None) -> Any:
    """diffusers' scheduler of the engine's sampler settings and the `published` scheduler_config.json. LCM's draws the
    noise of later steps by itself: at the same cost its pictures are others than the engine's.
    """
    usual = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}
    said: dict[str, Any] = {"prediction_type": settings.prediction, "timestep_spacing": settings.spacing}
    said |= {"rescale_betas_zero_snr": settings.zero_snr}
    schedule = {**(published or {**usual, "clip_sample": False}), **{k: v for k, v in said.items() if v is not None}}
    kinds: dict[str, Any] = {"ddim": DDIMScheduler, "unipc": UniPCMultistepScheduler, "lcm": LCMScheduler}
    return kinds[settings.kind].from_config(schedule)


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` items, the last one shorter."""
    everything = list(items)
    for start in range(0, len(everything), size):
        yield everything[start : start + size]
