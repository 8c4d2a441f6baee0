"""The outcome of a shard, in two rows of the ledger: the facts that a run needs to go on, and its metadata rows.

A run that meets a finished shard again takes its outcome, without looking up every caption, answer, picture and score,
so that 25,000 finished sources pass in seconds. An outcome holds for the sources, the profile, the settings and the
makers of the stages (see content_keys). Where one of them differs, or a file is missing or has another size, there is
none, and the shard goes through its stages, which look up each result by its own key. The metadata rows of all shards
wait here for the end of the run: memory holds those of one shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..content_keys import shard_key
from ..files.fill import fill_record, fill_value, plain
from ..sources.source import Problem, Source
from .cells import ValueCells
from .paths import checked_name
from .picture_row import DroppedVariant, PictureRow
from .suite import Suite

_STAGE, _ROWS = "shard", "shard/rows"


@dataclass(frozen=True)
class Outcome:
    """How many variants and controls were accepted and rejected, the size in bytes of each of their files by path, the
    dropped variants, and the sources with fewer variants than asked for. `cells` say what becomes of the user's values,
    where there are any; `times` when the files were written, in nanoseconds and in their order.
    """

    accepted: int
    rejected: int
    controls: int
    rejected_controls: int
    files: Mapping[str, int]
    dropped: tuple[DroppedVariant, ...]
    shortfalls: tuple[Problem, ...]
    cells: tuple[ValueCells, ...] | None = None
    times: tuple[int, ...] = field(default=(), compare=False)

    @property
    def painted(self) -> int:
        """Variants and controls of metadata.parquet."""
        return self.accepted + self.rejected + self.controls + self.rejected_controls


class Outcomes:
    """The outcomes in a suite's ledger, one a shard; the same sources in another order are another shard.

    `maker` is the key of all that decides an outcome but for the sources; outcomes of another maker are passed over.
    """

    def __init__(self, suite: Suite, maker: str) -> None:
        self._suite = suite
        self._maker = maker

    def find(self, sources: Sequence[Source], *, unfinished: bool = False) -> Outcome | None:
        """The outcome of these sources, if they are finished (or `unfinished`) and all the files are in place. Raises
        CounterfactoryError for one that is damaged, or names a file outside of the suite.
        """
        key = shard_key([source.whole_key for source in sources])
        stored = self._suite.ledger.get(_STAGE, [key]).get(key)
        if stored is None:
            return None
        if isinstance(stored, Mapping) and stored.get("made_by") not in (self._maker, *(None,) * unfinished):
            return None
        place, advice = self._suite.ledger.place(_STAGE, key)
        outcome = fill_record(Outcome, stored, place, advice)
        for name in outcome.files:
            checked_name(name, f"{place}: 'files'")
        whole = self._suite.ledger.holds(_ROWS, key) and self._suite.holds(outcome.files, outcome.times)
        return outcome if whole else None

    def keep(self, sources: Sequence[Source], outcome: Outcome, rows: Sequence[PictureRow], *, finished: bool) -> None:
        """Keeps what these sources came to, in place of what was kept before; not to be found unless `finished`."""
        value = {"made_by": self._maker if finished else None, **plain(outcome)}
        value["times"] = self._suite.times(outcome.files)
        if outcome.cells is None:  # rows of suites without values stay what they were
            del value["cells"]
        key = shard_key([source.whole_key for source in sources])
        self._suite.ledger.put_stages({_STAGE: {key: value}, _ROWS: {key: [row.to_json() for row in rows]}})

    def rows(self, shards: Iterable[Sequence[Source]]) -> Iterator[PictureRow]:
        """The metadata rows of shards that this run found or kept. Raises CounterfactoryError for one that is damaged,
        or names a file outside of the suite.
        """
        for sources in shards:
            key = shard_key([source.whole_key for source in sources])
            place, advice = self._suite.ledger.place(_ROWS, key)
            rows = self._suite.ledger.get(_ROWS, [key]).get(key)
            for number, row in enumerate(fill_value(tuple[Any, ...], rows, place, advice), start=1):
                yield PictureRow.from_json(row, f"{place}, row {number}", advice)
