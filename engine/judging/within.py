"""The within ("fixed effects") regression: what names do to outcomes, compared within sources, and how sure that is.

From the outcomes of pictures that share sources it makes one estimate per name with its standard error, by weighted
least squares after each source's mean is taken out (Wooldridge, Econometric Analysis of Cross Section and Panel Data,
2010, section 10.5). The standard error is the jackknife's over clusters of sources (MacKinnon, Nielsen and Webb,
"Cluster-robust inference: a guide to empirical practice", 2023, CV3). It does not know what outcomes are, or what a
name stands for.

Names that no cluster has both of do not touch each other. So the system falls apart into blocks of names that clusters
connect, and each is solved alone: of 1,000 classes, each source with one, 1,000 systems of one name. Leaving out a
cluster changes the solution by a matrix as small as it has pictures, or, where these are more than names, is solved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Floats that a batch of clusters may take.
_BATCH = 1 << 22
# How far from a unit vector a name's row of pinv(A) A may be, for its effect to be separable from the others'.
SEPARATE = 1e-6
# Of the largest eigenvalue: what is less is rounding.
_SINGULAR = 1e-10


@dataclass(frozen=True)
class Observations:
    """What is regressed: `source` [N] numbers each picture's source from 0, `outcome` [N]; `name` [M] is carried by the
    picture `picture` [M], of which there are `names`, numbered from 0. A picture carries a name once. `weight` [N] is
    what each picture counts, above 0 (1), and `cluster` [N] numbers, from 0, what depends on each other: sources lie in
    one cluster each (every source by itself).
    """

    source: Ints
    outcome: Floats
    picture: Ints
    name: Ints
    names: int
    weight: Floats | None = None
    cluster: Ints | None = None


@dataclass(frozen=True)
class Estimates:
    """By name [K]: its `value` and `spread` (the standard error), whether it is `separate` from the other names, how
    many clusters `vary` in it, and the pictures that are `carrying` it. `covariances` are of blocks of names: the names
    [k] and the covariance [k, k] of their values, which is 0 between blocks.
    """

    value: Floats
    spread: Floats
    separate: NDArray[np.bool_]
    vary: Ints
    carrying: Ints
    covariances: list[tuple[Ints, Floats]] = field(default_factory=list)


@dataclass(frozen=True)
class _Batch:
    """Clusters of as many pictures each: `carried` [B, n, s] is 1 less its source's mean where a picture carries the
    name in `names` [B, s], and 0 where a cluster has fewer names; `outcome` [B, n] has its mean taken out as well. Both
    are times the root of the picture's weight.
    """

    carried: Floats
    names: Ints
    outcome: Floats


def regress(pictures: Observations) -> Estimates:
    """Every name's estimate. Observations without a name count for the clusters that they are of."""
    cluster = pictures.source if pictures.cluster is None else pictures.cluster
    count, clusters = pictures.names, int(cluster.max(initial=-1)) + 1
    carrying = np.bincount(pictures.name, minlength=count)
    separate, vary = np.zeros(count, np.bool_), np.zeros(count, np.int64)
    estimates = Estimates(np.zeros(count), np.zeros(count), separate, vary, carrying)
    named = np.unique(np.stack([cluster[pictures.picture], pictures.name], axis=1), axis=0)
    block_of = _blocks(named, count)
    of_cluster = np.full(clusters, -1)
    of_cluster[named[:, 0]] = block_of[named[:, 1]]
    index, by_block = _Index(pictures, cluster, named, clusters), _grouped(of_cluster)
    place = np.zeros(count, np.int64)  # of a name in its block
    for block, names in _grouped(block_of).items():
        place[names] = np.arange(len(names))
        batches = list(index.batches(by_block.get(block, np.zeros(0, np.int64)), place, len(names)))
        _solve(batches, names, clusters, estimates)
    return estimates


