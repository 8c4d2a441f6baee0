"""What the report says of the checks: by hand, over a few cases."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from counterfactory.engine.pocket.worlds import WIDE
from counterfactory.engine.profile.profile import load_profile
from counterfactory.export.pocket import gate
from counterfactory.export.pocket.gate import Case, choose, gate_figures, gate_section

GOOD = Case(True, (("colour", 0.9, True),), 0.0, True, 0.9, True)
CASES = [
    GOOD,
    replace(GOOD, edits=(("colour", 0.7, True), ("background", 0.55, None)), layout=0.8),
    replace(GOOD, accepted=False, edits=(("colour", 0.45, True),), layout=0.6),
    replace(GOOD, edits=(("colour", 0.8, False), ("weather", 0.9, True)), label=-0.2),
    replace(
        GOOD, accepted=False, edits=(("colour", 0.3, False), ("weather", 0.2, False)), layout=0.4, layout_kept=False
    ),
    replace(GOOD, label_kept=False, label=-0.5),
]


def test_a_case_is_right_when_edits_are_seen_and_the_label_is_kept() -> None:
    assert [case.right for case in CASES] == [True, True, True, False, False, False]
    assert [case.edit for case in CASES] == [0.9, 0.55, 0.45, 0.8, 0.2, 0.9]


def test_figures_are_shares_of_the_cases() -> None:
    found = gate_figures(CASES)
    assert (found["gate_variants"], found["gate_base_rate"], found["gate_accepted"]) == (6, 0.5, pytest.approx(4 / 6))
    assert (found["gate_precision"], found["gate_recall"]) == (0.5, pytest.approx(2 / 3))
    assert found["gate_rejected_right"] == 0.5
    assert gate_figures([GOOD])["gate_rejected_right"] is None
    colour = found["gate_edits"]["colour"]
    assert colour["accepted_seen"] == pytest.approx(3 / 4)
    assert (colour["edits"], colour["judged"], colour["seen"]) == (6, 6, pytest.approx(4 / 6))
    assert (colour["unseen_rejected"], colour["seen_rejected"], colour["rejected"]) == (0.5, 0.25, pytest.approx(1 / 3))
    # Of the eight pairs of a seen and an unseen edit, 0.7 and 0.45 lie below 0.8.
    assert colour["area"] == pytest.approx(6 / 8)
    half = next(row for row in colour["roc"] if row["min_edit"] == 0.5)
    assert (half["unseen_rejected"], half["seen_rejected"]) == (0.5, 0.25)
    walls = found["gate_edits"]["background"]
    assert (walls["edits"], walls["judged"], walls["seen"], walls["unseen_rejected"]) == (1, 0, None, None)
    assert walls["rejected"] == 0.0
    assert found["gate_label"] == {"kept": pytest.approx(5 / 6), "area": 1.0}
    assert found["gate_layout"]["area"] == 1.0


def test_the_strictest_thresholds_that_keep_enough_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_KEEP_RIGHT", 0.66)
    found = choose(CASES, 9.0)
    assert (found["min_edit"], found["min_layout"]) == (0.55, 0.6)
    assert found["min_label"] == 0.0
    blind = [replace(case, label=0.0) for case in CASES]
    assert choose(blind, 9.0)["min_label"] == -1.0, "a score that tells nothing rejects nothing"


def test_the_scale_is_the_one_that_makes_scores_probabilities() -> None:
    """Edits whose margin of 0.1 is seen three times of four: a scale of log(3) / 0.1."""
    score = 1 / (1 + math.exp(-5 * 0.1))
    cases = [replace(GOOD, edits=(("colour", score, seen),)) for seen in (True, True, True, False)]
    assert choose(cases, 5.0)["logit_scale"] == round(math.log(3) / 0.1)


def test_the_page_has_the_figures_and_what_the_profile_has() -> None:
    check = load_profile("pocket").check
    figures = {"gate_chosen": choose(CASES, check.logit_scale), "gate_scenes": 7, **gate_figures(CASES)}
    page = gate_section(figures, check)
    assert "| right, of all that are painted (base rate) | 50.0% |" in page
    assert "| accepted, of those that are right (recall) | 66.7% |" in page
    assert "| new colours seen, of all that are painted | 66.7% |\n" in page
    assert "| new colours seen, in accepted variants | 75.0% |\n" in page
    assert not re.search(r"\bXX|None|\{", page)
    assert "| colour | 6 | 6 | 66.7% | 50.0% | 25.0% | 33.3% | 0.75 |" in page
    assert "| background | 1 | - | - | - | - | 0.0% | - |" in page
    assert f"| `min_layout` | {figures['gate_chosen']['min_layout']:g} | {check.min_layout:g} |" in page


def test_a_world_whose_models_made_nothing_has_figures_all_the_same() -> None:
    check = load_profile("pocket").check
    assert choose([], 9.0) == {"logit_scale": 9.0, "min_edit": 0.0, "min_label": -1.0, "min_layout": 0.0}
    found = gate_figures([])
    assert (found["gate_variants"], found["gate_precision"], found["gate_base_rate"]) == (0, None, None)
    figures = {"gate_chosen": choose([], 9.0), "gate_scenes": 4, **found}
    page = gate_section(figures, check, WIDE)
    assert "| right, of all that are painted (base rate) | - |" in page
    assert "the probability `valid`" not in page
    assert "the probability `valid`" in gate_section(figures, check)


def test_edits_are_told_apart_by_all_types_that_occur() -> None:
    cases = [replace(GOOD, edits=(("domain", 0.9, True), ("weather", 0.8, None)))]
    assert list(gate_figures(cases)["gate_edits"]) == ["weather", "domain"]
