"""The releases of the libraries that compute results: the same network under another release gives other bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType

# The distributions under which a library is installed, by import name where they differ.
_DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "onnxruntime": ("onnxruntime-gpu", "onnxruntime"),
        "tensorrt": ("tensorrt-cu13", "tensorrt-cu12", "tensorrt", "tensorrt-rtx-cu13", "tensorrt-rtx-cu12"),
        "opencv": ("opencv-python-headless", "opencv-python", "opencv-contrib-python"),
    }
)


def releases(libraries: Iterable[str]) -> dict[str, str]:
    """Installed releases by distribution, such as {"openvino": "2026.4.1"}; a library that is missing is left out."""
    versions: dict[str, str] = {}
    for library in libraries:
        for distribution in _DISTRIBUTIONS.get(library, (library,)):
            try:
                versions[distribution] = version(distribution)
                break
            except PackageNotFoundError:
                continue
    return versions
