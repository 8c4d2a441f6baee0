"""Content keys: each ingredient counts, nothing else does, and code that changes its results changes its number."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType

import cv2
import numpy as np
import pytest
from rewriting import source, wanted_of

from counterfactory.engine import content_keys
from counterfactory.engine.content_keys import STAGES, ContentKeys, code_of, maker_key
from counterfactory.engine.edit import Edit
from counterfactory.engine.keys import content_key, generator
from counterfactory.engine.light.draw import draw_light, open_photograph
from counterfactory.engine.light.menu import MENU
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.runtime.installing import releases
from counterfactory.engine.stages.check.clip_scores import edit_scores, label_score, score
from counterfactory.engine.stages.check.colours import find_colour, recolouring, source_colours
from counterfactory.engine.stages.check.kept import find_things, kept_score
from counterfactory.engine.stages.check.quality import (
    distance,
    look_at_source,
    outlined_share,
    quality_scores,
    small_outlines,
    thumbnail,
)
from counterfactory.engine.stages.check.registration import registration_scores, source_map
from counterfactory.engine.stages.check.visibility import see_source, visibility_scores
from counterfactory.engine.stages.maps.draw_maps import edge_maps
from counterfactory.engine.stages.rewrite.caption_edits import draft_of
from counterfactory.engine.stages.rewrite.matrix import Matrix
from counterfactory.engine.tasks.choose import Choice, choose_edits
from counterfactory.engine.tasks.user_task import Interventions
from counterfactory.kernels.guided_step import guide

MAKERS = MappingProxyType({stage: f"maker of {stage}" for stage in STAGES})
RECIPES = ContentKeys(
    image="image",
    caption="caption",
    sampling="greedy",
    edges="edges",
    paint="paint",
    text="text",
    check=(8, "a {label}", 9.0),
    makers=MAKERS,
)
NAMED: dict[str, Callable[[ContentKeys], str]] = {
    "caption": lambda r: r.caption_key("0a"),
    "answer": lambda r: r.answer_key("keywords", "request"),
    "original": lambda r: r.original_key("0d"),
    "picture": lambda r: r.picture_key("0b"),
    "baseline": lambda r: r.baseline_key("0b"),
    "reading": lambda r: r.recaption_key("0c", "", 64, [("a street at night", [(12, 17)])]),
    "sight": lambda r: r.referee_key("0c", "0d", "referee"),
    "scores": lambda r: r.scores_key("0c", "0d", ("a street", "a street at night"), None, []),
}
# What makes each result again when it changes, by the names of the keys' parts.
DEPENDS = {
    "caption": {"image", "caption", "makers.caption"},
    "answer": {"sampling", "makers.rewrite"},
    "original": {"image"},
    "picture": {"image", "edges", "paint", "text", "makers.edges", "makers.paint", "hints", "protect"},
    "baseline": {"image", "protect"},
    "reading": {"makers.caption"},
    "sight": {"image"},
    "scores": {"image", "text", "check", "makers.check"},
}


def changed(part: str) -> ContentKeys:
    if part.startswith("makers."):
        stage = part.removeprefix("makers.")
        return replace(RECIPES, makers={**MAKERS, stage: "another maker"})
    return replace(RECIPES, **{part: "another"})


@pytest.mark.parametrize("result", NAMED)
def test_a_result_is_made_again_for_what_it_depends_on_and_for_nothing_else(result: str) -> None:
    settings = ["image", "caption", "sampling", "edges", "paint", "text", "check", "hints", "protect"]
    parts = [*settings, *(f"makers.{stage}" for stage in STAGES)]
    key = NAMED[result]
    assert {part for part in parts if key(changed(part)) != key(RECIPES)} == DEPENDS[result]


def test_what_names_the_noise_stays_for_ever() -> None:
    """These keys seed random numbers: a suite made again elsewhere, or next year, has the same noise and edits."""
    of = ("s", "a foggy street", (Edit("weather", "foggy", "rainy"),), "a rainy street", 3)
    assert content_keys.variant_key(*of) == content_key("variant", *of)
    for repeat, again in ((0, ()), (2, (2,))):
        assert content_keys.variant_key(*of, repeat) == content_key("variant", *of, *again)
        assert content_keys.variant_key(*of, repeat, (1, 5)) == content_key("variant", *of, *again, (1, 5))
    assert content_keys.choice_key("s", "task", 3) == content_key("rewrite", "s", "task", 3)


def test_what_names_recorded_results_stays_for_ever() -> None:
    """Another form of these keys would find nothing of what suites have on record."""
    assert content_keys.source_key("n", "0a", "bus", "0b") == content_key("n", "0a", "bus", "0b")
    caption = ("caption", "0a", "image", "caption", "maker of caption")
    assert RECIPES.caption_key("0a") == content_key(*caption)
    assert RECIPES.caption_key("0a", "a photo of a dog") == content_key(*caption, "a photo of a dog")
    assert content_keys.outcome_key("profile", "settings", ["car"], {"paint": "m"}) == content_key(
        "profile", "settings", ["car"], {"paint": "m"}, code_of("rewrite"), content_keys.ROW_FORM
    )
    assert maker_key("edges", ["a"], "f32", {"b": "1"}) == content_key("edges", ["a"], "f32", {"b": "1"}, 1)
    assert RECIPES.answer_key("q", "r") == content_key("rewrite", "q", "r", "maker of rewrite", "greedy")
    assert RECIPES.original_key("0d") == content_key("original", "0d", "image")
    assert RECIPES.recaption_key("0c", "", 64, ["words"]) == content_key(
        "reading", "0c", "", 64, ["words"], "maker of caption", code_of("check")
    )
    assert RECIPES.baseline_key("0b") == content_key("baseline", "0b", "image", content_keys.LIGHT)
    assert content_keys.given_key("s", "c", ["e"], "d", "g") == content_key("given", "s", "c", ["e"], "d", "g")
    painted = ("paint", "0b", "image", "edges", "paint", "text", ("maker of edges", "maker of paint"))
    for optional in ({}, {"hints": "h"}, {"hints": "h", "protect": "p"}, {"invert": "how"}):
        picture_key = replace(RECIPES, **optional).picture_key("0b")
        assert picture_key == content_key(*painted, *optional.values())
    assert RECIPES.scores_key("0c", "0d", ("one", "other"), ("car",), ["0e"]) == content_key(
        *("check", "0c", "0d", "image", ("one", "other"), ("car",), ["0e"], "text", (8, "a {label}", 9.0)),
        "maker of check",
    )
    assert RECIPES.referee_key("0c", "0d", "r") == content_key("sight", "0c", "0d", "image", "r")
    assert content_keys.shard_key(["a", "b"]) == content_key("shard", ["a", "b"])


def test_the_number_of_a_stage_s_code_is_in_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def named() -> list[str]:
        return [maker_key("paint", [], "", {}), content_keys.outcome_key("profile", "settings", [], {})]

    assert {stage: code_of(stage) for stage in STAGES} == dict.fromkeys(STAGES, 1) | {
        "caption": 2,
        "rewrite": 13,
        "check": 8,
    }
    before = named()
    monkeypatch.setattr(content_keys, "code_of", lambda stage: 1000)
    assert not set(before) & set(named())


def test_values_that_are_spread_otherwise_have_another_number() -> None:
    sources, values = [source(str(i)) for i in range(5)], Interventions((("colour", ("blue", "green", "white")),))
    request = wanted_of(2, (1, 1), interventions=values)
    matrix, sets = Matrix(request), []
    for one in sources:
        draft = draft_of(one, "a red bus", request.task, None)
        draft.choices = [Choice("colour", "red", ("blue", "green", "white"))]
        sets.append(matrix.plan(draft))
    assert (content_keys.MATRIX, content_key(sets)[:16]) == (1, "ee919686d37d2080")


def test_releases_are_of_the_libraries_that_are_installed() -> None:
    found = releases(["openvino", "opencv", "no-such-library"])
    assert set(found) == {"openvino", "opencv-python-headless"}
    assert found["openvino"].startswith("20")


def digest(*arrays: np.ndarray) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()[:16]


def picture() -> np.ndarray:
    """Shapes of flat colour on a gradient."""
    rows, columns = np.mgrid[0:64, 0:96]
    image = np.stack([2 * rows, 2 * columns, rows + columns], axis=-1).astype(np.uint8)
    cv2.rectangle(image, (20, 16), (60, 48), (200, 40, 90), -1)
    return image


def paint_numbers() -> str:
    """What our own code adds between a denoiser's outputs and latents, and the noise that they start from."""
    sampler = Sampler(load_profile("pocket-full").paint.sampler)
    latents = generator("0" * 64, "noise").standard_normal((4, 8, 8), np.float32)
    history = sampler.start
    for i in range(len(sampler.timesteps)):
        output = guide(latents * np.float32(0.5), latents * np.float32(0.25), 2.5)
        latents, history = sampler.step(i, latents, output, history)
    return digest(latents)


