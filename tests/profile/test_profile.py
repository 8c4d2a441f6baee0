"""Profiles, and the strict filling of frozen dataclasses from TOML that they and task files rest on."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from checks import changed
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.estimate.estimate import estimate
from counterfactory.engine.estimate.formulas import plan_cost
from counterfactory.engine.estimate.measured import profile_key
from counterfactory.engine.files.fill import fill, read_toml
from counterfactory.engine.models.network import Rows
from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.models.plan_facts import PlanFacts, plan_facts
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.profile.check import ValidPart, threshold_names
from counterfactory.engine.profile.maps import DepthSettings, HintSettings
from counterfactory.engine.profile.paint import (
    GuidanceSettings,
    InvertSettings,
    ProtectSettings,
    SamplerSettings,
    rows_per_source,
)
from counterfactory.engine.profile.profile import PROFILES, Profile, load_profile, painting_as_teacher, profile_names
from counterfactory.engine.profile.referees import RefereeSettings
from counterfactory.engine.profile.rewrite import GroundingSettings, LlmSettings, RandomWordSettings
from counterfactory.engine.profile.runtime import ModelPaths
from counterfactory.kernels.canny import CannySettings

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


@dataclass(frozen=True)
class Brush:
    width: float
    hard: bool = True


@dataclass(frozen=True)
class Studio:
    name: str
    steps: int
    kind: Literal["ddim", "unipc"]
    scales: tuple[float, ...]
    size: tuple[int, int]
    brush: Brush
    spare: tuple[Brush, ...]
    note: str | None
    extra: Brush | None = None

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, found {self.steps}")


FILE = """
name = "x"
steps = 20
kind = "unipc"
scales = [1, 0.5]
size = [3, 4]
spare = [{ width = 2, hard = false }]
[brush]
width = 1
hard = true
"""


def filled(text: str) -> Studio:
    return fill(Studio, tomllib.loads(text), "studio.toml")


def test_fields_are_filled_in_their_types() -> None:
    studio = filled(FILE)
    assert studio == Studio("x", 20, "unipc", (1.0, 0.5), (3, 4), Brush(1.0), (Brush(2.0, False),), None, None)
    assert type(studio.brush.width) is float
    assert filled('note = ""\n' + FILE + "[extra]\nwidth = 3.5\nhard = false").extra == Brush(3.5, False)
    assert filled('note = ""\n' + FILE).note == ""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps = 20", "step = 20", "unknown key 'step'; did you mean 'steps'?"),
        ("steps = 20", "", "key 'steps' is missing (a whole number)"),
        ("steps = 20", "steps = 20.0", "'steps' should be a whole number, found 20.0"),
        ("steps = 20", "steps = 0", "steps must be at least 1, found 0"),
        ('name = "x"', "name = 1", "'name' should be text, found 1"),
        ('kind = "unipc"', 'kind = "unipcc"', "'kind' cannot be 'unipcc'; did you mean 'unipc'?"),
        ('kind = "unipc"', "kind = 1", "'kind' cannot be 1; choose from: ddim, unipc"),
        ('kind = "unipc"', "", "key 'kind' is missing (one of 'ddim', 'unipc')"),
        ("scales = [1, 0.5]", "scales = 1", "'scales' should be a list, each item a finite number, found 1"),
        ("scales = [1, 0.5]", 'scales = [1, "2"]', "'scales[1]' should be a finite number, found '2'"),
        ("scales = [1, 0.5]", "scales = [nan]", "'scales[0]' should be a finite number, found nan"),
        ("scales = [1, 0.5]", f"scales = [1{'0' * 400}]", "'scales[0]' should be a finite number"),
        ("size = [3, 4]", "size = [3]", "'size' should be a list of 2: a whole number, a whole number, found [3]"),
        ("hard = true", "", "key 'brush.hard' is missing (true or false)"),
        ("hard = true", "hard = true\nwidht = 2", "unknown key 'brush.widht'; did you mean 'brush.width'?"),
        ("hard = true", "hard = true\nzz = 2", "unknown key 'brush.zz'; choose from: width, hard"),
        ("hard = false", "soft = 1, hard = false", "unknown key 'spare[0].soft'"),
        ("[brush]\nwidth = 1\nhard = true", "brush = 1", "'brush' should be a table, found 1"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_key(old: str, new: str, message: str) -> None:
    assert old in FILE
    with pytest.raises(CounterfactoryError) as caught:
        filled(FILE.replace(old, new))
    assert str(caught.value).startswith("studio.toml: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["n is below 0", "[inner] n is below 0"])
def test_an_error_of_a_nested_range_names_its_table_once(text: str) -> None:
    @dataclass(frozen=True)
    class Positive:
        n: int

        def __post_init__(self) -> None:
            if self.n < 0:
                raise ValueError(text)

    outer = dataclasses.make_dataclass("Outer", [("inner", Positive)], frozen=True)
    with pytest.raises(CounterfactoryError, match=r"^f\.toml: \[inner\] n is below 0$"):
        fill(outer, {"inner": {"n": -1}}, "f.toml")


def test_a_field_that_toml_cannot_hold_is_the_programmers_error() -> None:
    for hint in (bytes, dict[str, int], int | str):
        cls = dataclasses.make_dataclass("Odd", [("field", hint)], frozen=True)
        with pytest.raises(TypeError, match="fill"):
            fill(cls, {"field": 1}, "f.toml")


KEYS = st.sampled_from([field.name for field in dataclasses.fields(Studio)]) | st.text(max_size=5)
VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.lists(st.integers(), max_size=3)
)


@settings(max_examples=40)
@given(st.dictionaries(KEYS, VALUES))
def test_any_table_is_filled_or_refused_in_one_sentence(table: dict[str, Any]) -> None:
    with pytest.raises(CounterfactoryError, match=r"^f\.toml: "):
        fill(Studio, table, "f.toml")  # a brush is never among these values, so it cannot be filled


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\r\n")
    assert read_toml(path) == {"a": 1}
    path.write_bytes(b"a = ")
    with pytest.raises(CounterfactoryError, match=r"f\.toml is not valid TOML: "):
        read_toml(path)
    path.write_bytes(b"a = '\xff'")
    with pytest.raises(CounterfactoryError, match=r"f\.toml is not UTF-8 text"):
        read_toml(path)
    for missing in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(CounterfactoryError, match=f"cannot read {missing}"):
            read_toml(missing)


def test_half_of_the_production_steps_are_guided() -> None:
    paint = load_profile("a10g").paint
    assert [i for i in range(20) if paint.guidance.guides(i, paint.sampler.steps)] == list(range(5, 15))
    assert paint.rows_per_variant == 30


def test_few_step_weights_are_sampled_where_they_were_distilled() -> None:
    """LCM-LoRA knows the timesteps of diffusers' LCMScheduler, and has guidance in its weights."""
    paint = load_profile("a10g-fast").paint
    assert paint.sampler.kind == "lcm"
    assert Sampler(paint.sampler).timesteps.tolist() == [999, 759, 499, 259]
    assert paint.rows_per_variant == 4


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
            with pytest.raises(
                CounterfactoryError, match=rf"mine\.toml: (\[[a-z]+\] )?(key '[a-z.]*{key}' is missing|{key} )"
            ):
                load_profile(str(path))
            path.write_text("\n".join([*lines[:number], line.replace(key, key + "x", 1), *lines[number + 1 :]]))
            with pytest.raises(CounterfactoryError, match=rf"mine\.toml: unknown key '[a-z.]*{key}x'; did you mean"):
                load_profile(str(path))


