"""The within ("fixed effects") regression: what names do to outcomes, compared within sources, and how sure that is.

From the outcomes of pictures that share sources it makes one estimate per name with its standard error, by ordinary
least squares after each source's mean is taken out (Wooldridge, Econometric Analysis of Cross Section and Panel Data,
2010, section 10.5). The standard error is the jackknife's over sources (MacKinnon, Nielsen and Webb, "Cluster-robust
inference: a guide to empirical practice", 2023, CV3). It does not know what outcomes are, or what a name stands for.

Names that no source has both of do not touch each other. So the system falls apart into blocks of names that sources
connect, and each is solved alone: of 1,000 classes, each source with one, 1,000 systems of one name. Leaving out a
source changes the solution by a matrix as small as the source has pictures, so that no system is solved twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Floats that a batch of sources may take.
_BATCH = 1 << 22
# How far from a unit vector a name's row of pinv(A) A may be, for its effect to be separable from the others'.
SEPARATE = 1e-6


@dataclass(frozen=True)
class Observations:
    """What is regressed: `source` [N] numbers each picture's source from 0, `outcome` [N]; `name` [M] is carried by the
    picture `picture` [M], of which there are `names`, numbered from 0. A picture carries a name once.
    """

    source: Ints
    outcome: Floats
    picture: Ints
    name: Ints
    names: int


@dataclass(frozen=True)
class Estimates:
    """By name [K]: its `value` and `spread` (the standard error), whether it is `separate` from the other names, how
    many sources `vary` in it, and the pictures that are `carrying` it.
    """

    value: Floats
    spread: Floats
    separate: NDArray[np.bool_]
    vary: Ints
    carrying: Ints


@dataclass(frozen=True)
class _Batch:
    """Sources of as many pictures each: `carried` [B, n, s] is 1 less its mean where a picture carries the name in
    `names` [B, s], and 0 where a source has fewer names; `outcome` [B, n] has its mean taken out as well.
    """

    carried: Floats
    names: Ints
    outcome: Floats


def regress(pictures: Observations) -> Estimates:
    """Every name's estimate. Observations without a name count for the sources that they are of."""
    count, sources = pictures.names, int(pictures.source.max(initial=-1)) + 1
    carrying = np.bincount(pictures.name, minlength=count)
    separate, vary = np.zeros(count, np.bool_), np.zeros(count, np.int64)
    estimates = Estimates(np.zeros(count), np.zeros(count), separate, vary, carrying)
    named = np.unique(np.stack([pictures.source[pictures.picture], pictures.name], axis=1), axis=0)
    block_of = _blocks(named, count)
    of_source = np.full(sources, -1)
    of_source[named[:, 0]] = block_of[named[:, 1]]
    index, by_block = _Index(pictures, named, sources), _grouped(of_source)
    place = np.zeros(count, np.int64)  # of a name in its block
    for block, names in _grouped(block_of).items():
        place[names] = np.arange(len(names))
        batches = list(index.batches(by_block.get(block, np.zeros(0, np.int64)), place, len(names)))
        _solve(batches, names, sources, estimates)
    return estimates


