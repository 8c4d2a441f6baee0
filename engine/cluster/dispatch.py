"""Which worker gets which shard, and what becomes of both where a worker fails.

A worker that raises anything, or takes longer than a shard may, is killed and gets one new process; its shard goes to
whoever is free that has not failed over it. One that fails again before it has finished a shard is given up: its GPU is
what is broken, or its box; one that met bugs gets a third try, over a third shard. A shard over which several workers
failed is set aside, since it is what breaks them, and the run goes on with the others; it ends with an error that names
what is left. A process that dies is started anew by
Ray: kills and spot markets are no failures, until they follow each other.

How long a shard may take is learned from those before it, by source: some times the slowest of this worker's last ones,
or more times the slowest of anybody's, as boxes of a fleet may have other GPUs.
"""

from __future__ import annotations

import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from traceback import format_exception_only
from typing import Any, Protocol

from ..errors import CounterfactoryError, TryAgainError, list_some, lost_device
from .gathering import Gathering
from .worker import Introduction, Receipt, packed

# A shard in whose hands so many workers failed or died is what breaks them; so are so many shards before the first that
# is finished, which ends the run: its box, or its profile, is what is wrong.
_FAILURES = 3
_CHANCES = 2  # a worker's processes that fail one after the other
_TICK_S = 1.0  # between two looks at the clock while all workers are busy
_RECENT = 8  # shards that a deadline is learned from
_SCARCE = "as where memory does not suffice: give them more, or take a smaller --shard"
_PLACE = re.compile(r'File "([^"]+)", line (\d+)')


@dataclass(frozen=True)
class Patience:
    """How long workers may take, in seconds: `start_s` to begin, and to load and compile before a first shard;
    `least_s` for any shard; `own` times the slowest of the worker's last shards by source, or `others` times the
    slowest of all workers' where it has none, or `source_s` a source where nobody has any.
    """

    start_s: float = 1800.0
    least_s: float = 600.0
    own: float = 3.0
    others: float = 10.0
    source_s: float = 600.0

    @classmethod
    def of(cls, on_gpu: bool) -> Patience:
        """That of the kind of device: a core may take an hour for what a GPU paints in minutes."""
        return cls() if on_gpu else cls(source_s=3600.0)

    def limit_s(self, sources: int, own: Sequence[float], others: Sequence[float], *, first: bool) -> float:
        """Seconds for a shard of `sources`, by the seconds a source of shards before it; `first` of a process."""
        a_source = self.own * max(own) if own else self.others * max(others) if others else self.source_s
        return max(self.least_s, a_source * sources) + (self.start_s if first else 0.0)


@dataclass(eq=False)
class Hand:
    """A worker: its actor, and what is known of the actor's present process. It has `failed` over these shards since it
    finished one, and did so `ever` over those; `died` counts its processes' deaths since then. `rates` are the seconds
    a source of its last shards.
    """

    actor: Any
    who: Introduction | None = None
    since: float = 0.0
    receipt: Receipt | None = None
    host: str = "a box"
    failed: list[int | None] = field(default_factory=list)
    ever: set[int] = field(default_factory=set)
    died: int = 0
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))

    def finished(self) -> None:
        self.failed.clear()
        self.died = 0


class Boxes(Protocol):
    """Keeps the workers' hands, and what they cost."""

    hands: list[Hand]

    @property
    def warn(self) -> Callable[[str], None]: ...
    @property
    def clock(self) -> Callable[[], float]: ...
    @property
    def hire(self) -> Callable[[], Any]:
        """Makes an actor."""

    @property
    def room(self) -> Callable[[], int]:
        """How many workers the cluster has room for."""

    def begin(self, hand: Hand, who: Introduction) -> None: ...
    def gone(self, hand: Hand) -> None: ...
    def dismiss(self, hand: Hand) -> None: ...
    def lose(self) -> int: ...


@dataclass
class _Call:
    """A question to a worker: to introduce itself, or to work on the shard `number`; asked at `since`."""

    hand: Hand
    number: int | None
    since: float
    first: bool


