"""The driver's side of parts: each shard's, as it comes, goes into the suite, and is gone from its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..content_keys import shard_key
from ..journey import Trip, outcome_key_of
from ..sources.source import Problem, Source
from ..suite.outcome import Outcome
from .parts import Part, PartError, PartPlace, part_name


class Gathering:
    """Takes parts into the suite, and notes what each shard came to."""

    def __init__(self, trip: Trip, place: PartPlace) -> None:
        self.trip, self.place = trip, place
        self.unread: dict[int, tuple[Outcome, Sequence[Problem]]] = {}
        self.maker = outcome_key_of(trip.run, ())

    def begin(self) -> Iterator[int]:
        """The numbers of shards that are to be worked on; parts that a run before left are taken."""
        there = self.place.names()
        for number, shard in enumerate(self.trip.shards):
            outcome = self.trip.outcomes.find(shard)
            if outcome is not None:
                self.trip.status.passed()
                self.trip.judge(shard, outcome)
            elif (name := self._name(shard)) not in there or self.take(number, name) is not None:
                yield number

    def take(self, number: int, name: str, host: str = "") -> str | None:
        """Take a shard's part, and remove it. Returns why it is none, after which it is gone."""
        shard = self.trip.shards[number]
        try:
            if name != self._name(shard):
                raise PartError(f"{name} is not the part of the shard in hand")
            with self.place.fetched(name) as path, Part(path, name) as part:
                part.put_into(self.trip.run.suite)
                problems = part.head.problems
        except (FileNotFoundError, PartError) as error:
            self.place.remove(name)
            return str(error)
        outcome = self.trip.outcomes.find(shard, unfinished=True)
        self.place.remove(name)
        if outcome is None:
            return f"the part {name} lacks what its shard came to"
        if problems:
            self.unread[number] = outcome, problems
        self.trip.judge(shard, outcome)
        counts = {"accepted": outcome.accepted, "rejected": outcome.rejected}
        self.trip.status.shard(shard[0].name, **counts, host=host)
        return None

    def _name(self, shard: Sequence[Source]) -> str:
        return part_name(shard_key([source.whole_key for source in shard]), self.maker)
