"""What an earlier export left that need not be made again: graphs of the same weights and settings, and their plans.

A second profile exported to the same folder so makes only what is its own. Beside a graph `made_of.json` says what it
was made of, as far as that says all: local folders may change under their names, and are exported each time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.writing import write_whole
from counterfactory.engine.runtime.plans import find_mismatches, onnx_digest, read_key, read_profiles

from ..graphs.hub import is_pinned
from ..plans.tensorrt import requirements
from .artefact import LIBRARIES, Asked, Row, ir_files, read_manifest
from .graph import Request
from .workspace import onnx_bytes

_FILE = "made_of.json"
# The fields of Sources that each network is made of, by how its name begins.
_SOURCES = {
    "blip2_vision": ("blip2", "florence2"),
    "opt_decoder": ("blip2", "florence2"),
    "clip": ("clip",),
    "hint": ("controlnets",),
    "denoiser": ("diffusion", "controlnets", "loras", "clip"),
    "vae": ("diffusion", "tiny_vae"),
    "hed": ("hed",),
    "sentence": ("sentence",),
}
_OF_REQUEST = ("small", "seed", "captioner", "caption_side", "controls", "tiny_vae", "hint_channels")
_PAINT = ("hint", "denoiser", "vae", "hed")
_OF_DECODER = ("prompt_tokens", "caption_tokens", "beams")


def made_of(network: str, request: Request, asked: Asked) -> dict[str, Any] | None:
    """What a network's export depends on, in JSON's types; None where its weights may change under their names."""
    sources: Mapping[str, Any] | None = None
    if request.sources is not None:
        wanted = _SOURCES[next(name for name in _SOURCES if network.startswith(name))]
        sources = {name: getattr(request.pinned or request.sources, name) for name in wanted}
        parts = [part for value in sources.values() for part in ((value,) if isinstance(value, str) else value or ())]
        if not all(is_pinned(part.partition(":")[0]) for part in parts):
            return None
    named = _OF_REQUEST + _OF_DECODER * (network == "opt_decoder") + ("sizes",) * network.startswith(_PAINT)
    found = {
        "sources": sources,
        **{name: getattr(request, name) for name in named},
        "batch": request.batch(network),
        "precision": asked.precision,
        "islands": asked.islands,
        "int8": asked.int8 and network == "denoiser",
        **({"scheduler": "on record"} if network == "denoiser" else {}),  # since manifests have had it
        **({"edits": request.editor} if network == "denoiser" and request.editor is not None else {}),
        **({"deep": True} if network == "denoiser" and request.paint.reuse is not None else {}),
        **({"stand_ins": True} if request.stand_ins else {}),
        "versions": {library: version(library) for library in LIBRARIES},
    }
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def note(out: Path, rows: list[Row], made: Mapping[str, Any] | None) -> None:
    """Write down what the graphs of `rows` were made of, where that says all."""
    for row in rows:
        file = out / "onnx" / row.name / _FILE
        if made is None:
            file.unlink(missing_ok=True)
        else:
            write_whole(file, json.dumps({"onnx_sha256": read_manifest(out, row.name)["onnx_sha256"], "made_of": made}))


def kept(out: Path, names: list[str], made: Mapping[str, Any] | None) -> list[Row] | None:
    """The rows of graphs that were made of just this; None unless all of `names` are there."""
    rows = {row["name"]: row for row in on_record(out)}
    if made is None:
        return None
    with suppress(OSError, ValueError, KeyError, TypeError, CounterfactoryError):
        for name in names:
            manifest, noted = read_manifest(out, name), json.loads((out / "onnx" / name / _FILE).read_text())
            if noted != {"onnx_sha256": manifest["onnx_sha256"], "made_of": dict(made)}:
                return None
            if rows[name]["precision"] == "openvino":
                whole = all(file.is_file() for file in ir_files(out / f"{name}.xml"))
            else:  # a manifest as this exporter writes it, and the graph as it was written, if it is there
                graph = out / "onnx" / name / "model.onnx"
                whole = bool(read_profiles(manifest["profiles"])) and manifest["activation_bytes"] >= 0
                whole &= onnx_bytes(graph) in (0, rows[name]["onnx_bytes"])
            if not whole:
                return None
        tuples = ("islands", "fp32_layers")
        return [Row(**{**rows[name], **{one: tuple(rows[name][one]) for one in tuples}}) for name in names]
    return None


def on_record(out: Path) -> list[dict[str, Any]]:
    """The rows of an export.json; none where it is missing or damaged."""
    with suppress(OSError, ValueError, TypeError):
        return [row for row in json.loads((out / "export.json").read_text()) if isinstance(row["name"], str)]
    return []


def uncompiled(out: Path, rows: list[Row], asked: Asked) -> list[Row]:
    """The rows whose plans are missing, or not on record, or not for the compiler that is asked for."""
    if not asked.plans:
        return []
    wanted = requirements(asked.library, asked.target)
    found = []
    for row in rows:
        plan, manifest = out / "plans" / f"{row.name}.plan", read_manifest(out, row.name)
        required = replace(wanted, onnx_sha256=manifest["onnx_sha256"], profiles=read_profiles(manifest["profiles"]))
        try:
            fresh = row.compiled and not find_mismatches(plan, read_key(plan), required)
        except CounterfactoryError:  # missing or damaged
            fresh = False
        found += [] if fresh else [row]
    return found


def compilable(out: Path, rows: list[Row]) -> bool:
    """Whether the graphs of `rows` are still there as they were exported; their bytes are read."""
    paths = {row.name: out / "onnx" / row.name / "model.onnx" for row in rows}
    return all(
        path.is_file() and onnx_digest(path) == read_manifest(out, name)["onnx_sha256"] for name, path in paths.items()
    )