class _Index:
    """Where the pictures of each cluster are, and what they carry: `named` are pairs [P, 2] of a cluster and a name."""

    def __init__(self, pictures: Observations, cluster: Ints, named: Ints, clusters: int) -> None:
        self._named, self._order = named, np.lexsort([pictures.source, cluster])
        weight = np.ones(len(cluster)) if pictures.weight is None else pictures.weight
        self._source, self._weight, self._outcome = (
            of[self._order] for of in (pictures.source, weight, pictures.outcome)
        )
        self._pictures = np.bincount(cluster, minlength=clusters)
        self._names = np.bincount(named[:, 0], minlength=clusters)
        self._first_picture, self._first_name = (np.cumsum(n) - n for n in (self._pictures, self._names))
        position = np.empty(len(self._order), np.int64)
        position[self._order] = np.arange(len(self._order))
        carrier = cluster[pictures.picture]
        keys, pairs = carrier * pictures.names + pictures.name, named[:, 0] * pictures.names + named[:, 1]
        by_cluster = np.argsort(carrier, kind="stable")
        self._carried = np.bincount(carrier, minlength=clusters)
        self._first_carried = np.cumsum(self._carried) - self._carried
        self._slot = (np.searchsorted(pairs, keys) - self._first_name[carrier])[by_cluster]
        self._position = (position[pictures.picture] - self._first_picture[carrier])[by_cluster]

    def batches(self, clusters: Ints, place: Ints, size: int) -> Iterator[_Batch]:
        """Batches of the clusters; `place` [names] is a name's number among the `size` ones of the block."""
        for count, some in _grouped(self._pictures[clusters]).items():
            most = int(self._names[clusters[some]].max())
            each = max(1, _BATCH // (min(count, size) ** 2 + (count + most) * most + (most + 2) * size))
            for start in range(0, len(some), each):
                yield self._batch(clusters[some[start : start + each]], count, most, place)

    def _batch(self, clusters: Ints, count: int, most: int, place: Ints) -> _Batch:
        names = np.zeros((len(clusters), most), np.int64)
        at, pair = _ragged(self._first_name[clusters], self._names[clusters])
        names[at, pair - self._first_name[clusters][at]] = place[self._named[pair, 1]]
        values = np.zeros((len(clusters), count, most + 1))
        at, entry = _ragged(self._first_carried[clusters], self._carried[clusters])
        values[at, self._position[entry], self._slot[entry]] = 1
        pictures = self._first_picture[clusters][:, None] + np.arange(count)
        values[..., most] = self._outcome[pictures]
        weight, source = self._weight[pictures][..., None], self._source[pictures]
        values -= _means(values, weight, np.cumsum(np.diff(source, axis=1, prepend=source[:, :1]) != 0, axis=1))
        values *= np.sqrt(weight)
        return _Batch(values[..., :most], names, values[..., most])


def _means(values: Floats, weight: Floats, source: Ints) -> Floats:
    """The weighted mean of each picture's source, as `values` [B, n, s]; `source` [B, n] counts from 0 in each row."""
    if not source.any():
        return np.asarray((values * weight).sum(axis=1, keepdims=True) / weight.sum(axis=1, keepdims=True))
    rows = np.arange(len(values))[:, None]
    sums, weights = (np.zeros((len(values), int(source.max()) + 1, size)) for size in (values.shape[2], 1))
    np.add.at(sums, (rows, source), values * weight)
    np.add.at(weights, (rows, source), weight)
    return np.asarray(sums[rows, source] / weights[rows, source])


def _ragged(starts: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Of runs of `counts` numbers from `starts` on: each number's run, and the number."""
    runs = np.repeat(np.arange(len(counts)), counts)
    return runs, np.arange(len(runs)) + np.repeat(starts - np.cumsum(counts) + counts, counts)


def _solve(batches: Sequence[_Batch], names: Ints, clusters: int, estimates: Estimates) -> None:
    """Fill in the estimates of the names of one block [K], of whose clusters the batches are."""
    size = len(names)
    total, side, vary = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    for batch in batches:
        turned = batch.carried.transpose(0, 2, 1)
        systems = turned @ batch.carried
        np.add.at(total, (batch.names[:, :, None], batch.names[:, None, :]), systems)
        np.add.at(side, batch.names, (turned @ batch.outcome[..., None])[..., 0])
        np.add.at(vary, batch.names, np.diagonal(systems, axis1=1, axis2=2) > SEPARATE)
    inverse: Floats = np.linalg.pinv(total, rcond=_SINGULAR, hermitian=True).astype(np.float64, copy=False)
    value = inverse @ side
    covariance = np.zeros((size, size))
    for batch in batches:
        many = batch.carried.shape[1] > size
        changes = _solved_anew(batch, total, side) - value if many else _changes(batch, inverse, value)
        covariance += changes.T @ changes * ((clusters - 1) / clusters)
    estimates.value[names] = value
    estimates.spread[names] = np.sqrt(np.diagonal(covariance))
    estimates.separate[names] = np.abs(inverse @ total - np.eye(size)).max(axis=1) < SEPARATE
    estimates.vary[names] = vary
    estimates.covariances.append((names, covariance))


def _solved_anew(batch: _Batch, total: Floats, side: Floats) -> Floats:
    """The values without each cluster of a batch [B, K], of the normal equations: for clusters of many pictures."""
    turned, at = batch.carried.transpose(0, 2, 1), np.arange(len(batch.names))[:, None]
    systems, sides = np.tile(total, (len(at), 1, 1)), np.tile(side, (len(at), 1))
    np.add.at(systems, (at[:, :, None], batch.names[:, :, None], batch.names[:, None, :]), -(turned @ batch.carried))
    np.add.at(sides, (at, batch.names), -(turned @ batch.outcome[..., None])[..., 0])
    solved: Floats = (np.linalg.pinv(systems, rcond=_SINGULAR, hermitian=True) @ sides[..., None])[..., 0]
    return solved


def _changes(batch: _Batch, inverse: Floats, value: Floats) -> Floats:
    """By how much the values [K] change without each cluster of a batch: [B, K].

    Without X_g the solution is b - A^-1 X_g' (I - H)^-1 e_g with H = X_g A^-1 X_g' and the residuals e_g: Sherman,
    Morrison and Woodbury. Where I - H is singular, some name is told from others in this cluster alone: then the
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
    """The block of each name [K], called by its least name; `named` are pairs [P, 2] of a cluster and a name of it."""
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
