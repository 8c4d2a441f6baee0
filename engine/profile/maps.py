"""[edges], [[hints]] and [depth]: the maps that keep a variant's layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from counterfactory.kernels.canny import CannySettings
from counterfactory.kernels.edges import EdgeSettings

from .bounds import PlanSettings, require


class HedSettings(PlanSettings):
    """A network finds edges."""


@dataclass(frozen=True)
class DetectorSettings:
    """What finds edges. Just the table of the detector that is named stands beside its name."""

    detector: Literal["relative", "canny", "hed"]
    relative: EdgeSettings | None = None
    canny: CannySettings | None = None
    hed: HedSettings | None = None

    def __post_init__(self) -> None:
        tables = {"relative": self.relative, "canny": self.canny, "hed": self.hed}
        if tables[self.detector] is None:
            raise ValueError(f'[edges] detector = "{self.detector}" needs a table [edges.{self.detector}]')
        for name, table in tables.items():
            if table is not None and name != self.detector:
                raise ValueError(
                    f'[edges] detector = "{self.detector}" does not read the table [edges.{name}]: take it out, or '
                    f'say detector = "{name}"'
                )


Kind = Literal["edges", "depth", "segmentation"]


@dataclass(frozen=True)
class HintSettings:
    """One hint: its `kind`, the `plan` that embeds its maps, and its `weight`, by which the control scale of
    `[paint]` is multiplied; 0 leaves it out. `palette` colours the classes of a segmentation map.
    """

    kind: Kind
    plan: str
    weight: float
    palette: str | None = None

    def __post_init__(self) -> None:
        if not self.plan.isidentifier():
            raise ValueError(f"[[hints]] plan is the name of a hint encoder, such as 'hint', got {self.plan!r}")
        require(self, 0, "weight")
        if (self.kind == "segmentation") != (self.palette is not None):
            wanted = 'needs a palette, such as palette = "ade20k"' if self.palette is None else "takes no palette"
            raise ValueError(f'[[hints]] kind = "{self.kind}" {wanted}')


class DepthSettings(PlanSettings):
    """A network finds depth, and no files."""


def check_hints(hints: Sequence[HintSettings], depth: DepthSettings | None) -> None:
    """Raise ValueError for hints that do not go together."""
    plans = [hint.plan for hint in hints]
    if len(set(plans)) != len(plans):
        raise ValueError(f"[[hints]] each have a plan of their own, found {', '.join(plans)}")
    if not any(hint.weight for hint in hints):
        raise ValueError("[[hints]] need one of weight above 0; to paint freely say [paint] control_scale = 0")
    if depth is not None and not any(hint.kind == "depth" for hint in hints):
        raise ValueError('[depth] finds what no hint shows: add one of kind = "depth" to [[hints]], or drop it')
