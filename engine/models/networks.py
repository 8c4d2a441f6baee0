"""The table of networks: which ones a profile's suites need, with their batches, files and rows.

A new network is a row here, a file of engine/models with its meaning, and a builder in export/. Networks are opened,
hashed, estimated, examined and exported by this table.

    blip2_vision  opt_decoder        picture to caption
    llm  sentence  masked            caption to edits; the last two where a profile asks for them
    clip_text  clip_image            conditioning and checks
    hed                              picture to edges, where a network finds them
    depth                            picture to depth, where a network finds it
    hint  denoiser  vae_decoder      edges and text to picture; hint_1, ... for further hints
    denoiser_shallow                 the denoiser's steps that use deep features again, where a profile has such
    vae_encoder                      picture to latents, where sources are inverted, or variants keep a part of theirs
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from ..content_keys import Stage
from ..profile.caption import CaptionSettings
from ..profile.profile import Profile
from ..profile.rewrite import PAGE
from ..runtime.blob_cache import find_blob_cache
from .device_painting import kept_bytes
from .library import Library
from .network import LlmQuestion, Network, Networks, Rows, Tokens
from .painters import hint_plans, painters_of

# BLIP-2's queries, which its decoder reads before it writes.
_QUERIES = 32
# The share of captions in which no word names the label: 91 of 500 that people wrote (docs/measurements.md). How many
# of one label are written again together: those of 25 pictures, which 25,000 of ImageNet-1k have of a class.
SILENT_SHARE, SILENT_TOGETHER = 0.18, 4.5
# Sizes as shares of a cache in f16. Caches of fewer bits have a scale in f16 for every 32 values, and one layer of 40
# in f16, which ExLlamaV2 reads.
_CACHE_SHARE = MappingProxyType({"fp16": 1.0, "q8": 8.5 / 16 + 1 / 40, "q4": 4.5 / 16 + 1 / 40})
# Tokens of a question beyond what the rows before it had read, and tokens computed one by one for its answer: counted
# with LLaMA-2's tokenizer over prompts and answers about 60 captions of two sentences (docs/production.md), rounded up.
_KEYWORDS, _ALTERNATIVES, _REWRITE, _VERBATIM = Tokens(30, 40), Tokens(40, 20), Tokens(25, 30), Tokens(30, 12)
# A choice from menus, most of whose words the grammar forces, which are read: SmolLM2's tokenizer and answers, captions
# of two sentences.
_CHOICE = Tokens(85, 10)
# A caption read for its perplexity, token by token.
_READ = Tokens(0, 25)
# The pocket model's questions, which have more tokens since its captions are longer.
_POCKET = Tokens(60, 40)
# A whole prompt, and what is reserved for its answer (language/llm_request.py): pages of a cache.
_PROMPT, _RESERVED = 290, 192
# Values of a row, four bytes each, that are copied to or from a GPU: of Stable Diffusion 1.5, BLIP-2, CLIP, MiniLM.
_HINT_CHANNELS, _LATENT_CHANNELS, _LATENT_SIDE, _TEXT = 320, 4, 8, 77 * 768
# Timesteps, weights and addresses of an evaluation where painting stays on the device, at most.
_PARCEL = 512
# How the tokens of two captions of CLIP's are aligned.
_ALIGNMENT = 77 * 77 + 2 * 77
_SENTENCE = 2 * 2 * 64 + 384
_MASKED = 2 * 2 * 64 + 2 + 30522
_VISION, _OPT_WIDTH, _OPT_WORDS, _CLIP_IMAGE = 3 * 364**2, 4096, 50272, 3 * 224**2


def _questions(profile: Profile) -> tuple[LlmQuestion, ...]:
    """The keywords, the alternatives of half of the keywords that are allowed, and each variant's caption; from menus
    one choice a source, which a rule writes into the caption.
    """
    alternatives = Rows(per_source=max(1, profile.rewrite.max_keywords // 2))
    rows = (Rows(per_source=1), alternatives, Rows(per_variant=1))
    if profile.rewrite.menus:
        tokens: tuple[Tokens, ...] = (_CHOICE,)
    elif not profile.llm.converses:
        tokens = (_POCKET, _POCKET, _POCKET)
    else:
        tokens = (_KEYWORDS, _ALTERNATIVES, _VERBATIM if profile.rewrite.verbatim else _REWRITE)
    # Random words need no answers of the language model.
    questions = () if profile.random_words is not None else tuple(map(LlmQuestion, rows, tokens))
    return (*questions, LlmQuestion(Rows(1, 1), _READ)) if profile.rewrite.perplexity else questions


def _compared_texts(profile: Profile) -> Rows:
    """Texts of the sentence encoder, at most: a label, the words that name it, and the caption; of each variant the
    edited caption, an edit's words and those that replace them, and for a caption that is written anew its text outside
    of the edits. Where edits are compared by their words before they are chosen, the words of all edits.
    """
    check, rewriting = profile.check, profile.rewrite
    chosen = bool(check.most.keys() & {"text_label", "text_replaced"})
    edits = len(rewriting.types) * rewriting.max_alternatives if chosen else 0
    return Rows(per_source=3 + 2 * edits, per_variant=3 + (not rewriting.verbatim))


def _rows_at_once(profile: Profile) -> int:
    """Rows that the language model decodes together: as many as the profile allows and the cache has pages for."""
    exllama = profile.llm.exllama
    if exllama is None:
        return 1
    return max(1, min(exllama.rows, exllama.cache_tokens // PAGE // math.ceil((_PROMPT + _RESERVED) / PAGE)))


def _moved_bytes(profile: Profile) -> Mapping[str, int]:
    """Bytes of a row of each network that are copied between host and GPU, for a square picture of the short side."""
    pixels, written = profile.image.short_side**2, profile.caption.decoding.max_tokens
    latent = pixels // _LATENT_SIDE**2
    hint, latents = _HINT_CHANNELS * latent, _LATENT_CHANNELS * latent
    # One embedding of a row where hints share a ControlNet, which only the open denoiser shows; at most one each.
    maps, count, joined = hint_plans(profile), len(profile.hints or (0,)), profile.hints is not None
    values: dict[str, float] = {
        "blip2_vision": _VISION + _QUERIES * _OPT_WIDTH,
        "opt_decoder": _QUERIES * _OPT_WIDTH + written * (_OPT_WIDTH + _OPT_WORDS),
        "sentence": _SENTENCE,
        "masked": _MASKED,
        "clip_text": _TEXT,
        "hed": 4 * pixels,
        "depth": 4 * pixels,
        "denoiser": count * hint + _TEXT + 2 * latents,
        "vae_decoder": latents + 3 * pixels,
        "vae_encoder": latents + 3 * pixels,
        "clip_image": _CLIP_IMAGE,
    }
    values |= {name: channels * pixels + hint for name, (_, channels) in maps.items()}
    if profile.paint.reuse is not None:  # deep features have the channels of a hint
        values["denoiser"] += hint
    if profile.invert is not None:  # nothing of it stays on the device
        values["denoiser"] = _TEXT + 2 * latents + _ALIGNMENT + (count * hint if profile.follows_maps else 0)
    elif profile.runtime.queues:  # painting stays on the device
        sampler, rows = profile.paint.sampler, profile.paint.rows_per_variant
        drawn = sampler.steps if sampler.kind == "lcm" else 1
        values["denoiser"] = latents * drawn / rows + _PARCEL / profile.paint.batch
        values["vae_decoder"] = 3 * pixels / 4
        # Embeddings of several hints come down, are joined, and go up again.
        values |= {name: channels * pixels + (2 * hint if joined else 0) for name, (_, channels) in maps.items()}
    values["denoiser_shallow"] = values["denoiser"]
    return {name: round(4 * count) for name, count in values.items()}


def _kept_bytes(profile: Profile) -> int:
    """Bytes that painting keeps on a GPU besides its plans, if it stays there: arrays for each picture size."""
    if not profile.runtime.queues or profile.invert is not None:
        return 0
    paint, most = profile.paint, 0
    for height, width in profile.image.sizes:
        latent = 4 * height * width // _LATENT_SIDE**2
        batches = paint.batch, paint.decode_batch, paint.decode_batch, profile.text.batch
        one, hints = _HINT_CHANNELS * latent, len(profile.hints or (0,))
        row = {"latents": _LATENT_CHANNELS * latent, "hint": hints * one, "deep": 0 if paint.reuse is None else one}
        most += kept_bytes(*batches, **row, text=4 * _TEXT, picture=3 * height * width)
    return most


def _captions_per_image(caption: CaptionSettings) -> float:
    """Captions per image, counted in full batches: a caption that is written again shares its batch only with those of
    the same label, and a padded batch takes as long as a full one.
    """
    if caption.label_prefix is None:
        return 1.0
    return 1 + SILENT_SHARE * caption.batch / min(caption.batch, SILENT_TOGETHER)


def networks_of(profile: Profile) -> Networks:
    """The networks that a profile's suites need; none where all is done by rule."""
    if profile.by_rule:
        return Networks(())
    moved = _moved_bytes(profile)
    looked: dict[Stage, Rows] = {"check": Rows(per_source=1, per_variant=1)}
    if profile.invert is not None:  # an editor looks for the best of its pictures
        looked["paint"] = Rows(1, len(profile.invert.fractions), 1)
    judge = Network("clip_image", "clip_image", profile.check.batch, looked, streams=profile.paint.streams)
    if profile.painter_kind == "server":  # nothing is painted here
        return Networks((*(network for network in _readers_of(profile) if network.name != "hed"), judge))
    if profile.given:  # nothing is chosen or painted
        idle = ("hed",) if profile.rewrite.perplexity else ("hed", "llm")
        return Networks((*(network for network in _readers_of(profile) if network.name not in idle), judge))
    table = (*_readers_of(profile), *painters_of(profile, _kept_bytes(profile)), judge)
    return Networks(tuple(replace(network, moved_bytes=moved.get(network.name, 0)) for network in table))