@pytest.mark.parametrize("name", ["a10g", "a10g-fast", "lance"])
def test_boxes_ground_labels_and_write_captions_that_name_none_again(name: str) -> None:
    found = load_profile(name)
    assert found.grounding == GroundingSettings(32, 0.45, 0.95)
    assert found.caption.label_prefix == "a photo of a {label}"
    assert found.caption.prompt_tokens == 46
    networks, caption = networks_of(found), found.caption
    positions = 32 + 46 + caption.decoding.max_tokens - 1
    assert networks["opt_decoder"].cached_tokens == caption.batch * caption.rows * positions
    assert found.weights is not None
    assert str(found.weights.sentence).startswith("sentence-transformers/all-MiniLM-L6-v2@")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_text_label": 0.5}, r"max_text_label: a sentence encoder measures that: it needs a table \[grounding\]"),
        ({"min_text_caption": 0.5}, "min_text_caption: a sentence encoder"),
        ({"max_perplexity_ratio": 2.0}, r"max_perplexity_ratio: it needs \[rewrite\] perplexity = true"),
        ({"min_said_edits": 0.5}, r"min_said_edits: .*said_edits, needs \[check\] recaption = true"),
        ({"min_said_label": 0.5, "recaption": True, "recaption_of": ("time",)}, 'said_label needs "label" in'),
        ({"recaption": True, "recaption_of": ("color",)}, "recaption_of: there is no type of edits 'color'; did you"),
        (
            {"valid": (ValidPart("label", ("said_label",), (1.0,), 0.0),)},
            r"valid: .*said_label, needs \[check\] recaption = true",
        ),
        ({"min_miou": 0.5}, r'min_miou: it needs \[\[referees\]\] of kind = "masks"'),
        ({"min_ensemble": 0.5}, r'min_ensemble: it needs \[\[referees\]\] of kind = "labels"'),
        ({"min_boxes": 0.5}, r'min_boxes: it needs \[\[referees\]\] of kind = "boxes"'),
    ],
)
def test_a_threshold_that_nothing_measures_is_refused(changes: dict[str, Any], message: str) -> None:
    found = load_profile("pocket-lance")
    with pytest.raises(ValueError, match=rf"\[check\] .*{message}"):
        replace(found, check=changed(found.check, **changes))


