"""Why variants were rejected, and the curves of thresholds."""

from __future__ import annotations

import pytest
from picture_rows import control_row, original_row, picture_row

from counterfactory.engine.edit import Edit
from counterfactory.engine.report.curves import Curve
from counterfactory.engine.report.suite_text import reason_table


def test_rejected_variants_are_counted_by_what_failed() -> None:
    reasons = ["so: edit 0.1 is below 0.2", "layout 0.1 is below 0.2", "not: edit 0.0 is below 0.2", None, None]
    rows = [picture_row(i, reason=reason) for i, reason in enumerate([*reasons, "somebody's own"])]
    table = reason_table([original_row(), control_row(reason="layout 0.1 is below 0.2"), *rows])
    assert table is not None
    assert table.columns == ("why", "check", "variants", "of all")
    assert table.rows == (
        ("an edit does not show", "edit", "2", "33.3 %"),
        ("outlines have left the mask's", "layout", "1", "16.7 %"),
        ("somebody's own", "somebody's own", "1", "16.7 %"),
    )
    assert reason_table([original_row(), control_row(reason="layout 0.1 is below 0.2"), picture_row(0)]) is None


def test_what_all_checks_come_to_is_counted_by_what_was_doubted_most() -> None:
    edits = (Edit("weather", "dry", "snowy"), Edit("colour", "red: bus", "blue: bus"), Edit("object", "the dog", ""))
    reasons = [
        "'blue: bus' does not show in place of 'red: bus': valid 0.200 is below 0.750",
        "outlines have left the mask's: valid 0.300 is below 0.750",
        "'blue: bus' does not show in place of 'red: bus': valid 0.100 is below 0.750",
        "'the dog' still shows: valid 0.100 is below 0.750",
        "'blue: bus' does not show in place of 'red: bus': edit 0.100 is below 0.750",
    ]
    table = reason_table([picture_row(i, reason=reason, edits=edits) for i, reason in enumerate(reasons)])
    assert table is not None
    assert [row[:3] for row in table.rows] == [
        ("an edit of colour does not show", "valid", "2"),
        ("an edit does not show", "edit", "1"),
        ("an edit of object does not show", "valid", "1"),
        ("outlines have left the mask's", "valid", "1"),
    ]


def test_a_curve_is_drawn_across_its_limits() -> None:
    curve = Curve("min_edit", (0.0, 0.5, 1.0), (("accepted", (1.0, 0.5, 0.0)), ("valid", (0.5, 1.0, None))), 0.25)
    left, top, width, height = curve.frame
    accepted, valid = curve.paths
    middle = f"{left + width / 2},{top + height / 2}"
    assert accepted == ("accepted", f"{left}.0,{top}.0 {middle} {left + width}.0,{top + height}.0")
    assert valid == ("valid", f"{left}.0,{top + height / 2} {left + width / 2},{top}.0"), "nothing has no share"
    assert curve.mark == left + width / 4
    assert (curve.width > left + width, curve.height > top + height) == (True, True)
    assert Curve("x", (0.5,), (("accepted", (1.0,)),)).mark is None
    assert Curve("x", (0.5,), (("accepted", (1.0,)),)).paths == (("accepted", f"{left}.0,{top}.0"),)
    with pytest.raises(ValueError, match="curve 'x' has 2 limits, got 1 of 'accepted'"):
        Curve("x", (0.0, 1.0), (("accepted", (1.0,)),))
