"""Weights: drawn from a seed, read from a checkpoint's files, given to a module; and the hash that names them."""

from __future__ import annotations

import hashlib
import json
import pickle
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from counterfactory.engine.errors import CounterfactoryError

from .hub import WHOLE, parts_of

_NORMS = (nn.GroupNorm, nn.LayerNorm, nn.BatchNorm2d)
_PRODUCTS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d)


def fill(module: nn.Module, seed: int) -> None:
    """Draw every weight of `module` anew, seeded, so that no part is silent; tied weights are drawn once.

    Fresh networks have parts that compute nothing: zero convolutions in a ControlNet, a vision encoder and queries
    near zero in BLIP-2. A comparison of outputs would not see them, and a compiler may fold them away. Products keep
    the spread of what they multiply, norms stay near one and biases near zero, tables have a spread of one half.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            prefix, _, kind = name.rpartition(".")
            child = module.get_submodule(prefix)
            draw = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
            if isinstance(child, _NORMS) or parameter.ndim < 2:
                draw = draw * 0.2 + (1.0 if isinstance(child, _NORMS) and kind == "weight" else 0.0)
            elif isinstance(child, _PRODUCTS):
                draw *= 1.4 / parameter[0].numel() ** 0.5
            else:
                draw *= 0.5
            parameter.copy_(draw)


def digest(module: nn.Module) -> str:
    """SHA-256, as 64 hex digits, of a module's parameters and buffers: names, types, shapes and bytes."""
    found = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        array = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
        found.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        found.update(array.data)
    return found.hexdigest()


def tensors(source: Path, prefixes: Sequence[str] = ("",)) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint whose names begin with one of `prefixes`, in the types that they are stored in.

    All files are mapped: memory holds what is computed from a tensor, not the checkpoint. Of a folder's files those are
    read that transformers and diffusers would read, never a variant of another precision that lies beside them. Raises
    CounterfactoryError where there is none or nothing matches.
    """
    found = dict(_read(source, tuple(prefixes)))
    if not found:
        raise CounterfactoryError(f"{source} holds no weights whose names begin with {', '.join(prefixes)}")
    return found


def weight_files(folder: Path) -> list[Path]:
    """The files of a folder's weights, by the names that transformers and diffusers know: one file, or an index's.

    Raises CounterfactoryError where there is none, and where an index names files that are missing.
    """
    for name in WHOLE:
        if (folder / name).is_file():
            return [folder / name]
        index = folder / f"{name}.index.json"
        if index.is_file():
            named = {folder / file for file in parts_of(index)}
            if missing := sorted(file.name for file in named if not file.is_file()):
                raise CounterfactoryError(f"folder {folder} lacks {', '.join(missing)}, which {index.name} names")
            return sorted(named)
    found = sorted(folder.glob("*.safetensors"))
    if len(found) != 1:
        lacks = f"folder {folder} has no {WHOLE[0]}, nor an index of its parts, and {len(found)} other .safetensors"
        raise CounterfactoryError(f"{lacks}; name the folder of a whole checkpoint, or one file")
    return found


def _read(source: Path, prefixes: tuple[str, ...]) -> Iterator[tuple[str, torch.Tensor]]:
    for file in weight_files(source) if source.is_dir() else [source]:
        try:
            if file.suffix == ".safetensors":
                with safe_open(str(file), framework="pt") as opened:
                    names = [name for name in opened.keys() if name.startswith(prefixes)]  # noqa: SIM118 - no mapping
                    yield from ((name, opened.get_tensor(name)) for name in names)
            else:
                yield from ((name, tensor) for name, tensor in _unpickled(file) if name.startswith(prefixes))
        except (OSError, RuntimeError, EOFError, ValueError, SafetensorError, pickle.UnpicklingError) as error:
            reason = (str(error).strip() or "it ends too early").splitlines()[0]
            raise CounterfactoryError(f"weights file {file} cannot be read ({reason}): fetch it anew") from error


def _unpickled(file: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a pickle, of which nothing is executed: torch's, or its older form, which cannot be mapped."""
    loaded = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    whole = loaded.get("state_dict", loaded) if isinstance(loaded, dict) else loaded
    if not isinstance(whole, dict):
        raise ValueError(f"it holds a {type(whole).__name__}, no table of tensors")
    yield from ((str(name), tensor) for name, tensor in whole.items() if isinstance(tensor, torch.Tensor))


def load(module: nn.Module, found: dict[str, torch.Tensor], source: Path) -> None:
    """Copy the tensors `found` into those of `module`, one by one, each to the type it has there.

    Raises CounterfactoryError naming what is missing, left over or of another shape; nothing is copied then.
    """
    wanted = module.state_dict()
    missing, extra = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    odd = sorted(name for name in wanted.keys() & found.keys() if wanted[name].shape != found[name].shape)
    if missing or extra or odd:
        parts = (("missing", missing), ("not known", extra), ("of another shape", odd))
        said = "; ".join(f"{len(names)} {what}, first {names[0]}" for what, names in parts if names)
        raise CounterfactoryError(f"weights of {source} do not fit {type(module).__name__}: {said}")
    module.load_state_dict(found)
