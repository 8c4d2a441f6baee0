"""Room for what a setup writes: how much, on which disks, and which other disk of the machine would have it.

Boxes are rented with a small root and a large disk beside it: what is fetched and what is made are two folders, and
each is looked at where it lies.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import CounterfactoryError
from ..meter.machine import machine_memory, mounted_disks
from ..models.networks import library_of
from ..models.plan_facts import plan_facts
from ..profile.profile import Profile
from ..profile.published import Checkpoint, checkpoints_of, hub_folder

# For a CPU: memory that is needed, 10^9 bytes; and disk over the weights', 9 GB of 5.8 for what is made and 13 for
# weights in float32 while one network is made.
MEMORY_GB, _MADE_OF_CPU = 8.0, 22 / 5.8
# For a GPU: disk over the graphs' weights, which stay as ONNX and as plans; over those of the largest while it is made;
# and over the quantised language model's, with the converter's state (docs/production.md).
_KEPT, _LARGEST, _QUANTISED = 2.2, 2.35, 2.2
# Minutes of the exporter for 10^9 bytes of weights: docs/production.md's table took 31 minutes for 5.7 of them on two
# busy cores.
_MINUTES_PER_GB = 5.5
# A machine that is sold with 8 GB says a little less.
_NEARLY = 0.95


@dataclass(frozen=True)
class Needs:
    """What a setup takes of the machine: 10^9 bytes of disk beside the download, of memory, and minutes of work; 0 for
    what nobody knows.
    """

    disk_gb: float
    memory_gb: float
    minutes: float


@dataclass(frozen=True)
class Claim:
    """10^9 bytes that are written to a folder, and how another `place` is named for them."""

    folder: Path
    gb: float
    place: str


@dataclass(frozen=True)
class Provision:
    """What is fetched to the folder `weights`, 10^9 bytes of `checkpoints`, and what making a profile takes then."""

    profile: Profile
    checkpoints: tuple[Checkpoint, ...]
    weights: Path
    fetch_gb: float
    needs: Needs

    @property
    def claims(self) -> tuple[Claim, ...]:
        cache = "HF_HUB_CACHE" if self.profile.runtime.on_gpu else "--weights"
        own = "[models] folder of a profile that extends this one"
        return Claim(self.weights, self.fetch_gb, cache), Claim(self.profile.models.path, self.needs.disk_gb, own)


def provision_of(profile: Profile, missing: Sequence[str], weights: Path | None = None) -> Provision:
    """What a profile of published weights still takes whose networks `missing` are not there."""
    assert profile.weights is not None, "nothing else is fetched"
    on_gpu = profile.runtime.on_gpu
    folder = weights or (hub_folder() if on_gpu else profile.models.path / "weights")
    checkpoints = tuple(one.of_exporter if on_gpu else one for one in checkpoints_of(profile.weights))
    fetched = sum(sum(one.missing(folder, hub_folder()).values()) for one in checkpoints) / 1e9
    return Provision(profile, checkpoints, folder, fetched, _needs(profile, missing, checkpoints, folder))


def _needs(profile: Profile, missing: Sequence[str], checkpoints: Sequence[Checkpoint], weights: Path) -> Needs:
    """What the networks that are missing take, by what is known of their sizes."""
    if not profile.runtime.on_gpu:
        return Needs(_MADE_OF_CPU * sum(one.bytes_with(weights) for one in checkpoints) / 1e9, MEMORY_GB, 0)
    facts, networks = plan_facts(profile), library_of(profile).networks
    sizes = {name: facts[networks[name].plan].weight_bytes / 1e9 for name in missing}
    llm = sizes.pop("llm", 0.0) * (1.0 if profile.llm.on_cpu else _QUANTISED)
    graphs = sum(sizes.values())
    return Needs(_KEPT * graphs + _LARGEST * max(sizes.values(), default=0.0) + llm, 0, _MINUTES_PER_GB * graphs)


def require_room(provision: Provision) -> None:
    """Raise CounterfactoryError where memory or disk is missing."""
    memory, profile, needs = machine_memory(), provision.profile, provision.needs
    if memory < _NEARLY * needs.memory_gb * 1e9:
        raise CounterfactoryError(
            f"profile {profile.name} needs {needs.memory_gb:g} GB of memory to be made, and this machine has "
            f"{memory / 1e9:.1f} GB: make it on a larger one, and copy {profile.models.folder}"
        )
    for sentence in shortages(provision.claims):
        raise CounterfactoryError(f"setup needs {sentence}")


def shortages(claims: Sequence[Claim], root: Path = Path("/")) -> Iterator[str]:
    """A sentence for each disk that has too little for what is written to it; `root` is the file system's."""
    disks: dict[int, list[Claim]] = {}
    for claim in claims:
        if claim.gb > 0:
            disks.setdefault(_there(claim.folder).stat().st_dev, []).append(claim)
    for written in disks.values():
        needed, free = sum(claim.gb for claim in written), _free_gb(_there(written[0].folder))
        if free < needed:
            folders = " and ".join(str(claim.folder) for claim in written)
            places = " and ".join(claim.place for claim in written)
            other = _roomiest(root, needed)
            where = f"a folder on {other}" if other else "one on a larger disk (lsblk lists this machine's)"
            have = f"{needed:.0f} GB of disk at {folders} and there are {free:.0f} GB"
            yield f"{have}: make room, or name {where} by {places}"


def _roomiest(root: Path, needed_gb: float) -> Path | None:
    """The mounted disk with the most room, if it suffices and can be written to."""
    mounted = mounted_disks(root / "proc" / "mounts")
    free = {place: _free_gb(place) for place in mounted if place.is_dir() and os.access(place, os.W_OK)}
    best = max(free, key=lambda place: free[place], default=None)
    return best if best is not None and free[best] >= needed_gb else None


def _free_gb(folder: Path) -> float:
    return shutil.disk_usage(folder).free / 1e9


def _there(folder: Path) -> Path:
    """The nearest folder above that exists."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())