def test_referees_and_the_captioner_s_second_look_are_read_from_a_profile(tmp_path: Path) -> None:
    text = (PROFILES / "pocket.toml").read_text()
    asked = 'recaption = true\nrecaption_of = ["colour", "label"]'
    pocket = text.replace("[check] ", f"[check]\n{asked}\nmin_said_label = 0.5\nmin_miou = 0.4 ")
    (tmp_path / "mine.toml").write_text(
        pocket + '\n[[referees]]\nkind = "masks"\nrun = "mine:look"\nbatch = 4\nclasses = ["road", "bus"]\n'
    )
    found = load_profile(str(tmp_path / "mine.toml"))
    assert found.referees == (RefereeSettings("masks", "mine:look", 4, ("road", "bus")),)
    assert [found.check.reads(what) for what in ("colour", "label", "weather")] == [True, True, False]
    assert found.check.strict.items() >= {"min_said_label": 0.5, "min_miou": 0.4}.items()
    assert networks_of(found)["blip2_vision"].rows == {"caption": Rows(1.0, 1.0)}
    assert networks_of(load_profile("pocket-lance"))["blip2_vision"].rows == {"caption": Rows(1.0, 0.0)}


def test_perplexity_is_the_language_model_s_on_a_cpu() -> None:
    pocket = load_profile("pocket")
    read = replace(pocket, rewrite=replace(pocket.rewrite, perplexity=True))
    before, after = (networks_of(one)["llm"].rows["rewrite"] for one in (pocket, read))
    assert (after.per_source, after.per_variant) == (before.per_source + 1, before.per_variant + 1)
    replace(read, check=read.check.having(max_perplexity=9.0))


def test_words_of_all_edits_are_compared_where_they_are_chosen_by_it() -> None:
    lance = load_profile("lance")
    for free, texts in (((), 51), (("max_text_label",), 51), (("max_text_label", "max_text_replaced"), 3)):
        one = replace(lance, check=lance.check.having(**dict.fromkeys(free)))
        rows = networks_of(one)["sentence"].rows["rewrite"]
        assert (rows.per_source, rows.per_variant) == (texts, 3)


