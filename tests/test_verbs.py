"""What verbs ask of what they call, and what they tell the caller, by photographs that light alone changes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import MadeSuite, Street
from light_sets import make_suite, photographs
from PIL import Image
from profiles import profile_with

import counterfactory as cf
from counterfactory.engine import packages
from counterfactory.engine.api import read_inputs, verbs
from counterfactory.engine.api.options import Caller, require_known
from counterfactory.engine.api.pages import describe_suite
from counterfactory.engine.api.predicting import _overlap
from counterfactory.engine.estimate.estimate import least_accepted
from counterfactory.engine.journey import Journey
from counterfactory.engine.meter.meter import Progress
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.report.suite_text import uncovered


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Seven photographs of two classes."""
    return photographs(tmp_path / "photos", range(7))


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def predicted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What estimates are asked of: profile, sources, variants, memory, and the others by name."""
    asked: list[tuple[Any, ...]] = []

    def predict(profile: Any, sources: Any, *others: Any, **named: Any) -> Any:
        asked.append((profile.name, sources if isinstance(sources, int) else len(sources), *others, named))
        return SimpleNamespace(sources=len(sources) if not isinstance(sources, int) else sources)

    monkeypatch.setattr(verbs, "predict", predict)
    return asked


def test_an_estimate_is_asked_of_what_the_caller_says(predicted: list[tuple[Any, ...]], photos: Path) -> None:
    plain, light = {"controls": 1, "baseline": False}, {"profile": "light"}
    verbs.forecast(1)
    verbs.forecast(9, variants=2, controls=0, memory=3, **light)
    verbs.forecast(9, baseline="light")
    verbs.forecast(photos, **light, warn=print)
    verbs.forecast(photos, variants=3, memory=2, per_class=2, **light, warn=print)
    verbs.forecast(9, controls=2)
    assert predicted == [
        ("pocket", 1, 5, None, plain),
        ("light", 9, 2, 3_000_000_000, {"controls": 0, "baseline": False}),
        ("pocket", 9, 5, None, {"controls": 1, "baseline": True}),
        ("light", 7, 5, None, {"controls": 0, "baseline": False}),
        ("light", 4, 3, 2_000_000_000, {"controls": 0, "baseline": False}),
        ("pocket", 9, 5, None, {"controls": 2, "baseline": False}),
    ]
    for none in (0, -1):
        with pytest.raises(cf.CounterfactoryError, match=f"^estimate: a number of sources is needed, got {none}$"):
            verbs.forecast(none)


def test_sources_that_models_do_not_know_are_cautioned_of(told: list[str]) -> None:
    caller = Caller.of(None, told.append)
    verbs._warn_outside(0, 4, caller)
    assert told == []
    verbs._warn_outside(2, 4, caller)
    (text,) = told
    assert text.startswith("caution    2 of 4 sources are unlike anything that the models were trained on")


def test_a_plan_is_of_the_first_five(photos: Path, told: list[str]) -> None:
    def sources(**options: Any) -> list[str]:
        plan = cf.plan(photos, profile="light", warn=told.append, **options)
        return [source.name for source in plan.plan.captions]

    found = sources()
    assert len(found) == 5
    assert sources(first=2) == found[:2]
    assert len(sources(first=9)) == 7


def test_a_run_may_go_on_where_hardly_a_picture_is_accepted(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Journey] = []

    def stopped(journey: Journey, *_: object) -> None:
        asked.append(journey)
        raise KeyboardInterrupt

    monkeypatch.setattr(Journey, "run", stopped)
    for anyway in ({}, {"anyway": False}, {"anyway": True}):
        with pytest.raises(KeyboardInterrupt):
            cf.generate(photos, out=tmp_path / "suite", profile="light", warn=print, **anyway)
    least = least_accepted(load_profile("light"))
    assert least is not None
    assert [journey.least_accepted for journey in asked] == [least, least, None]
    with pytest.raises(KeyboardInterrupt):
        cf.generate(photos, out=tmp_path / "suite", profile="light", warn=print, shard=3, shard_log=tmp_path / "log")
    assert (asked[-1].profile.shard_sources, asked[-1].shard_log) == (3, tmp_path / "log")


def test_what_a_menu_has_one_of_is_not_one_sided(
    photos: Path, tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The light profile's menu has one light; of the three times a user may want one."""
    monkeypatch.setattr("counterfactory.engine.tasks.spread._FEW", 1)
    made = make_suite(photos, tmp_path / "suite", variants=5, edits=1, warn=told.append)
    (light,) = (spread for spread in made.spread if spread.type == "light")
    assert light.most == 1
    cf.plan(photos, profile="light", variants=5, edits=1, warn=told.append)
    assert not [text for text in told if "edits of type light bring" in text]
    told.clear()
    values = {"time": ["at night"]}
    assert make_suite(photos, tmp_path / "night", interventions=values, warn=told.append).spread
    assert told == []


