"""Suites of one kind become one, and one becomes several: nothing is generated, and every byte is copied as it was.

What decides a suite has to agree: its settings, its profile, the makers of its stages. Then the rows of the tables, the
files that they name and the results in the ledgers are those of one run over all the sources, and so are its bytes; but
for values that are shared out among the sources of a run, which each suite has shared out among its own.
Sessions are counted once, so that costs add up. Superseded pictures and kept answers of models stay behind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count, pairwise
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError, list_some
from ..files.reading import read_bytes
from ..sources.source_groups import join_groups
from ..suite import PictureRow, RunRecord, Suite, count_outside, read_run, require_finished
from ..suite.by_hand import ByHand, read_by_hand
from ..suite.cells import add_cells, count_accepted
from ..suite.contents import TABLE
from ..suite.ledger import Ledger
from ..suite.lock import reading_lock
from ..suite.metadata import iter_metadata
from ..suite.paths import Folder
from ..suite.picture_store import file_records
from ..suite.run_record import Standing, count_verdicts
from ..suite.suite import LEDGER, LOCK

# Of a profile what decides no result: how many sources travel together, and what the box gives.
_OF_THE_BOX = ("name", "shard_sources", "teacher", "device", "runtime.threads", "runtime.memory_gb")
# Rows that a suite has of itself.
_OWN_STAGES = ("suite/", "ledger/")
# Called with the files that were copied so far, of how many.
OnFile = Callable[[int, int], None]
_WAY = "merge suites of one request, or generate them again with the same"


@dataclass(frozen=True)
class MergeablePart:
    """A finished suite: its record, where it stands, and its sources' keys by name."""

    path: Path
    record: RunRecord
    standing: Standing
    sources: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> MergeablePart:
        """Raises CounterfactoryError where no finished suite is, or its record cannot be read."""
        require_finished(path)
        record = read_run(path)
        if record is None or record.standing is None or not any(one.finished for one in record.sessions):
            raise CounterfactoryError(f"{path} has no record of a finished run in run.json, which says how it was made")
        return cls(path, record, record.standing, {row.source: row.source_key for row in iter_metadata(path)})

    def facts(self) -> dict[str, Any]:
        """What decided it, by dotted names."""
        facts = [session.facts for session in self.record.sessions if session.finished][-1]
        data = {name: facts.data.get(name) for name in ("classes", "labels")}
        named: dict[str, Any] = {"profile": self.record.profile, "settings": facts.settings, "models": facts.models}
        named |= {"precision": facts.precision, "data": data}
        free = tuple(f"profile.{name}" for name in _OF_THE_BOX)
        return {key: value for key, value in _flat(named).items() if key not in free}


def merge_suites(suites: Sequence[Path], out: Path, on_file: OnFile = lambda *_: None) -> RunRecord:
    """Make one suite in the folder `out` of several, which stay as they are; returns its record. `on_file` is called
    with the files copied so far, and all. A killed merge is gone on with by the same command. Raises
    CounterfactoryError, before anything is written, for suites that contradict: made by other settings, another profile
    or other weights, or with two pictures for one source's name; and where `out` is a finished suite.
    """
    if len({path.resolve() for path in suites}) < max(2, len(suites)):
        raise CounterfactoryError("merge takes at least two suites, each named once")
    _require_new(out)
    with ExitStack() as locks:
        for path in suites:
            require_finished(path)
            locks.enter_context(reading_lock(path / LOCK))
        parts = list(map(MergeablePart.read, suites))
        for part in parts[1:]:
            _require_alike(parts[0], part)
        _require_no_clash(parts)
        by_hand, step = _hands(parts), _counter(sum(map(_count_files, parts)), on_file)
        with Suite.open(out) as suite:
            for part in parts:
                _copy_rows(part.path, suite)
                _copy_files(part.path, suite, _listed(iter_metadata(part.path)), step)
            if by_hand.pictures:
                by_hand.write(out)
            standing = _sum(parts)
            sessions = {one.id: one for part in parts for one in part.record.sessions}
            ordered = tuple(sorted(sessions.values(), key=lambda one: (one.began, one.id)))
            return _finish(suite, _distinct(parts), RunRecord(ordered, standing))