def check_numbers() -> str:
    rng = generator("0" * 64, "embeddings")
    vectors = [v / np.linalg.norm(v, axis=-1, keepdims=True) for v in rng.standard_normal((4, 3, 16), np.float32)]
    rows = list(zip(*vectors, strict=True))
    found: list[object] = [score(*row) for row in rows]
    found += [edit_scores(row[2], [(row[3], row[1])], 9.0) for row in rows]
    found += [label_score([row[2], row[0]], vectors[1], 1, 9.0) for row in rows]
    mask = (np.mgrid[0:64, 0:96][1] > 40).astype(np.uint8)
    dim = picture() // 2
    found += [
        quality_scores(dim, thumbnail(dim), look_at_source(picture())),
        distance(thumbnail(dim), thumbnail(picture())),
        recolouring(
            dim, [Edit("colour", "red", "pink")], lambda colour: find_colour(source_colours(picture()), colour)
        ),
        kept_score(dim, "a pink box", (), lambda: find_things(source_colours(picture()), None)),
        # To three digits: the libraries below may add in another order elsewhere.
        {
            name: round(value, 3)
            for name, value in (
                registration_scores(small_outlines(dim), source_map(small_outlines(picture())))
                | visibility_scores(dim, see_source(picture(), (), mask))
            ).items()
        },
    ]
    return content_key([*found, outlined_share(small_outlines(picture()), mask)])[:16]


