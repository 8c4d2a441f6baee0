"""The profile that a suite was made with, from its record run.json.

So whoever judges or shows a suite later names no profile, and gets the verdicts and pictures of the suite as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from ..errors import CounterfactoryError
from ..files.fill import fill
from ..files.reading import read_text
from ..stages.check import CheckSettings
from ..suite.paths import Folder
from ..suite.suite import RUN_FILE
from .profile import Profile

_ADVICE = "name the profile that the suite was made with by --profile"
T = TypeVar("T")


def recorded_profile(suite: Path) -> Profile:
    """The profile of a suite's last run. Raises CounterfactoryError where the record is missing, broken or of a version
    with other settings.
    """
    return _fill_recorded(Profile, _recorded_profile(suite), suite)


def recorded_check(suite: Path) -> CheckSettings:
    """The settings that a suite's verdicts follow: its last run's, or a later `check`'s. Raises as `recorded_profile`.

    The rest of the profile may be of another version.
    """
    return _fill_recorded(CheckSettings, _recorded_profile(suite).get("check"), suite)


def _recorded_profile(suite: Path) -> Mapping[str, Any]:
    path = suite / RUN_FILE
    Folder(suite).refuse_outward_links([RUN_FILE])
    if not path.is_file():
        raise CounterfactoryError(f"{suite} has no {RUN_FILE}, which says how it was made; {_ADVICE}")
    try:
        profile = json.loads(read_text(path))["profile"]
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        raise CounterfactoryError(f"{path} is not the record of a suite ({error!r}); {_ADVICE}") from error
    return profile if isinstance(profile, Mapping) else {}


def _fill_recorded(cls: type[T], table: object, suite: Path) -> T:
    where = str(suite / RUN_FILE)
    if not isinstance(table, Mapping):
        raise CounterfactoryError(f"{where} does not say how the suite was made; {_ADVICE}")
    try:
        return fill(cls, _without_nulls(table), where)
    except CounterfactoryError as error:
        raise CounterfactoryError(f"{error}; {_ADVICE}") from error


def _without_nulls(table: Mapping[str, Any]) -> dict[str, Any]:
    """What is None in a dataclass is null in JSON, and left out in TOML, which `fill` reads."""
    return {
        key: _without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in table.items()
        if value is not None
    }
