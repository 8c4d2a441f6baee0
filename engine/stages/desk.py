"""What the stages of a run work with, and the one way in which each takes what is on record and makes the rest."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ..meter.meter import Meter
from ..recipes import Recipes, Stage
from ..suite import Suite
from .classes import Classes

if TYPE_CHECKING:  # settings of stages are read by commands that open no network and should not load a runtime
    from ..models.opened import Opened

T = TypeVar("T", bound=Hashable)
# Results by key, of some keys: what is on record.
Find = Callable[[Sequence[str]], Mapping[str, Any]]
# Makes the results of items, some at a time.
Make = Callable[[list[T]], Generator[Mapping[T, Any], None, None]]


@dataclass(frozen=True)
class Desk:
    """One run's suite, open models, meter and content keys; its number of `sources`, and of `pictures` to paint; the
    classes of its sources' labels.
    """

    suite: Suite
    models: Opened
    meter: Meter
    recipes: Recipes
    sources: int
    pictures: int
    classes: Classes

    def missing(self, keys: Mapping[T, str], find: Find) -> list[T]:
        """The items whose key is not on record."""
        known = find(list(keys.values()))
        return [item for item, key in keys.items() if key not in known]

    def recorded(
        self,
        stage: Stage,
        keys: Mapping[T, str],
        make: Make[T],
        *,
        find: Find | None = None,
        keep: Callable[[Mapping[str, Any]], object] | None = None,
        total: int = 0,
    ) -> dict[T, Any]:
        """The results of items by their keys: those on record, and those that `make` makes, recorded as they come.

        Call it inside the stage. `find` and `keep` are the suite's ledger unless given. Progress is counted towards
        `total`, unless that is 0. What `make` leaves out is left out here.
        """
        find = find or (lambda wanted: self.suite.ledger.get(stage, wanted))
        keep = keep or (lambda rows: self.suite.ledger.put(stage, rows))
        known = dict(find(list(keys.values())))
        todo = [item for item, key in keys.items() if key not in known]
        if total:
            self.meter.advance(stage, len(keys) - len(todo), total)
        if todo:
            self.models.enter(stage)
            with closing(make(todo)) as batches:  # an interrupt ends what writes behind it before the suite is closed
                for made in batches:
                    rows = {keys[item]: result for item, result in made.items()}
                    keep(rows)
                    known |= rows
                    if total:
                        self.meter.advance(stage, len(made), total, made=len(made))
        return {item: known[key] for item, key in keys.items() if key in known}