@dataclass
class Dispatch:
    """Gives shards to actors that are free, and takes what they hand over."""

    ray: Any
    boxes: Boxes
    waiting: deque[int]
    gathering: Gathering
    patience: Patience
    _calls: dict[Any, _Call] = field(default_factory=dict)
    _idle: list[Hand] = field(default_factory=list)
    _failures: Counter[int] = field(default_factory=Counter)
    _aside: dict[int, str] = field(default_factory=dict)
    _rates: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))
    _problem: str = ""
    _kind: type[CounterfactoryError] = CounterfactoryError  # what the last worker's going is: lasting, or passing

    def run(self, drain: threading.Event) -> None:
        """Until all shards are taken. Raises CounterfactoryError where no worker is left, or shards were set aside;
        KeyboardInterrupt where the shards in hand at `drain` are.
        """
        for hand in list(self.boxes.hands):
            self._greet(hand)
        while True:
            for hand in list(self._idle) if self.waiting else ():  # a shard came back, or a worker for it went
                self._idle.remove(hand)
                self._give(hand, drain)
            open_shards = [call.number for call in self._calls.values() if call.number is not None]
            if not open_shards and (drain.is_set() or not self.waiting):
                break
            if not self._calls:
                raise self._kind(f"no worker is left: {self._problem}; nothing is lost, run the same command again")
            ready, _ = self.ray.wait(list(self._calls), num_returns=1, timeout=_TICK_S)
            for call in ready:
                self._answer(call, drain)
            self._end_overdue()
        if drain.is_set() and self.waiting:
            raise KeyboardInterrupt
        self._refuse_aside()

    def _greet(self, hand: Hand) -> None:
        # Ray asks again until the actor is there: it may have to find a place first.
        call = hand.actor.introduce.options(max_task_retries=-1).remote()
        self._calls[call] = _Call(hand, None, self.boxes.clock(), first=True)

    def _give(self, hand: Hand, drain: threading.Event) -> None:
        waiting = () if drain.is_set() else self.waiting
        number = next((one for one in waiting if one not in hand.ever), None)
        if number is None:
            number = next((one for one in waiting if self._suits(hand, one)), None)
        if number is None:
            self._idle.append(hand)
            return
        self.waiting.remove(number)
        call = hand.actor.work.remote(packed(tuple(self.gathering.trip.shards[number])))
        self._calls[call] = _Call(hand, number, self.boxes.clock(), first=hand.receipt is None)

    def _suits(self, hand: Hand, number: int) -> bool:
        """A shard over which a worker failed comes back to it where all others that are there failed, too."""
        others = (other for other in self.boxes.hands if other is not hand and other.who is not None)
        return all(number in other.ever for other in others)

    def _answer(self, call: Any, drain: threading.Event) -> None:
        asked = self._calls.pop(call)
        hand, number = asked.hand, asked.number
        try:
            answer = self.ray.get(call)
        except self.ray.exceptions.RayActorError as error:
            self._lose(hand, number, error)
            return
        except (
            self.ray.exceptions.RayError
        ) as error:  # the worker's own sentence, a bug, or an answer that came to harm
            self._fail(hand, number, *_words(error))
            return
        if isinstance(answer, Introduction):
            self._welcome(hand, answer, drain)
            return
        assert number is not None, "a receipt is of a shard"
        self._learn(asked, answer)
        hand.receipt = answer
        self._give(hand, drain)  # before the part is taken: workers do not wait for the disk here
        problem = self.gathering.take(number, answer.part, answer.host)
        if problem is None:
            hand.finished()
            return
        hand.ever.add(number)
        if self._take_back(number, f"{answer.host} handed over what cannot be taken: {problem}"):
            self.boxes.warn(f"{problem}: its shard is worked on again")

    def _learn(self, asked: _Call, answer: Receipt) -> None:
        assert asked.number is not None
        seconds = self.boxes.clock() - asked.since
        if asked.first:  # a loading is not for each shard
            seconds = max(0.0, seconds - sum(stage.load_s for stage in answer.stages))
        rate = seconds / len(self.gathering.trip.shards[asked.number])
        asked.hand.rates.append(rate)
        self._rates.append(rate)

    def _welcome(self, hand: Hand, who: Introduction, drain: threading.Event) -> None:
        hand.host = who.host
        if who.problem is not None:
            self._dismiss(hand, f"{who.host}: {who.problem}")
            return
        self.boxes.begin(hand, who)
        self._note()
        self._give(hand, drain)

    def _limit_s(self, call: _Call) -> float:
        if call.number is None:
            return self.patience.start_s
        sources = len(self.gathering.trip.shards[call.number])
        return self.patience.limit_s(sources, call.hand.rates, self._rates, first=call.first)

    def _end_overdue(self) -> None:
        """A worker that took longer than it may has failed; one that may still be waiting for its place has not."""
        now, limits = self.boxes.clock(), {asked: self._limit_s(call) for asked, call in self._calls.items()}
        self.gathering.trip.status.allow(max([self.patience.start_s, *limits.values()]) + _TICK_S)
        greeted = [call for call in self._calls.values() if call.number is None]
        if greeted and self.boxes.room() < len(self.boxes.hands):
            for call in greeted:
                call.since = now
        for asked, limit_s in limits.items():
            call = self._calls[asked]
            if now - call.since <= limit_s or self.ray.wait([asked], num_returns=1, timeout=0)[0]:
                continue
            del self._calls[asked]
            what = "begun" if call.number is None else "finished a shard"
            problem = f"it has not {what} after {now - call.since:,.0f} s, where {limit_s:,.0f} s are enough"
            self._fail(call.hand, call.number, problem, TryAgainError)

    def _lose(self, hand: Hand, number: int | None, error: Exception) -> None:
        """A worker's process died: Ray starts it anew, and its shard goes to who is free first."""
        if number is None:  # Ray itself gives the actor up, as where the package cannot be imported
            self._dismiss(hand, f"{hand.host}: a worker cannot start ({first_line(error)})")
            return
        self.boxes.gone(hand)
        self._note(lost=self.boxes.lose())
        hand.died += 1
        hand.ever.add(number)
        self.boxes.warn(f"lost a worker on {hand.host}: its shard goes to another one")
        self._take_back(number, f"their processes died, {_SCARCE}")
        if hand.died > _FAILURES:
            self._kind = TryAgainError
            self._dismiss(hand, f"{hand.host}: its processes died, {hand.died} one after the other, {_SCARCE}")
        else:
            self._greet(hand)

    def _fail(self, hand: Hand, number: int | None, problem: str, kind: type[Exception]) -> None:
        """A worker cannot go on: it gets one new process, and the others take its shard. `kind` is what it raised."""
        bug = not issubclass(kind, CounterfactoryError)
        self._kind = TryAgainError if issubclass(kind, TryAgainError) else CounterfactoryError
        if not bug or number is None or number not in hand.failed:
            hand.failed.append(number)
        if number is not None:
            hand.ever.add(number)
            self._take_back(number, problem)
        if len(hand.failed) >= (_FAILURES if bug else _CHANCES):
            self._dismiss(hand, f"{hand.host}: {problem}")
            return
        self.boxes.warn(f"a worker on {hand.host} failed ({problem}): it gets a new process, its shard another worker")
        self.boxes.gone(hand)
        self.ray.kill(hand.actor)
        self._note(lost=self.boxes.lose())
        hand.actor = self.boxes.hire()
        self._greet(hand)

    def _take_back(self, number: int, problem: str) -> bool:
        """A shard that was not finished waits again, and comes first; or it is set aside, and no worker is blamed for
        it. Returns whether it waits.
        """
        self._failures[number] += 1
        if self._failures[number] < _FAILURES:
            self.waiting.appendleft(number)
            return True
        self._aside[number] = problem
        for hand in self.boxes.hands:
            hand.failed, hand.died = [one for one in hand.failed if one != number], 0
        named, times = self._named(number), f"{_FAILURES} workers failed over it"
        self.boxes.warn(f"set aside the shard of {named}: {times}, the last because {problem}")
        if len(self._aside) >= _FAILURES and self.gathering.trip.status.finished_none:
            self._refuse_aside()
        return False

    def _named(self, number: int) -> str:
        shard = self.gathering.trip.shards[number]
        return shard[0].name if len(shard) == 1 else f"{shard[0].name} and {len(shard) - 1:,} after it"

    def _refuse_aside(self) -> None:
        """Raises CounterfactoryError where shards were set aside."""
        if self._aside:
            left, (*_, problem) = [self._named(number) for number in self._aside], self._aside.values()
            raise CounterfactoryError(
                f"of {len(self.gathering.trip.shards):,} shards {len(left):,} are left, over each of which {_FAILURES} "
                f"workers failed: {list_some(left, 5)}; the last because {problem}; nothing is lost, the same command "
                "tries them again, and a smaller --shard tells which source it is"
            )

    def _dismiss(self, hand: Hand, problem: str) -> None:
        self._problem = problem
        self.boxes.dismiss(hand)
        self.ray.kill(hand.actor)
        self._note(lost=self.boxes.lose())
        self.boxes.warn(f"gave up a worker on {problem}")

    def _note(self, **changes: Any) -> None:
        self.gathering.trip.status.note(workers=sum(hand.who is not None for hand in self.boxes.hands), **changes)


def _words(error: Any) -> tuple[str, type[Exception]]:
    """A worker's own sentence and its kind; of a bug what was raised, and where."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, CounterfactoryError):
        return str(cause), type(cause)
    places, words = _PLACE.findall(str(error)), first_line(error)
    if cause is not None:
        words = format_exception_only(cause)[-1].strip().replace("\n", " ")
    where = f" at {places[-1][0]}:{places[-1][1]}" if places else ""
    return f"{words}{where}", TryAgainError if lost_device(words) else type(error)


def first_line(error: Exception) -> str:
    """The line of an exception that says what it is: of tracebacks the last."""
    return next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__).strip()
