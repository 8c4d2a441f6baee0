"""A box's share of a run: an open journey that takes one shard after the other through all stages.

A worker knows no engine of distribution: it is made, introduced and given shards. It keeps a suite of its own in a
folder of its box, so that answers of the language model serve later shards too, and puts what each shard came to into
one part (see `parts`). What it cannot do is one sentence with the name of its box.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import platform
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..content_keys import shard_key
from ..errors import CounterfactoryError
from ..files.reading import read_bytes
from ..files.writing import remove_file
from ..journey import Journey, look, outcome_key_of, step
from ..meter.memory import memory_of
from ..meter.meter import Meter, PlanUse, StageCost
from ..models.networks import library_of
from ..packages import release
from ..profile.painter import NO_MODELS
from ..profile.profile import Profile
from ..profile.runtime import ModelPaths
from ..request import SuiteRequest
from ..schedule.overlap import in_callers_threads
from ..sources.blobs import read_blob
from ..sources.pixels import UnreadableError
from ..sources.source import Source
from ..stages.run import Classes
from ..suite import Suite
from ..suite.lock import Lock
from ..suite.outcome import Outcomes
from ..suite.suite import LOCK
from .parts import open_place, part_name, write_part

_SCRATCH = "counterfactory-worker-"


@dataclass(frozen=True)
class WorkOrder:
    """What every worker of a run is told once: the journey, the `cores` to compute on without a GPU, the `labels` of
    all sources, which are the checks' classes, and the `maker` of outcomes with the `makers` of stages. The `place` of
    parts has a file `token` that holds its name, and `source` is the first: by both a worker sees what it shares.
    """

    profile: Profile
    request: SuiteRequest
    cores: int
    labels: tuple[str, ...]
    source: Source
    place: str
    token: str
    maker: str
    makers: Mapping[str, str]


@dataclass(frozen=True)
class Introduction:
    """Who a worker is: its `host` and process, how many devices it holds, and why it cannot work, None where it can."""

    host: str
    process: int
    devices: int
    problem: str | None


@dataclass(frozen=True)
class Receipt:
    """What a worker hands over for a shard: the `part`'s name, what the worker has cost since it began, and why what it
    compiled is not kept.
    """

    part: str
    host: str
    wall_s: float
    peak_memory_bytes: int
    stages: tuple[StageCost, ...]
    plans: tuple[PlanUse, ...]
    cache_problem: str | None = None


class _Pickler(pickle.Pickler):
    """Knows what pickle does not: tables that cannot be changed, and the one object that says that a profile has no
    networks.
    """

    def reducer_override(self, value: object) -> Any:
        if value is NO_MODELS:
            return _no_models, ()
        return (MappingProxyType, (dict(value),)) if isinstance(value, MappingProxyType) else NotImplemented


def _no_models() -> ModelPaths:
    return NO_MODELS


def packed(value: object) -> bytes:
    """An order or sources, to be sent to another box of the same release."""
    file = io.BytesIO()
    _Pickler(file, protocol=5).dump(value)
    return file.getvalue()


class ShardWorker:
    """`order` is a packed `WorkOrder` for this `release`. Methods raise nothing but CounterfactoryError and bugs."""

    def __init__(self, release_wanted: str, order: bytes) -> None:
        self._wanted, self._packed = release_wanted, order
        self._host = platform.node() or "a box without a name"
        self._opened: _OpenWorker | None = None

    def introduce(self) -> Introduction:
        """Opens what work needs, no network yet, and says whether the driver's shards can be worked on here."""
        devices, problem = 1, None
        try:
            if release() != self._wanted:
                raise CounterfactoryError(
                    f"it has release {release()} where {self._wanted} makes the suite: install that"
                )
            devices = self._open().devices
        except CounterfactoryError as error:
            problem = str(error)
        return Introduction(self._host, os.getpid(), devices, problem)

    def work(self, sources: bytes) -> Receipt:
        """Takes packed sources through all stages, and leaves their part where the driver finds it."""
        return self._open().work(pickle.loads(sources), self._host)

    def _open(self) -> _OpenWorker:
        if self._opened is None:
            self._opened = _OpenWorker(pickle.loads(self._packed))
        return self._opened


