"""The table of networks: which ones a profile's suites need, with their batches, files and rows.

A network is added here, in a file of engine/models that says what it means, and with a builder in export/. Who opens,
hashes, estimates, examines or exports networks goes through this table.

    blip2_vision  opt_decoder        picture to caption
    llm                              caption to edits
    clip_text  clip_image            conditioning and checks
    hed                              picture to edges, where a network finds them
    hint  denoiser  vae_decoder      edges and text to picture
"""

from __future__ import annotations

from types import MappingProxyType

from ..models.library import Library
from ..models.network import Network, Networks, Rows, Tokens
from ..stages.caption import CaptionSettings
from .profile import Profile

# BLIP-2's queries, which its decoder reads before it writes.
_QUERIES = 32
# Of a value in f16.
_CACHE_SHARE = MappingProxyType({"fp16": 1.0, "q8": 0.5, "q4": 0.25})


def _cached_tokens(caption: CaptionSettings) -> int:
    """Room for the captioner's caches: a step reads one and writes another, in memory that grows by sixteenths of the
    most that the plan permits (a longest step after a longest cache).
    """
    start, written = _QUERIES + caption.prompt_tokens, caption.decoding.max_tokens
    return 2 * caption.batch * caption.rows * (start + written - 1 + -(-(2 * start + written - 1) // 16))


def networks_of(profile: Profile) -> Networks:
    """The networks that a profile's suites need."""
    caption, paint, hed, exllama = profile.caption, profile.paint, profile.edges.hed, profile.llm.exllama
    # The keywords, the alternatives of half of the keywords that are allowed, and each variant's caption.
    questions = Rows(per_source=1 + max(1, profile.rewrite.max_keywords // 2), per_variant=1)
    # Of a question only what follows the prefix that all questions share is read; published models need more words.
    question = Tokens(60, 40) if profile.llm.style == "pocket" else Tokens(120, 40)
    return Networks(
        (
            Network("blip2_vision", "blip2_vision", caption.batch, {"caption": Rows(per_source=1)}),
            Network(
                "opt_decoder",
                "opt_decoder",
                caption.batch * caption.rows,
                {"caption": Rows(per_source=caption.rows)},
                files=("opt_embeddings.npy", "opt_tokenizer.json"),
                optional_files=("opt_tokens.json",),
                tokens=Tokens(_QUERIES, caption.decoding.max_tokens),
                cached_tokens=_cached_tokens(caption),
            ),
            Network(
                "llm",
                "llm",
                1 if exllama is None else exllama.rows,
                {"rewrite": questions},
                tokens=question,
                cached_tokens=0 if exllama is None else exllama.cache_tokens * _CACHE_SHARE[exllama.cache],
            ),
            Network(
                "clip_text",
                "clip_text",
                profile.text.batch,
                # Checks compare with the source's caption too; the variant's own was encoded to paint it.
                {"paint": Rows(per_variant=1), "check": Rows(per_source=1)},
                files=("clip_tokenizer.json",),
            ),
            *(
                ()
                if hed is None
                else (Network("hed", "hed", hed.batch, {"edges": Rows(per_source=1)}, {"image": "picture"}),)
            ),
            Network("hint", "hint", 1, {"paint": Rows(per_source=1)}, {"hint": "picture"}),
            Network(
                "denoiser",
                paint.denoiser,
                paint.batch,
                {"paint": Rows(per_variant=paint.rows_per_variant)},
                {"latents": "latents", "hint_embedding": "latents"},
                paint.streams,
            ),
            Network(
                "vae_decoder",
                "vae_decoder",
                paint.decode_batch,
                {"paint": Rows(per_variant=1)},
                {"latents": "latents"},
                files=("latent.json",),
            ),
            Network("clip_image", "clip_image", profile.check.batch, {"check": Rows(per_source=1, per_variant=1)}),
        )
    )


def library_of(profile: Profile) -> Library:
    """The folder of a profile's networks."""
    return Library(profile.models.path, networks_of(profile), profile.runtime, profile.llm)
