"""Where every trained parameter went: `parameters.json` beside the packed models, written when they are packed.

OpenVINO's files hold the weights but not all of their names: biases and norms become anonymous constants, matrices are
transposed, and arithmetic beside a layer is folded into its weights. While the trained module is at hand, each of its
parameters is looked up by value among the constants of its files, as it is, transposed, or through a scale and an
offset. So a match is right by construction, whichever of several equal constants it names: it gives the parameter
back to within the rounding of fp16. The map is good for these files alone and carries their digests.

Small networks are stored in 8 bits after that (`narrow`): constants keep their names, and parameters come back as the
engine opens them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.writing import write_whole
from counterfactory.engine.keys import content_key, file_digest
from counterfactory.engine.runtime.dequantize import widen_weights
from counterfactory.engine.runtime.openvino import open_core

from ..graphs.narrowing import narrow_file

FILE = "parameters.json"
Floats = NDArray[np.float32]
# fp16 keeps 11 bits; folding rounds once more, in float32, before.
_ROUNDING, _LEAST = 2.0**-10, 2.0**-23
# A flat constant is any parameter times nearly nothing, and beside a large offset nothing is left of a parameter.
_LEAST_SCALE, _MOST_OFFSET = 1 / 64, 4
# What no graph holds and is no larger than this is kept in the map itself (CLIP's logit_scale).
_MOST_KEPT = 16


@dataclass(frozen=True)
class Place:
    """A constant of a file, and how it was made of the parameter: turned over, times `scale`, plus `offset`."""

    file: str
    constant: str
    transposed: bool = False
    scale: float = 1.0
    offset: float = 0.0

    def parameter(self, constant: Floats, shape: Sequence[int]) -> Floats:
        """The parameter of a shape that the constant was made of. Raises ValueError when the sizes differ."""
        values = constant.squeeze().T if self.transposed else constant
        return ((values.reshape(shape) - np.float32(self.offset)) / np.float32(self.scale)).astype(np.float32)


def record(
    network: str, parameters: Mapping[str, torch.Tensor], weights: Path, files: Sequence[str], **config: float
) -> None:
    """Write to `weights/parameters.json` where each of a network's parameters stands in the .xml `files`.

    `config` are numbers that the network's class needs beside them. The map's other networks stay. Raises
    CounterfactoryError for a parameter that stands nowhere and is too large to be kept in the map.
    """
    held = {(file, name): array for file in files for name, array in constants(weights / file)}
    kept: dict[str, list[float]] = {}
    placed: dict[str, dict[str, list[Any]]] = {file: {} for file in files}
    for name, parameter in parameters.items():
        value = parameter.detach().to(torch.float32).numpy()
        place = find(value, held)
        if place is not None:
            placed[place.file][name] = _written(place)
        elif value.size <= _MOST_KEPT:
            kept[name] = value.ravel().tolist()
        else:
            raise CounterfactoryError(f"{network}: {name} {list(value.shape)} stands in none of {', '.join(files)}")
    _write(network, {"config": config, "kept": kept, "placed": placed}, weights)


def narrow(network: str, weights: Path) -> None:
    """Store a network that is recorded in the map with the weights of its files in 8 bits; those that are stay so.

    Raises CounterfactoryError when there is no map, it is damaged, or it is of other files.
    """
    entry = _entry(network, weights)
    for file, places in entry["placed"].items():
        narrow_file(weights / file, {written[0] for written in places.values()})
    _write(network, entry, weights)


def restore_into(network: str, module: nn.Module, weights: Path) -> Mapping[str, float]:
    """Fill every parameter of `module` from the packed files; returns the numbers that its class needs beside them.

    Raises CounterfactoryError when there is no map, it is damaged, it is of other files, or it is of another module.
    """
    entry = _entry(network, weights)
    parameters = dict(module.named_parameters())
    named = [*entry["kept"], *(name for names in entry["placed"].values() for name in names)]
    if set(named) != parameters.keys():
        odd = ", ".join(sorted(set(named) ^ set(parameters))[:3])
        raise CounterfactoryError(f"{weights / FILE} does not suit the module of {network}: {odd}")
    for name, value in entry["kept"].items():
        _fill(parameters[name], np.array(value, np.float32), Place(FILE, name))
    for file, names in entry["placed"].items():
        held = dict(constants(weights / file))
        for name, written in names.items():
            place = Place(file, *written)
            _fill(parameters[name], held[place.constant], place)
    config: Mapping[str, float] = entry["config"]
    return config


def constants(file: Path) -> Iterator[tuple[str, Floats]]:
    """Name and value of every floating-point constant of an OpenVINO file, of weights in 8 bits as they are widened."""
    model = open_core().read_model(file)
    widen_weights(model)
    for operation in model.get_ordered_ops():
        if operation.get_type_name() == "Constant" and (value := operation.get_data()).dtype.kind == "f":
            yield operation.get_friendly_name(), value.astype(np.float32)


def find(parameter: Floats, held: Mapping[tuple[str, str], Floats]) -> Place | None:
    """Where a parameter stands among constants by (file, name): as it is rather than transposed or rescaled."""
    ways = list(_alike(parameter, held))
    for file, name, turned, value in ways:
        if _same(value, parameter):
            return Place(file, name, turned)
    for offset in (False, True):
        for file, name, turned, value in ways:
            scale, shift = _fitted(parameter, value, offset)
            sane = _LEAST_SCALE <= abs(scale) <= 1 / _LEAST_SCALE and abs(shift) <= _MOST_OFFSET
            if sane and _same(value, parameter * np.float32(scale), shift):
                return Place(file, name, turned, scale, shift)
    return None


def _alike(parameter: Floats, held: Mapping[tuple[str, str], Floats]) -> Iterator[tuple[str, str, bool, Floats]]:
    """Constants that have a parameter's shape or its reverse, but for axes of length 1, in that shape."""
    shape = parameter.squeeze().shape
    for turned in (False, True):
        for (file, name), value in held.items():
            squeezed = value.squeeze()
            if squeezed.shape == (shape[::-1] if turned else shape) and not (turned and len(shape) < 2):
                yield file, name, turned, (squeezed.T if turned else squeezed).reshape(parameter.shape)


