"""Suites of a model whose faults are known: what it answers to sources, controls and variants, drawn anew every time.

A source is one of three kinds of vehicle, has a control and five variants, and is hard or easy by itself. Three of five
variants carry one edit, the others two or three. There are 5 walls, 7 colours of each kind of vehicle, 3 times and 5
weathers; three in ten colours and one in ten of the others are rejected, whatever the model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.edit import Edit
from counterfactory.engine.judging.effects import PictureOutcome, picture_weights
from counterfactory.engine.judging.within import Observations
from counterfactory.engine.suite import Crop, Origin, Painting, PictureRow
from counterfactory.engine.suite.metadata import write_table
from counterfactory.engine.suite.picture_store import FileRecord
from counterfactory.engine.suite.row_spool import RowSpool
from counterfactory.engine.variant import Kind

TYPES = ("background", "colour", "time", "weather")
_VALUES, _KINDS, _VARIANTS = (5, 7, 3, 5), 3, 5
_ONE_EDIT, _REJECTED = 0.6, (0.1, 0.3, 0.1, 0.1)
_ORIGIN, _CROP, _NO_SCORES = Origin("", "", 1, 1), Crop(0, 0, 1, 1), dict[str, float]()
PAINTING = Painting(seed=0, steps=1, guidance_scale=1, guidance_start=0, guidance_stop=1)
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Model:
    """How often it fails by itself, by source, and how much oftener by a variant's edits: `carried` [N, 4] says which
    types it has, `value` [N, 4] the number of the value that it would have of each.
    """

    fails: Callable[[np.random.Generator, int], Floats]
    more: Callable[[Bools, Ints], NDArray[np.floating[Any]]]

    @property
    def harmless(self) -> bool:
        return self.more is _nothing


def _nothing(carried: Bools, value: Ints) -> Floats:
    return np.zeros(len(carried))


def _usual(rng: np.random.Generator, sources: int) -> Floats:
    return rng.beta(1, 9, sources)


def _seldom(rng: np.random.Generator, sources: int) -> Floats:
    return np.full(sources, 0.02)


def _hard(rng: np.random.Generator, sources: int) -> Floats:
    return np.where(rng.random(sources) < 0.2, 0.95, 0.03)


MODELS: Mapping[str, Model] = {
    "no effect": Model(_usual, _nothing),
    "no effect, seldom fails": Model(_seldom, _nothing),
    "no effect, hard sources": Model(_hard, _nothing),
    "effects add": Model(_usual, lambda carried, value: 0.3 * carried[:, 2] + 0.15 * carried[:, 3]),
    "night and fog": Model(_usual, lambda carried, value: (carried & (value == 0))[:, 2:] @ np.array([0.4, 0.3])),
    "a few colours, seldom": Model(_seldom, lambda carried, value: 0.08 * (carried[:, 1] & (value[:, 1] < 3))),
    "saturating": Model(_usual, lambda carried, value: 0.4 * (carried[:, 2] | carried[:, 3])),
    "interaction": Model(_usual, lambda carried, value: 0.4 * (carried[:, 1] & carried[:, 2])),
}
# Of these the sum of two edits is not what both do together.
NOT_ADDING = ("saturating", "interaction")


@dataclass(frozen=True)
class Suite:
    """The accepted variants of some sources: each one's `source`, types and values [N, 4], and the outcomes of variants
    and controls.
    """

    kind: Ints
    source: Ints
    carried: Bools
    value: Ints
    variants: Floats
    controls: Floats

    def observations(self, by: str, alone: bool = False) -> tuple[list[str], Observations]:
        """The names and what `estimate_effects` takes, by "type" or by "value"; `alone`: of variants with one edit."""
        some = np.flatnonzero(self.carried.sum(axis=1) == 1) if alone else np.arange(len(self.source))
        picture, type_ = np.nonzero(self.carried[some])
        of_kind = np.where(type_ == TYPES.index("colour"), self.kind[self.source[some[picture]]], 0)
        value = self.value[some[picture], type_] if by == "value" else np.zeros(len(type_), np.int64)
        numbers, name = np.unique((type_ * _KINDS + of_kind * (by == "value")) * 10 + value, return_inverse=True)
        valued = ": {} of {}" if by == "value" else ""
        names = [TYPES[n // 10 // _KINDS] + valued.format(n % 10, n // 10 % _KINDS) for n in numbers]
        sources = np.concatenate([np.arange(len(self.controls)), self.source[some]])
        outcomes = np.concatenate([self.controls, self.variants[some]])
        weight = picture_weights(sources, np.arange(len(sources)) >= len(self.controls))
        return names, Observations(sources, outcomes, picture + len(self.controls), name, len(names), weight)

    def answers(self) -> list[PictureOutcome]:
        """The same as `find_interactions` takes it, by type."""
        pictures = [PictureOutcome(str(g), "control", outcome) for g, outcome in enumerate(self.controls.tolist())]
        rows = (of.tolist() for of in (self.source, self.carried, self.variants))
        for g, carried, outcome in zip(*rows, strict=True):
            names = frozenset(name for name, has in zip(TYPES, carried, strict=True) if has)
            pictures.append(PictureOutcome(str(g), "variant", outcome, names))
        return pictures


def draw_suite(
    model: Model, sources: int, rng: np.random.Generator, *, chances: bool = False, rejects: bool = True
) -> Suite:
    """A suite of so many sources. With `chances` outcomes are the chances to be right, as for a truth; unless it
    `rejects`, all variants are accepted.
    """
    shape = (sources, _VARIANTS)
    kind = rng.integers(0, _KINDS, sources)
    edits = np.where(rng.random(shape) < _ONE_EDIT, 1, rng.integers(2, 4, shape))
    carried = rng.random((*shape, len(TYPES))).argsort(axis=-1) < edits[..., None]
    value = np.stack([rng.integers(0, count, shape) for count in _VALUES], axis=-1)
    # A rejected edit takes its variant with it.
    accepted = ~(rejects & carried & (rng.random(carried.shape) < _REJECTED)).any(axis=-1)
    base = model.fails(rng, sources)
    source = np.nonzero(accepted)[0]
    carried, value = carried[accepted], value[accepted]
    wrong = base[source] + (1 - base[source]) * model.more(carried, value)
    if chances:
        return Suite(kind, source, carried, value, 1 - wrong, 1 - base)
    right = (rng.random(len(wrong)) >= wrong).astype(float)
    return Suite(kind, source, carried, value, right, (rng.random(sources) >= base).astype(float))


def classes_suite(classes: int, sources: int) -> tuple[list[PictureRow], list[str | None]]:
    """The rows of a suite of so many classes and the answers of a model that is right in eight of ten pictures."""
    rng = np.random.default_rng(0)
    suite = draw_suite(MODELS["effects add"], sources, rng, rejects=False)

    def row(g: int, kind: Kind, **more: Any) -> PictureRow:
        return blank_row(kind, str(g), label=f"class {g % classes}", **more)

    rows = [row(g, kind) for g in range(sources) for kind in ("original", "control")]
    for v, (g, carried, value) in enumerate(zip(suite.source.tolist(), suite.carried, suite.value, strict=True)):
        edits = tuple(Edit(TYPES[t], "x", str(value[t])) for t in np.flatnonzero(carried))
        rows.append(row(g, "variant", number=v, edits=edits))
    others = rng.integers(0, classes, len(rows)).tolist()
    right = rng.random(len(rows)) < 0.8
    return rows, [row.label if well else f"class {k}" for row, well, k in zip(rows, right, others, strict=True)]


def blank_row(kind: Kind, source: str, number: int = 0, **more: Any) -> PictureRow:
    """A row that says nothing but what it is told; names of files are without the folder at their top."""
    name, original = f"{kind}/{source}/{number}.png", f"original/{source}/0.png"
    row = PictureRow(
        name, f"{kind}{source}", kind, source, None, None, original, None, "", "", (), number, None, _NO_SCORES, None,
        _ORIGIN, _CROP, "", "",
    )  # fmt: skip
    return replace(row, **more)


def stored(row: PictureRow, **more: Any) -> PictureRow:
    """The row of a painted suite, its files in their folders."""
    top = "originals" if row.kind == "original" else "images"
    name, painted = f"{top}/{row.file_name}", None if row.kind == "original" else PAINTING
    control = None if row.control is None else f"images/{row.control}"
    files = {"file_name": name, "original": f"originals/{row.original}", "control": control}
    return replace(row, **{**files, "painting": painted, **more})


def write_file(suite: Path, name: str, data: bytes) -> list[Any]:
    """A file of a suite, not synced: it stands for one that was, long ago. Returns the ledger's row of it."""
    path = suite / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return FileRecord(True, len(data), hashlib.sha256(data).hexdigest(), path.stat().st_mtime_ns).to_json()


def write_rows(suite: Path, rows: Iterable[PictureRow]) -> None:
    with RowSpool(suite) as spool, (suite / "metadata.parquet").open("wb") as file:
        for row in rows:
            spool.add(row)
        write_table(spool, spool.score_names, file)
