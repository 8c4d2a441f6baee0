"""The ranges of settings: the last value that each allows, the first that it refuses, and the sentence for that."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterfactory.engine.edit import EDIT_TYPES
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.profile import paint, rewrite
from counterfactory.engine.profile.caption import CaptionSettings, DecodingSettings
from counterfactory.engine.profile.check import CheckSettings, ValidPart
from counterfactory.engine.profile.image import ImageSettings
from counterfactory.engine.profile.maps import DepthSettings, DetectorSettings, HedSettings, HintSettings
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.referees import RefereeSettings
from counterfactory.engine.profile.runtime import DeviceSettings, ModelPaths, RuntimeSettings
from counterfactory.kernels.canny import CannySettings

GREEDY = DecodingSettings("greedy", 1, 0.9, 1.0, 0, 20, 1.0, 1.0)
NUCLEUS = replace(GREEDY, mode="nucleus")
CAPTION = CaptionSettings(4, 1, "", GREEDY)
CHECK = CheckSettings(8, "a photo of a {label}", 100.0)
PART = ValidPart("label", ("label",), (1.0,), 0.0)
DEVICE = DeviceSettings("A10G", 70, 24, 600, 1, 25, 0.6, 0.8)
IMAGE = ImageSettings(64, 8, 128)
INVERT = paint.InvertSettings(0.2, 1, (0.2, 0.8), 0.8, 2.0, ("colour",), 0.3, 8)
EXLLAMA = rewrite.ExllamaSettings(8, "q4", 4 * rewrite.PAGE, 0.0, 1.0, 0)
LLM = rewrite.LlmSettings("openvino", "llm", "pocket")
SAMPLER = paint.SamplerSettings("ddim", 20, "epsilon", "leading", False)
LCM = paint.SamplerSettings("lcm", 4, "epsilon", "lcm", False)
GUIDANCE = paint.GuidanceSettings(7.5, 0.0, 1.0)
PAINT = paint.PaintSettings(SAMPLER, GUIDANCE, "denoiser", 1.0, "", 8, 1, 4)
PROTECT = paint.ProtectSettings(("road",), 4.0, 1.0)
REFEREE = RefereeSettings("labels", "net.onnx", 4, ("bus",), (64, 64))
FUNCTION = RefereeSettings("labels", "module:function", 4, ("bus",))
REWRITE = rewrite.RewriteSettings(("colour",), 4, 3, 2, 200, True)
GROUNDING = rewrite.GroundingSettings(8, 0.45)
RANDOM = rewrite.RandomWordSettings(8, 2, 4)
CPU = RuntimeSettings("openvino", "auto", 0, 0)
GPU = RuntimeSettings("tensorrt", "f16", 0, 20)
ONNX = RuntimeSettings("onnxruntime", "f32", 0, 0, "cpu")
MODELS = ModelPaths("pocket")
TYPES = f"types are some of {', '.join(EDIT_TYPES)}, each once; found "
LIMITS = '[runtime] precision is "f16" on a GPU, "f32" with provider = "cpu" and another than "f16" with openvino, got '
LCM_SPACING = (
    'lcm weights know only the timesteps of their distillation, so kind "lcm" goes with spacing "lcm", and no other '
    "kind does"
)
TOP_P = "decoding needs 0 < top_p <= 1 and a temperature above 0, got "
TOKENS = "decoding needs 0 <= min_tokens <= max_tokens of at least 1, got "
BEAMS = "decoding needs beams of 2 or more in a beam search and 1 without, got "
NO_SIGNAL = "where there is no signal, the noise alone does not determine the picture"
EQUAL_CAPTIONS = '[caption] texts = 2 would join equal captions: only mode = "nucleus" writes different ones'
TWO_LABELS = "[caption] label_prefix holds {label} once at most, found '{label}{label}'"
NO_LABEL = "[caption] label_prefix names no label: write {label} where it belongs, found 'a'"
ENDS_CROSS = "[check] min_text_caption is at most max_text_caption, got 0.6 and 0.5"
NO_SIGHT = (
    '[check] recaption_of names what the captioner looks for, types of edits and "label": it needs '
    "recaption = true, and at least one of them"
)
NO_PARTS = "[check] min_valid needs [[check.valid]], the parts that make the score `valid`"
NO_WEIGHTS = "[[check.valid]] 'label' has a weight for each of its scores, found 0 scores and 1 weights"
ONE_STEP = "sampler ddim with linspace spacing takes 2 to 250 steps, got 1"
DISTILLED = (
    "[paint.guidance] scale with an lcm sampler is 1 (none) to 2, got 7.5: such weights were distilled with "
    "guidance in them"
)
NO_SIZE = "[[referees]] 'net.onnx' needs size = [height, width]: a graph has one, no function"
A_SIZE = "[[referees]] 'module:function' has no size = [height, width]: a graph has one, no function"
NO_PROVIDER = '[runtime] backend = "onnxruntime" needs a provider = "cuda", "tensorrt" or "cpu"'
ITS_PROVIDER = (
    '[runtime] provider = "cpu" is one of ONNX Runtime\'s: take it out with backend = "openvino", or say '
    'backend = "onnxruntime"'
)
NO_SIDE = "is missing; own_size = true leaves pictures as they are"

ALLOWED: list[tuple[Any, dict[str, Any]]] = [
    (CAPTION, {"batch": 1, "texts": 1, "prefix": "a {label}", "label_prefix": "{label}"}),
    (CAPTION, {"texts": 2, "decoding": NUCLEUS}),
    (GREEDY, {"mode": "beam", "beams": 2}),
    (GREEDY, {"top_p": 1.0, "temperature": 0.01, "min_tokens": 1, "max_tokens": 1, "repetition_penalty": 0.01}),
    (CHECK, {"batch": 1, "logit_scale": 0.01, "least": {"edit": 0, "layout": 1, "nearer": -2, "directional": -1}}),
    (CHECK, {"most": {"perplexity": 1, "text_label": 1}, "recaption": True, "recaption_of": ("label",)}),
    (CHECK, {"least": {"valid": 0.5, "text_caption": 0.5}, "most": {"text_caption": 0.5}, "valid": (PART,)}),
    (PART, {"weights": (0.0,)}),
    (DEVICE, {"share": 1, "accepted": 1, "tflops": 0.1, "memory_gb": 0.1, "gb_per_s": 0.1, "disk_gb_per_s": 0.1}),
    (IMAGE, {"short_side": 1, "multiple": 1, "max_long_side": 1}),
    (IMAGE, {"buckets": ((64, 128), (64, 64))}),
    (INVERT, {"rounds": 0, "start": 0, "fractions": (0, 1), "cross_fraction": 0, "detail_levels": 0}),
    (INVERT, {"cross_fraction": 1, "word_weight": 0.01, "detail_levels": 255}),
    (EXLLAMA, {"rows": 1, "cache_tokens": rewrite.PAGE, "top_p": 0.01}),
    (SAMPLER, {"steps": 1}),
    (SAMPLER, {"steps": 250}),
    (SAMPLER, {"steps": 2, "spacing": "linspace"}),
    (SAMPLER, {"steps": 1, "spacing": "linspace", "kind": "unipc"}),
    (SAMPLER, {"zero_snr": True, "prediction": "v_prediction"}),
    (LCM, {"steps": 50}),
    (GUIDANCE, {"scale": 1, "start": 1, "stop": 1}),
    (PAINT, {"batch": 1, "decode_batch": 1, "control_scale": 0}),
    (PAINT, {"sampler": LCM, "guidance": paint.GuidanceSettings(2, 0, 1)}),
    (paint.TextSettings(4), {"batch": 1}),
    (PROTECT, {"feather": 0, "until": 0.01}),
    (PROTECT, {"feather": 1024}),
    (REFEREE, {"batch": 1, "std": (0.1, 0.1, 0.1), "mean": (0, 0, 0)}),
    (REWRITE, {"max_keywords": 1, "max_alternatives": 1, "max_words_keyword": 1, "max_chars_caption": 1}),
    (REWRITE, {"edits": (1, 1), "types": EDIT_TYPES}),
    (GROUNDING, {"batch": 1, "min_similarity": -1, "min_meaning": 1}),
    (GROUNDING, {"min_similarity": 1, "min_meaning": -1}),
    (RANDOM, {"batch": 1, "words": 1, "alternatives": 1}),
    (RANDOM, {"alternatives": 24}),
    (CPU, {"threads": 0, "memory_gb": 0}),
    (GPU, {"backend": "onnxruntime", "provider": "cuda"}),
]

REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (CAPTION, {"batch": 0}, "batch is at least 1, got 0"),
    (CAPTION, {"texts": 0}, "texts is at least 1, got 0"),
    (CAPTION, {"texts": 2}, EQUAL_CAPTIONS),
    (CAPTION, {"prefix": "{label} {label}"}, "[caption] prefix holds {label} once at most, found '{label} {label}'"),
    (CAPTION, {"label_prefix": "{label}{label}"}, TWO_LABELS),
    (CAPTION, {"label_prefix": "a"}, NO_LABEL),
    (GREEDY, {"mode": "x"}, "decoding mode is one of greedy, nucleus, beam, got 'x'"),
    (GREEDY, {"mode": "beam"}, f"{BEAMS}1"),
    (GREEDY, {"beams": 2}, f"{BEAMS}2"),
    (GREEDY, {"beams": 0}, f"{BEAMS}0"),
    (GREEDY, {"top_p": 0}, f"{TOP_P}0 and 1.0"),
    (GREEDY, {"top_p": 1.1}, f"{TOP_P}1.1 and 1.0"),
    (GREEDY, {"temperature": 0}, f"{TOP_P}0.9 and 0"),
    (GREEDY, {"min_tokens": -1}, f"{TOKENS}-1 and 20"),
    (GREEDY, {"min_tokens": 21}, f"{TOKENS}21 and 20"),
    (GREEDY, {"max_tokens": 0}, f"{TOKENS}0 and 0"),
    (GREEDY, {"repetition_penalty": 0}, "decoding repetition_penalty is above 0 (1: none), got 0"),
    (CHECK, {"batch": 0}, "batch is at least 1, got 0"),
    (CHECK, {"label_prompt": "a"}, "[check] label_prompt holds {label} once, got 'a'"),
    (CHECK, {"logit_scale": 0}, "[check] logit_scale must be positive, got 0"),
    (CHECK, {"least": {"edti": 0}}, "[check] min_edti is no threshold; did you mean 'min_edit'?"),
    (CHECK, {"most": {"perplexit": 9}}, "[check] max_perplexit is no threshold; did you mean 'max_perplexity'?"),
    (CHECK, {"least": {"edit": 1.1}}, "[check] min_edit is a share, 0 to 1, got 1.1"),
    (CHECK, {"least": {"image_text": -1.1}}, "[check] min_image_text is a cosine, -1 to 1, got -1.1"),
    (CHECK, {"least": {"nearer": 2.1}}, "[check] min_nearer is a difference of cosines, -2 to 2, got 2.1"),
    (CHECK, {"most": {"perplexity": 0.9}}, "[check] max_perplexity is at least 1, got 0.9"),
    (CHECK, {"most": {"perplexity_ratio": 0.0}}, "[check] max_perplexity_ratio is above 0, got 0"),
    (CHECK, {"least": {"text_caption": 0.6}, "most": {"text_caption": 0.5}}, ENDS_CROSS),
    (CHECK, {"recaption": True, "recaption_of": ()}, NO_SIGHT),
    (CHECK, {"least": {"valid": 0.5}}, NO_PARTS),
    (CHECK, {"valid": (PART, PART)}, "[[check.valid]] names each part once, found label, label"),
    (PART, {"scores": ()}, NO_WEIGHTS),
    (PART, {"weights": (-1.0,)}, "[[check.valid]] 'label' has weights of 0 or more, found [-1.0]"),
    *(
        (DEVICE, {name: 0}, f"[device] {name} is above 0, got 0")
        for name in ("tflops", "memory_gb", "gb_per_s", "disk_gb_per_s", "bus_gb_per_s")
    ),
    *(
        (DEVICE, {name: value}, f"[device] {name} is above 0 and at most 1, got {value}")
        for name in ("share", "accepted")
        for value in (0, 1.1)
    ),
    (IMAGE, {"multiple": 0}, f"[image] key 'image.multiple' {NO_SIDE}"),
    (IMAGE, {"short_side": 0}, f"[image] key 'image.short_side' {NO_SIDE}"),
    (IMAGE, {"short_side": 60}, "[image] short_side must be a multiple of 8, found 60"),
    (IMAGE, {"max_long_side": 100}, "[image] max_long_side must be a multiple of 8, found 100"),
    (IMAGE, {"max_long_side": 56}, "[image] max_long_side 56 is below short_side 64"),
    (IMAGE, {"buckets": ((64, 100),)}, "[image] buckets are of multiples of 8, found 64 x 100"),
    (IMAGE, {"buckets": ((0, 64),)}, "[image] buckets are of multiples of 8, found 0 x 64"),
    (IMAGE, {"buckets": ((56, 64),)}, "[image] sides of buckets go from 64 to 128, found 56 x 64"),
    (IMAGE, {"buckets": ((64, 136),)}, "[image] sides of buckets go from 64 to 128, found 64 x 136"),
    (IMAGE, {"buckets": ()}, "[image] buckets needs one size or more; leave it out for sizes in proportion"),
    (INVERT, {"rounds": -1}, "rounds is at least 0, got -1"),
    *(
        (INVERT, {"fractions": some}, f"fractions are different shares of the steps in ascending order, got {some}")
        for some in ((), (0.2, 0.2), (0.8, 0.2))
    ),
    (INVERT, {"start": 1}, "start is a share of the steps, 0 or more and less than 1, got 1"),
    (INVERT, {"start": -0.1}, "start is a share of the steps, 0 or more and less than 1, got -0.1"),
    (INVERT, {"fractions": (0.2, 1.1)}, "fractions are 0 to 1, got (0.2, 1.1)"),
    (INVERT, {"cross_fraction": -1}, "cross_fraction is 0 to 1, got -1"),
    (INVERT, {"word_weight": 0}, "word_weight is more than 0, got 0"),
    (INVERT, {"local_threshold": 0}, "local_threshold is between 0 and 1, got 0"),
    (INVERT, {"local_threshold": 1}, "local_threshold is between 0 and 1, got 1"),
    (INVERT, {"detail_levels": 256}, "detail_levels is 0 to 255, got 256"),
    (INVERT, {"detail_levels": -1}, "detail_levels is 0 to 255, got -1"),
    (EXLLAMA, {"rows": 0}, "rows is at least 1, got 0"),
    (EXLLAMA, {"cache_tokens": 0}, "cache_tokens must be a multiple of 256, found 0"),
    (EXLLAMA, {"cache_tokens": 300}, "cache_tokens must be a multiple of 256, found 300"),
    (EXLLAMA, {"temperature": -1}, "temperature is 0 or more and top_p above 0, at most 1; found -1 and 1"),
    (EXLLAMA, {"top_p": 0}, "temperature is 0 or more and top_p above 0, at most 1; found 0 and 0"),
    (EXLLAMA, {"top_p": 1.5}, "temperature is 0 or more and top_p above 0, at most 1; found 0 and 1.5"),
    (LLM, {"model": ""}, "[llm] model is empty; name a folder of weights"),
    (LLM, {"exllama": EXLLAMA}, '[llm] backend = "openvino" has no table [llm.exllama]'),
    (LLM, {"backend": "exllamav2"}, '[llm] backend = "exllamav2" needs a table [llm.exllama]'),
    (SAMPLER, {"spacing": "lcm"}, f"sampler ddim with lcm spacing: {LCM_SPACING}"),
    (LCM, {"spacing": "trailing"}, f"sampler lcm with trailing spacing: {LCM_SPACING}"),
    (SAMPLER, {"kind": "x"}, "sampler kind must be one of ddim, unipc, lcm, got 'x'"),
    (SAMPLER, {"prediction": "x"}, "sampler prediction must be one of epsilon, v_prediction, got 'x'"),
    (SAMPLER, {"spacing": "x"}, "sampler spacing must be one of leading, trailing, linspace, lcm, got 'x'"),
    (SAMPLER, {"steps": 0}, "sampler ddim with leading spacing takes 1 to 250 steps, got 0"),
    (SAMPLER, {"steps": 251}, "sampler ddim with leading spacing takes 1 to 250 steps, got 251"),
    (SAMPLER, {"steps": 1, "spacing": "linspace"}, ONE_STEP),
    (LCM, {"steps": 51}, "sampler lcm with lcm spacing takes 1 to 50 steps, got 51"),
    (SAMPLER, {"zero_snr": True}, f"sampler zero_snr needs prediction v_prediction, got epsilon: {NO_SIGNAL}"),
    (GUIDANCE, {"scale": 0.9}, "[paint.guidance] scale starts at 1 (no guidance), got 0.9"),
    *(
        (
            *(GUIDANCE, {"start": start, "stop": stop}),
            f"[paint.guidance] start and stop are shares of the steps, 0 <= start <= stop <= 1, got {start} and {stop}",
        )
        for start, stop in ((-0.1, 1), (0.6, 0.5), (0, 1.1))
    ),
    (PAINT, {"denoiser": "a b"}, "[paint] denoiser is the name of a plan, such as 'denoiser', got 'a b'"),
    (PAINT, {"batch": 0}, "batch is at least 1, got 0"),
    (PAINT, {"decode_batch": 0}, "decode_batch is at least 1, got 0"),
    (PAINT, {"streams": 0}, "streams is at least 1, got 0"),
    (PAINT, {"sampler": LCM}, DISTILLED),
    (PAINT, {"control_scale": -1}, "control_scale is at least 0, got -1"),
    (paint.ReuseSettings(2), {"every": 1}, "every is at least 2, got 1"),
    (paint.TextSettings(4), {"batch": 0}, "batch is at least 1, got 0"),
    (PROTECT, {"classes": ()}, "[protect] classes names none: name some, or take the table out"),
    (PROTECT, {"feather": -1}, "[protect] feather is 0 to 1024 pixels, got -1"),
    (PROTECT, {"feather": 1025}, "[protect] feather is 0 to 1024 pixels, got 1025"),
    (PROTECT, {"until": 0}, "[protect] until is a share of the steps, above 0 and at most 1, got 0"),
    (PROTECT, {"until": 1.1}, "[protect] until is a share of the steps, above 0 and at most 1, got 1.1"),
    (REFEREE, {"batch": 0}, "batch is at least 1, got 0"),
    (REFEREE, {"classes": ()}, "[[referees]] classes names what the referee's numbers mean: at least one name"),
    (REFEREE, {"size": None}, NO_SIZE),
    (FUNCTION, {"size": (8, 8)}, A_SIZE),
    *(
        (
            *(FUNCTION, changed),
            '[[referees]] run is a file NAME.onnx, or "module:function" without mean and std, found '
            + repr(changed.get("run", "module:function")),
        )
        for changed in ({"run": "module"}, {"run": "a:b:c"}, {"mean": (0, 0, 0)}, {"std": (1, 1, 1)})
    ),
    (REFEREE, {"std": (1, 0, 1)}, "[[referees]] std is above 0, got [1, 0, 1]"),
    (REWRITE, {"types": ()}, TYPES),
    (REWRITE, {"types": ("color",)}, f"{TYPES}color"),
    (REWRITE, {"types": ("colour", "colour")}, f"{TYPES}colour, colour"),
    *(
        (REWRITE, {name: 0}, f"{name} is at least 1, got 0")
        for name in ("max_keywords", "max_alternatives", "max_words_keyword", "max_chars_caption")
    ),
    *(
        (REWRITE, {"edits": some}, f"edits are the least, from 1, and the most of a variant, found {list(some)}")
        for some in ((0, 1), (2, 1))
    ),
    (GROUNDING, {"batch": 0}, "batch is at least 1, got 0"),
    *(
        (GROUNDING, {name: value}, f"{name} is -1 to 1, got {value:g}")
        for name in ("min_similarity", "min_meaning")
        for value in (-1.1, 1.1)
    ),
    (RANDOM, {"batch": 0}, "batch is at least 1, got 0"),
    (RANDOM, {"words": 0}, "words is at least 1, got 0"),
    (RANDOM, {"alternatives": 0}, "alternatives is 1 to 24, got 0"),
    (RANDOM, {"alternatives": 25}, "alternatives is 1 to 24, got 25"),
    (CPU, {"threads": -1}, "threads is at least 0, got -1"),
    (CPU, {"memory_gb": -0.5}, "memory_gb is at least 0, got -0.5"),
    (CPU, {"precision": "f16"}, f"{LIMITS}'f16' with openvino"),
    (GPU, {"precision": "f32"}, f"{LIMITS}'f32' with tensorrt"),
    (ONNX, {"precision": "auto"}, f"{LIMITS}'auto' with cpu"),
    (ONNX, {"provider": None}, NO_PROVIDER),
    (CPU, {"provider": "cpu", "precision": "f32"}, ITS_PROVIDER),
    (MODELS, {"world": "A b"}, "[models] world is a name of letters, digits and underscores, found 'A b'"),
    (MODELS, {"folder": ""}, "[models] folder is empty; name 'pocket' or the path of a folder of networks"),
]


@pytest.mark.parametrize(("settings", "changed"), ALLOWED)
def test_the_ends_of_a_range_are_in_it(settings: Any, changed: dict[str, Any]) -> None:
    replaced = replace(settings, **changed)
    assert {name: getattr(replaced, name) for name in changed} == changed


@pytest.mark.parametrize(("settings", "changed", "message"), REFUSED)
def test_what_is_beyond_a_range_is_refused_in_a_sentence(settings: Any, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        replace(settings, **changed)


def test_protected_classes_take_the_profiles_own_feather_or_a_32nd_of_the_short_side() -> None:
    assert paint.protect_classes(("sky",), None, 512) == paint.ProtectSettings(("sky",), 16, 1.0)
    assert paint.protect_classes(("sky",), PROTECT, 512) == replace(PROTECT, classes=("sky",))


def test_parts_of_valid_weigh_log_odds_of_shares_and_cosines_as_they_are() -> None:
    part = ValidPart("weather", ("edit", "image_text"), (2.0, 3.0), 0.5)
    assert part.probability({"edit": 0.8, "image_text": -0.2}) == pytest.approx(1 / (1 + 2.718281828459045**-2.6725887))
    assert part.probability({"edit": 0.8}) == pytest.approx(1 / (1 + 2.718281828459045**-3.2725887))
    # Beyond log-odds of 6 a share counts for no more.
    assert part.probability({"edit": 1.0}) == pytest.approx(1 / (1 + 2.718281828459045**-12.5))
    assert part.probability({"edit": 0.0}) == pytest.approx(1 / (1 + 2.718281828459045**11.5))
    assert part.probability({"layout": 0.5}) is None


def test_failures_are_those_of_the_rows_in_their_order() -> None:
    from counterfactory.engine.profile.check import SCORES

    settings = replace(CHECK, least={"edit": 0.5, "layout": 0.4}, most={"text_label": 0.9})
    scores = {"layout": 0.3, "edit": 0.49, "text_label": 0.95}
    failures = list(settings.failures(scores, SCORES))
    assert [one.reason for one in failures] == [
        "an edit's words mean nearly what the label says: text_label 0.950 is above 0.900",
        "an edit does not show: edit 0.490 is below 0.500",
        "outlines have left the mask's: layout 0.300 is below 0.400",
    ]
    assert settings.text_failure(scores) == failures[0]
    assert settings.text_failure({"edit": 0.1}) is None
    assert list(settings.failures({"edit": 0.5, "layout": 0.4, "text_label": 0.9}, SCORES)) == []
    with pytest.raises(KeyError):  # "edit" is needed for a verdict, "layout" is not
        list(settings.failures({"layout": 0.5}, SCORES))


# Tables of maps, from files.

RELATIVE = "[edges.relative]\nlow = 0.4\nhigh = 1.0\nreach = 4.0\nfloor = 2.0\nmedian = 3\nmin_pixels = 11\n"
PLAIN = '[edges.canny]\nlow = 100\nhigh = 200\nl2 = false\nblur = 1\ncolour = "steepest"\n'
CANNY, HED = '[edges]\ndetector = "canny"\n', '[edges]\ndetector = "hed"\n'


def of_toml(folder: Path, tables: str) -> Profile:
    """The pocket profile with these tables, those of edges in place of its own."""
    gone = 'without = ["edges"]\n' if "[edges]" in tables else ""
    (folder / "mine.toml").write_text(f'extends = "pocket"\nname = "mine"\n{gone}{tables}')
    return load_profile(str(folder / "mine.toml"))


def hint(kind: str, plan: str = "hint", weight: str = "1.0", more: str = "") -> str:
    return f'[[hints]]\nkind = "{kind}"\nplan = "{plan}"\nweight = {weight}\n{more}\n'


def test_a_profile_says_its_detector_and_its_hints_in_the_denoiser_s_order(tmp_path: Path) -> None:
    pocket = load_profile("pocket")
    assert of_toml(tmp_path, f'[edges]\ndetector = "relative"\n{RELATIVE}').edges == pocket.edges
    assert of_toml(tmp_path, CANNY + PLAIN).edges == DetectorSettings("canny", canny=CannySettings(100, 200))
    assert of_toml(tmp_path, f"{HED}[edges.hed]\nbatch = 2\n").edges == DetectorSettings("hed", hed=HedSettings(2))
    classes = hint("segmentation", "hint_1", "0.5", 'palette = "ade20k"')
    profile = of_toml(tmp_path, hint("edges") + classes + hint("depth", "hint_2", "0") + "[depth]\nbatch = 2\n")
    assert profile.hints == (
        HintSettings("edges", "hint", 1.0),
        HintSettings("segmentation", "hint_1", 0.5, "ade20k"),
        HintSettings("depth", "hint_2", 0.0),
    )
    assert (pocket.hints, profile.depth) == (None, DepthSettings(2))


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (f'[edges]\ndetector = "canyn"\n{PLAIN}', "'edges.detector' cannot be 'canyn'; did you mean 'canny'?"),
        (f"[edges]\n{PLAIN}", "key 'edges.detector' is missing (one of 'relative', 'canny', 'hed')"),
        (CANNY, '[edges] detector = "canny" needs a table [edges.canny]'),
        (HED, '[edges] detector = "hed" needs a table [edges.hed]'),
        (CANNY + PLAIN + RELATIVE, 'does not read the table [edges.relative]: take it out, or say detector = "rel'),
        (f"{CANNY}{PLAIN}reach = 4\n", "unknown key 'edges.canny.reach'"),
        (CANNY + PLAIN.replace("high = 200", ""), "key 'edges.canny.high' is missing"),
        (CANNY + PLAIN.replace("high = 200", "high = 50"), "[edges.canny] canny thresholds need 0 <= low <= high"),
        (f'[edges]\ndetector = "relative"\n{RELATIVE.replace("median = 3", "median = 4")}', "[edges.relative] edge"),
        (f"{HED}[edges.hed]\nbatch = 0\n", "[edges.hed] batch is at least 1, got 0"),
        (hint("lines"), "'hints[0].kind' cannot be 'lines'; "),
        (hint("depth", weight="-0.1"), "weight is at least 0, got -0.1"),
        (hint("depth", "../hint"), "[[hints]] plan is the name of a hint encoder, such as 'hint', got '../hint'"),
        (hint("segmentation"), '[[hints]] kind = "segmentation" needs a palette, such as palette = "ade20k"'),
        (hint("depth", more='palette = "ade20k"'), '[[hints]] kind = "depth" takes no palette'),
        (hint("edges") + hint("depth"), "[[hints]] each have a plan of their own, found hint, hint"),
        (hint("edges", weight="0"), "[[hints]] need one of weight above 0; to paint freely say [paint] control_scale"),
        (hint("edges") + "[depth]\nbatch = 1\n", '[depth] finds what no hint shows: add one of kind = "depth" to'),
        (hint("depth") + "[depth]\nbatch = 0\n", "[depth] batch is at least 1, got 0"),
    ],
)
def test_tables_of_maps_that_make_no_sense_are_refused(tables: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CounterfactoryError) as caught:
        of_toml(tmp_path, tables)
    assert str(caught.value).startswith(str(tmp_path / "mine.toml: "))
    assert message in str(caught.value)