def test_a_teacher_is_who_a_student_is_compared_with_and_no_part_of_a_suite(tmp_path: Path) -> None:
    fast = load_profile("a10g-fast")
    assert fast.teacher == "a10g"
    without = replace(fast, teacher=None)
    assert painting_as_teacher(without) is without
    assert fast.decisive == without.decisive
    assert profile_key(fast) == profile_key(without)
    assert "teacher" not in fast.decisive
    assert {**fast.decisive, "teacher": "a10g", "painter": None} == asdict(fast)
    with pytest.raises(CounterfactoryError, match="no profile 'a11g'; there are"):
        painting_as_teacher(replace(fast, teacher="a11g"))


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
        (
            "pocket-lance",
            {"paint": {"sampler": UNIPC}},
            r'\[invert\] .* "ddim" .*, got "unipc": only its steps go back$',
        ),
        ("pocket-lance", {"paint": {"streams": 2}}, r"^\[invert\] .* streams = 1 in .*, got 2: rows share batches$"),
        (
            "pocket-lance",
            {"paint": {"negative_prompt": "dim"}},
            r'\[invert\] .*: negative_prompt = "" .*, got "dim"$',
        ),
        ("pocket-lance", {"paint": {"batch": 3}}, r"^\[invert\] tries 3 fractions .*: \[paint\] .* at least 4, got 3$"),
        (
            "pocket-lance",
            {"hints": DEPTH, "paint": {"control_scale": 0.0}},
            r"^\[invert\] follows .*, which is 0: say",
        ),
        ("a10g-fast", {"teacher": "a10g-fast"}, "teacher is another profile, or left out where there is none; found "),
        ("a10g", {"image": {"buckets": None}}, r"buckets = \[\[512, 512\]\], or a max_long_side that is the short_"),
    ],
)
def test_tables_that_do_not_go_together_are_refused(name: str, tables: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        altered(name, **tables)


def test_the_profile_that_inverts_has_an_editor_in_the_painter_s_place() -> None:
    lance, pocket = load_profile("pocket-lance"), load_profile("pocket")
    assert lance.invert is not None
    assert (lance.rewrite.edits, load_profile("lance").rewrite.edits, pocket.rewrite.edits) == ((1, 1), (1, 1), None)
    found, painter = networks_of(lance), networks_of(pocket)
    plans = [network.plan for network in found if "paint" in network.rows]
    assert plans == ["clip_text", "hint", "denoiser", "vae_encoder", "vae_decoder", "clip_image"]
    tried = len(lance.invert.fractions)
    assert found["clip_text"].rows["paint"] == Rows(2, 2, 0)
    assert found["hint"].rows["paint"] == found["vae_encoder"].rows["paint"] == Rows(1)
    assert found["vae_decoder"].rows["paint"] == Rows(1, tried, 1)
    assert found["denoiser"].rows["paint"].per_source == rows_per_source(lance.paint, lance.invert)
    assert found["denoiser"].sizes == {"latents": "latents", "hint_embedding": "latents"}
    assert (found["denoiser"].editor, painter["denoiser"].editor) == ("with controls", None)
    alone = networks_of(replace(lance, paint=replace(lance.paint, control_scale=0.0)))
    assert "hint" not in alone
    assert alone["denoiser"].sizes == {"latents": "latents"}
    assert alone["denoiser"].editor == "without controls"
    assert alone["denoiser"].moved_bytes == found["denoiser"].moved_bytes - found["hint"].moved_bytes + 4 * 128**2


# LANCE: its own settings, an editor without a ControlNet, and what is known of its plans.


@pytest.fixture
def lance(tmp_path: Path) -> Profile:
    """The profile, with a folder in which nothing was exported."""
    return replace(load_profile("lance"), models=ModelPaths(str(tmp_path)))


def with_edges(lance: Profile) -> Profile:
    """The profile of one who names a ControlNet."""
    return replace(lance, paint=replace(lance.paint, control_scale=1.0), weights=load_profile("a10g").weights)


def test_it_edits_as_lance_does(lance: Profile) -> None:
    paint, invert = lance.paint, lance.invert
    assert (paint.sampler.kind, paint.sampler.steps, paint.guidance) == ("ddim", 50, GuidanceSettings(7.5, 0.0, 1.0))
    shares, local = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9), ("subject", "object", "adjective")
    assert invert == InvertSettings(0.0, 0, shares, 0.8, 2.0, local, local_threshold=0.3, detail_levels=0.0)
    assert set(invert.local_types) < set(lance.rewrite.types)
    networks = networks_of(lance)
    plans = [network.plan for network in networks if "paint" in network.rows]
    assert plans == ["clip_text", "editor", "vae_encoder", "vae_decoder", "clip_image"]
    editor, decoder = networks["denoiser"], networks["vae_decoder"]
    # Five steps each at so many rows, guided; the source's row beside each of 50 steps.
    parted = 1, 1, 1, 1, 2, 3, 4, 5, 6, 6
    assert editor.rows["paint"] == Rows(50, 50 + 2 * 5 * sum(parted), 0)
    assert decoder.rows["paint"] == Rows(0, 6, 1)
    assert networks["clip_image"].rows["paint"] == Rows(1, 6, 1)
    assert (editor.editor, editor.kept_bytes) == ("without controls", 0)