def test_coverage_is_of_values_that_are_named(photos: Path, tmp_path: Path, told: list[str]) -> None:
    """A stricter profile lets no picture of the one value pass."""
    with pytest.raises(cf.CounterfactoryError, match="--require-coverage counts the values that you name: give --int"):
        make_suite(photos, tmp_path / "none", require_coverage=0.5)
    with pytest.raises(cf.CounterfactoryError, match="require_coverage is a share from 0 to 1, got 2"):
        make_suite(photos, tmp_path / "none", require_coverage=2)
    assert not (tmp_path / "none").exists()
    asked: dict[str, Any] = {"require_coverage": 1.0, "interventions": {"weather": ["snowy"]}, "warn": told.append}
    assert make_suite(photos, tmp_path / "suite", **asked).covers(1.0)
    assert told == []
    strict = profile_with(tmp_path, "light", check={"min_changed": 0.9})
    made = make_suite(photos, tmp_path / "none", profile=strict, **asked)
    assert not made.covers(0.01)
    assert told == [uncovered(made.cells, 1.0)]


def write_pairs(folder: Path, pairs: list[tuple[str, str, str]]) -> Path:
    lines = ["original,edited,kind,edit,label"]
    for number, (original, edited, kind) in enumerate(pairs):
        for name in (original, edited):
            if not (folder / name).exists():
                Image.new("RGB", (32, 32), (40 + 30 * number,) * 3).save(folder / name)
        lines.append(f"{original},{edited},{kind},{'light: bright' if kind == 'variant' else ''},bus")
    (folder / "pairs.csv").write_text("\n".join(lines))
    return folder / "pairs.csv"


def test_pairs_say_how_many_pictures_a_source_has(tmp_path: Path, told: list[str]) -> None:
    caller = Caller.of(None, told.append)

    def request(pairs: list[tuple[str, str, str]]) -> tuple[int, int]:
        asked = read_inputs.read_pairs(write_pairs(tmp_path, pairs), {}, caller, lambda same: same).request
        return asked.variants, asked.controls

    first = [("a.png", f"a{i}.png", "variant") for i in range(3)]
    assert request([*first, ("a.png", "ac.png", "control"), ("b.png", "b0.png", "variant")]) == (3, 1)
    assert request([("a.png", "a0.png", "variant")]) == (1, 0)


def test_streets_are_painted_anew_where_most_sources_are_streets(told: list[str]) -> None:
    """Half of them are not enough, and sources that nobody examined do not count."""
    streets, caller = load_profile("pocket"), Caller.of(None, told.append)

    def suiting(*known: bool | None) -> str:
        data: Any = SimpleNamespace(sources=[SimpleNamespace(known_world=one) for one in known])
        return read_inputs._suiting(streets, data, caller).name

    assert suiting(True, True, False, None, None) == "pocket"
    assert told.pop().startswith("painter    pocket paints rendered streets anew, which the sources look like; other")
    assert suiting(True, False) == suiting(False) == "light"
    assert "by rule: 1 of 2 sources are no rendered streets, all that pocket knows; other colours" in told[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"per_class": 1, "sample": 2}, "per_class and sample contradict: give one"),
        ({"baseline": "dark"}, "there is no baseline 'dark' but 'light'"),
        ({"baseline": "light"}, "--baseline light goes with another painter: light draws it already"),
        ({"profile": "given"}, "profile given paints nothing: counterfactory import makes a suite of pictures that"),
        ({"interventions": {"weather": ["rain; snow"]}}, "interventions: the value 'rain; snow' holds ';'"),
        ({"variants": 2, "shards": 3}, "generate() has no option 'shards'; did you mean 'shard'?"),
        ({"shard": None, "variants": 0}, "generate: variants is a whole number from 1, got 0"),
    ],
)
def test_what_a_run_refuses(options: dict[str, Any], message: str, photos: Path, tmp_path: Path) -> None:
    with pytest.raises((cf.CounterfactoryError, TypeError)) as refused:
        make_suite(photos, tmp_path / "suite", **options)
    assert str(refused.value).startswith(message)
    assert not (tmp_path / "suite").exists()


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        ("light", "profile light has no language model"),
        ("pocket", "the language model of profile pocket knows the types that it was trained on and no others"),
    ],
)
def test_types_of_ones_own_need_a_model_that_converses(profile: str, why: str, street: Street, tmp_path: Path) -> None:
    types = tmp_path / "types.toml"
    types.write_text(
        '[[types]]\nname = "lens"\ninstruction = "how the picture was taken"\nplace = "end"\n'
        'caption = "a photo of a dog on grass"\nexamples = [["", "in soft focus"]]\n'
    )
    with pytest.raises(cf.CounterfactoryError) as refused:
        make_suite(street.root, tmp_path / "suite", profile=profile, types=types, allow_out_of_domain=True)
    assert str(refused.value) == f"the types of {types}: {why}; take a profile whose model converses, such as a10g"


