"""What can be changed in each world, by its name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from counterfactory.engine.pocket.worlds import STREETS, WIDE

from .changes import Counterfacts
from .street_changes import STREET_COUNTERFACTS
from .wide_changes import WIDE_COUNTERFACTS

COUNTERFACTS: Mapping[str, Counterfacts] = MappingProxyType(
    {STREETS.name: STREET_COUNTERFACTS, WIDE.name: WIDE_COUNTERFACTS}
)
