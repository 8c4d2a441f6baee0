"""Reads the manifest that an export writes for a graph. No runtime is imported for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ..errors import CounterfactoryError
from .plans import PlanProfile, read_profiles

T = TypeVar("T")


def exported_classes(folder: Path, plan: str) -> tuple[str, ...] | None:
    """The classes of diffusers and transformers that a plan's graph was made from; None where its manifest is not."""
    return _read(folder, plan, lambda manifest: tuple(manifest["classes"]) if "classes" in manifest else None)


def exported_digest(folder: Path, plan: str) -> str | None:
    """The content of the graph that was last exported for a plan, by its manifest; None where plans came alone."""
    return _read(folder, plan, lambda manifest: str(manifest["onnx_sha256"]))


def exported_shapes(folder: Path, plan: str) -> PlanProfile | None:
    """The shapes that a plan was exported for, those of its first profile, by its manifest; None without a manifest, or
    where it is from before manifests had shapes.
    """
    return _read(
        folder, plan, lambda manifest: read_profiles(manifest["profiles"])[0] if "profiles" in manifest else None
    )


def _read(folder: Path, plan: str, read: Callable[[Any], T]) -> T | None:
    """The result of `read` on a graph's manifest; None without one."""
    manifest = folder / "onnx" / plan / "manifest.json"
    try:
        return read(json.loads(manifest.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CounterfactoryError(f"cannot read {manifest}: {error!r}; export {plan} again") from error