def test_a_controlnet_is_named_where_one_follows(lance: Profile) -> None:
    assert not lance.follows_maps
    assert lance.weights is not None
    assert lance.weights.controlnets == ()
    assert "hint" not in networks_of(lance)
    assert "hint" in networks_of(with_edges(lance))
    message = r"\[weights\] controlnets names none: name what follows the sources' edges, or invert"
    with pytest.raises(ValueError, match=message):
        replace(lance, paint=replace(lance.paint, control_scale=1.0))
    with pytest.raises(ValueError, match=message):
        replace(load_profile("a10g"), weights=lance.weights)
    with pytest.raises(ValueError, match=r"\[weights\] names nothing somewhere"):
        replace(lance.weights, controlnets=("",))


def test_the_editor_is_counted_without_a_controlnet_where_it_has_none(lance: Profile, tmp_path: Path) -> None:
    usual = replace(load_profile("a10g"), models=lance.models)
    painter, editor = plan_facts(usual)["denoiser"], plan_facts(lance)["editor"]
    # Of Stable Diffusion's 1.07 TFLOP a row the ControlNet takes 0.27, and of its weights 361 M.
    assert painter.flops - editor.flops == pytest.approx(0.266e12, rel=0.02)
    assert painter.weight_bytes - editor.weight_bytes == pytest.approx(2 * 361e6, rel=0.01)
    renamed = replace(lance, paint=replace(lance.paint, denoiser="editor_lcm"))
    assert plan_facts(renamed)["editor_lcm"] == editor
    assert plan_facts(with_edges(lance))["editor"] == painter
    # What was exported is what it is.
    rows = [{**asdict(fact), "name": name} for name, fact in plan_facts(usual).items()]
    (tmp_path / "facts.json").write_text(json.dumps([*rows, {**asdict(painter), "name": "editor", "flops": 7}]))
    assert plan_facts(with_edges(lance))["editor"].flops == plan_facts(lance)["editor"].flops == 7
    (tmp_path / "facts.json").write_text(json.dumps(rows))
    assert plan_facts(lance)["editor"] == painter


def test_controls_of_an_editor_cost_a_decode_and_a_look(lance: Profile) -> None:
    """Nothing of them is denoised: estimates and copies count what the editor does."""
    plain, beside = (estimate(lance, 1000, 5, controls=count) for count in (0, 2))
    paint = [stage for found in (plain, beside) for stage in found.stages if stage.stage == "paint"]
    facts, networks = plan_facts(lance), networks_of(lance)
    assert lance.device is not None
    reached = 1e12 * lance.device.tflops * lance.device.share
    more = facts["vae_decoder"].flops + facts["clip_image"].flops
    assert paint[1].compute_s - paint[0].compute_s == pytest.approx(2000 * more / reached)
    moved = networks["vae_decoder"].moved_bytes + networks["clip_image"].moved_bytes
    assert paint[1].moved_s - paint[0].moved_s == pytest.approx(2000 * moved / (1e9 * lance.device.bus_gb_per_s))
    assert Rows(1.0, 2.0).of_source(3, 4) == 15
    assert Rows(1.0, 2.0, 0.5).of_source(3, 4) == 9