def rewrite_numbers() -> str:
    choices = [
        Choice("weather", "foggy", ("rainy", "snowy")),
        Choice("time", "at night", ("at noon",)),
        Choice("colour", "red", ("blue", "green", "white")),
    ]
    return content_key([choose_edits(choices, 6, (1, 2), f"key {i}") for i in range(4)])[:16]


# If one of these moves, results on record were made by other code than today's: raise the stage's number in
# `content_keys.code_of`, then write the new digest here.
@pytest.mark.parametrize(
    ("stage", "number", "numbers", "found"),
    [
        ("rewrite", 13, rewrite_numbers, "8c1ad259a9986ef2"),
        ("edges", 1, lambda: digest(edge_maps(picture()[None], load_profile("pocket").edges)), "c857c8da9ccfa677"),
        ("paint", 1, paint_numbers, "fdf63a716bffb1e0"),
        ("check", 8, check_numbers, "32cc7289cdd2bd8c"),
    ],
)
def test_code_that_gives_other_results_has_another_number(
    stage: content_keys.Stage, number: int, numbers: Callable[[], str], found: str
) -> None:
    assert (code_of(stage), numbers()) == (number, found)


def test_light_that_is_drawn_otherwise_has_another_number() -> None:
    """If one of these means moves, raise `content_keys.LIGHT`, then write the new one here."""

    def mean(image: np.ndarray, *values: tuple[str, str]) -> float:
        return float(draw_light(open_photograph(image), values, 1.0, np.random.default_rng(7)).mean())

    found = {value: mean(picture(), (type_, value)) for type_, values in MENU.items() for value in values}
    large = np.asarray(cv2.resize(picture(), (720, 480)) // 8, np.uint8)
    found["at night, snowy"] = mean(large, ("time", "at night"), ("weather", "snowy"))
    times = {"at sunset": 114.5, "at dusk": 34.7, "at night": 25.4}
    weathers = {"overcast": 96.8, "hazy": 132.7, "foggy": 134.8, "rainy": 93.6, "snowy": 117.7, "at night, snowy": 17.4}
    camera = {"out of focus": 87.6, "in motion": 87.7, "discoloured": 68.4, "noisy": 85.7, "compressed": 87.6}
    expected = {**times, **weathers, "in glare": 167.7, **camera}
    assert (content_keys.LIGHT, found) == (3, pytest.approx(expected, abs=0.3))
