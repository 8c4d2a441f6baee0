"""What a profile's networks cost by their graphs: operations by plan and by stage, and memory where none was measured.

A profile, its library of models and a picture size arrive; counts leave that follow from the files and the settings
alone. Where they do not follow (how long answers are, how much memory a runtime adds) there is a constant here, and
`assumptions` says it in words.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..config.profile import Profile
from ..models.library import Library
from ..recipes import Stage
from ..runtime.opening import arithmetic
from ..runtime.openvino import resolve_precision
from ..schedule.residency import PlanCost
from .flops import count_flops, flops_per_token, multiplies_integers, output_length, weight_bytes
from .peak import PeakPrecision

# Of the peak of large matrix products. Small networks stay below it, networks of Stable Diffusion's size above.
SHARE_OF_PEAK = 0.3
# Tokens of a question to the language model that its cache does not hold already, and of the answer, together.
_TOKENS_A_QUESTION = 100
# The language model's cache of keys and values, which it may fill.
_LLM_CACHE_BYTES = 50_000_000
# Memory of a loaded plan over the bytes of its (fp16) weights: as stored, and packed for the kernels.
_BYTES_PER_WEIGHT_BYTE = {"bf16": 2, "f32": 3}
# The runtime keeps a description of every operation; seen were 46 to 85 bytes a byte of the graph's XML.
_BYTES_PER_GRAPH_BYTE = 60
_LOAD_BYTES_PER_SECOND = 1e8


def plan_flops(profile: Profile, library: Library, size: tuple[int, int]) -> dict[str, int]:
    """Operations by plan, of one row: a picture of `size` (height, width in pixels), a text, an evaluation.

    opt_decoder: of a whole caption of [caption].max_tokens tokens. llm: of one token. Raises CounterfactoryError for a
    file that is missing or cannot be counted.
    """
    return {
        **{
            network.plan: count_flops(library.graph(network), 1, library.sizes(network, *size))
            for network in library.networks
            if network.tokens is None
        },
        "opt_decoder": _caption_flops(library, profile.caption.decoding.max_tokens),
        "llm": flops_per_token(library.graph(library.networks["llm"])),
    }


def _caption_flops(library: Library, tokens: int) -> int:
    """The queries and the first token at once, then token after token behind a cache that grows."""
    start = output_length(library.graph(library.networks["blip2_vision"]), "query_embeds", 1) + 1
    decoder = library.graph(library.networks["opt_decoder"])

    def step(new: int, past: int) -> int:
        lengths = {"inputs_embeds": new, "position_ids": new, "past_keys": past, "past_values": past}
        return count_flops(decoder, 1, lengths=lengths)

    # A step's cost is a straight line over the cache's length: the middle stands for all.
    return step(start, 0) + (tokens - 1) * step(1, start + max(0, tokens - 2) // 2)


def tokens_per_source(profile: Profile, variants: int) -> int:
    """Tokens that the language model is taken to compute for a source of `variants` variants.

    One question for the keywords, one for the alternatives of each of half of the keywords that are allowed, one for
    each variant's caption.
    """
    return _TOKENS_A_QUESTION * (1 + max(1, profile.rewrite.max_keywords // 2) + variants)


def plan_precision(library: Library, name: str) -> PeakPrecision:
    """What a network's products are computed in on a CPU: "int8" where its graph rounds to integers, else as asked for.

    Raises CounterfactoryError for a file that is missing or no model.
    """
    if multiplies_integers(library.graph(library.networks[name])):
        return "int8"
    assert library.runtime.precision != "f16", "GPUs are projected"
    return resolve_precision(library.runtime.precision)


def item_flops(profile: Profile, flops: Mapping[str, float], variants: int) -> dict[Stage, float]:
    """Operations of each stage's item (a source, then a variant), from those of each plan's row."""
    return {
        "caption": flops["blip2_vision"] + flops["opt_decoder"] * profile.caption.rows,
        "rewrite": flops["llm"] * tokens_per_source(profile, variants),
        "edges": flops.get("hed", 0.0),
        "paint": flops["clip_text"]
        # Once a source.
        + flops["hint"] / variants
        + flops[profile.paint.denoiser] * profile.paint.rows_per_variant
        + flops["vae_decoder"],
        # The source's own picture and caption are embedded once.
        "check": flops["clip_image"] * (1 + 1 / variants) + flops["clip_text"] / variants,
    }


def plan_costs(profile: Profile, library: Library) -> dict[str, PlanCost]:
    """What each plan is taken to cost: its memory once loaded, and the seconds of loading it."""
    precision = arithmetic(profile.runtime)
    costs = {}
    for network in library.networks:
        plan, path = network.plan, library.graph(network)
        graph = path.stat().st_size if path.suffix == ".xml" else 0
        loaded = weight_bytes(path) * _BYTES_PER_WEIGHT_BYTE[precision] + graph * _BYTES_PER_GRAPH_BYTE
        cache = _LLM_CACHE_BYTES if plan == "llm" else 0
        costs[plan] = PlanCost(plan, loaded + cache, loaded / _LOAD_BYTES_PER_SECOND)
    return costs


def compute_assumptions(profile: Profile, variants: int) -> tuple[str, ...]:
    """What `item_flops` and its use take for granted, in words."""
    return (
        f"networks reach {100 * SHARE_OF_PEAK:.0f} % of the peak",
        f"captions have all {profile.caption.decoding.max_tokens} tokens of [caption.decoding].max_tokens",
        f"rewriting computes {tokens_per_source(profile, variants):,} tokens per source",
        "reading, writing and waiting take no time",
    )


def cost_assumptions(profile: Profile) -> tuple[str, ...]:
    """What `plan_costs` takes for granted, in words."""
    factor = _BYTES_PER_WEIGHT_BYTE[arithmetic(profile.runtime)]
    return (
        f"~ GB: {factor} x the stored weights and {_BYTES_PER_GRAPH_BYTE} x the graph's XML",
        f"~ GB of llm: its cache of {_LLM_CACHE_BYTES / 1e9:.2f} GB as well",
        f"~ load s: {_LOAD_BYTES_PER_SECOND / 1e9:g} GB/s, without that cache",
    )