# Sizes that plans are compiled for.


def test_plans_need_sizes_that_are_known() -> None:
    a10g, pocket = load_profile("a10g"), load_profile("pocket")
    assert a10g.image.sizes == ((512, 512), (512, 704), (704, 512), (512, 832))
    assert pocket.image.sizes == ()
    square = replace(a10g.image, buckets=None, max_long_side=512)
    assert replace(a10g, image=square).image.sizes == ((512, 512),)
    twice = replace(a10g.image, buckets=((512, 512), (512, 704), (512, 512)))
    assert twice.sizes == ((512, 512), (512, 704))


def test_sessions_of_each_size_hold_their_own_weights_but_tensorrt_s() -> None:
    """ONNX Runtime and OpenVINO open a graph for each size; a plan of TensorRT has all of them."""
    a10g, fact = load_profile("a10g"), PlanFacts(1.0, 10**6, 0, graph_bytes=10**3)
    provider = replace(a10g, runtime=replace(a10g.runtime, backend="onnxruntime", provider="cuda"))
    pocket = load_profile("pocket")
    sized = replace(pocket, image=replace(pocket.image, buckets=((128, 128), (128, 192), (192, 128))))
    for profile, times in ((a10g, 1), (provider, 4), (pocket, 1), (sized, 3)):
        one = replace(profile, image=replace(profile.image, buckets=None, max_long_side=profile.image.short_side))
        for name in ("vae_decoder", "hint"):
            several, single = (plan_cost(p, networks_of(p)[name], fact).bytes for p in (profile, one))
            assert several == times * single, (profile.name, name)
        assert plan_cost(profile, networks_of(profile)["clip_text"], fact) == plan_cost(
            one, networks_of(one)["clip_text"], fact
        )


# Profiles that extend others: what is merged, what is taken out, and what is said of files that cannot.


def written_out(folder: Path, text: str, name: str = "mine.toml") -> str:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def load(folder: Path, text: str) -> Profile:
    """The profile "mine" of these lines, which extends the pocket's unless they say otherwise."""
    start = "" if "extends" in text else 'extends = "pocket"\n'
    return load_profile(written_out(folder, f'{start}name = "mine"\n{text}'))


DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("page", ["a10g.md", "profiles.md"])
def test_profiles_that_the_docs_write_out_load(page: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    texts = [text for text in blocks if re.search("^extends", text, re.MULTILINE)]
    assert texts
    for text in texts:
        name = re.search(r'^name = "(.*?)"', text, re.MULTILINE)
        assert name
        assert load_profile(written_out(tmp_path, text)).name == name[1]


def test_what_a_file_does_not_state_is_its_parent_s(tmp_path: Path) -> None:
    for name in profile_names():
        if name != "pocket-full":
            assert load(tmp_path, f'extends = "{name}"') == replace(load_profile(name), name="mine")


def test_tables_are_merged_key_by_key_to_any_depth(tmp_path: Path) -> None:
    pocket = load_profile("pocket")
    paint = replace(pocket.paint, batch=3, sampler=replace(pocket.paint.sampler, steps=5))
    assert load(tmp_path, "[paint]\nbatch = 3\n[paint.sampler]\nsteps = 5\n") == replace(
        pocket, name="mine", paint=paint
    )
    assert load(tmp_path, "[check]\nmin_valid = 0.9\nmin_label = 0.5").check == changed(
        pocket.check, min_valid=0.9, min_label=0.5
    )


def test_lists_and_lists_of_tables_are_the_file_s_alone(tmp_path: Path) -> None:
    part = '[[check.valid]]\npart = "layout"\nscores = ["layout"]\nweights = [2]\nbias = 1\n'
    found = load(tmp_path, f'[rewrite]\ntypes = ["time"]\n{part}')
    assert found.rewrite.types == ("time",)
    assert found.check.valid == (ValidPart("layout", ("layout",), (2.0,), 1.0),)
    hint = '[[hints]]\nkind = "edges"\nplan = "{}"\nweight = 1.0\n'
    written_out(tmp_path, 'extends = "pocket"\nname = "x"\n' + hint.format("hint") + hint.format("hint_1"), "x.toml")
    assert load(tmp_path, 'extends = "x.toml"\n' + hint.format("hint_2")).hints == (
        HintSettings("edges", "hint_2", 1.0),
    )


def test_tables_and_keys_of_the_parent_are_taken_out(tmp_path: Path) -> None:
    pocket = load_profile("pocket")
    found = load(tmp_path, 'without = ["teacher", "check.valid", "check.min_valid"]')
    check = replace(pocket.check.having(min_valid=None), valid=None)
    assert found == replace(pocket, name="mine", teacher=None, check=check)
    lance = load(tmp_path, 'extends = "pocket-lance"\nwithout = ["invert"]')
    assert lance == replace(load_profile("pocket-lance"), name="mine", invert=None)
    canny = "[edges]\ndetector = 'canny'\n[edges.canny]\nlow = 1\nhigh = 2\nl2 = false\nblur = 1\ncolour = 'steepest'"
    with pytest.raises(CounterfactoryError, match=r"mine\.toml: \[edges\] .* does not read the table \[edges.relative"):
        load(tmp_path, canny)
    assert load(tmp_path, f'without = ["edges.relative"]\n{canny}').edges.canny == CannySettings(
        1, 2, False, 1, "steepest"
    )
    with pytest.raises(CounterfactoryError, match=r"mine\.toml: key 'paint.sampler.kind' is missing"):
        load(tmp_path, 'without = ["paint.sampler"]\n[paint.sampler]\nsteps = 3')


def test_a_parent_is_found_beside_the_file_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written_out(tmp_path, 'extends = "pocket"\nname = "a"\n[paint]\nbatch = 3\n', "base/a.toml")
    written_out(tmp_path, 'extends = "a.toml"\nname = "b"\n[text]\nbatch = 5\n', "base/b.toml")
    written_out(tmp_path, 'extends = "base/b.toml"\nname = "c"\n[check]\nbatch = 7\n', "c.toml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for named in ("c.toml", "./c.toml", str(tmp_path / "c.toml")):
        found = load_profile(named)
        assert (found.name, found.paint.batch, found.text.batch, found.check.batch) == ("c", 3, 5, 7)
    written_out(tmp_path, f'extends = "{tmp_path}/base/a.toml"\nname = "d"\n', "base/pocket.toml")
    written_out(tmp_path, 'extends = "pocket"\nname = "e"\n', "base/e.toml")
    written_out(tmp_path, 'extends = "~/base/a.toml"\nname = "f"\n', "base/f.toml")
    assert load_profile("base/f.toml").paint.batch == 3
    assert load_profile("base/pocket.toml").paint.batch == 3
    assert load_profile("base/e.toml").paint.batch == load_profile("pocket").paint.batch, "a name is no file"


@pytest.mark.parametrize(
    ("parent", "text", "told"),
    [
        ("poket", "", "extends = \"poket\" is no profile; did you mean 'pocket'?"),
        ("", "", 'extends = "" is no profile; choose from: a10g, '),
        ("base", "", "extends = \"base\" is no profile; did you mean 'base.toml'?"),
        ("bse.toml", "", 'extends = "bse.toml" names a file that there is not, FOLDER/bse.toml; did'),
        ("~no/x.toml", "", 'extends = "~no/x.toml" names a file that there is not, FOLDER/~no/x.toml'),
        ("pocket", 'without = "teacher"', "'without' should be a list of keys, such as "),
        ("pocket", 'without = ["qqq"]', "'without' names 'qqq', which its parent does not have; choose fr"),
        ("pocket", 'without = ["check.min_vlid"]', "'without' names 'check.min_vlid', which its parent "),
        ("pocket", 'without = ["check.valid.part"]', "'without' names 'check.valid.part', which its "),
        ("pocket", 'without = ["image"]', "key 'image' is missing (a table)"),
        ("pocket", "[pant]\n", "unknown key 'pant'; did you mean 'paint'?"),
        ("pocket", "[paint]\nbacth = 3", "unknown key 'paint.bacth'; did you mean 'paint.batch'?"),
        ("pocket", '[paint]\nbatch = "3"', "'paint.batch' should be a whole number, found '3'"),
        ("pocket", "paint = 3", "'paint' should be a table, found 3"),
        ("pocket", "[protect]\nfeather = 3", "key 'protect.classes' is missing"),
    ],
)
def test_what_is_wrong_is_the_file_s_and_no_parent_s(tmp_path: Path, parent: str, text: str, told: str) -> None:
    written_out(tmp_path, 'extends = "pocket"\nname = "base"\n', "base.toml")
    assert refused(tmp_path, f'extends = "{parent}"\nname = "x"\n{text}').startswith(f"FOLDER/mine.toml: {told}")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('extends = "pocket"', "key 'name' is missing (text)"),
        ("extends = 3", "'extends' should be the name or the file of a profile, found 3"),
        ('extend = "pocket"\nname = "x"', "unknown key 'extend'; did you mean 'extends'?"),
        ('without = ["teacher"]\nname = "x"', "without takes keys out of what a profile extends: name that too"),
    ],
)
def test_a_file_says_what_it_extends_and_its_name(tmp_path: Path, text: str, told: str) -> None:
    assert refused(tmp_path, text).startswith(f"FOLDER/mine.toml: {told}")


