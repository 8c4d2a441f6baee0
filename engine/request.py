"""What is asked of a suite."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .edit import SEVERITIES
from .errors import CounterfactoryError
from .language.edit_types import EditType
from .tasks.task import Task
from .tasks.user_task import Interventions

# Matters of taste, which a picture does not show (LANCE leaves them out of its edits too).
SUBJECTIVE = tuple(
    re.findall(
        "[a-z]+",
        "stylish beautiful ugly cute pretty attractive handsome sexy nice lovely amazing awesome elegant fancy cool "
        "adorable gorgeous charming good bad great perfect interesting boring majestic",
    )
)
# Beyond it neighbours cannot be told apart.
_MOST_LEVELS = 9


@dataclass(frozen=True)
class SuiteRequest:
    """The task, variants and controls per source, the least and the most edits per variant, the seed, and the edits
    allowed.

    A source whose caption does not name what it is labelled with has no variants unless `allow_ungrounded`.
    No edit brings a word of `avoid`. `types` are the user's own, beside the profile's.

    `baseline` "light" draws each variant's weather and light by rule as well, where light can show all of its edits.

    With `levels` above 1 a set of edits is painted so many times, from faint to full. A `severity` is the level of five
    at which all are painted instead; without either they are painted in full.

    Half of a source's variants have the least number of edits, so that an edit's effect is seen alone. With
    `allow_out_of_domain` sources outside of what the models know are taken too, and every result says so.
    """

    task: Task
    variants: int
    controls: int
    edits: tuple[int, int]
    seed: int
    interventions: Interventions | None = None
    allow_ungrounded: bool = False
    allow_out_of_domain: bool = False
    avoid: tuple[str, ...] = SUBJECTIVE
    types: tuple[EditType, ...] = ()
    levels: int = 1
    severity: int | None = None
    baseline: Literal["light"] | None = None

    def __post_init__(self) -> None:
        if self.variants < 1:
            raise CounterfactoryError(f"--variants must be at least 1, got {self.variants}")
        if self.controls < 0:
            raise CounterfactoryError(f"--controls must be 0 (none) or more, got {self.controls}")
        if not 1 <= self.levels <= _MOST_LEVELS:
            raise CounterfactoryError(f"--levels is 1 (edits in full alone) to {_MOST_LEVELS}, got {self.levels}")
        if self.severity is not None and not 1 <= self.severity <= SEVERITIES:
            raise CounterfactoryError(f"--severity is 1 (faint) to {SEVERITIES} (full), got {self.severity}")
        if not 1 <= self.edits[0] <= self.edits[1]:
            raise CounterfactoryError(
                f"--edits must be a number or a range such as 1..3, got {self.edits[0]}..{self.edits[1]}"
            )

    @property
    def painted_levels(self) -> tuple[Sequence[int], int]:
        """The levels at which each set of edits is painted, and of how many they are."""
        return (range(1, self.levels + 1), self.levels) if self.severity is None else ((self.severity,), SEVERITIES)

    @property
    def sets(self) -> int:
        """Different sets of edits that a source's variants take, each painted at all levels."""
        return -(-self.variants // self.levels)

    @property
    def has_room(self) -> bool:
        """Whether a source's variants are enough for all values that the user names."""
        named = self.interventions
        return named is None or self.sets >= sum(len(values) for _, values in named.axes)
