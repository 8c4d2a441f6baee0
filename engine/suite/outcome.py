"""What a shard came to, kept in the ledger in two rows: what a run must know of it to go on, and its metadata rows.

A run that meets a finished shard again takes it as it is, instead of making every question anew and asking for every
caption, answer, picture and score, so that 25,000 finished sources are passed in seconds. An outcome holds for the
sources, the profile, the settings and the makers of the stages (see recipes). Where one of them differs, or a file is
missing or has another size, there is none, and the shard goes through its stages, where each result is found by its
own key. The metadata rows of all shards wait here for the end of the run: memory holds those of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..recipes import shard_key
from ..sources.source import Problem, Source
from . import Suite

_STAGE, _ROWS = "shard", "shard/rows"


@dataclass(frozen=True)
class Outcome:
    """How many variants were accepted and rejected, the size in bytes of each of their files by path, the dropped
    variants as run.json lists them, and the sources with fewer variants than asked for.
    """

    accepted: int
    rejected: int
    files: Mapping[str, int]
    dropped: Sequence[Mapping[str, Any]]
    shortfalls: Sequence[Problem]

    @property
    def variants(self) -> int:
        """Those of metadata.parquet."""
        return self.accepted + self.rejected


class Outcomes:
    """The outcomes in a suite's ledger, one a shard; the same sources in another order are another shard.

    Found are those that `made_by` made: a key of all that decides an outcome beside the sources.
    """

    def __init__(self, suite: Suite, made_by: str) -> None:
        self._suite = suite
        self._made_by = made_by

    def find(self, sources: Sequence[Source]) -> Outcome | None:
        """The outcome of these sources, if they are finished and all the files are in place."""
        key = shard_key([source.key for source in sources])
        found = self._suite.get(_STAGE, [key]).get(key)
        if found is None or found["made_by"] != self._made_by or not self._suite.holds(found["files"]):
            return None
        shortfalls = [Problem(*problem) for problem in found["shortfalls"]]
        return Outcome(found["accepted"], found["rejected"], found["files"], found["dropped"], shortfalls)

    def keep(
        self, sources: Sequence[Source], outcome: Outcome, rows: Sequence[Mapping[str, Any]], *, finished: bool
    ) -> None:
        """Keeps what these sources came to, in place of what was kept before; not to be found unless `finished`."""
        value = {
            "made_by": self._made_by if finished else None,
            "accepted": outcome.accepted,
            "rejected": outcome.rejected,
            "files": outcome.files,
            "dropped": outcome.dropped,
            "shortfalls": [(problem.name, problem.reason) for problem in outcome.shortfalls],
        }
        key = shard_key([source.key for source in sources])
        self._suite.ledger.put_stages({_STAGE: {key: value}, _ROWS: {key: rows}})

    def rows(self, shards: Iterable[Sequence[Source]]) -> Iterator[dict[str, Any]]:
        """The metadata rows of shards that this run found or kept."""
        for sources in shards:
            key = shard_key([source.key for source in sources])
            yield from self._suite.get(_ROWS, [key])[key]