def refused(folder: Path, text: str) -> str:
    """What is said of a profile of these lines, in one."""
    with pytest.raises(CounterfactoryError) as caught:
        load_profile(written_out(folder, text))
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(folder), "FOLDER")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('extends = "pocket"\nname = "base"\n[paint]\nbacth = 3', "unknown key 'paint.bacth'"),
        ('extends = "pocket"\nname = "base"\n[paint]\nbatch = 0', "[paint] batch is at least 1, got 0"),
        ('name = "base"\n', "key 'shard_sources' is missing"),
        ("name = ", "is not valid TOML"),
    ],
)
def test_what_is_wrong_with_a_parent_is_the_parent_s(tmp_path: Path, text: str, told: str) -> None:
    parent = written_out(tmp_path, text, "base.toml")
    with pytest.raises(CounterfactoryError) as caught:
        load(tmp_path, 'extends = "base.toml"\n[paint]\nbatch = 3\n')
    assert str(caught.value).removeprefix(parent).lstrip(": ").startswith(told)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"a": "a"}, 'a.toml: extends = "a.toml" goes round in a circle, a.toml extends a.toml; choose from: a10g, '),
        (
            {"pocket": "pocket"},
            'pocket.toml: extends = "pocket.toml" goes round in a circle, pocket.toml extends pocket.toml; '
            "did you mean 'pocket'?",
        ),
        (
            {"a": "b", "b": "b"},
            'b.toml: extends = "b.toml" goes round in a circle, a.toml extends b.toml extends b.toml; ',
        ),
    ],
)
def test_a_profile_does_not_extend_itself(tmp_path: Path, files: dict[str, str], told: str) -> None:
    for name, parent in files.items():
        written_out(tmp_path, f'extends = "{parent}.toml"\nname = "{name}"\n', f"{name}.toml")
    with pytest.raises(CounterfactoryError) as caught:
        load_profile(str(tmp_path / f"{next(iter(files))}.toml"))
    assert str(caught.value).startswith(f"{tmp_path}/{told}")


def test_a_link_to_itself_is_a_circle_too(tmp_path: Path) -> None:
    path = written_out(tmp_path, 'extends = "other.toml"\nname = "x"\n')
    (tmp_path / "other.toml").symlink_to(path)
    with pytest.raises(CounterfactoryError, match="goes round in a circle"):
        load_profile(path)