def _readers_of(profile: Profile) -> Iterator[Network]:
    """The networks before those that paint, from pictures to captions, edits, conditions and maps."""
    caption, exllama, streams = profile.caption, profile.llm.exllama, profile.paint.streams
    # The graphs that OpenVINO takes serve any number of beams and rows.
    form = "" if profile.runtime.backend == "openvino" else caption.form
    if profile.captioned:
        yield from _captioner_of(profile, form)
    questions = _questions(profile)
    asked = [question.rows for question in questions]
    yield Network(
        "llm",
        "llm",
        _rows_at_once(profile),
        {"rewrite": Rows(sum(rows.per_source for rows in asked), sum(rows.per_variant for rows in asked))},
        questions=questions,
        cached_tokens=0 if exllama is None else exllama.cache_tokens * _CACHE_SHARE[exllama.cache],
    )
    if profile.grounding is not None:
        texts, files = _compared_texts(profile), ("sentence_tokenizer.json",)
        yield Network("sentence", "sentence", profile.grounding.batch, {"rewrite": texts}, files=files)
    if (words := profile.random_words) is not None:
        blanks: dict[Stage, Rows] = {"rewrite": Rows(per_source=words.words)}
        yield Network("masked", "masked", words.batch, blanks, files=("masked_tokenizer.json", "masked.json"))
    # An editor reads both captions. Checks compare with both, and with an edited one of several edits without each.
    read = Rows(per_variant=1) if profile.invert is None else Rows(2, 2, 0)
    rows: dict[Stage, Rows] = {"check": Rows(per_source=1, per_variant=2)}
    if profile.painter_kind in ("diffusion", "inversion"):
        rows["paint"] = read
    yield Network("clip_text", "clip_text", profile.text.batch, rows, streams=streams, files=("clip_tokenizer.json",))
    for name, settings in (("hed", profile.edges.hed), ("depth", profile.depth)):
        if settings is not None:
            yield Network(name, name, settings.batch, {"edges": Rows(per_source=1)}, {"image": "picture"})


