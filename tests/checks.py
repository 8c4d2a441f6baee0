"""Settings of checks for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from counterfactory.engine.profile.check import CheckSettings, threshold_names

# Without any threshold.
NO_LIMITS = CheckSettings(batch=1, label_prompt="a {label}", logit_scale=10.0)


def held_to(**thresholds: float) -> CheckSettings:
    """Settings with these thresholds, `min_NAME` or `max_NAME`, and no others."""
    return NO_LIMITS.having(**thresholds)


def changed(settings: CheckSettings, **changes: Any) -> CheckSettings:
    """The settings with other values, thresholds among them."""
    thresholds = {name: value for name, value in changes.items() if name in threshold_names()}
    rest = {name: value for name, value in changes.items() if name not in thresholds}
    return replace(settings, **rest).having(**thresholds)
