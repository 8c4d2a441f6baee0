"""The networks of a profile as transformers and diffusers have them, for peers of the engine.

The pocket's are restored from what the engine's files were exported from. A GPU box's are the checkpoints that its
export was given, or the seeded random ones that `export a10g --random` makes; there the language model is the engine's
own, through its own adapter, because the libraries' would not fit beside the rest and its quantisation is another's.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from diffusers import AutoencoderKL, AutoencoderTiny, ControlNetModel, UNet2DConditionModel
from measure import with_masters
from tokenizers import Tokenizer
from transformers import Blip2ForConditionalGeneration, CLIPModel

from counterfactory.engine.language.llm_request import Llm
from counterfactory.engine.language.llm_request import LlmRequest as Question
from counterfactory.engine.language.open_llm import open_llm
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.profile.profile import Profile
from counterfactory.export.graphs.hub import locate
from counterfactory.export.graphs.recording import master_of
from counterfactory.export.pocket import llama
from counterfactory.export.pocket.restore import restore_blip2, restore_clip, restore_denoiser, restore_llm, restore_vae
from counterfactory.export.production import blip2, clip, denoiser, vae
from counterfactory.export.production.graph import Request
from counterfactory.export.production.small_words import opt_tokenizer

# The engine's grammars bound its answers; a script sets a limit. No answer of the engine comes near this one.
MAX_ANSWER_TOKENS = 128


class Language(Protocol):
    """A language model that answers the engine's questions."""

    def answer(self, questions: Sequence[Question]) -> tuple[list[str], int]:
        """The answer to each question, and the tokens that were generated."""
        ...

    def close(self) -> float:
        """Give its memory back until the next question; returns the seconds of loading since the last time."""
        ...


@dataclass(frozen=True)
class PeerNetworks:
    """On a CPU, until a stage asks for them. `statistics` are the mean and deviation that pictures in 0..1 are
    normalised with, None where networks take -1..1 as it is.
    """

    blip2: Blip2ForConditionalGeneration
    opt_tokenizer: Tokenizer
    clip: CLIPModel
    clip_tokenizer: Tokenizer
    unet: UNet2DConditionModel
    controlnet: ControlNetModel
    vae: AutoencoderKL | AutoencoderTiny
    language: Language
    statistics: tuple[Sequence[float], Sequence[float]] | None

    @property
    def modules(self) -> tuple[Any, ...]:
        return self.blip2, self.clip, self.unet, self.controlnet, self.vae


class TorchLanguage:
    """A Llama of transformers, on the CPU: greedy answers without a grammar, up to the first line break."""

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        self.model, self._tokenizer = model, tokenizer
        words = range(tokenizer.get_vocab_size())
        self._stops = [llama.END, *(i for i in words if "\n" in tokenizer.decode([i]))]

    def answer(self, questions: Sequence[Question]) -> tuple[list[str], int]:
        """All at once; prompts are padded on the left."""
        rows = [encoded.ids for encoded in self._tokenizer.encode_batch([q.prompt.text for q in questions])]
        length = max(map(len, rows))
        ids = torch.tensor([[llama.END] * (length - len(row)) + row for row in rows])
        mask = torch.tensor([[0] * (length - len(row)) + [1] * len(row) for row in rows])
        ends = {"eos_token_id": self._stops, "pad_token_id": llama.END}
        out = self.model.generate(ids, attention_mask=mask, max_new_tokens=MAX_ANSWER_TOKENS, do_sample=False, **ends)
        said = [until(row, self._stops) for row in out[:, length:].tolist()]
        return [self._tokenizer.decode(row) for row in said], sum(map(len, said))

    def close(self) -> float:
        return 0.0


class EngineLanguage:
    """The engine's language model, opened when it is first asked."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._llm: Llm | None = None
        self._load_s = 0.0

    def answer(self, questions: Sequence[Question]) -> tuple[list[str], int]:
        """Within the grammars, as the engine asks."""
        if self._llm is None:
            began = time.perf_counter()
            self._llm = open_llm(library_of(self._profile).llm_path, self._profile.llm, self._profile.runtime)
            self._load_s += time.perf_counter() - began
        before = self._llm.usage.generated_tokens
        answers = self._llm.generate(questions)
        return answers, self._llm.usage.generated_tokens - before

    def close(self) -> float:
        if self._llm is not None:
            self._llm.close()
        self._llm, took, self._load_s = None, self._load_s, 0.0
        gc.collect()
        return took


def pocket_networks(profile: Profile) -> PeerNetworks:
    """Those that come with the engine. Raises CounterfactoryError when the models were packed without a map."""
    weights = with_masters(profile).models.path
    captioner, opt_words = restore_blip2(weights)
    checker, clip_words = restore_clip(weights)
    painter, llm = restore_denoiser(weights, plan=master_of(profile.paint.denoiser)), restore_llm(weights)
    paints = painter.unet, painter.controlnet, restore_vae(weights)
    return PeerNetworks(captioner, opt_words, checker, clip_words, *paints, TorchLanguage(*llm), None)


def box_networks(profile: Profile, request: Request) -> PeerNetworks:
    """Those of a GPU box, in float16 where the profile is: of the checkpoints that `request` names, or seeded ones."""
    controlnets = denoiser.build_controlnets(request)
    if len(controlnets) > 1:
        raise SystemExit("peers are built with one ControlNet; name one")
    captioner, words = _captioner(request, torch.float16 if profile.runtime.on_gpu else torch.float32)
    checker, clip_words = clip.build(request), clip.tokenizer_of(request)
    paints = denoiser.build_unet(request), controlnets[0], vae.build(request)
    language, statistics = EngineLanguage(profile), (clip.MEAN, clip.STD)
    return PeerNetworks(captioner, words, checker, clip_words, *paints, language, statistics)


def _captioner(request: Request, dtype: torch.dtype) -> tuple[Blip2ForConditionalGeneration, Tokenizer]:
    if request.sources is not None:
        folder = locate(request.sources.named("blip2"), ("config.json", "tokenizer.json"))
        loaded: Any = Blip2ForConditionalGeneration.from_pretrained(folder, dtype=dtype, local_files_only=True)
        return loaded.eval(), Tokenizer.from_file(str(folder / "tokenizer.json"))
    config = blip2.config_of(request)
    if config.image_token_index is None:
        config.image_token_index = config.text_config.vocab_size - 1
    with torch.device("meta"):
        captioner = Blip2ForConditionalGeneration(config)
    eyes = blip2.build_eyes(request)
    for name in ("vision_model", "qformer", "query_tokens", "language_projection"):
        setattr(captioner, name, getattr(eyes, name))
    captioner.language_model = blip2.build_opt(request)
    return captioner.eval(), opt_tokenizer(config.text_config.vocab_size, int(config.text_config.eos_token_id))


def until(ids: Sequence[int], stops: Sequence[int]) -> list[int]:
    """The ids before the first of `stops`."""
    end = next((i for i, token in enumerate(ids) if token in stops), len(ids))
    return list(ids[:end])
