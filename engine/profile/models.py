"""[models]: where the networks are, and which pictures they know."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# The world of models that know any picture.
PHOTOGRAPHS = "photographs"


@dataclass(frozen=True)
class ModelPaths:
    """Where the networks are, and what they know: `folder` is "pocket" for those that come with the package, or a path;
    `world` is "photographs", or a kind of picture (see `worlds`).
    """

    folder: str
    world: str = PHOTOGRAPHS

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9_]+", self.world):
            raise ValueError(f"[models] world is a name of letters, digits and underscores, found {self.world!r}")
        if not self.folder:
            raise ValueError("[models] folder is empty; name 'pocket' or the path of a folder of networks")

    @property
    def path(self) -> Path:
        """The folder itself."""
        if self.folder == "pocket":
            return Path(__file__).parents[1] / "pocket" / "weights"
        return Path(self.folder).expanduser()
