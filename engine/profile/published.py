"""Published checkpoints: the files that a profile's [weights] need of each, their sizes and licences.

Sizes are as the hub shows them, to three digits; where the exporter chooses among files, the name stands for those that
it takes. Nothing is fetched here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

from ..files.fill import fill_record
from ..files.reading import read_text
from .profile import PROFILES
from .runtime import WeightSettings


@dataclass(frozen=True)
class Checkpoint:
    """A repository of the hub at a commit. `files` are bytes by name; `gated` says that its terms must be accepted.
    `exported` are those that the exporter fetches by itself, where they are others.
    """

    repository: str
    revision: str
    licence: str
    files: Mapping[str, int]
    gated: bool = field(default=False, metadata={"absent": False})
    exported: Mapping[str, int] = field(default_factory=dict, metadata={"absent": {}})

    @property
    def of_exporter(self) -> Checkpoint:
        """It with the files that the exporter fetches by itself."""
        return replace(self, files=self.exported or self.files)

    @property
    def bytes(self) -> int:
        return sum(self.files.values())

    def missing(self, folder: Path, cache: Path | None = None) -> dict[str, int]:
        """The files, by name, that are not in `folder`, laid out like the hub, OWNER/NAME/FILE, or like its cache; none
        where `folder` has nothing of it and the hub's own `cache` all.
        """
        if cache is not None and not (folder / self.repository).exists() and not self.missing(cache):
            return {}
        return {name: size for name, size in self.files.items() if not self._there(folder, name)}

    def bytes_with(self, folder: Path) -> int:
        """What the files weigh: as they lie in `folder`, and as published where they are missing."""
        there = {name: self._there(folder, name) for name in self.files}
        return sum(sum(file.stat().st_size for file in there[name]) or size for name, size in self.files.items())

    def _there(self, folder: Path, name: str) -> list[Path]:
        cached = folder / f"models--{self.repository.replace('/', '--')}" / "snapshots" / self.revision
        places = ([file for file in place.glob(name) if file.is_file()] for place in (folder / self.repository, cached))
        return next(filter(None, places), [])  # a link of the cache may lead nowhere


def hub_folder() -> Path:
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or home / "hub")


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
