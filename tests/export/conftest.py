"""What tests of the exporter share."""

from __future__ import annotations

import pytest

from counterfactory.export.production import command


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exports in this process, which has torch loaded."""
    monkeypatch.setattr(command, "alone", lambda work, *arguments: work(*arguments))
