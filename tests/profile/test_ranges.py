"""Settings that make no sense are refused by name, in memory and in a file; the ends of ranges are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from checks import changed

from counterfactory.engine.edit import EDIT_TYPES
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.profile.caption import CaptionSettings, DecodingSettings
from counterfactory.engine.profile.check import CheckSettings, ValidPart
from counterfactory.engine.profile.invert import InvertSettings, require_invertible
from counterfactory.engine.profile.maps import DepthSettings, DetectorSettings, HedSettings, HintSettings
from counterfactory.engine.profile.paint import (
    GuidanceSettings,
    PaintSettings,
    ProtectSettings,
    SamplerSettings,
    protect_classes,
)
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.rewrite import GroundingSettings, RandomWordSettings, RewriteSettings
from counterfactory.kernels.canny import CannySettings

LCM, UNIPC = (
    SamplerSettings("lcm", 4, "epsilon", "lcm", False),
    SamplerSettings("unipc", 8, "epsilon", "leading", False),
)
DDIM, GUIDANCE = SamplerSettings("ddim", 10, "v_prediction", "trailing", True), GuidanceSettings(2.0, 0.0, 1.0)
PAINT = PaintSettings(DDIM, GUIDANCE, "editor", 0.0, "", batch=3, streams=1, decode_batch=1)
INVERT = InvertSettings(0.0, 0, (0.0, 1.0), 0.0, 2.0, (), 0.4, 0.0)
GREEDY = DecodingSettings("greedy", 1, 1.0, 1.0, 0, 8, 1.0, 1.0)
CAPTION, PROTECT = CaptionSettings(1, 1, "", GREEDY), ProtectSettings(("0",), 1024.0, 1.0)
REWRITE = RewriteSettings(("time",), 1, 1, 1, 1, verbatim=True, edits=(1, 1))
GROUNDING, RANDOM = GroundingSettings(1, 1.0, -1.0), RandomWordSettings(1, 1, 24)
CHECK, PART = CheckSettings(1, "{label}", 0.1), ValidPart("colour", ("said_colour", "edit"), (1.0, 0.0), 1.0)
LIMIT = r"\[paint.guidance\] start and stop are shares of the steps, 0 <= start <= stop <= 1, got "
TYPES = f"^types are some of {', '.join(EDIT_TYPES)}, each once; found "


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        (INVERT, {"start": -0.1}, "start is a share of the steps, 0 or more and less than 1, got -0.1"),
        (INVERT, {"start": 1.0}, "0 or more and less than 1, got 1.0"),
        (INVERT, {"rounds": -1}, "rounds is at least 0, got -1"),
        (INVERT, {"fractions": ()}, r"in ascending order, got \(\)"),
        (INVERT, {"fractions": (0.6, 0.4)}, r"in ascending order, got \(0.6, 0.4\)"),
        (INVERT, {"fractions": (0.4, 0.4)}, "different shares of the steps"),
        (INVERT, {"fractions": (0.4, 1.1)}, r"fractions are 0 to 1, got \(0.4, 1.1\)"),
        (INVERT, {"cross_fraction": -0.1}, "cross_fraction is 0 to 1, got -0.1"),
        (INVERT, {"word_weight": 0.0}, "word_weight is more than 0, got 0.0"),
        (INVERT, {"local_threshold": 0.0}, "local_threshold is between 0 and 1, got 0.0"),
        (INVERT, {"local_threshold": 1.0}, "local_threshold is between 0 and 1, got 1.0"),
        (INVERT, {"detail_levels": -1.0}, "detail_levels is 0 to 255, got -1"),
        (INVERT, {"detail_levels": 256.0}, "detail_levels is 0 to 255, got 256"),
        (GUIDANCE, {"scale": 0.99}, r"scale starts at 1 \(no guidance\), got 0.99"),
        (GUIDANCE, {"start": -0.1}, f"{LIMIT}-0.1 and 1.0"),
        (GUIDANCE, {"start": 0.6, "stop": 0.5}, f"{LIMIT}0.6 and 0.5"),
        (GUIDANCE, {"stop": 1.1}, f"{LIMIT}0.0 and 1.1"),
        (PAINT, {"denoiser": "../denoiser"}, r"the name of a plan, such as 'denoiser', got '../denoiser'"),
        (PAINT, {"denoiser": ""}, "got ''"),
        (PAINT, {"batch": 0}, "^batch is at least 1, got 0"),
        (PAINT, {"decode_batch": 0}, "decode_batch is at least 1, got 0"),
        (PAINT, {"streams": 0}, "streams is at least 1, got 0"),
        (PAINT, {"sampler": LCM, "guidance": GuidanceSettings(2.5, 0.0, 1.0)}, r"is 1 \(none\) to 2, got 2.5: such w"),
        (PAINT, {"control_scale": -0.1}, "control_scale is at least 0, got -0.1"),
        (PROTECT, {"classes": ()}, r"\[protect\] classes names none"),
        (PROTECT, {"feather": -0.1}, r"\[protect\] feather is 0 to 1024 pixels, got -0.1"),
        (PROTECT, {"feather": 1025.0}, "got 1025"),
        (PROTECT, {"until": 0.0}, r"\[protect\] until is a share of the steps, above 0 and at most 1, got 0"),
        (PROTECT, {"until": 1.1}, "got 1.1"),
        (CAPTION, {"batch": 0}, "batch is at least 1, got 0"),
        (CAPTION, {"texts": 0}, "texts is at least 1, got 0"),
        (CAPTION, {"texts": 2}, r"texts = 2 would join equal captions: only mode = \"nucleus\" writes different ones$"),
        (CAPTION, {"label_prefix": "a photo"}, "label_prefix names no label: write {label} where it belongs, found"),
        (CAPTION, {"prefix": "{label}, a {label}"}, r"\[caption\] prefix holds {label} once at most, found '{label}"),
        (CAPTION, {"label_prefix": "{label}{label}"}, r"\[caption\] label_prefix holds {label} once at most, found"),
        (REWRITE, {"types": ()}, f"{TYPES}$"),
        (REWRITE, {"types": ("weather", "weather")}, f"{TYPES}weather, weather$"),
        (REWRITE, {"types": ("mood", "time")}, f"{TYPES}mood, time$"),
        (REWRITE, {"max_keywords": 0}, "^max_keywords is at least 1, got 0$"),
        (REWRITE, {"max_alternatives": 0}, "^max_alternatives is at least 1"),
        (REWRITE, {"max_words_keyword": 0}, "^max_words_keyword is at least 1"),
        (REWRITE, {"max_chars_caption": 0}, "^max_chars_caption is at least 1"),
        (REWRITE, {"edits": (0, 1)}, r"edits are the least, from 1, and the most of a variant, found \[0, 1"),
        (REWRITE, {"edits": (2, 1)}, r"edits are the least, from 1, and the most of a variant, found \[2, 1"),
        (GROUNDING, {"batch": 0}, "batch is at least 1, got 0"),
        (GROUNDING, {"min_similarity": 1.01}, "^min_similarity is -1 to 1, got 1.01"),
        (GROUNDING, {"min_similarity": -1.01}, "got -1.01"),
        (GROUNDING, {"min_meaning": 1.01}, "^min_meaning is -1 to 1, got 1.01"),
        (GROUNDING, {"min_meaning": -1.01}, "got -1.01"),
        (RANDOM, {"batch": 0}, "^batch is at least 1, got 0"),
        (RANDOM, {"words": 0}, "words is at least 1, got 0"),
        (RANDOM, {"alternatives": 0}, "alternatives is 1 to 24, got 0"),
        (RANDOM, {"alternatives": 25}, "alternatives is 1 to 24, got 25"),
        (CHECK, {"batch": 0}, "batch is at least 1, got 0"),
        (CHECK, {"label_prompt": "a photo"}, r"label_prompt holds \{label\} once, got 'a photo'"),
        (CHECK, {"label_prompt": "{label} {label}"}, "label_prompt holds"),
        (CHECK, {"logit_scale": 0.0}, "logit_scale must be positive, got 0.0"),
        (CHECK, {"min_image_text": 1.1}, r"\[check\] min_image_text is a cosine, -1 to 1, got 1.1"),
        (CHECK, {"min_directional": -1.1}, "min_directional is a cosine, -1 to 1, got -1.1"),
        (CHECK, {"min_label": 1.1}, "min_label is a change of probability, -1 to 1, got 1.1"),
        (CHECK, {"min_edit": -0.1}, "min_edit is a share, 0 to 1, got -0.1"),
        (CHECK, {"min_layout": 1.1}, "min_layout is a share, 0 to 1, got 1.1"),
        (CHECK, {"min_nearer": 2.1}, "min_nearer is a difference of cosines, -2 to 2, got 2.1"),
        (CHECK, {"max_text_label": 1.1}, r"\[check\] max_text_label is a cosine, -1 to 1, got 1.1"),
        (CHECK, {"max_perplexity": 0.9}, r"\[check\] max_perplexity is at least 1, got 0.9"),
        (CHECK, {"max_perplexity_ratio": 0.0}, r"\[check\] max_perplexity_ratio is above 0, got 0"),
        (CHECK, {"min_text_caption": 0.9, "max_text_caption": 0.8}, "min_text_caption is at most max_text_caption"),
        (CHECK, {"least": {"valid": 0.5}}, r"min_valid needs \[\[check.valid\]\]"),
        (CHECK, {"valid": (PART, PART)}, "names each part once, found colour, colour"),
        (PART, {"weights": (1.0,)}, r"'colour' has a weight for each of its scores, found 2 scores and 1 weights"),
        (PART, {"weights": (1.0, -0.1)}, "0 or more"),
        (PART, {"weights": (), "scores": ()}, "found 0 scores"),
        (HedSettings(1), {"batch": 0}, "batch is at least 1, got 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        (changed if settings is CHECK else replace)(settings, **changes)


def test_thresholds_may_be_at_the_ends_of_their_ranges() -> None:
    names = ("image_text", "directional", "image_image", "label", "text_caption")
    for end in (-1, 1):
        CHECK.having(**{f"min_{name}": end for name in names}, max_text_label=end, min_edit=max(end, 0))
    CHECK.having(max_perplexity=1.0, max_perplexity_ratio=0.001)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampler": UNIPC}, r'goes with kind = "ddim" in \[paint.sampler\], got "unipc": only its steps go back'),
        ({"streams": 2}, r"goes with streams = 1 in \[paint\], got 2: rows share batches"),
        ({"negative_prompt": "blurred"}, r'guides away from .* negative_prompt = "" in \[paint\], got "blurred"'),
        ({"batch": 2}, "tries 2 fractions beside the source in one batch: .* batch of at least 3, got 2"),
    ],
)
def test_painting_that_cannot_be_inverted_is_refused(changes: dict[str, Any], message: str) -> None:
    require_invertible(replace(PAINT, control_scale=1.5), INVERT)
    with pytest.raises(ValueError, match=message):
        require_invertible(replace(PAINT, **changes), INVERT)


def test_the_command_line_names_protected_classes_and_the_profile_the_rest() -> None:
    assert protect_classes(("car",), None, 512) == ProtectSettings(("car",), 16.0, 1.0)
    usual = ProtectSettings(("bus",), 3.0, 0.5)
    assert protect_classes(("car",), usual, 512) == ProtectSettings(("car",), 3.0, 0.5)


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
        (CANNY + RELATIVE, '[edges] detector = "canny" needs a table [edges.canny]'),
        (
            CANNY + PLAIN + RELATIVE,
            'does not read the table [edges.relative]: take it out, or say detector = "relative"',
        ),
        (f"{CANNY}low = 100\n", "unknown key 'edges.low'"),
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
        ("[depth]\nbatch = 1\n", "[[hints]] need one of weight above 0"),
        (hint("depth") + "[depth]\nbatch = 0\n", "[depth] batch is at least 1, got 0"),
    ],
)
def test_tables_of_maps_that_make_no_sense_are_refused(tables: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CounterfactoryError) as caught:
        of_toml(tmp_path, tables)
    assert str(caught.value).startswith(str(tmp_path / "mine.toml: "))
    assert message in str(caught.value)
