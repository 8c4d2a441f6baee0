"""Keys of compiled plans: the inputs and the target of a plan, stored with it, so that a stale one is refused.

The key of NAME.plan is NAME.plan.json. A plan serves only the graph, the shapes, the library release and the kind of
device that it was compiled for, and the compiler's own files do not name the graph: that a file exists proves nothing.
No compiler is imported here; a machine without a GPU can say which plans are stale. The graph's side of it is the
manifest that an export writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from ..files.fill import fill, fill_record, fill_value
from ..files.reading import read_json
from ..files.writing import write_whole
from ..keys import content_key, file_digest

REBUILD = "build it again: `python -m counterfactory.export a10g --plans --profile NAME`"


@dataclass(frozen=True)
class Shapes:
    """The shapes of one input that a plan takes: the smallest, the one it is tuned for, the largest."""

    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]

    def __post_init__(self) -> None:
        ordered = len(self.min) == len(self.opt) == len(self.max) and all(
            0 <= least <= usual <= most for least, usual, most in zip(self.min, self.opt, self.max, strict=True)
        )
        if not ordered:
            raise ValueError(f"shapes need 0 <= min <= opt <= max on each axis, got {self.min}, {self.opt}, {self.max}")

    @classmethod
    def static(cls, *dims: int) -> Shapes:
        return cls(dims, dims, dims)

    def bounds(self, axis: int) -> tuple[int, int, int]:
        return self.min[axis], self.opt[axis], self.max[axis]


# The shapes of every input that go together. A plan has one profile, or one for each size of pictures.
PlanProfile = Mapping[str, Shapes]


@dataclass(frozen=True)
class PlanKey:
    """The inputs and the target of a plan.

    `onnx_sha256` is the graph's content (`onnx_digest`), `profiles` the shapes that it takes, `library` the compiler
    and its release, "tensorrt_rtx 1.7.1.116", `device` the compute capability, "SM86", `plan_sha256` the plan's own
    bytes, `seconds` the time to compile it, `workspace_bytes` the scratch memory that its layers were allowed, None for
    all there is. `weights_bytes` and `scratch_bytes` are its memory on the device by its compiler's own record, None
    without one; `io_bytes` that of the inputs and outputs of all profiles at their largest, an output that continues a
    cache not counted again.
    """

    onnx_sha256: str
    profiles: tuple[PlanProfile, ...]
    precision: str
    library: str
    device: str
    plan_sha256: str
    seconds: float
    workspace_bytes: int | None = None
    weights_bytes: int | None = None
    scratch_bytes: int | None = None
    io_bytes: int | None = None

    def __post_init__(self) -> None:
        counts = {name: getattr(self, f"{name}_bytes") for name in ("workspace", "weights", "scratch", "io")}
        if negative := [name for name, count in counts.items() if count is not None and count < 0]:
            raise ValueError(f"{' and '.join(negative)} cannot take less than 0 bytes")

    @property
    def made_by(self) -> str:
        """The library that made it, "tensorrt_rtx", without its release."""
        return self.library.partition(" ")[0]

    @property
    def doubt(self) -> str:
        """A sentence about what is unproven of a plan that serves; "" where nothing is."""
        if self.precision.startswith("int8") and self.made_by == "tensorrt_rtx":
            return (
                "8-bit activations are unproven on TensorRT-RTX, whose support matrix has 8-bit weights alone for "
                "SM86; compile it with TensorRT: --library tensorrt"
            )
        return ""

    @property
    def held_bytes(self) -> int | None:
        """Bytes on the device of this plan alone, without the shared scratch memory; None where not recorded."""
        if self.weights_bytes is None or self.io_bytes is None:
            return None
        return self.weights_bytes + self.io_bytes


@dataclass(frozen=True)
class PlanRequirements:
    """The inputs and the target that a plan must have been compiled from and for; None requires nothing.

    `sizes` are sets of (height, width) by input, each of which one of the plan's profiles must have as last two axes.
    """

    onnx_sha256: str | None = None
    profiles: Sequence[PlanProfile] | None = None
    library: str | None = None
    device: str | None = None
    sizes: Sequence[Mapping[str, tuple[int, int]]] = ()


def existing(file: Path) -> Path:
    """`file`, if it is there. Raises CounterfactoryError when it is missing."""
    if not file.exists():
        raise CounterfactoryError(
            f"model file {file} is missing: 'counterfactory doctor' of the profile says what to do"
        )
    return file


def key_path(plan: Path) -> Path:
    return plan.with_name(f"{plan.name}.json")


def onnx_digest(path: Path) -> str:
    """The content of an ONNX file and, where it has one, of its external data `NAME.onnx.data`, as 64 hex digits.

    Raises CounterfactoryError when the file is missing.
    """
    if not path.is_file():
        raise CounterfactoryError(f"ONNX graph {path} is missing; export it again or name another folder")
    data = path.with_name(f"{path.name}.data")
    return content_key([file_digest(file) for file in (path, data) if file.is_file()])


def write_key(plan: Path, key: PlanKey) -> None:
    """Write the key of a plan, whole or not at all."""
    write_whole(key_path(plan), json.dumps(asdict(key), indent=2) + "\n")


def read_key(plan: Path) -> PlanKey:
    """The key of a plan. Raises CounterfactoryError when the plan or its key is missing, or the key is damaged."""
    if not plan.is_file():
        raise CounterfactoryError(f"plan {plan} is missing; {REBUILD}")
    file = key_path(plan)
    if not file.is_file():
        raise CounterfactoryError(f"plan {plan} has no key {file.name} that says what it was made of; {REBUILD}")
    try:
        return fill(PlanKey, fill_value(Mapping[str, Any], read_json(file), file.name, "it is damaged"), file.name)
    except CounterfactoryError as error:
        raise CounterfactoryError(f"the key {file} of a plan is damaged ({error}); {REBUILD}") from error


def find_mismatches(
    plan: Path, key: PlanKey, wanted: PlanRequirements, digest: Callable[[Path], str] | None = file_digest
) -> list[str]:
    """Why a plan does not serve, a reason each; none when it does.

    `digest` hashes the plan itself, a second or so for every two gigabytes; None leaves that out.
    """
    faults = []
    if wanted.onnx_sha256 is not None and key.onnx_sha256 != wanted.onnx_sha256:
        faults.append(f"it was made of ONNX graph {key.onnx_sha256[:12]}, and the graph is {wanted.onnx_sha256[:12]}")
    if wanted.library is not None and key.library != wanted.library:
        faults.append(f"it was made by {key.library}, and {wanted.library} is installed")
    if wanted.device is not None and key.device != wanted.device:
        faults.append(f"it was made for {key.device}, and the device is {wanted.device}")
    if wanted.profiles is not None and len(key.profiles) != len(wanted.profiles):
        faults.append(f"it takes {len(key.profiles)} sizes of pictures, wanted {len(wanted.profiles)}")
    elif wanted.profiles is not None:
        pairs = zip(key.profiles, wanted.profiles, strict=True)
        faults += dict.fromkeys(fault for has, wants in pairs for fault in _other_shapes(has, wants))
    faults += [fault for sizes in wanted.sizes for fault in _other_sizes(key.profiles, sizes)]
    if digest is not None and digest(plan) != key.plan_sha256:
        faults.append("its bytes are not those that were written")
    return faults


def require_fresh(plan: Path, wanted: PlanRequirements, digest: Callable[[Path], str] = file_digest) -> PlanKey:
    """The key of a plan that serves, its content by `digest`.

    Raises CounterfactoryError with every reason when it is missing or stale.
    """
    key = read_key(plan)
    faults = find_mismatches(plan, key, wanted, digest)
    if faults:
        raise CounterfactoryError(f"plan {plan} is stale: {'; '.join(faults)}; {REBUILD}")
    return key


def read_profiles(tables: Sequence[Mapping[str, Any]]) -> tuple[PlanProfile, ...]:
    """Profiles from their JSON. Raises CounterfactoryError for anything else."""
    profiles: tuple[PlanProfile, ...] = fill_value(tuple[PlanProfile, ...], list(tables), "profiles", "export it again")
    return profiles


@dataclass(frozen=True)
class ExportedGraph:
    """What a graph's manifest says of it: its content, "" without a manifest, the shapes that it takes, the classes of
    diffusers and transformers that it was made from, a denoiser's scheduler_config.json, and the bytes that it computes
    in at its largest profile; None for all but the first without a manifest, and for what manifests once left out.
    """

    onnx_sha256: str
    profiles: tuple[PlanProfile, ...] | None = None
    classes: tuple[str, ...] | None = None
    scheduler: Mapping[str, Any] | None = None
    activation_bytes: int | None = None


def read_exported(folder: Path, plan: str) -> ExportedGraph:
    """The graph last exported for a plan; plans may come alone. Raises CounterfactoryError for a damaged manifest."""
    manifest = folder / "onnx" / plan / "manifest.json"
    if not manifest.exists():
        return ExportedGraph("")
    advice = f"export {plan} again"
    return fill_record(ExportedGraph, read_json(manifest, advice), str(manifest), advice)


def _other_sizes(profiles: Sequence[PlanProfile], wanted: Mapping[str, tuple[int, int]]) -> list[str]:
    """A fault unless one of the profiles has just these (height, width) as the last two axes of the inputs named."""
    for profile in profiles:
        has = {name: (profile[name].min[-2:], profile[name].max[-2:]) for name in wanted if name in profile}
        if has == {name: (tuple(size), tuple(size)) for name, size in wanted.items()}:
            return []
    asked = ", ".join(f"{name} of {height} x {width}" for name, (height, width) in wanted.items())
    sizes = (" x ".join(map(str, profile[name].max[-2:])) for profile in profiles for name in wanted if name in profile)
    return [f"it takes sizes {', '.join(dict.fromkeys(sizes))}, wanted {asked}"]


def _other_shapes(has: Mapping[str, Shapes], wants: Mapping[str, Shapes]) -> list[str]:
    return [
        f"its shapes of {name} are {_text(has.get(name))}, wanted {_text(wants.get(name))}"
        for name in sorted({*has, *wants})
        if has.get(name) != wants.get(name)
    ]


def _text(shapes: Shapes | None) -> str:
    if shapes is None:
        return "none"
    if shapes.min == shapes.max:
        return str(list(shapes.opt))
    return f"{list(shapes.min)} to {list(shapes.max)}, tuned for {list(shapes.opt)}"
