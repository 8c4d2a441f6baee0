"""The projection: what a run would cost on a GPU that is not here, from counted operations and the GPU's data sheet.

A profile with a `[device]` and the facts of its plans arrive (operations and parameters, counted in the exported
graphs); seconds an item by stage, and what each plan holds, leave. It is arithmetic, not measurement: compute-bound
work takes operations over the peak, work that reads all weights for a few tokens takes their bytes over the memory's
speed, and both are divided by the share of the data sheet that is assumed to be reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..config.device import DeviceSettings, PlanFacts
from ..config.networks import networks_of
from ..config.profile import Profile
from ..errors import CounterfactoryError
from ..recipes import Stage
from ..schedule.residency import PlanCost

_GIGA = 1e9
# What a plan holds beside its weights, over them: activations and workspace of a batch; a decoder's are of a token.
_BESIDE_WEIGHTS, _BESIDE_DECODER = 0.25, 0.05
_READ_BYTES_PER_SECOND = 1.5e9  # a plan from a local NVMe disk to the device
# Tokens of a question beyond the shared prefix, and of its answer.
_ASKED_TOKENS, _ANSWERED_TOKENS = 120, 40
_CACHE_SHARE = {"fp16": 1.0, "q8": 0.5, "q4": 0.25}  # of a value in f16
_QUERIES = 32  # BLIP-2's, read before the first token


def project(
    profile: Profile, device: DeviceSettings, facts: Mapping[str, PlanFacts], variants: int
) -> dict[Stage, float]:
    """Seconds an item (a source for captions and rewriting, else a variant) by stage, of full batches."""
    paint = profile.paint
    edges = 0.0 if profile.edges.hed is None else _known(facts, "hed").flops
    return {
        "caption": device.compute_s(facts["blip2_vision"].flops) + _caption_s(profile, device, facts["opt_decoder"]),
        "rewrite": _rewrite_s(profile, device, facts["llm"], variants),
        "edges": device.compute_s(edges),
        "paint": device.compute_s(
            facts["clip_text"].flops
            + facts["hint"].flops / variants
            + _known(facts, paint.denoiser).flops * paint.rows_per_variant
            + facts["vae_decoder"].flops
        ),
        # The source's own picture and caption are embedded once.
        "check": device.compute_s(facts["clip_image"].flops * (1 + 1 / variants) + facts["clip_text"].flops / variants),
    }


def _caption_s(profile: Profile, device: DeviceSettings, decoder: PlanFacts) -> float:
    """An image's share of its batch: the prompt at once, then token after token, each of which reads all weights."""
    caption = profile.caption
    rows = caption.batch * caption.rows
    read = device.read_s(decoder.weight_bytes)
    steps = caption.decoding.max_tokens * max(read, device.compute_s(decoder.flops * rows))
    return (device.compute_s(decoder.flops * rows * _QUERIES) + steps) / caption.batch


def _rewrite_s(profile: Profile, device: DeviceSettings, llm: PlanFacts, variants: int) -> float:
    questions = questions_a_source(profile, variants)
    rows = _llm_rows(profile)
    token = max(device.read_s(llm.weight_bytes), device.compute_s(llm.flops * rows)) / rows
    return questions * (device.compute_s(llm.flops * _ASKED_TOKENS) + _ANSWERED_TOKENS * token)


def questions_a_source(profile: Profile, variants: int) -> int:
    """The keywords, the alternatives of half of the keywords that are allowed, and each variant's caption."""
    return 1 + max(1, profile.rewrite.max_keywords // 2) + variants


def projected_costs(profile: Profile, facts: Mapping[str, PlanFacts]) -> dict[str, PlanCost]:
    """What each plan is taken to hold on the device, and the seconds of loading it."""
    return {plan: projected_cost(profile, plan, _known(facts, plan)) for plan in networks_of(profile).plans}


def projected_cost(profile: Profile, plan: str, fact: PlanFacts) -> PlanCost:
    """What a plan is taken to hold on the device, and the seconds of loading it."""
    beside = _BESIDE_WEIGHTS * fact.weight_bytes
    if plan == "llm":
        beside = _cache_bytes(profile, fact)
    elif plan == "opt_decoder":
        caption = profile.caption
        positions = caption.batch * caption.rows * (_QUERIES + caption.decoding.max_tokens)
        # A step reads one cache and writes another.
        beside = _BESIDE_DECODER * fact.weight_bytes + 2 * positions * fact.cache_bytes
    return PlanCost(plan, round(fact.weight_bytes + beside), fact.weight_bytes / _READ_BYTES_PER_SECOND)


def _known(facts: Mapping[str, PlanFacts], plan: str) -> PlanFacts:
    if plan not in facts:
        raise CounterfactoryError(
            f"nothing is known of plan {plan}; export it, then `python -m counterfactory.export facts --out FOLDER`"
        )
    return facts[plan]


def _llm_rows(profile: Profile) -> int:
    return 1 if profile.llm.exllama is None else profile.llm.exllama.rows


def _cache_bytes(profile: Profile, llm: PlanFacts) -> float:
    exllama = profile.llm.exllama
    return 0.0 if exllama is None else exllama.cache_tokens * llm.cache_bytes * _CACHE_SHARE[exllama.cache]


def assumptions(profile: Profile, device: DeviceSettings, variants: int) -> Sequence[str]:
    """What the projection takes for granted, in words."""
    return (
        f"a projection: nothing of it was measured on the GPU ({device.name})",
        f"{100 * device.share:.0f} % of {device.tflops:g} TFLOP/s and of {device.gb_per_s:g} GB/s are reached",
        f"captions have all {profile.caption.decoding.max_tokens} tokens, {profile.caption.rows} rows per image",
        f"{questions_a_source(profile, variants)} questions a source, {_ASKED_TOKENS} tokens asked beyond the shared "
        f"prefix and {_ANSWERED_TOKENS} answered, {_llm_rows(profile)} at once",
        f"a plan takes {1 + _BESIDE_WEIGHTS:g} x its weights (the captioner's decoder {1 + _BESIDE_DECODER:g} x, and "
        f"two caches), and loads at {_READ_BYTES_PER_SECOND / _GIGA:g} GB/s",
    )
