"""Shards that travel on the boxes of a Ray cluster: one actor a GPU, or a core, each with the whole journey open.

Ray places the actors, restarts those that die and says so. What becomes of workers that fail, and of the shards that
they had in hand, is in `dispatch`. The driver, alone, writes the suite: it takes parts as they come (see `parts`), in
any order. Ctrl-C or SIGTERM drains: shards in hand are finished
and taken, no further one begins; a second one ends at once.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import CounterfactoryError
from ..files.writing import write_whole
from ..journey import Trip
from ..meter.meter import sum_costs, sum_uses
from ..packages import release
from ..profile.runtime import RuntimeSettings
from ..sources.blobs import Cell
from ..sources.source import Problem
from ..suite.outcome import Outcome
from ..suite.session_record import Costs
from .dispatch import Dispatch, Hand, Patience, first_line
from .gathering import Gathering
from .parts import FolderPlace, PartPlace, open_place
from .worker import Introduction, Receipt, ShardWorker, WorkOrder, packed

_ADVICE = "start one there (ray start --head), or say --ray local for this box alone"
_MODE = "RAY_AUTH_MODE"  # how Ray authenticates; a head that finds a token asks for it, clients show it if told
_HEALTH_S = 20  # for a cluster to answer whether it is there


@dataclass
class RayBoxes:
    """The boxes of the cluster at `address` ("auto": the one that this box belongs to; "local": one on this box alone).

    `workers` is the most that are to work, None for one a GPU or core; `place` where parts wait (parts/ of the suite);
    `patience` how long they may take, None for the kind of device's.
    """

    address: str
    warn: Callable[[str], None]
    workers: int | None = None
    place: str | None = None
    patience: Patience | None = None
    clock: Callable[[], float] = time.monotonic
    hands: list[Hand] = field(default_factory=list)
    hire: Callable[[], Any] = field(default=lambda: None, repr=False)  # a new actor
    room: Callable[[], int] = field(default=lambda: 0, repr=False)  # workers that the cluster has room for
    _receipts: list[Receipt] = field(default_factory=list)  # of processes that are gone
    _held_s: float = 0.0  # by workers that are gone
    _most: int = 0
    _lost: int = 0
    # The session's own thread asks for costs at any moment.
    _one_at_a_time: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def travel(self, trip: Trip) -> Mapping[int, tuple[Outcome, Sequence[Problem]]]:
        """See `Elsewhere`. Raises CounterfactoryError where no worker works, KeyboardInterrupt once it has drained."""
        if not trip.run.request.has_room:
            raise CounterfactoryError(
                "--interventions names more values than --variants has room for, so that each source's depend on those "
                "before it: with --ray give as many variants as values"
            )
        if any(isinstance(shard[0].blob, Cell) for shard in trip.shards):
            raise CounterfactoryError(
                "a data set of the hub lies in this box's cache, where other boxes do not see it: save its pictures to "
                "a shared folder for --ray"
            )
        trip.run.meter.held = self.held
        own = (trip.run.suite.path / "parts").absolute()
        name, place = self.place or str(own), open_place(self.place) if self.place else FolderPlace(own, own=True)
        gathering = Gathering(trip, place)
        waiting = deque(gathering.begin())
        trip.status.note(workers=0)
        try:
            if waiting:
                self._work(gathering, waiting, name)
        finally:
            place.close()
        return gathering.unread

    def spent(self, own: Costs) -> Costs:
        """The costs of this box with those of the workers, whose devices are what counts."""
        with self._one_at_a_time:
            receipts = [*self._receipts, *(hand.receipt for hand in self.hands if hand.receipt is not None)]
        theirs = sum_costs(cost for receipt in receipts for cost in receipt.stages)
        items = {cost.stage: cost.items for cost in own.stages}
        stages = tuple(replace(cost, items=items.get(cost.stage, cost.items)) for cost in theirs)
        names = {cost.stage for cost in stages}
        return replace(
            own,
            devices=max(1, self._most),
            painted=sum(cost.made for cost in stages if cost.stage == "paint"),
            peak_memory_bytes=max([own.peak_memory_bytes, *(receipt.peak_memory_bytes for receipt in receipts)]),
            energy_j=None,  # no box knows the others'
            stages=(*stages, *(cost for cost in own.stages if cost.stage not in names)),
            plans=sum_uses(use for receipt in receipts for use in receipt.plans),
            device_s=self.held()[1],
        )

    def cache_problem(self) -> str | None:
        """See `Elsewhere`; of one of the boxes."""
        told = (f"{receipt.host}: {receipt.cache_problem}" for receipt in self._receipts if receipt.cache_problem)
        return next(told, None)

    def held(self) -> tuple[int, float]:
        """Devices that workers hold now, and seconds of devices that they held so far."""
        with self._one_at_a_time:
            now = self.clock()
            there = [(hand.who.devices, hand.since) for hand in self.hands if hand.who is not None]
            return sum(of for of, _ in there), self._held_s + sum(of * (now - since) for of, since in there)

    def _work(self, gathering: Gathering, waiting: deque[int], place: str) -> None:
        """Have the waiting shards worked on until none is left."""
        run, shards = gathering.trip.run, gathering.trip.shards
        with ExitStack() as opened:
            opened.callback(self._end)
            ray = opened.enter_context(connected(self.address, self.workers, run.profile.runtime))
            drain = opened.enter_context(_drained(self.warn))
            order = WorkOrder(
                profile=run.profile,
                request=run.request,
                cores=run.profile.runtime.threads or 1,
                labels=tuple(sorted({source.label or "" for of in shards for source in of})),
                source=shards[0][0],
                place=place,
                token=opened.enter_context(_token(gathering.place)),
                maker=gathering.maker,
                makers={str(stage): key for stage, key in run.keys.makers.items()},
            )
            on_gpu = run.profile.runtime.on_gpu
            self._hire(ray, order, on_gpu, len(waiting))
            Dispatch(ray, self, waiting, gathering, self.patience or Patience.of(on_gpu)).run(drain)

    def _hire(self, ray: Any, order: WorkOrder, on_gpu: bool, shards: int) -> None:
        """Ask for the actors; those for which the cluster has no room yet come when it has."""
        share = {"num_gpus": 1, "num_cpus": 1} if on_gpu else {"num_cpus": order.cores}

        def room() -> int:
            return int(ray.cluster_resources().get("GPU" if on_gpu else "CPU", 0)) // (1 if on_gpu else order.cores)

        if not room() and self.workers is None:
            raise CounterfactoryError(
                f"the Ray cluster at {self.address} has no {'GPU' if on_gpu else 'core'} for a worker: start Ray with "
                "one (ray start --num-gpus or --num-cpus), or say --workers N where more will come"
            )
        kind, message = ray.remote(ShardWorker).options(max_restarts=-1, **share), packed(order)
        self.room, self.hire = room, lambda: kind.remote(release(), message)
        hands = [Hand(self.hire()) for _ in range(min(self.workers or room(), shards))]
        with self._one_at_a_time:
            self.hands += hands

    def gone(self, hand: Hand) -> None:
        """The process of a worker is gone; what it cost stays."""
        with self._one_at_a_time:
            if hand.who is not None:
                self._held_s += (self.clock() - hand.since) * hand.who.devices
            if hand.receipt is not None:
                self._receipts.append(hand.receipt)
            hand.who = hand.receipt = None

    def lose(self) -> int:
        """One more worker was lost or given up; returns how many."""
        self._lost += 1
        return self._lost

    def begin(self, hand: Hand, who: Introduction) -> None:
        """A worker is there."""
        with self._one_at_a_time:
            hand.since, hand.who = self.clock(), who
        self._most = max(self._most, self.held()[0])

    def dismiss(self, hand: Hand) -> None:
        """A worker is given up."""
        with self._one_at_a_time:
            self.gone(hand)
            self.hands.remove(hand)

    def _end(self) -> None:
        for hand in list(self.hands):
            self.dismiss(hand)


@contextmanager
def _token(place: PartPlace) -> Iterator[str]:
    """A file among the parts that holds its own name: workers who read it see the same place."""
    name = f"driver-{secrets.token_hex(8)}"
    with TemporaryDirectory(prefix="counterfactory-") as folder:
        write_whole(Path(folder) / name, name)
        place.put(name, Path(folder) / name)
    try:
        yield name
    finally:
        place.remove(name)


@contextmanager
def _drained(warn: Callable[[str], None]) -> Iterator[threading.Event]:
    """Set by the first Ctrl-C or SIGTERM; the second is an interrupt. Threads other than the main one hear nothing."""
    drain = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield drain
        return

    def stop(*_: object) -> None:
        if drain.is_set():
            raise KeyboardInterrupt
        drain.set()
        warn("stopping: shards in hand are finished first; once more ends at once")

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield drain
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def connected(address: str, workers: int | None, runtime: RuntimeSettings) -> Iterator[Any]:
    """Ray, connected to a cluster. Raises CounterfactoryError where none is."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when Ray is imported and when it starts
    if address != "local" and find_spec("ray") is not None:
        _reach(address)
    import ray

    own: dict[str, Any] = {}
    if address == "local":
        own["include_dashboard"] = False
        if workers is not None and not runtime.on_gpu:  # more than there are cores, if that is wished
            own["num_cpus"] = workers * (runtime.threads or 1)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (OSError, ValueError, RuntimeError) as error:
        raise CounterfactoryError(
            f"no Ray cluster can be used at {address} ({first_line(error)}): {_ADVICE}"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """Raises CounterfactoryError unless a cluster is there: connecting to none takes Ray minutes, which nothing
    interrupts. Where it asks for a token and nobody said how Ray authenticates, the token of this box is shown to it.
    """
    code, answer = _health(address, {})
    asks = "AuthToken" in answer or "AuthenticationError" in answer
    if asks and _MODE not in os.environ:
        code, _ = _health(address, {_MODE: "token"})
        if code == 0:
            os.environ[_MODE] = "token"  # read when Ray is imported
    if code != 0 and asks:
        raise CounterfactoryError(
            f"the Ray cluster at {address} refuses this box's token: copy ~/.ray/auth_token from its head, and say "
            f"{_MODE}=token before each `ray start`"
        )
    if code != 0:
        raise CounterfactoryError(f"no Ray cluster answers at {address}: {_ADVICE}")


def _health(address: str, more: Mapping[str, str]) -> tuple[int, str]:
    """Status and words of Ray's own question whether a cluster is there; a cluster that keeps silent is none."""
    place = [] if address == "auto" else ["--address", address.rpartition("://")[2]]
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", *place]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=_HEALTH_S, check=False, env={**os.environ, **more}
        )
    except subprocess.TimeoutExpired:
        return 1, ""
    return ended.returncode, ended.stdout + ended.stderr
