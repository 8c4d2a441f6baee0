"""What a suite's record says of how it was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from session_records import costs, session_facts

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.suite.recorded import recorded_classes
from counterfactory.engine.suite.run_record import RunRecord, write_run
from counterfactory.engine.suite.session_record import SessionRecord


def recorded(suite: Path, *classes: Any) -> list[str] | None:
    facts = [session_facts(data={"classes": of_it}) for of_it in classes]
    sessions = [SessionRecord(str(i), "2026-11-23", True, of_it, (), costs()) for i, of_it in enumerate(facts)]
    write_run(suite, RunRecord(tuple(sessions)))
    return recorded_classes(suite)


def test_the_names_of_a_suite_s_classes(tmp_path: Path) -> None:
    assert recorded_classes(tmp_path) is None
    assert recorded(tmp_path) is None
    assert recorded(tmp_path, {}) is None
    assert recorded(tmp_path, {"3": "car", "1": "road"}) == ["0", "road", "2", "car"]
    assert recorded(tmp_path, {"0": "old"}, {"0": "new"}) == ["new"]
    assert recorded(tmp_path, {"x": "old"}) is None
    with pytest.raises(CounterfactoryError, match=r"'0' should be text, found 3; name the classes by --classes"):
        recorded(tmp_path, {"0": 3})
