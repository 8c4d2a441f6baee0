"""The profile that a suite was made with, and the names of its classes, from its record run.json.

With it a suite is judged and shown later without naming a profile, by the settings that it was made with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from ..errors import CounterfactoryError
from ..files.fill import fill
from ..profile.check import CheckSettings
from ..profile.profile import Profile, load_profile, profile_names
from . import read_run
from .contents import RUN_FILE as FILE

_ADVICE = "name the profile that the suite was made with by --profile"
T = TypeVar("T")


def recorded_profile(suite: Path) -> Profile:
    """The profile of a suite's last run. Raises CounterfactoryError where the record is missing, broken or of a version
    with other settings.
    """
    return _fill_recorded(Profile, _recorded_profile(suite), suite)


def recorded_networks(suite: Path) -> Profile:
    """`recorded_profile`, for its networks to be opened: opening a network can be running a program, so they have to
    lie where a profile of the package has them, whatever the record of a suite from anybody says. Raises as
    `recorded_profile` does.
    """
    profile = recorded_profile(suite)
    shipped = [load_profile(name) for name in profile_names()]
    known = {own.models.folder for own in shipped if not own.by_rule}, {own.llm.model for own in shipped}
    for name, words in zip((profile.models.folder, profile.llm.model), known, strict=True):
        if name not in words:
            raise CounterfactoryError(
                f"{suite / FILE} has networks in {name!r}, where none of the package's profiles has them, and a record "
                "may be anybody's; name the profile by --profile, or show no edges by --no-edges"
            )
    return profile


def recorded_check(suite: Path) -> CheckSettings:
    """The settings that a suite's verdicts follow: its last run's, or a later `check`'s. Raises as `recorded_profile`.

    The rest of the profile may be of another version.
    """
    return _fill_recorded(CheckSettings, _recorded_profile(suite).get("check"), suite)


def recorded_classes(suite: Path) -> list[str] | None:
    """The names of classes 0, 1, ... in a suite's masks, by `recorded_numbers`; a number without a name is its own."""
    names = recorded_numbers(suite)
    return None if names is None else [names.get(number, str(number)) for number in range(max(names) + 1)]


def recorded_numbers(suite: Path) -> dict[int, str] | None:
    """The names of the class numbers in a suite's masks, by its last session's data set. None where the record has no
    names, or there is none. Raises CounterfactoryError for one that is broken.
    """
    classes = _recorded_data(suite).get("classes")
    if not isinstance(classes, Mapping) or not classes:
        return None
    for number, name in classes.items():
        if not isinstance(name, str):
            raise CounterfactoryError(
                f"{suite / FILE}: 'classes': {number!r} should be text, found {name!r}; name the classes by --classes"
            )
        if number.isdigit() and not re.fullmatch("[0-9]{1,5}", number):
            raise CounterfactoryError(f"{suite / FILE}: 'classes': no mask holds {number:.20}; name them by --classes")
    return {int(number): name for number, name in classes.items() if number.isdigit()} or None


def recorded_labels(suite: Path) -> tuple[str, ...]:
    """The labels of all images of a suite's set, used or not, in the order of their folders; empty where the record has
    none. Raises CounterfactoryError for a record that is broken.
    """
    labels = _recorded_data(suite).get("labels")
    return tuple(label for label in labels if isinstance(label, str)) if isinstance(labels, list) else ()


def _recorded_data(suite: Path) -> Mapping[str, Any]:
    record = read_run(suite)
    return record.sessions[-1].facts.data if record is not None and record.sessions else {}


def _recorded_profile(suite: Path) -> Mapping[str, Any]:
    try:
        record = read_run(suite)
    except CounterfactoryError as error:
        raise CounterfactoryError(f"{error}; or {_ADVICE}") from error
    if record is None:
        raise CounterfactoryError(f"{suite} has no {FILE}, which says how it was made; {_ADVICE}")
    return record.profile


def _fill_recorded(cls: type[T], table: object, suite: Path) -> T:
    where = str(suite / FILE)
    if not isinstance(table, Mapping) or not table:
        raise CounterfactoryError(f"{where} does not say how the suite was made; {_ADVICE}")
    return fill(cls, table, where, _ADVICE)
