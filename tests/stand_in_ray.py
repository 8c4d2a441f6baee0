"""Ray without processes: actors in this one, whose calls are answered in an order of luck, and which die when told to.

Only what `RayBoxes` calls is here, with Ray's own exceptions; the slow tests hold the same code to Ray itself.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ray import exceptions

# Told of a call's method and its number among all: "dies", "loses its box" or "works".
Fate = Callable[[str, int], str]


@dataclass(eq=False)
class Call:
    actor: StandInActor
    method: str
    args: tuple[Any, ...]
    hangs: bool = False


@dataclass
class Method:
    actor: StandInActor
    name: str

    def options(self, **_: Any) -> Method:
        return self

    def remote(self, *args: Any) -> Call:
        self.actor.ray.asked += 1
        return Call(self.actor, self.name, args, self.actor.ray.hangs(self.name, self.actor.ray.asked))


class StandInActor:
    def __init__(self, make: Callable[[], Any], ray: StandInRay) -> None:
        self.make, self.alive, self.ray = make, True, ray
        self.instance = make()

    @property
    def introduce(self) -> Method:
        return Method(self, "introduce")

    @property
    def work(self) -> Method:
        return Method(self, "work")


@dataclass
class StandInRay:
    luck: random.Random
    fate: Fate = lambda method, number: "works"
    cores: int = 2
    exceptions: Any = exceptions
    answered: int = 0
    killed: list[StandInActor] = field(default_factory=list)
    options_asked: dict[str, Any] = field(default_factory=dict)
    # Actors whose box is gone: Ray looks for another place, and there is none.
    homeless: list[StandInActor] = field(default_factory=list)
    looks: int = 0
    # Told of a call's method and its number among those that were made.
    hangs: Callable[[str, int], bool] = lambda method, number: False
    asked: int = 0
    now: float = 0.0  # by which a minute goes whenever nobody answers

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": float(self.cores)}

    def remote(self, kind: Any) -> Any:
        ray = self

        class Kind:
            def options(self, **asked: Any) -> Kind:
                ray.options_asked = asked
                return self

            def remote(self, *args: Any) -> StandInActor:
                return StandInActor(lambda: kind(*args), ray)

        return Kind()

    def wait(self, calls: Sequence[Call], num_returns: int, timeout: float) -> tuple[list[Call], list[Call]]:
        self.looks += 1
        assert self.looks < 1000, "the driver waits for ever"
        if not (there := [call for call in calls if call.actor not in self.homeless and not call.hangs]):
            self.now += 60.0
            return [], list(calls)
        taken = self.luck.choice(there)
        return [taken], [call for call in calls if call is not taken]

    def get(self, call: Call) -> Any:
        self.answered += 1
        fate = self.fate(call.method, self.answered)
        if fate in ("dies", "loses its box"):
            self.homeless += [call.actor] if fate == "loses its box" else []
            call.actor.instance = call.actor.make()
            raise exceptions.RayActorError
        try:
            return getattr(call.actor.instance, call.method)(*call.args)
        except Exception as error:
            raise exceptions.RayTaskError(call.method, traceback.format_exc(), error) from error

    def kill(self, actor: StandInActor) -> None:
        self.killed.append(actor)

    @contextmanager
    def connected(self, *_: Any) -> Iterator[StandInRay]:
        yield self
