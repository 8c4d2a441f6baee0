"""What stands beside an artefact: where it came from, what it takes and gives, and how far it is from its module.

`manifest.json` belongs to NAME/model.onnx and is written last, so that half an export has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from counterfactory.engine.files.writing import write_whole
from counterfactory.engine.runtime.plans import PlanProfile, onnx_digest

from ..precision.half import opset_of

LIBRARIES = ("torch", "diffusers", "transformers", "onnx")


@dataclass(frozen=True)
class Parity:
    """`error` against the torch module in float32 as parity.relative_error has it, and the `bound` it must keep."""

    error: float
    bound: float
    precision: str


@dataclass(frozen=True)
class Manifest:
    """`inputs` and `outputs` are rows of name, dtype and shape, an axis a length, its name, or null.

    `classes` are those of diffusers and transformers that it was made from. `weights_sha256` names the weights as they
    entered the export, LoRAs merged; `random` says that they are no trained ones. `measured` holds the error for each
    set of islands that was tried on the `examples` ("noise" or rendered "streets"), `profiles` what a plan of it takes.
    """

    name: str
    classes: Sequence[str]
    weights_sha256: str
    onnx_sha256: str
    inputs: Sequence[Mapping[str, Any]]
    outputs: Sequence[Mapping[str, Any]]
    opset: int
    precision: str
    islands: Sequence[str]
    parity: Parity
    examples: str
    measured: Mapping[str, float]
    profiles: Sequence[PlanProfile]
    versions: Mapping[str, str]
    random: bool


def describe(
    path: Path,
    *,
    name: str,
    classes: Sequence[str],
    weights_sha256: str,
    precision: str,
    islands: Sequence[str],
    parity: Parity,
    examples: str,
    measured: Mapping[str, float],
    profiles: Sequence[PlanProfile],
    random: bool,
) -> Manifest:
    """The manifest of the graph at `path`, whose ports, opset and content are read from it."""
    proto = onnx.load(str(path), load_external_data=False)
    return Manifest(
        name=name,
        classes=list(classes),
        weights_sha256=weights_sha256,
        onnx_sha256=onnx_digest(path),
        inputs=[_port(port) for port in proto.graph.input],
        outputs=[_port(port) for port in proto.graph.output],
        opset=opset_of(proto),
        precision=precision,
        islands=list(islands),
        parity=parity,
        examples=examples,
        measured=dict(measured),
        profiles=list(profiles),
        versions={library: version(library) for library in LIBRARIES},
        random=random,
    )


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write manifest.json beside the graph at `path`, whole or not at all."""
    file = path.with_name("manifest.json")
    write_whole(file, json.dumps(asdict(manifest), indent=2) + "\n")


def _port(port: Any) -> dict[str, Any]:
    kind = port.type.tensor_type
    shape = [axis.dim_value if axis.HasField("dim_value") else (axis.dim_param or None) for axis in kind.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type).name
    return {"name": port.name, "dtype": dtype, "shape": shape}
