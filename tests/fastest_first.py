"""A plugin of pytest for `tests/mutants.py`: the fastest files come first, and in each the fastest tests.

Most mutants die by a fast test, and nobody needs to see them meet the slow ones. mutmut gives a mutant's tests in no
order, and `tests/conftest.py` puts the longest files first, for another reason.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

_SECONDS = pytest.StashKey[Counter[str]]()
# In the working folder. The first run of tests, which is mutmut's of all, writes it: all phases of each.
_FILE = Path("seconds.json")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count."""
    config.stash[_SECONDS] = Counter()


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> None:
    """Count what setting a test up, calling it and tearing it down took."""
    item.config.stash[_SECONDS][item.nodeid] += call.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep the seconds of the first run."""
    if session.testscollected and not session.config.option.collectonly and not _FILE.exists():
        _FILE.write_text(json.dumps(session.config.stash[_SECONDS]), encoding="utf-8")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files in the order of what their tests here take together, so that none sets up its fixtures twice."""
    if not _FILE.exists():
        return
    seconds = json.loads(_FILE.read_text(encoding="utf-8"))
    files: Counter[Path] = Counter()
    for item in items:
        files[item.path] += seconds.get(item.nodeid, 0.0)
    items.sort(key=lambda item: (files[item.path], item.path, seconds.get(item.nodeid, 0.0)))
