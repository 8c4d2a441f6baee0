"""Profiles: which there are, what a file has to say, and which tables go together."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.estimate.measured import profile_key
from counterfactory.engine.keys import content_key
from counterfactory.engine.models.network import Rows
from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.profile.check import threshold_names
from counterfactory.engine.profile.maps import DepthSettings, HintSettings
from counterfactory.engine.profile.paint import ProtectSettings, ReuseSettings, SamplerSettings
from counterfactory.engine.profile.profile import PROFILES, Profile, load_profile, painting_as_teacher
from counterfactory.engine.profile.rewrite import GroundingSettings, LlmSettings, RandomWordSettings

RANDOM, GROUNDING = RandomWordSettings(16, 5, 3), GroundingSettings(8, 0.5)
GROUNDED = {"llm": LlmSettings("openvino", "llm", "chatml"), "grounding": GROUNDING}
DEPTH, UNIPC = (HintSettings("depth", "hint", 0.5),), SamplerSettings("unipc", 4, "v_prediction", "trailing", True)


def altered(name: str, **tables: Any) -> Profile:
    """A profile with other tables, or with other values of some."""
    profile = load_profile(name)
    merged = {
        table: replace(getattr(profile, table), **values) if isinstance(values, dict) else values
        for table, values in tables.items()
    }
    return replace(profile, **merged)


def test_an_unknown_profile_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(CounterfactoryError, match=r"no profile 'poket'; there are .*pocket"):
        load_profile("poket")
    with pytest.raises(CounterfactoryError, match=r"cannot read .*none\.toml"):
        load_profile(str(tmp_path / "none.toml"))
    with pytest.raises(CounterfactoryError, match="there are"):
        load_profile("")


def test_a_profile_of_the_users_own_is_checked_to_the_last_key(tmp_path: Path) -> None:
    shipped = (PROFILES / "pocket.toml").read_text()
    text = "".join(line for line in shipped.splitlines(keepends=True) if not line.startswith("teacher"))
    path = tmp_path / "mine.toml"
    path.write_text(text)
    assert load_profile(str(path)) == replace(load_profile("pocket"), teacher=None)
    lines = text[: text.index("min_valid")].splitlines()  # that and what rests on it may be left out
    for number, line in enumerate(lines):
        key, equals, _ = line.partition(" = ")
        if equals and not key.startswith("#"):
            path.write_text("\n".join(lines[:number] + lines[number + 1 :]))
            if key in threshold_names():  # a threshold that is left out rejects nothing
                assert f"{key} = " not in str(load_profile(str(path)).check.thresholds)
                continue
            if key in ("prediction", "spacing", "zero_snr"):  # left to what the denoiser was exported with
                assert getattr(load_profile(str(path)).paint.sampler, key) is None
                continue
            told = rf"mine\.toml: (\[[a-z]+\] )?(key '[a-z.]*{key}' is missing|{key} )"
            with pytest.raises(CounterfactoryError, match=told):
                load_profile(str(path))
            path.write_text("\n".join([*lines[:number], line.replace(key, key + "x", 1), *lines[number + 1 :]]))
            with pytest.raises(CounterfactoryError, match=rf"mine\.toml: unknown key '[a-z.]*{key}x'; did you mean"):
                load_profile(str(path))


def test_a_teacher_is_who_a_student_is_compared_with_and_no_part_of_a_suite(tmp_path: Path) -> None:
    fast = load_profile("a10g-fast")
    assert fast.teacher == "a10g"
    without = replace(fast, teacher=None)
    assert painting_as_teacher(without) is without
    assert fast.decisive == without.decisive
    assert profile_key(fast) == profile_key(without)
    assert "teacher" not in fast.decisive
    whole = {**fast.decisive["paint"], "reuse": None}
    assert {**fast.decisive, "teacher": "a10g", "painter": None, "paint": whole} == asdict(fast)
    taught, teacher = painting_as_teacher(replace(fast, weights=None)), load_profile("a10g")
    assert taught == replace(fast, paint=teacher.paint, weights=teacher.weights, teacher=None)
    names = ", ".join(sorted(path.stem for path in PROFILES.glob("*.toml")))
    with pytest.raises(CounterfactoryError) as refused:
        painting_as_teacher(replace(fast, teacher="a11g"))
    assert str(refused.value) == f"no profile 'a11g'; there are {names}, or give the path of a .toml file"
    with pytest.raises(ValueError, match="name is empty"):
        replace(fast, name="")


def test_deep_features_that_are_used_again_are_in_the_keys_and_absent_ones_leave_them_as_they_were() -> None:
    pocket = load_profile("pocket-full")
    before = {name: value for name, value in asdict(pocket.paint).items() if name != "reuse"}
    assert content_key(pocket.paint.decisive) == content_key(before)
    again = replace(pocket, paint=replace(pocket.paint, reuse=ReuseSettings(2)))
    assert again.paint.decisive == before | {"reuse": {"every": 2}}
    assert profile_key(again) != profile_key(pocket)
    oftener = replace(again, paint=replace(pocket.paint, reuse=ReuseSettings(3)))
    assert content_key(oftener.paint.decisive) != content_key(again.paint.decisive)


@pytest.mark.parametrize(
    ("tables", "name", "batch", "rows"),
    [
        ({"random_words": RANDOM}, "masked", 16, {"rewrite": Rows(5)}),
        # A label, what names it and the caption; of a variant its caption and an edit's words, old and new. Where
        # captions are written anew, what they say beside their edits as well.
        (GROUNDED, "sentence", 8, {"rewrite": Rows(3, 3)}),
        (GROUNDED | {"rewrite": {"verbatim": False}}, "sentence", 8, {"rewrite": Rows(3, 4)}),
        ({"protect": ProtectSettings(("0",), 0.0, 1.0)}, "vae_encoder", 8, {"paint": Rows(1)}),
        ({"hints": DEPTH, "depth": DepthSettings(3)}, "depth", 3, {"edges": Rows(1)}),
    ],
)
def test_a_table_adds_its_network(tables: dict[str, Any], name: str, batch: int, rows: dict[str, Rows]) -> None:
    assert name not in networks_of(load_profile("pocket"))
    network = networks_of(altered("pocket", **tables))[name]
    assert (network.plan, network.batch, network.rows) == (name, batch, rows)
    files = {"masked": ("masked_tokenizer.json", "masked.json"), "sentence": ("sentence_tokenizer.json",)}
    sizes = {"vae_encoder": {"pixel_values": "picture"}, "depth": {"image": "picture"}}
    moved = {"sentence": 4 * (2 * 2 * 64 + 384), "vae_encoder": 4 * (4 + 3 * 64) * 16**2}
    assert (network.files, network.sizes) == (files.get(name, ()), sizes.get(name, {}))
    assert network.moved_bytes == moved.get(name, network.moved_bytes)


@pytest.mark.parametrize(
    ("name", "tables", "message"),
    [
        ("lance", {"random_words": RANDOM}, r'\[random_words\] needs \[runtime\] backend = "openvino", got "tensorrt"'),
        ("pocket", {"grounding": GROUNDING}, r'\[grounding\] goes with a language model that converses; .* "pocket"$'),
        ("lance", {"rewrite": {"perplexity": True}}, r'\[rewrite\] perplexity = true needs .*, got "exllamav2"'),
        ("pocket-lance", {"paint": {"sampler": UNIPC}}, r'\[invert\] .* "ddim" .*, got "unipc": only its steps go '),
        ("pocket-lance", {"paint": {"streams": 2}}, r"^\[invert\] .* streams = 1 in .*, got 2: rows share batches$"),
        ("pocket-lance", {"paint": {"negative_prompt": "dim"}}, r'\[invert\] .*: negative_prompt = "" .*, got "dim"$'),
        ("pocket-lance", {"paint": {"batch": 3}}, r"^\[invert\] tries 3 fractions .*: \[paint\] .* at least 4, got 3$"),
        ("pocket-lance", {"hints": DEPTH, "paint": {"control_scale": 0.0}}, r"^\[invert\] follows .*, which is 0: say"),
        ("pocket-lance", {"paint": {"reuse": {"every": 2}}}, r"^\[invert\] .*: take \[paint.reuse\] out$"),
        ("a10g-fast", {"teacher": "a10g-fast"}, "teacher is another profile, or left out where there is none; found "),
        ("a10g", {"image": {"buckets": None}}, r"buckets = \[\[512, 512\]\], or a max_long_side that is the short_"),
    ],
)
def test_tables_that_do_not_go_together_are_refused(name: str, tables: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        altered(name, **tables)