def _captioner_of(profile: Profile, form: str) -> Iterator[Network]:
    """What sees a picture, and what says it."""
    caption, streams = profile.caption, profile.paint.streams
    once, again = _captions_per_image(caption), 1.0 if profile.check.recaption else 0.0
    yield Network("blip2_vision", f"blip2_vision{form}", caption.batch, {"caption": Rows(once, again)}, streams=streams)
    written = caption.decoding.max_tokens
    yield Network(
        "opt_decoder",
        f"opt_decoder{form}",
        caption.batch * caption.rows,
        {"caption": Rows(caption.rows * once, caption.rows * again)},
        streams=streams,
        files=("opt_embeddings.npy", "opt_tokenizer.json"),
        optional_files=("opt_tokens.json",),
        tokens=Tokens(_QUERIES, written),
        # The captioner's only cache, where each step is written behind those before.
        cached_tokens=caption.batch * caption.rows * (_QUERIES + caption.prompt_tokens + written - 1),
    )


def library_of(profile: Profile) -> Library:
    """The folder of a profile's networks, which are kept compiled in the user's cache.

    Raises CounterfactoryError where the environment names no place for the cache (`find_blob_cache`).
    """
    networks, cache = networks_of(profile), find_blob_cache()
    painted, sampling = profile.image.sizes, profile.paint.sampler
    return Library(profile.models.path, networks, profile.runtime, profile.llm, cache, painted, sampling)