class _OpenWorker:
    """An order that is being worked on."""

    def __init__(self, order: WorkOrder) -> None:
        self._order, self._stack = order, ExitStack()
        runtime = order.profile.runtime
        self.devices = 1 if runtime.on_gpu else order.cores
        self._place = open_place(order.place)
        self._require_shared()
        _remove_abandoned()
        self._scratch = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix=_SCRATCH)))
        library = library_of(order.profile)
        library = replace(library, runtime=replace(runtime, threads=order.cores))  # which decide no byte
        self._library = library
        self._meter = Meter(lambda _: None, memory=memory_of(runtime))
        self._suite = self._stack.enter_context(Suite.open(self._scratch / "suite"))
        journey = Journey(order.profile, order.request)
        self._run = replace(journey.open_run(self._suite, library, self._meter, ()), classes=Classes(order.labels))
        maker = outcome_key_of(self._run, ())
        if maker != order.maker:
            ours = {str(stage): key for stage, key in self._run.keys.makers.items()}
            other = [stage for stage, key in order.makers.items() if ours.get(stage) != key]
            what = f"weights, plans or libraries of the stage {other[0]}" if other else "settings of the profile"
            raise CounterfactoryError(f"it has other {what}: install there what the driver has")
        self._outcomes = Outcomes(self._suite, maker)

    def _require_shared(self) -> None:
        order = self._order
        advice = "name a place that all boxes share under one path, or an URL, by --parts"
        try:
            with self._place.fetched(order.token) as path:
                seen = read_bytes(path).decode(errors="replace")
        except OSError as error:
            raise CounterfactoryError(f"it does not see the driver's parts in {order.place}: {advice}") from error
        if seen != order.token:
            raise CounterfactoryError(f"it sees another driver's parts in {order.place}: {advice}")
        source, share = order.source, "share the sources' folder, or name them by an URL"
        try:
            digest = hashlib.sha256(read_blob(source.blob or str(source.path))).hexdigest()
        except UnreadableError as error:
            raise CounterfactoryError(f"it cannot read {source.path} ({error}): {share}") from error
        if digest != source.digest:
            raise CounterfactoryError(f"it has another file at {source.path} than the driver: {share}")

    def work(self, sources: tuple[Source, ...], host: str) -> Receipt:
        """See `ShardWorker.work`."""
        noted = self._suite.ledger.noted = set[tuple[str, str]]()
        with in_callers_threads():
            shard = look(self._run, self._outcomes, sources)
            step(self._run, self._outcomes, shard)
        self._suite.ledger.noted = None
        key = shard_key([source.whole_key for source in sources])
        name, path = part_name(key, self._order.maker), self._scratch / "part"
        head = {"shard": key, "maker": self._order.maker, "problems": tuple(shard.pictures.problems)}
        write_part(path, self._suite, noted, head)
        self._place.put(name, path)
        self._forget([key for stage, key in noted if stage == "suite/files"])
        meter = self._meter
        costs = meter.elapsed_s, meter.peak_memory_bytes, meter.costs(), meter.plans()
        return Receipt(name, host, *costs, self._library.cache_problem)

    def _forget(self, names: list[str]) -> None:
        """Files that are in a part are not kept here."""
        for name in names:
            remove_file(self._suite.path / name, self._suite.path)
        remove_file(self._scratch / "part", self._scratch)


def _remove_abandoned() -> None:
    """What workers left that were killed: nobody has their suites' locks."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        with suppress(CounterfactoryError, OSError):
            Lock(folder / "suite" / LOCK).release()
            shutil.rmtree(folder)