def test_every_option_is_looked_at() -> None:
    """Those that are no numbers, or None, end nothing."""
    known = SimpleNamespace(__optional_keys__=frozenset(("labels", "variants", "sample")))
    require_known("plan", {"labels": "x", "sample": None, "variants": 3}, known)
    with pytest.raises(cf.CounterfactoryError, match="plan: variants is a whole number from 1"):
        require_known("plan", {"labels": "x", "sample": None, "variants": "3"}, known)


def test_callers_hear_of_progress_and_of_what_a_page_lacks(
    made_suite: MadeSuite, tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = packages.installed
    monkeypatch.setattr(packages, "installed", lambda module: module != "cv2" and there(module))
    progress: list[Progress] = []

    def model(pictures: Any) -> list[str]:
        return ["bus"] * len(pictures)

    options: dict[str, Any] = {"predictions": model, "on_progress": progress.append, "warn": told.append}
    pages = cf.report(made_suite.path, out=tmp_path / "page", **options)
    assert pages.page == tmp_path / "page" / "index.html"
    assert progress
    lacking = "no edges are shown: they take OpenCV (pip install 'counterfactory[light]')"
    assert told == [lacking]
    result = cf.evaluate(made_suite.path, {row.file_name: "bus" for row in made_suite.rows}, warn=told.append)
    assert result.report(tmp_path / "judged", warn=told.append).page == tmp_path / "judged" / "index.html"
    assert told == [lacking] * 2


def test_a_page_counts_what_a_suite_holds(made_suite: MadeSuite) -> None:
    text = describe_suite(made_suite.path, made_suite.rows)
    assert text.data == {"sources": 3, "variants": 6, "accepted": 5}
    assert text.figures == (("sources", "3"), ("variants accepted", "5 of 6"))
    assert text.subtitle.startswith("3 sources, 6 variants, 5 accepted")


def test_masks_without_names_are_shown_and_said(made_suite: MadeSuite, tmp_path: Path, told: list[str]) -> None:
    record = made_suite.path / "run.json"
    record.write_text("[")
    cf.report(made_suite.path, out=tmp_path / "page", no_edges=True, warn=told.append)
    (fault,) = told
    assert fault.startswith(f"masks are shown without their classes' names: {record}")


def test_effects_are_numbered_anew_from_the_worst(made_suite: MadeSuite) -> None:
    """They are by name before."""
    last = max(str(row.label) for row in made_suite.rows if row.accepted)
    wrong = {
        row.file_name: "tram" if row.kind == "variant" and row.label == last else str(row.label)
        for row in made_suite.rows
    }
    effects = cf.evaluate(made_suite.path, wrong, warn=list[str]().append).effects("class")
    assert len(effects) > 1
    assert effects["edit"][0] == last
    assert list(effects.index) == list(range(len(effects)))
    assert list(effects["points"]) == sorted(effects["points"])


def test_overlaps_of_real_masks(tmp_path: Path) -> None:
    truth = np.kron(np.array([[0, 1], [1, 255]], np.uint8), np.ones((4, 4), np.uint8))
    Image.fromarray(truth).save(tmp_path / "m.png")
    said = np.kron(np.array([[0, 1], [0, 1]], np.uint8), np.ones((4, 4), np.uint8))
    assert _overlap(tmp_path / "m.png", said, None) == pytest.approx(0.5), "half of each: 1 of 2, and 1 of 2"
    assert _overlap(tmp_path / "m.png", said, {0: "sky", 4: "road"}) == pytest.approx(0.5)
    assert _overlap(tmp_path / "m.png", truth, {0: "sky"}) == 1, "numbers that the suite has no name for do not count"
    with pytest.raises(cf.CounterfactoryError) as refused:
        _overlap(tmp_path / "m.png", said[:1], None)
    assert str(refused.value) == f"{tmp_path / 'm.png'} is [8, 8], its picture [1, 8]: masks fit pictures"
