"""A box's profile over small random networks, which any machine runs: its journey rehearsed.

`python -m counterfactory.export a10g --profile P --random --small` makes networks of the same classes for the profile
P. What P says otherwise where those run is here, and what writes a profile as a file of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .check import score_named
from .profile import Profile, is_path, load_profile, merge_tables
from .runtime import ModelPaths

# The small networks' pictures have a 16th of the sides.
SHRINK = 16
# Of their export: what no look at real pictures is needed for, and nothing depends on the machine's memory.
ISLANDS = "timestep,normalisation"
# How any machine runs them, by the runtime's name.
RUNTIMES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "onnxruntime": {"backend": "onnxruntime", "provider": "cpu", "precision": "f32", "memory_gb": 0},
        "openvino": {"backend": "openvino", "provider": None, "precision": "f32", "memory_gb": 0},
    }
)
_STEPS, _ROWS = 6, 2


def small_tables(profile: Profile, networks: Path) -> dict[str, Any]:
    """What a profile says otherwise over its small networks in the folder `networks`: None for what it has no longer.

    Random networks write no sentence, so that captions begin with one; the language model is the one that comes with
    us, and does not converse; no picture is rejected.
    """
    image, invert = profile.image, profile.invert
    scores = {name: score_named(name.partition("_")[2]) for name in profile.check.thresholds}
    least = {name: score.least for name, score in scores.items() if score is not None and name.startswith("min_")}
    tables: dict[str, Any] = {
        "shard_sources": 2,
        "models": {"folder": str(networks.absolute())},
        "llm": {"backend": "openvino", "model": str(ModelPaths("pocket").path / "llm"), "style": "pocket"},
        "image": {name: getattr(image, name) // SHRINK for name in ("short_side", "multiple", "max_long_side")}
        | {"buckets": [[side // SHRINK for side in size] for size in image.sizes]},
        "caption": {
            "batch": _ROWS,
            "texts": 1,
            "prefix": "",
            "label_prefix": "a red {label} on a clear street at noon.",
            "decoding": {"min_tokens": 5, "max_tokens": 10},
        },
        "rewrite": {"types": ["weather", "time", "colour"], "verbatim": True, "menus": False},
        "paint": {
            "denoiser": profile.paint.denoiser.removesuffix("_int8"),
            "batch": _ROWS,
            "decode_batch": _ROWS,
            "sampler": {"steps": min(_STEPS, profile.paint.sampler.steps)},
        },
        "text": {"batch": _ROWS},
        "check": {"batch": _ROWS, **dict.fromkeys(profile.check.thresholds), **least},
    }
    if not profile.captioned:
        del tables["caption"]
    elif profile.caption.decoding.mode == "nucleus":  # the same on every runtime
        tables["caption"]["decoding"] |= {"mode": "greedy"}
    if profile.llm.exllama is not None:
        tables["llm"]["exllama"] = None
    if profile.grounding is not None:
        tables["grounding"] = None
    if invert is not None:
        tables["invert"] = {"local_types": ["colour"], "fractions": [invert.fractions[-1]]}
    return tables


def write_small(file: Path, profile: str, networks: Path, runtime: Mapping[str, Any], **tables: Any) -> Path:
    """Write the profile (a name or file) as it runs over small `networks` by `runtime` and `tables`. Returns `file`."""
    asked = load_profile(profile)
    known = {name: value for name, value in runtime.items() if value is not None or asked.runtime.provider is not None}
    on_gpu = runtime["backend"] == "tensorrt" or runtime.get("provider") in ("cuda", "tensorrt")
    gone = {} if on_gpu or asked.device is None else {"device": None}
    small = {"name": f"small-{asked.name}", **gone, "runtime": known, **small_tables(asked, networks)}
    base = str(Path(profile).absolute()) if is_path(profile) else profile
    return write_profile(file, base, merge_tables(small, tables))


def write_profile(file: Path, base: str, tables: Mapping[str, Any]) -> Path:
    """Write a profile that extends `base` by `tables`, table in table; None leaves a key out. Returns `file`."""
    gone = list(_left_out(tables, ()))
    start = {"extends": base, "name": Path(base).stem} | ({"without": gone} if gone else {})
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(_lines(start | dict(tables), ())) + "\n", encoding="utf-8")
    return file


def _left_out(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    for key, value in table.items():
        if value is None:
            yield ".".join((*path, key))
        elif isinstance(value, Mapping):
            yield from _left_out(value, (*path, key))


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """TOML of a table: what is no table first. Strings, numbers and lists of JSON are TOML's too, but for escaped pairs
    of surrogates and DEL.
    """
    for key, value in table.items():
        if value is not None and not isinstance(value, Mapping) and not _is_tables(value):
            yield f"{key} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")
    for key, value in table.items():
        for one in value if _is_tables(value) else [value] if isinstance(value, Mapping) else []:
            name = ".".join((*path, key))
            yield f"[[{name}]]" if _is_tables(value) else f"[{name}]"
            yield from _lines(one, (*path, key))


def _is_tables(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and any(isinstance(one, Mapping) for one in value)
