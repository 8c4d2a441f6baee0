"""Precision and recall of checks, by hand over a few cases; nothing is painted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from picture_rows import picture_row
from session_records import costs, session_facts, stage_cost

from counterfactory.engine.config.profile import load_profile
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.suite.run_record import RunRecord, write_run
from counterfactory.engine.suite.session import SessionRecord
from counterfactory.export.pocket import validity
from counterfactory.export.pocket.validity import (
    Case,
    check_figures,
    check_shares,
    choose_gate,
    figures_of,
    gate_of,
    is_valid,
    open_gate,
)
from counterfactory.export.pocket.validity_page import draw_curve, validity_page

CHECK = load_profile("pocket").check
FREE = open_gate(CHECK)
GOOD = {"edit": 0.9, "image_text": 0.5, "directional": 0.5, "image_image": 0.5, "layout": 0.9, "said_edits": 1.0}


def case(valid: bool, **scores: float) -> Case:
    return Case(picture_row(scores=GOOD | scores), valid)


# Eight valid and four others: said_edits finds two of them, layout a third; edit tells nothing.
CASES = [
    *(case(True, edit=0.5 + i / 20, layout=0.6 + i / 30) for i in range(7)),
    case(True, said_edits=0.0),
    *(case(False, said_edits=0.0, edit=0.6 + i / 10) for i in range(2)),
    case(False, layout=0.3),
    case(False),
]


def test_a_gate_s_shares_are_of_the_product_s_own_verdicts() -> None:
    assert FREE.strict == {}
    assert gate_of(FREE, CASES) == {"accepted": 1.0, "precision": pytest.approx(8 / 12), "recall": 1.0}
    strict = replace(FREE, min_said_edits=0.5)
    assert gate_of(strict, CASES) == {"accepted": 9 / 12, "precision": pytest.approx(7 / 9), "recall": 7 / 8}
    none = replace(FREE, min_edit=1.0)
    assert gate_of(none, CASES) == {"accepted": 0.0, "precision": None, "recall": 0.0}


def test_thresholds_are_chosen_that_leave_enough_of_the_valid_ones() -> None:
    chosen = choose_gate(FREE, CASES, 0.875)
    assert chosen.strict == {"min_layout": 0.6, "min_said_edits": 1.0}
    assert gate_of(chosen, CASES)["precision"] == 7 / 8
    careful = choose_gate(FREE, CASES, 1.0)
    assert careful.strict == {"min_layout": 0.6}, "said_edits would cost a valid one"
    assert choose_gate(FREE, CASES[:8], 0.5).strict == {}, "where all are valid nothing is to be rejected"


def test_every_check_is_measured_by_itself() -> None:
    found = check_figures(FREE, "layout", CASES, CASES)
    assert found["least"] == 0.6
    assert (found["accepted"], found["recall"]) == (11 / 12, 1.0)
    assert found["precision"] == pytest.approx(8 / 11)
    assert check_figures(FREE, "edit", CASES, CASES)["least"] == 0.5
    # Of the 32 pairs of a valid one and another, said_edits is higher in 14, and equal in 14 + 2.
    assert check_figures(FREE, "said_edits", CASES, CASES)["area"] == pytest.approx((14 + 8) / 32)
    nothing = check_figures(FREE, "miou", CASES, CASES)
    assert nothing == {"area": 0.5, "least": None, "accepted": None, "precision": None, "recall": None}


def test_figures_and_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validity, "RECALLS", (0.875, 1.0))
    figures = {"world": "streets", "scenes": 3, **figures_of(CHECK, CASES, CASES)}
    assert figures["gate_base_rate"] == pytest.approx(8 / 12)
    assert (figures["gate_precision"], figures["gate_recall"]) == (pytest.approx(6 / 9), 6 / 8)
    assert figures["gate_thresholds"] == CHECK.strict
    assert [(gate["recall_wanted"], gate["recall"]) for gate in figures["chosen"]] == [(0.875, 0.875), (1.0, 1.0)]
    assert set(figures["by_check"]) == set(GOOD)
    page = validity_page({**figures, "checks_share": 0.071, "checks_share_recaption": None})
    assert "| none (base rate) | 100.0% | 66.7% | 100.0% |  |" in page
    assert "| the profile's | 75.0% | 66.7% | 75.0% | `min_image_text` 0.15," in page
    assert "| chosen to accept 88% | 66.7% | 87.5% | 87.5% | `min_layout` 0.6, `min_said_edits` 1 |" in page
    assert "not met by the gate" in page
    assert "7.1% with the profile's own,\n- with the captioner's" in page
    curve = draw_curve(figures)
    assert curve.count("<circle") == 3
    assert "precision 66.7%, recall 75.0%" in curve


def test_nothing_is_measured_where_nothing_is_valid() -> None:
    with pytest.raises(CounterfactoryError, match=r"no variant is valid: .* ask for more --scenes"):
        figures_of(CHECK, CASES, [case(False)])


@pytest.mark.parametrize(
    ("kind", "layout", "seen", "valid"),
    [
        ("bus", True, [True, None], True),
        ("bus", True, [], True),
        ("bus", True, [True, False], False),
        ("bus", False, [True], False),
        ("car", True, [True], False),
    ],
)
def test_valid_is_what_the_referee_sees(
    kind: str, layout: bool, seen: list[bool | None], valid: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validity, "layout_kept", lambda one: layout)
    monkeypatch.setattr(validity, "label_kept", lambda one: kind == "bus")
    one: Any = SimpleNamespace(edits=[()] * len(seen), edit_seen=lambda i: seen[i])
    assert is_valid(one) is valid


def test_the_checks_share_is_of_the_first_session_s_time(tmp_path: Path) -> None:
    def session(name: str, painted: int, **wall: float) -> SessionRecord:
        stages = tuple(stage_cost(stage, wall_s=seconds) for stage, seconds in wall.items())
        return SessionRecord(name, "", True, session_facts(), (), costs(painted=painted, stages=stages))

    sessions = [session("a", 5, paint=9.0, check=1.0), session("b", 0, paint=0.5, check=2.0)]
    write_run(tmp_path, RunRecord(tuple(sessions)))
    assert check_shares(tmp_path) == {"checks_share": 0.1, "checks_share_recaption": 0.25}
    write_run(tmp_path, RunRecord(tuple(sessions[1:])))
    assert check_shares(tmp_path) == {"checks_share": None, "checks_share_recaption": None}
