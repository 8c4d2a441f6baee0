"""Facts of plans before they are opened, for projections: operations, bytes of weights and of caches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..files.fill import fill_value
from ..files.reading import read_json
from ..profile.profile import PROFILES, Profile
from ..runtime.plans import read_exported
from ..runtime.session import SHALLOW

# A language model on the CPU beside a GPU: operations a token of SmolLM2-1.7B, and what 8 cores are taken to reach a
# second (two reached 3e10: docs/cpu.json).
_LLM_FLOPS, _BESIDE_FLOPS = 3.4e9, 1e11


def plan_facts(profile: Profile) -> dict[str, PlanFacts]:
    """The facts of a profile's plans before they are opened: from its own export, else those that ship with us.

    The decoder of latents is the one that was exported, or will be. Raises CounterfactoryError where there are neither.
    """
    exported = profile.models.path / "facts.json"
    facts = load_facts(exported if exported.is_file() else PROFILES / "a10g.json")
    for name, other in (("blip2_vision", "florence2_vision"), ("opt_decoder", "florence2_decoder")):
        fact = facts.pop(other, None)
        if fact is not None and profile.weights is not None and profile.weights.florence2:
            facts[name] = fact
    if profile.llm.on_cpu and (device := profile.device) is not None:
        # Nothing of it is on the GPU: its operations count as those that the GPU does in its time.
        facts["llm"] = PlanFacts(_LLM_FLOPS * 1e12 * device.tflops * device.share / _BESIDE_FLOPS, 0, 0)
    tiny = load_facts(PROFILES / "a10g.json")["vae_decoder_tiny"]
    named, classes = _decoders(profile)
    if exported.is_file():
        if named:  # the folder may have another profile's decoder alone
            facts.setdefault(profile.decoder, tiny)
    else:
        del facts["vae_decoder_tiny"]
        if named if classes is None else "AutoencoderTiny" in classes:
            facts["vae_decoder"] = tiny
        if profile.follows_maps:
            facts.pop("editor", None)  # what is known of it is without a ControlNet
    # Another form of a network costs as much as the network, unless the form's own export was counted.
    forms = {f"{name}{profile.caption.form}": name for name in ("blip2_vision", "opt_decoder")}
    forms[profile.paint.denoiser] = "denoiser" if profile.follows_maps or "editor" not in facts else "editor"
    forms[profile.paint.denoiser.removesuffix("_int8") + SHALLOW] = "denoiser_shallow"
    forms[profile.decoder] = "vae_decoder"
    forms |= dict.fromkeys((hint.plan for hint in profile.hints or ()), "hint")
    return {form: facts[name] for form, name in forms.items() if name in facts} | facts


def _decoders(profile: Profile) -> tuple[bool, tuple[str, ...] | None]:
    """Whether the profile names TAESD to decode latents, and the classes of the decoder that was exported, if any."""
    named = profile.weights is not None and profile.weights.tiny_vae is not None
    return named, read_exported(profile.models.path, profile.decoder).classes


def other_decoder(profile: Profile) -> str:
    """A sentence for a decoder of latents that was exported and is not the one that the profile names; "" otherwise."""
    named, classes = _decoders(profile)
    if profile.weights is None or classes is None or ("AutoencoderTiny" in classes) == named:
        return ""
    wanted = "tiny_vae" if named else "the pipeline's own decoder"
    return f"it is {' and '.join(classes)}'s, and [weights] names {wanted}: pictures are decoded by what was exported"


@dataclass(frozen=True)
class PlanFacts:
    """A plan's operations for one row (of a decoder: for one token) and the bytes of its weights on the device.

    `cache_bytes` is what a token takes in a decoder's cache in f16; 0 for what is no decoder. `graph_bytes` is the
    size of an OpenVINO graph's description, `integers` whether it multiplies integers of 8 bits. `held_bytes` is what
    a compiled plan alone takes on a GPU (weights, inputs and outputs, caches), `scratch_bytes` what it computes in,
    which plans share; None where it was not compiled. `activation_bytes` is what its graph computes in by its export's
    record, None without one.
    """

    flops: float
    weight_bytes: int
    cache_bytes: int
    graph_bytes: int = 0
    integers: bool = False
    held_bytes: int | None = None
    scratch_bytes: int | None = None
    activation_bytes: int | None = None


@dataclass(frozen=True)
class _Row:
    name: str
    flops: float
    weight_bytes: int
    cache_bytes: int


# 10^9 bytes of the host's memory that the captioner's decoder takes to compile, by its size: measured with TensorRT-RTX
# (docs/production.md), and as much more than its weights.
_DECODER_GB = {"6.7b": 17.5, "2.7b": 9.5}


def decoder_gb(captioner: str) -> float:
    """The host's memory that compiling the decoder of a BLIP-2 takes, in 10^9 bytes, by what its weights are called."""
    return next((need for size, need in _DECODER_GB.items() if size in captioner), _DECODER_GB["6.7b"])


def load_facts(file: Path) -> dict[str, PlanFacts]:
    """The facts by plan, from a `facts.json`. Raises CounterfactoryError when it cannot be read."""
    advice = "export the facts of plans again"
    rows: tuple[_Row, ...] = fill_value(tuple[_Row, ...], read_json(file, advice), str(file), advice)
    return {row.name: PlanFacts(row.flops, row.weight_bytes, row.cache_bytes) for row in rows}
