"""Precision and recall of checks, by hand over a few cases; nothing is painted."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from picture_rows import picture_row
from rendered_truth import TrueReferee, true_finding

from counterfactory.engine.edit import Edit
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.pocket.world import CLASSES, MATERIALS
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.check import CheckSettings
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.export.pocket import validity
from counterfactory.export.pocket.counterfacts import Change, apply_changes
from counterfactory.export.pocket.data import HELD_OUT
from counterfactory.export.pocket.observed import Judged
from counterfactory.export.pocket.packed import MASTERS
from counterfactory.export.pocket.report import Subject
from counterfactory.export.pocket.streaks import STREAKED, count_streaks
from counterfactory.export.pocket.unchanged import truth_figures, unchanged_facts, walls_kept
from counterfactory.export.pocket.validity import (
    Case,
    calibration,
    check_figures,
    figures_of,
    gate_of,
    is_valid,
    open_gate,
    referee_figures,
    streak_figures,
    table,
    together_figures,
    type_figures,
)

USUAL = load_profile("pocket-lance").check
CHECK = replace(USUAL.having(min_edit=0.56, min_directional=0.0, min_valid=None), valid=None)
FREE = open_gate(CHECK)
GOOD = {
    "intact": 1.0,
    "edit": 0.9,
    "image_text": 0.5,
    "directional": 0.5,
    "image_image": 0.5,
    "layout": 0.9,
    "said_weather": 0.9,
}


ROW = picture_row()


def case(number: int, valid: bool, **scores: float) -> Case:
    return Case(picture_row(number, scores=GOOD | scores), valid, (valid,))


# Twelve of which eight are valid: said_weather finds two of the others, layout a third; edit tells nothing.
CASES = [
    *(case(i, True, edit=0.5 + i / 20, layout=0.6 + i / 30) for i in range(7)),
    case(7, True, said_weather=0.1),
    *(case(8 + i, False, said_weather=0.1, edit=0.6 + i / 10) for i in range(2)),
    case(10, False, layout=0.3),
    case(11, False),
]
MANY = [replace(one, row=replace(one.row, source=f"{i % 9}")) for i, one in enumerate(CASES * 6)]


def shares(settings: CheckSettings, cases: Sequence[Case]) -> dict[str, Any]:
    return {name: value for name, value in gate_of(settings, cases).items() if not name.endswith("interval")}


def test_a_gate_s_shares_are_of_the_product_s_own_verdicts() -> None:
    assert FREE.strict == {}
    assert shares(FREE, CASES) == {"accepted": 1.0, "precision": pytest.approx(8 / 12), "recall": 1.0}
    strict = FREE.having(min_layout=0.7)
    assert shares(strict, CASES) == {"accepted": 8 / 12, "precision": 5 / 8, "recall": 5 / 8}
    none = FREE.having(min_edit=1.0)
    assert shares(none, CASES) == {"accepted": 0.0, "precision": None, "recall": 0.0}


def test_intervals_are_of_draws_of_scenes() -> None:
    found = gate_of(FREE, MANY)
    low, high = found["precision_interval"]
    assert 0.5 < low < 8 / 12 < high < 0.85
    assert found["recall_interval"] == [1.0, 1.0], "all are accepted, whoever is drawn"
    alone = [replace(one, row=replace(one.row, source="one")) for one in CASES]
    assert gate_of(FREE, alone)["precision_interval"] == pytest.approx([8 / 12] * 2), "one scene is drawn again"
    assert gate_of(FREE.having(min_edit=1.0), CASES)["precision_interval"] is None


def test_every_check_is_measured_by_itself() -> None:
    found = check_figures(FREE, "layout", CASES, CASES)
    assert (found["least"], found["accepted"], found["recall"]) == (0.6, 11 / 12, 1.0)
    assert found["precision"] == pytest.approx(8 / 11)
    assert check_figures(FREE, "edit", CASES, CASES)["least"] == 0.5
    nothing = check_figures(FREE, "miou", CASES, CASES)
    assert nothing == {"area": None, "least": None, "accepted": None, "precision": None, "recall": None}


def test_probabilities_are_held_against_what_came_of_them() -> None:
    chances = enumerate([(0.1, False), (0.85, True), (0.81, False), (1.0, True)])
    said = [replace(case(i, valid), row=picture_row(i, scores={"valid": chance})) for i, (chance, valid) in chances]
    found = [(one["variants"], one["said"], one["valid"]) for one in calibration(said)]
    assert found == [(1, pytest.approx(0.1), 0.0), (2, pytest.approx(0.83), 0.5), (1, 1.0, 1.0)]


def test_figures_of_a_type_are_of_the_variants_that_have_it() -> None:
    row = picture_row(12, scores=GOOD, edits=(Edit("colour", "red", "blue"),))
    other = replace(case(12, False), row=row, seen=(None,))
    found = type_figures(FREE.having(min_layout=0.7), "weather", [*CASES, other])
    assert (found["variants"], found["base_rate"], found["seen"]) == (12, pytest.approx(8 / 12), pytest.approx(8 / 12))
    assert (found["precision"], found["recall"]) == (5 / 8, 5 / 8)
    # Of the 32 pairs of a seen edit and another, said_weather is higher in 14, and equal in 14 + 2.
    assert found["area_said"] == pytest.approx((14 + 8) / 32)
    assert found["area_recoloured"] is None, "nothing was recoloured"
    unread = case(13, True)
    del unread.row.scores["said_weather"]  # type: ignore[attr-defined]
    assert type_figures(FREE, "weather", [*CASES, unread])["area_said"] == found["area_said"], "it says nothing of it"
    assert type_figures(FREE, "colour", [*CASES, other])["area_said"] is None


def test_figures_and_their_table() -> None:
    figures = {"profile": "pocket-lance", "scenes": 3, **figures_of(CHECK, MANY, CASES)}
    assert figures["gate_base_rate"] == pytest.approx(8 / 12)
    assert (figures["gate_precision"], figures["gate_recall"]) == (pytest.approx(6 / 9), 6 / 8)
    assert figures["gate_thresholds"] == CHECK.strict
    best = figures["chosen"][0]
    assert best["recall_wanted"] == 0.9
    assert best["recall"] == 1.0, "the eighth valid one is as likely as two that are not"
    by_name = {part["part"]: part for part in figures["parts"]}
    assert set(by_name) == {"weather", "layout"}
    assert by_name["weather"]["scores"] == ("said_weather",)
    assert by_name["weather"]["weights"][0] > 0.2
    assert {"edit", "valid", "layout"} <= set(figures["by_check"]) | {"valid"}
    assert list(figures["by_type"]) == ["weather"]
    lines = table(figures).splitlines()
    assert lines[0] == "12 variants, 66.7% of them valid"
    assert lines[3].split()[:3] == ["75.0%", "66.7%", "75.0%"]
    assert lines[3].endswith("as the profile has it")
    assert lines[4].split()[2] == "100.0%"
    assert lines[4].endswith(f"min_valid of {best['thresholds']['min_valid']:.3f}")
    edit = figures["by_check"]["edit"]
    assert f"{edit['area']:.2f}  min_edit of {edit['least']}" in table(figures)


def test_nothing_is_measured_where_nothing_is_valid() -> None:
    with pytest.raises(CounterfactoryError, match=r"no variant is valid: .* ask for more --scenes"):
        figures_of(CHECK, CASES, [case(0, False)])


CLEAR_BUSES = [s for s in (EMBEDDED.scene(77, i) for i in range(150)) if (s.weather, s.label) == ("clear", "bus")]
DAY = next(number for number, scene in enumerate(CLEAR_BUSES) if scene.time == "day")


def seen(changes: tuple[Change, ...], number: int = 0, **wrong: Any) -> Any:
    """A street whose picture is the truth of the changes, as a referee sees it that errs in what is `wrong`."""
    scene = CLEAR_BUSES[number]
    target = EMBEDDED.draw(apply_changes(scene, changes))
    finding = replace(true_finding(apply_changes(scene, changes), target), **wrong)
    return Judged("a", scene, EMBEDDED.draw(scene), tuple((c,) for c in changes), target.picture, finding, target, ROW)


FOGGY, GLASS = Change("weather", "foggy"), Change("material", "glass")
PERSON = CLASSES.index("pedestrian")
CARS = {"colour": np.zeros((128, 128), np.uint8), "kind": np.zeros((128, 128), np.uint8)}


@pytest.mark.parametrize(
    ("one", "valid"),
    [
        (seen((FOGGY, GLASS)), True),
        (seen(()), True),
        (seen((FOGGY, GLASS), scene={"weather": "clear", "time": "day"}), False),
        (seen((FOGGY,), mask=np.zeros((128, 128), np.uint8)), False),
        (seen((FOGGY,), objects=CARS), False),
    ],
)
def test_valid_is_what_the_referee_sees(one: Judged, valid: bool) -> None:
    assert is_valid(one) is valid


def test_the_truth_s_own_errors_are_counted() -> None:
    judged = [seen((FOGGY,)), seen((GLASS,)), replace(seen(()), target=None)]
    known = [(apply_changes(one.scene, one.changes), one.truth) for one in judged]
    referee: Any = TrueReferee([*known, (judged[0].scene, judged[0].drawing)])
    assert referee_figures(judged, referee) == {"truth_valid": 1.0, "source_valid": 0.0}
    assert referee_figures(judged[1:], referee)["source_valid"] is None, "no edit to judge"


def test_unchanged_facts_are_those_that_no_edit_names() -> None:
    one = seen((FOGGY,), number=DAY)
    facts = unchanged_facts(one)
    assert set(facts) >= {"time", "nearest vehicle's colour", "nearest vehicle's kind"}
    assert "weather" not in facts, "an edit names it"
    assert all(facts.values())
    assert "walls" not in unchanged_facts(seen((GLASS,)))
    assert unchanged_facts(seen((GLASS,)))["weather"]
    changed = unchanged_facts(seen((FOGGY,), number=DAY, scene={"weather": "foggy", "time": "night"}))
    assert [fact for fact, kept in changed.items() if not kept] == ["time"]
    recoloured = {**one.finding.objects, "colour": (one.finding.objects["colour"] + 1) % 8}
    assert not unchanged_facts(seen((FOGGY,), objects=recoloured))["nearest vehicle's colour"]
    red = seen((Change("colour", "red", 0),))
    assert "nearest vehicle's colour" not in unchanged_facts(red)


def test_walls_are_those_of_the_nearest_rendering() -> None:
    one = seen((), number=DAY)
    assert walls_kept(one) is True
    for material in MATERIALS:
        picture = EMBEDDED.draw(replace(one.scene, material=material)).picture
        assert walls_kept(replace(one, picture=picture)) is (material == one.scene.material)
    fog = replace(one.scene, weather="foggy", time="night")
    assert walls_kept(replace(one, scene=fog, picture=EMBEDDED.draw(fog).picture)) is None, "nobody could tell"


def test_people_are_there_where_the_referee_sees_a_third_of_each() -> None:
    crowded = next(one for one in (seen((), number=i) for i in range(9)) if (one.drawing.mask == PERSON).sum() > 200)
    assert unchanged_facts(crowded)["people"]
    mask = crowded.finding.mask.copy()
    rows = np.flatnonzero((mask == PERSON).any(axis=1))
    mask[rows[0] : rows[0] + len(rows) * 3 // 4][mask[rows[0] : rows[0] + len(rows) * 3 // 4] == PERSON] = 0
    gone = replace(crowded, finding=replace(crowded.finding, mask=mask))
    assert not unchanged_facts(gone)["people"]


def test_unchanged_shares_are_of_the_accepted_and_moved_ones_are_caught() -> None:
    judged = [seen((FOGGY,), DAY), seen((GLASS,), DAY), seen((GLASS,), DAY, scene={"weather": "snowy", "time": "day"})]
    check = load_profile("pocket").check
    facts, all_of = [unchanged_facts(one) for one in judged], np.ones(3, bool)
    figures = truth_figures(check, judged, facts, [True, False, True], all_of, 3)
    assert figures["accepted_unchanged"] == pytest.approx(2 / 3)
    assert figures["unchanged_recall"] == 1.0
    together = together_figures(judged, np.array([True, False, True]), facts, all_of)
    assert together["valid_and_unchanged"] == pytest.approx(1 / 3), "one is invalid, another changed"
    low, high = together["valid_and_unchanged_interval"]
    assert low <= 1 / 3 <= high
    vehicles = together["gate_by_vehicles"]
    assert sum(of["variants"] for of in vehicles.values()) == pytest.approx(1)
    few = together_figures(judged, np.ones(3, bool), facts, np.array([True, False, False]))
    (shown,) = (of for of in few["gate_by_vehicles"].values() if of["variants"])
    assert (shown["accepted"], shown["valid_and_unchanged"]) == (pytest.approx(1 / 3), 1)
    assert figures["registration_caught"] == 1.0
    assert figures["registration_false_alarms"] == 0.0
    open_wide = check.having(min_in_place=None, min_aligned=None)
    assert truth_figures(open_wide, judged, facts, [True] * 3, all_of, 3)["registration_caught"] == 0.0
    rejecting = truth_figures(check, judged, facts, [True] * 3, np.array([False, True, True]), 3)
    assert (rejecting["accepted_unchanged"], rejecting["unchanged_recall"]) == (0.5, 0.5)


def test_seeds_of_streams_that_train_or_choose_are_refused(tmp_path: Path) -> None:
    asked = Namespace(scenes=150, docs=tmp_path, seed=[2000, HELD_OUT])
    with pytest.raises(CounterfactoryError, match="--seed is 1000 to"):
        validity.run_validity(asked, print)


@pytest.mark.parametrize(("scenes", "seeds"), [(300, [2000]), (300, [2000, 2000]), (299, [2000, 3000]), (250, None)])
def test_figures_in_docs_are_of_600_scenes_that_chose_nothing(scenes: int, seeds: list[int] | None) -> None:
    asked = Namespace(scenes=scenes, docs=validity._DOCS, seed=seeds)
    with pytest.raises(CounterfactoryError, match="are of 600 scenes that judge"):
        validity.run_validity(asked, print)


def test_streaks_of_rain_are_seen_where_the_truth_has_them() -> None:
    for number in range(12):
        for time in ("day", "sunset", "night"):
            scene = replace(EMBEDDED.scene(777, number), time=time)
            drawn = {w: EMBEDDED.draw(replace(scene, weather=w)).picture for w in ("clear", "cloudy", "foggy", "rainy")}
            dry = [count_streaks(drawn[weather], drawn[weather]) for weather in ("clear", "cloudy", "foggy")]
            assert max(dry) < STREAKED <= 20 < count_streaks(drawn["rainy"], drawn["cloudy"])


def test_streaks_are_counted_in_accepted_dry_scenes_alone() -> None:
    dry, wet = seen((GLASS,), DAY), seen((Change("weather", "rainy"),), DAY)
    rain = EMBEDDED.draw(replace(apply_changes(dry.scene, dry.changes), weather="rainy")).picture
    judged = [replace(dry, picture=rain), replace(dry, picture=dry.truth.picture), replace(wet, picture=rain)]
    assert streak_figures(judged, np.ones(3, bool)) == {"streaked_when_dry": 0.5, "streaked_rendered": 0.0}
    assert streak_figures(judged, np.array([True, False, True]))["streaked_when_dry"] == 1
    assert streak_figures(judged[2:], np.ones(1, bool)) == {"streaked_when_dry": None, "streaked_rendered": None}


@pytest.mark.parametrize(("profile", "named"), [("pocket", "validity"), ("pocket-lance", "validity-pocket-lance")])
def test_each_profile_has_files_of_its_own_and_its_own_edits_per_variant(
    profile: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    right, wrong = seen((FOGGY,)), seen((FOGGY,), scene={"weather": "clear", "time": "day"})

    def judge(own: Profile, folder: Path, _: Any, request: SuiteRequest, numbers: range, stream: int) -> list[Any]:
        asked.append((own.name, own.models.folder, folder.parent.name, request.edits, numbers, stream))
        folder.mkdir(parents=True)
        return [replace(right if one.valid else wrong, row=one.row) for one in MANY]

    monkeypatch.setattr(validity, "judge_variants", judge)
    monkeypatch.setattr(validity, "referee_figures", lambda *_: {"truth_valid": 1.0})
    monkeypatch.setattr(validity, "unchanged_facts", lambda one: {"weather": True})
    monkeypatch.setattr(validity, "truth_figures", lambda *asked: dict.fromkeys(validity._TRUTH, float(asked[-1])))
    monkeypatch.setattr(validity, "together_figures", lambda judged, *_: {"valid_and_unchanged": len(judged)})
    monkeypatch.setattr(validity, "streak_figures", lambda *_: {})
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "truth.json").write_text('{"others": 1, "label_auc": 2, "validity_seed": 3}')
    figures = validity.write_validity(Subject(MASTERS, tmp_path / "work", 3), profile, docs, [12345, 54321])
    edits = load_profile(profile).rewrite.edits or (1, 3)
    assert asked == [
        (profile, str(MASTERS), named, edits, range(4000, 4003), HELD_OUT),
        (profile, str(MASTERS), named, edits, range(3), 12345),
        (profile, str(MASTERS), named, edits, range(3), 54321),
    ]
    assert (figures["variants"], figures["scenes"], figures["seeds"]) == (2 * len(MANY), 6, [12345, 54321])
    path = docs / f"{named}.json"
    assert {file.name for file in docs.iterdir()} == {path.name, "truth.json"}
    assert json.loads(path.read_text())["gate_recall"] == figures["gate_recall"]
    truth = json.loads((docs / "truth.json").read_text())
    assert truth["others"] == 1, "of other commands"
    if profile == "pocket":
        assert truth["validity_seeds"] == [12345, 54321]
        assert "validity_seed" not in truth
        assert truth["valid_and_unchanged"] == 2 * len(MANY)
        assert truth["accepted_unchanged"] == figures["accepted_unchanged"] == 12345.0
        assert (tmp_path / "work" / "measured" / named / "accepted.webp").is_file()
    else:
        assert truth["label_auc"] == 2
    lines = [path.read_text().splitlines() for path in (tmp_path / "work").rglob("valid.csv")]
    assert [len(of_suite) for of_suite in lines] == [1 + len(MANY)] * 3
    assert lines[0][:2] == ["image,valid", f"{MANY[0].row.file_name},true"]
