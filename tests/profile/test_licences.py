"""Licences of models, by the profiles that name them."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from counterfactory.engine.profile.licences import licence_of, licences_of
from counterfactory.engine.profile.profile import PROFILES, load_profile


def by_model(*profiles: str) -> dict[str, str]:
    return {one.model: one.licence for one in licences_of(asdict(load_profile(name)) for name in profiles)}


def test_published_checkpoints_have_the_licence_that_they_were_fetched_under() -> None:
    for row in json.loads((PROFILES / "published.json").read_text()):
        assert licence_of(f"{row['repository']}@{row['revision']}") == row["licence"]


@pytest.mark.parametrize("name", sorted(file.stem for file in PROFILES.glob("*.toml")))
def test_no_model_of_our_profiles_is_unknown_but_a_server_s(name: str) -> None:
    licences = by_model(name)
    unknown = [model for model, licence in licences.items() if licence.startswith("unknown")]
    assert unknown == {"server": ["default"], "given": ["the painter of the pictures that were given"]}.get(name, [])
    assert bool(licences) == (name != "light")


def test_models_of_all_sessions_are_named_once_and_strangers_are_unknown() -> None:
    both = by_model("pocket", "cpu")
    assert both == by_model("pocket") | by_model("cpu")
    assert by_model("pocket") == {"Counterfactory's own networks": "Apache-2.0"}
    assert any(model.startswith("microsoft/Florence-2-base@") and both[model] == "MIT" for model in both)
    mine = {"weights": {"llm": "me/mine@" + "0" * 40, "diffusion": "painted/here", "loras": []}, "referees": [
        {"run": "mine:look"}]}  # fmt: skip
    assert {one.model: one.licence for one in licences_of([mine, {}, {"weights": 3, "referees": "x"}])} == {
        "me/mine@" + "0" * 40: "unknown: see https://huggingface.co/me/mine",
        "painted/here": "unknown: see whom it comes from",
        "mine:look": "unknown: see whom it comes from",
    }
