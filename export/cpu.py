"""`python -m counterfactory.export cpu`: all that a profile for CPUs needs, from a download to a painter in 8 bits.

Published files are fetched, each network is exported as OpenVINO reads it, the language model is written, and the
denoiser is quantised on what the journey feeds it while photographs of the user's are captioned and painted. Each step
is a process of its own, which gives its memory back, and is left out where an earlier run has done it of the same.
`counterfactory setup` runs this command and then tries what it made.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.writing import write_whole
from counterfactory.engine.keys import file_digest
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.published import checkpoints_of
from counterfactory.engine.profile.rewrite import LLAMA_FILES

from .calibration import BATCHES, BOUND, calibrate, pictures_in
from .graphs.hub import fetch, is_pinned, place
from .graphs.ranges import ALPHA
from .graphs.recording import master_of
from .language.llm import write_for_cpu
from .production.artefact import Asked, ir_files, read_manifest
from .production.aside import alone
from .production.command import export_all, request_of, sizes_of, sources_of
from .production.graph import Sources
from .production.peak import PeakMemory

_Say = Callable[[str], None]
_Work = Callable[..., str]
# Beside weights that are random and stand for the published ones.
_STAND_INS = "STAND-INS"


def prepare(profile: Profile, weights: Path, photos: Path, say: _Say) -> list[str]:
    """Make the networks of a profile; returns what went wrong with them, a sentence each.

    `weights` is a folder laid out like the hub, to which missing files are fetched; `photos` has some pictures. Raises
    CounterfactoryError for what stops it; what was done by then is kept.
    """
    if profile.weights is None or profile.runtime.backend != "openvino" or profile.llm.backend != "openvino":
        none = f"profile {profile.name} is none for CPUs with a table [weights]"
        raise CounterfactoryError(f'{none}: name one with backend = "openvino"')
    pictures = pictures_in(photos)
    for checkpoint in checkpoints_of(profile.weights):
        fetch(checkpoint, weights, say)
    named, stand_ins = sources_of(profile.weights, Sources()), (weights / _STAND_INS).is_file()
    request = replace(request_of(profile, placed(named, weights)), pinned=named, stand_ins=stand_ins)
    out = profile.models.path
    faults = export_all(request, out, asked=Asked("openvino"), say=say, sizes=sizes_of(profile, request))
    if faults:
        return faults
    source = profile.weights.llm
    made = {"source": source, "stand_ins": stand_ins, "llama": version("transformers"), "openvino": version("openvino")}
    target = out / Path(profile.llm.model).expanduser()
    files = [target / name for name in LLAMA_FILES]
    _once(target, files, made if is_pinned(source) else None, say, write_for_cpu, place(source, weights), target)
    calibrate_once(profile, pictures, say)
    return []


def calibrate_once(profile: Profile, pictures: Sequence[Path], say: _Say) -> None:
    """Make the int8 form of the profile's denoiser, unless it was made on just these pictures; nothing where there is
    none.
    """
    out, name = profile.models.path, profile.paint.denoiser
    master = master_of(name)
    if master == name:
        return
    made = {"graph": read_manifest(out, master)["onnx_sha256"], "pictures": list(map(file_digest, pictures))}
    made |= {"paint": asdict(profile.paint), "caption": asdict(profile.caption), "openvino": version("openvino")}
    made |= {"batches": BATCHES, "bound": BOUND, "alpha": ALPHA}
    _once(out / "onnx" / name, ir_files(out / f"{name}.xml"), made, say, calibrate, profile, pictures)


def placed(named: Sources, weights: Path) -> Sources:
    """Where the weights lie that are named."""

    def found(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(found(one) for one in value)
        if value is None:
            return None
        source, colon, weight = value.partition(":")  # a LoRA's
        return f"{place(source, weights)}{colon}{weight}"

    return Sources(**{field.name: found(getattr(named, field.name)) for field in fields(Sources)})


def _once(
    folder: Path, files: Sequence[Path], made: Mapping[str, Any] | None, say: _Say, work: _Work, *arguments: Any
) -> None:
    """Let `work` run in a process of its own, unless there are its `files` and `folder` says that they are `made` of
    just this.
    """
    stamp, plain = folder / "made_of.json", json.loads(json.dumps(made))
    there = stamp.is_file() and all(file.is_file() for file in files)
    known = json.loads(stamp.read_text()) if there else {}
    if made is not None and known.get("made_of") == plain:
        say(f"{folder.name}: made before; {known.get('told', '')}".rstrip("; "))
        return
    stamp.unlink(missing_ok=True)
    say(f"{folder.name} ...")
    text, cost = alone(_measured, work, arguments)
    say(f"{text}; {cost['seconds']:.0f} s, peak {cost['peak_memory_bytes'] / 1e9:.1f} GB")
    if made is not None:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(stamp, json.dumps({"made_of": plain, "told": text, **cost}))


def _measured(work: _Work, arguments: tuple[Any, ...]) -> tuple[str, dict[str, float]]:
    """What `work` says, and what it took, in the words of a row of export.json."""
    began, worked = time.monotonic(), time.process_time()
    with PeakMemory() as peak:
        text, most = work(*arguments), peak.bytes
    took = {"seconds": time.monotonic() - began, "core_seconds": time.process_time() - worked}
    return text, {**took, "peak_memory_bytes": most}


def add_command(commands: Any) -> None:
    parser = commands.add_parser("cpu", help="fetch, export and quantise the networks of a CPU", description=__doc__)
    parser.add_argument("--profile", default="cpu", help="whose networks are made, in its folder (%(default)s)")
    parser.add_argument("--weights", type=Path, required=True, help="folder laid out like the hub: OWNER/NAME/FILE")
    parser.add_argument("--photos", type=Path, required=True, help="folder of photographs to calibrate on")
    only = "only calibrate the painter of networks that are there, where the photographs are others"
    parser.add_argument("--calibrate", action="store_true", help=only)
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace, say: _Say) -> int:
    """Do what the command line asks; returns the exit status, 1 where a network failed or missed its bound."""
    if asked.calibrate:
        calibrate_once(load_profile(asked.profile), pictures_in(asked.photos), say)
        return 0
    faults = prepare(load_profile(asked.profile), asked.weights, asked.photos, say)
    for fault in faults:
        say(f"error: {fault}")
    return 1 if faults else 0
