"""Published checkpoints: the files that a profile's [weights] need of each, their sizes and licences.

Sizes are as the hub shows them, to three digits. Nothing is fetched here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

from ..files.fill import fill_record
from ..files.reading import read_text
from .profile import PROFILES
from .runtime import WeightSettings


@dataclass(frozen=True)
class Checkpoint:
    """A repository of the hub at a commit. `files` are bytes by name."""

    repository: str
    revision: str
    licence: str
    files: Mapping[str, int]

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(self.files.values())

    def missing(self, folder: Path) -> dict[str, int]:
        """The files, by name, that are not in `folder`, which is laid out like the hub: OWNER/NAME/FILE."""
        return {name: size for name, size in self.files.items() if not (folder / self.repository / name).is_file()}


def checkpoints_of(weights: WeightSettings) -> tuple[Checkpoint, ...]:
    """The checkpoints that are known of those that `weights` name, at just that commit."""
    table = json.loads(read_text(PROFILES / "published.json"))
    known = [fill_record(Checkpoint, row, "published.json", "reinstall counterfactory") for row in table]
    named = [text for one in astuple(weights) for text in ([one] if isinstance(one, str) else one or ())]
    return tuple(
        checkpoint
        for checkpoint in known
        if any(text.startswith(f"{checkpoint.repository}@{checkpoint.revision}") for text in named)
    )