def split_suite(
    path: Path, outs: Sequence[Path], first: Sequence[str] | None = None, on_file: OnFile = lambda *_: None
) -> list[RunRecord]:
    """Make suites in the folders `outs` of one, which stays as it is: the sources in the order of their names in equal
    parts, or those named in `first` in the first of two. Each keeps the record of the whole run; coverage of named
    values, which is not known source by source, is counted anew by the next `generate`. Returns their records. Raises
    CounterfactoryError as `merge_suites` does, and for names that the suite does not have.
    """
    for out in outs:
        _require_new(out)
    require_finished(path)
    with reading_lock(path / LOCK):
        whole = MergeablePart.read(path)
        names = sorted({*whole.sources, *(problem.name for problem in whole.standing.shortfalls)})
        groups = _groups(names, len(outs), first, path)
        step = _counter(_count_files(whole), on_file)
        return [_part_of(whole, group, out, step) for group, out in zip(groups, outs, strict=True)]


def _groups(names: Sequence[str], number: int, first: Sequence[str] | None, path: Path) -> list[set[str]]:
    if first is None:
        if not 2 <= number <= len(names):
            raise CounterfactoryError(
                f"{path} has {len(names)} sources, which make 2 to {len(names)} suites, not {number}"
            )
        ends = [len(names) * at // number for at in range(number + 1)]
        return [set(names[start:end]) for start, end in pairwise(ends)]
    if strange := sorted(set(first) - set(names)):
        raise CounterfactoryError(
            f"{path} has no sources of the names {list_some(strange, 3)}: name its own, one a line"
        )
    if number != 2 or not 0 < len(set(first)) < len(names):
        raise CounterfactoryError("names of sources part a suite in two: those named, and the rest; give two folders")
    return [set(first), set(names) - set(first)]


def _part_of(whole: MergeablePart, group: set[str], out: Path, step: Callable[[], None]) -> RunRecord:
    def rows() -> Iterator[PictureRow]:
        return (row for row in iter_metadata(whole.path) if row.source in group)

    old = whole.standing
    with Suite.open(out) as suite:
        _copy_rows(whole.path, suite)
        files = _listed(rows())
        _copy_files(whole.path, suite, files, step)
        by_hand = ByHand({name: one for name, one in read_by_hand(whole.path).pictures.items() if name in files})
        if by_hand.pictures:
            by_hand.write(out)
        standing = replace(
            old,
            **count_verdicts(rows()),
            sources=len(group),
            dropped=tuple(one for one in old.dropped if one.source in group),
            shortfalls=tuple(one for one in old.shortfalls if one.name in group),
            groups=old.groups and old.groups.among(group),
            outside_world=count_outside(rows())[0],
            cells=None,
        )
        return _finish(suite, rows(), replace(whole.record, standing=standing))


def _finish(suite: Suite, rows: Iterable[PictureRow], record: RunRecord) -> RunRecord:
    return suite.write_metadata(rows, lambda contents: suite.write_run(record.with_contents(contents)))


def _require_new(out: Path) -> None:
    if (out / TABLE).exists():
        raise CounterfactoryError(f"{out} is a finished suite already: name a new folder")


def _require_alike(one: MergeablePart, other: MergeablePart) -> None:
    """Refuse suites that were made otherwise, by the name of what differs."""
    ours, theirs = one.facts(), other.facts()
    keys = [key for key in dict.fromkeys((*ours, *theirs)) if ours.get(key) != theirs.get(key)]
    if not keys:
        return
    key = keys[0]
    if key.startswith("models."):
        what = f"the stage {key.removeprefix('models.')} was computed by other weights or libraries"
    elif key.startswith(("settings.task", "data.")):
        what = f"they were made for another task or other classes ({key})"
    else:
        what = f"{key} is {_short(ours.get(key))} in the first and {_short(theirs.get(key))} in the second"
    raise CounterfactoryError(f"{one.path} and {other.path} contradict: {what}; {_WAY}")


def _require_no_clash(parts: Sequence[MergeablePart]) -> None:
    """Refuse two pictures of one name, and the same source painted with other bytes."""
    keys: dict[str, tuple[str, Path]] = {}
    shared = set[str]()
    for part in parts:
        for name, key in part.sources.items():
            known, where = keys.setdefault(name, (key, part.path))
            if known != key:
                raise CounterfactoryError(
                    f"{where} and {part.path} contradict: the source {name} is another picture, label or mask in each; "
                    "rename it in one of the sets and generate that suite again"
                )
            if where != part.path:
                shared.add(name)
    digests: dict[str, str] = {}
    for part in parts if shared else ():
        for row in iter_metadata(part.path):
            if row.source in shared and digests.setdefault(row.file_name, row.sha256) != row.sha256:
                raise CounterfactoryError(
                    f"{row.file_name} has other bytes in {part.path} than in a suite before it: two machines painted "
                    f"{row.source}; split it off one of them"
                )


def _hands(parts: Sequence[MergeablePart]) -> ByHand:
    """What people decided in any of the suites. Raises CounterfactoryError where they disagree."""
    pictures = dict(read_by_hand(parts[0].path).pictures)
    for part in parts[1:]:
        for name, verdict in read_by_hand(part.path).pictures.items():
            if pictures.setdefault(name, verdict).verdict != verdict.verdict:
                raise CounterfactoryError(
                    f"{name} is accepted by hand in one suite and excluded in {part.path}: undo one of the two"
                )
    return ByHand(pictures)


def _distinct(parts: Sequence[MergeablePart]) -> Iterator[PictureRow]:
    """The rows of all suites, those of a source in two of them once."""
    seen = set[str]()
    for part in parts:
        yield from (row for row in iter_metadata(part.path) if row.source not in seen)
        seen |= part.sources.keys()


def _sum(parts: Sequence[MergeablePart]) -> Standing:
    """Where the suites stand together."""
    standings = [part.standing for part in parts]
    twice = sum(len(part.sources) for part in parts) - len({name for part in parts for name in part.sources})
    cells = None
    if not twice and all(one.cells for one in standings):
        cells = count_accepted(reduce(add_cells, [one.cells or () for one in standings]), _distinct(parts))
    return replace(
        standings[0],
        **count_verdicts(_distinct(parts)),
        sources=sum(one.sources for one in standings) - twice,
        groups=join_groups([one.groups for one in standings]),
        dropped=tuple(dict.fromkeys(dropped for one in standings for dropped in one.dropped)),
        shortfalls=tuple(dict.fromkeys(problem for one in standings for problem in one.shortfalls)),
        outside_world=count_outside(_distinct(parts))[0],
        cells=cells,
    )


def _listed(rows: Iterable[PictureRow]) -> set[str]:
    return {name for row in rows for name in row.files}


def _copy_rows(source: Path, suite: Suite) -> None:
    """The results of every stage: what one suite computed, the other need not."""
    with closing(Ledger(source / LEDGER, read_only=True)) as ledger:
        for stage in ledger.stages():
            if not stage.startswith(_OWN_STAGES):
                for page in ledger.walk(stage):
                    suite.ledger.put(stage, page)


def _copy_files(source: Path, suite: Suite, names: set[str], step: Callable[[], None]) -> None:
    """The files of those names, each as its ledger has it; those that are there already stay. Raises
    CounterfactoryError for one that is not as it was written.
    """
    folder = Folder(source)

    def whole(name: str, sha256: str) -> tuple[str, bytes]:
        try:
            data = read_bytes(folder.path(name))
        except OSError as error:
            raise CounterfactoryError(f"{source / name} cannot be read ({error.strerror}): {_MEND}") from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise CounterfactoryError(f"{source / name} is not as it was written: {_MEND}")
        step()
        return name, data

    with closing(Ledger(source / LEDGER, read_only=True)) as ledger:
        known = set[str]()
        for page in file_records(ledger):
            of = {name: record for name, record in page.items() if name in names and record.sha256}
            known |= of.keys()
            there = {name for name, record in of.items() if suite.holds({name: record.bytes})}  # of a killed merge
            suite.take(whole(name, record.sha256) for name, record in of.items() if name not in there)
    if lost := sorted(names - known):
        raise CounterfactoryError(f"{source / LEDGER} has no digest of {list_some(lost, 3)}: {_MEND}")


_MEND = "counterfactory verify says what is wrong with a suite, and the generate that made it makes that anew"


def _count_files(part: MergeablePart) -> int:
    return 0 if part.standing.contents is None else part.standing.contents.count


def _counter(total: int, on_file: OnFile) -> Callable[[], None]:
    numbers = count(1)
    return lambda: on_file(next(numbers), total)


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A table of tables by dotted names."""
    named: dict[str, Any] = {}
    for key, inner in value.items():
        named |= _flat(inner, f"{prefix}{key}.") if isinstance(inner, Mapping) and inner else {f"{prefix}{key}": inner}
    return named


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
