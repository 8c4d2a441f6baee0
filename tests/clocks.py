"""A clock for tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """Seconds that go on when they are told to."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now
