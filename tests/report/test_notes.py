"""What has to be known of a suite before anything is read off it."""

from __future__ import annotations

from picture_rows import control_row, original_row, picture_row

from counterfactory.engine.report.suite_text import suite_notes

SOURCES = [row for g in range(3) for row in (original_row(g), picture_row(3 * g))]


def test_sources_without_an_accepted_control_are_counted() -> None:
    assert suite_notes([*SOURCES, *(control_row(g) for g in range(3))]) == ()
    some = [*SOURCES, control_row(0), control_row(1, reason="too dark"), control_row(2), control_row(2, reason="dark")]
    assert suite_notes(some) == (
        "1 of 3 sources have no accepted control: their variants are compared with one another only",
    )
    none = [*SOURCES, control_row(0, reason="too dark")]
    assert suite_notes(none) == (
        "no control was accepted: what painting does by itself cannot be told from what edits do",
    )


def test_a_suite_of_rejected_variants_says_nothing_else() -> None:
    rejected = [original_row(), control_row(reason="too dark"), picture_row(reason="too dark")]
    assert suite_notes(rejected) == ("no variant was accepted: there is nothing to compare",)
    assert suite_notes([original_row()]) == ()


def test_sources_without_a_variant_to_compare_and_suites_without_controls_need_no_note() -> None:
    rejected = [picture_row(0, reason="too dark"), control_row(0, reason="too dark"), picture_row(3), control_row(1)]
    assert suite_notes(rejected) == ()
    assert suite_notes(SOURCES) == ()
    assert suite_notes([]) == ()