def _same(constant: Floats, scaled: Floats, offset: float = 0.0) -> bool:
    """Whether the constant is the scaled parameter plus the offset, as rounded as either of the two must be."""
    room = _ROUNDING * (np.abs(scaled) + abs(offset)) + _LEAST
    return bool((np.abs(constant - (scaled + np.float32(offset))) <= room).all())


def _fitted(parameter: Floats, constant: Floats, offset: bool) -> tuple[float, float]:
    """Scale and offset (or 0) that come nearest to making the constant of the parameter; scale 0 if nothing does."""
    p, c = parameter.ravel().astype(np.float64), constant.ravel().astype(np.float64)
    middle = (p.mean(), c.mean()) if offset else (0.0, 0.0)
    power = float(((p - middle[0]) ** 2).sum())
    # Two points lie on every line; a flat parameter says nothing about a scale.
    if power == 0 or p.size < 3:
        return 0.0, 0.0
    scale = _rounded(float(((p - middle[0]) * (c - middle[1])).sum()) / power)
    return scale, _rounded(float(middle[1] - scale * middle[0])) if offset else 0.0


def _rounded(number: float) -> float:
    """To three digits where that changes it by less than fp16 can tell: a folded 0.5 is then 0.5 again."""
    short = float(f"{number:.3g}")
    return short if abs(short - number) < abs(number) * 2.0**-13 else number


def _written(place: Place) -> list[Any]:
    written = [place.constant, int(place.transposed), place.scale, place.offset]
    usual = [None, 0, 1.0, 0.0]
    while written[-1] == usual[len(written) - 1]:
        written.pop()
    return written


@torch.no_grad()
def _fill(parameter: torch.Tensor, constant: Floats, place: Place) -> None:
    try:
        value = place.parameter(constant, parameter.shape)
    except ValueError as error:
        shapes = f"{list(constant.shape)}, where {list(parameter.shape)} was to come"
        raise CounterfactoryError(f"{place.file}: {place.constant} is {shapes}") from error
    parameter.copy_(torch.tensor(value))


def _digests(weights: Path, files: Iterable[str]) -> dict[str, str]:
    paths = [path for file in files for path in (weights / file, (weights / file).with_suffix(".bin"))]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise CounterfactoryError(f"{weights} lacks {', '.join(missing)}")
    return {path.name: file_digest(path) for path in paths}


def _read(path: Path) -> dict[str, Any]:
    try:
        # int refuses NaN and infinities with a ValueError: they are never written.
        everything = json.loads(path.read_text(encoding="utf-8"), parse_constant=int)
    except FileNotFoundError as error:
        raise CounterfactoryError(f"{path} is missing: only models packed with it can be restored") from error
    except (OSError, ValueError) as error:
        raise CounterfactoryError(f"{path} cannot be read: {error}") from error
    if not isinstance(everything, dict):
        raise CounterfactoryError(f"{path} is damaged: it holds no networks")
    return everything


def _entry(network: str, weights: Path) -> dict[str, Any]:
    """The map's entry of a network, which is of the files that lie beside it."""
    entry = _read(weights / FILE).get(network)
    if entry is None:
        raise CounterfactoryError(f"{weights / FILE} knows nothing of {network}; pack it again")
    if not isinstance(entry, dict) or entry.pop("check", None) != content_key(entry):
        raise CounterfactoryError(f"{weights / FILE} is damaged: the entry of {network} is not what was written")
    if entry["files"] != _digests(weights, entry["placed"]):
        raise CounterfactoryError(f"{weights / FILE} is of other files of {network} than lie beside it; pack it again")
    return entry


def _write(network: str, entry: dict[str, Any], weights: Path) -> None:
    """Put the entry of a network into the map, with the digests of its files and under its check."""
    path = weights / FILE
    everything = _read(path) if path.exists() else {}
    entry = {**entry, "files": _digests(weights, entry["placed"])}
    everything[network] = {**entry, "check": content_key(entry)}
    write_whole(path, json.dumps(everything, separators=(",", ":"), sort_keys=True).replace("],", "],\n") + "\n")