class _Index:
    """Where the pictures of each source are, and what they carry: `named` are pairs [P, 2] of a source and a name."""

    def __init__(self, pictures: Observations, named: Ints, sources: int) -> None:
        self._outcome, self._named = pictures.outcome, named
        self._order = np.argsort(pictures.source, kind="stable")
        self._pictures = np.bincount(pictures.source, minlength=sources)
        self._names = np.bincount(named[:, 0], minlength=sources)
        self._first_picture, self._first_name = (np.cumsum(n) - n for n in (self._pictures, self._names))
        position = np.empty(len(self._order), np.int64)
        position[self._order] = np.arange(len(self._order))
        source = pictures.source[pictures.picture]
        keys, pairs = source * pictures.names + pictures.name, named[:, 0] * pictures.names + named[:, 1]
        by_source = np.argsort(source, kind="stable")
        self._carried = np.bincount(source, minlength=sources)
        self._first_carried = np.cumsum(self._carried) - self._carried
        self._slot = (np.searchsorted(pairs, keys) - self._first_name[source])[by_source]
        self._position = (position[pictures.picture] - self._first_picture[source])[by_source]

    def batches(self, sources: Ints, place: Ints, size: int) -> Iterator[_Batch]:
        """Batches of the sources; `place` [names] is a name's number among the `size` ones of the block."""
        for count, some in _grouped(self._pictures[sources]).items():
            most = int(self._names[sources[some]].max())
            each = max(1, _BATCH // (count * count + (count + most) * most + (most + 2) * size))
            for start in range(0, len(some), each):
                yield self._batch(sources[some[start : start + each]], count, most, place)

    def _batch(self, sources: Ints, count: int, most: int, place: Ints) -> _Batch:
        names = np.zeros((len(sources), most), np.int64)
        at, pair = _ragged(self._first_name[sources], self._names[sources])
        names[at, pair - self._first_name[sources][at]] = place[self._named[pair, 1]]
        carried = np.zeros((len(sources), count, most))
        at, entry = _ragged(self._first_carried[sources], self._carried[sources])
        carried[at, self._position[entry], self._slot[entry]] = 1
        carried -= carried.mean(axis=1, keepdims=True)
        outcome = self._outcome[self._order[self._first_picture[sources][:, None] + np.arange(count)]]
        return _Batch(carried, names, outcome - outcome.mean(axis=1, keepdims=True))


def _ragged(starts: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Of runs of `counts` numbers from `starts` on: each number's run, and the number."""
    runs = np.repeat(np.arange(len(counts)), counts)
    return runs, np.arange(len(runs)) + np.repeat(starts - np.cumsum(counts) + counts, counts)


def _solve(batches: Sequence[_Batch], names: Ints, sources: int, estimates: Estimates) -> None:
    """Fill in the estimates of the names of one block [K], of whose sources the batches are."""
    size = len(names)
    total, side, vary = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    for batch in batches:
        turned = batch.carried.transpose(0, 2, 1)
        systems = turned @ batch.carried
        np.add.at(total, (batch.names[:, :, None], batch.names[:, None, :]), systems)
        np.add.at(side, batch.names, (turned @ batch.outcome[..., None])[..., 0])
        np.add.at(vary, batch.names, np.diagonal(systems, axis1=1, axis2=2) > SEPARATE)
    inverse: Floats = np.linalg.pinv(total, hermitian=True).astype(np.float64, copy=False)
    value = inverse @ side
    squares = sum((_changes(batch, inverse, value) ** 2).sum(axis=0) for batch in batches)
    estimates.value[names] = value
    estimates.spread[names] = np.sqrt(squares * (sources - 1) / sources)
    estimates.separate[names] = np.abs(inverse @ total - np.eye(size)).max(axis=1) < SEPARATE
    estimates.vary[names] = vary


def _changes(batch: _Batch, inverse: Floats, value: Floats) -> Floats:
    """By how much the values [K] change without each source of a batch: [B, K].

    Without X_g the solution is b - A^-1 X_g' (I - H)^-1 e_g with H = X_g A^-1 X_g' and the residuals e_g: Sherman,
    Morrison and Woodbury. Where I - H is singular, some name is told from others in this source alone: then the
    solution of least norm, as of pinv(A - X_g' X_g), lacks what the null vectors A^-1 X_g' v have of it.
    """
    residual = batch.outcome - (batch.carried @ value[batch.names][..., None])[..., 0]
    within = inverse[batch.names[:, :, None], batch.names[:, None, :]]
    turned = batch.carried.transpose(0, 2, 1)
    left, vectors = np.linalg.eigh(np.eye(batch.carried.shape[1]) - batch.carried @ within @ turned)
    free = left > SEPARATE
    weights = np.divide(1, left, out=np.zeros_like(left), where=free)
    solved = (vectors * weights[:, None, :]) @ (vectors.transpose(0, 2, 1) @ residual[..., None])
    changes: Floats = -((turned @ solved).transpose(0, 2, 1) @ inverse[batch.names])[:, 0]
    for g in np.flatnonzero(~free.all(axis=1)):
        directions = np.zeros((len(value), int((~free[g]).sum())))
        np.add.at(directions, batch.names[g], turned[g] @ vectors[g][:, ~free[g]])
        basis = np.linalg.qr(inverse @ directions)[0]
        changes[g] -= basis @ (basis.T @ (value + changes[g]))
    return changes


def _blocks(named: Ints, names: int) -> Ints:
    """The block of each name [K], called by its least name; `named` are pairs [P, 2] of a source and a name of it."""
    parent = list(range(names))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    first: dict[int, int] = {}
    for g, k in named.tolist():
        least, other = sorted((root(k), root(first.setdefault(g, k))))
        parent[other] = least
    return np.array([root(i) for i in range(names)], np.int64)


def _grouped(labels: Ints) -> dict[int, Ints]:
    """Where each label is, in order."""
    order = np.argsort(labels, kind="stable")
    kinds, starts = np.unique(labels[order], return_index=True)
    return dict(zip(kinds.tolist(), np.split(order, starts)[1:], strict=True))
