"""The licences of the models that a suite was made with, by the profiles on record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_RAIL = "CreativeML OpenRAIL-M (forbids some uses)"
# By how a repository's name on the hub begins, as its page states it.
_KNOWN = {
    "ByteDance/Hyper-SD": "OpenRAIL++ (forbids some uses)",
    "HuggingFaceTB/SmolLM2-": "Apache-2.0",
    "Qwen/Qwen-Image": "Apache-2.0",
    "Salesforce/blip2-": "MIT",
    "latent-consistency/lcm-lora-": "OpenRAIL++ (forbids some uses)",
    "lllyasviel/control_v11": _RAIL,
    "madebyollin/taesd": "MIT",
    "meta-llama/Llama-2-": "Llama 2 Community License (forbids some uses)",
    "microsoft/Florence-2-": "MIT",
    "openai/clip-vit-": "MIT",
    "runwayml/stable-diffusion-v1-5": _RAIL,
    "sentence-transformers/all-MiniLM-": "Apache-2.0",
    "stable-diffusion-v1-5/stable-diffusion-v1-5": _RAIL,
}


@dataclass(frozen=True)
class ModelLicence:
    """A `model`, as a profile names it, and its `licence`, "unknown: see ..." where this table has none."""

    model: str
    licence: str


def licences_of(profiles: Iterable[Mapping[str, Any]]) -> list[ModelLicence]:
    """Those of all models of profiles, as run.json holds them, each once, by the models' names."""
    models = {model for profile in profiles for model in _models(profile)}
    return [ModelLicence(model, licence) for model, licence in sorted(models)]


def licence_of(model: str) -> str:
    """The licence of weights ID@COMMIT or a path."""
    known = next((licence for start, licence in _KNOWN.items() if model.startswith(start)), None)
    repository = model.partition("@")[0]
    where = f"https://huggingface.co/{repository}" if "@" in model else "whom it comes from"
    return known or f"unknown: see {where}"


def _models(profile: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    of = {name: table if isinstance(table, Mapping) else {} for name, table in profile.items()}
    weights, folder = of.get("weights", {}), of.get("models", {}).get("folder", "none")
    for named in weights.values():
        for model in [named] if isinstance(named, str) else named or ():
            yield str(model), licence_of(str(model))
    if folder == "pocket":
        yield "Counterfactory's own networks", "Apache-2.0"
    elif folder != "none" and not weights:
        yield f"networks of the profile {profile.get('name')}", "unknown: see whom they come from"
    painter = of.get("painter", {})
    if isinstance(server := painter.get("server"), Mapping):
        yield str(server.get("model") or server.get("workflow")), "unknown: see the terms of its server"
    if painter.get("kind") == "given":
        yield "the painter of the pictures that were given", "unknown: see whom they come from"
    referees = profile.get("referees")
    for referee in referees if isinstance(referees, list) else ():
        if isinstance(referee, Mapping):
            yield str(referee.get("run")), "unknown: see whom it comes from"
