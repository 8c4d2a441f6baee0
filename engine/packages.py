"""Third parties' packages that not every installation has: a suite is judged by fewer than it is made with.

What needs one imports it when it computes. `missing_package` says which extra brings what an import did not find.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, ModuleType

from .errors import CounterfactoryError

# Modules, and the extra of pyproject.toml that brings each.
EXTRAS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("openvino", "tokenizers", "llguidance"), "generate")
    | dict.fromkeys(("werkzeug", "krippendorff"), "review")
    | dict.fromkeys(("ray", "fsspec"), "cluster")
    | {"cv2": "light", "scipy": "scipy", "prometheus_client": "metrics", "datasets": "datasets"}
    | {"pycocotools": "detection", "webdataset": "webdataset"}
)


def missing_package(error: ModuleNotFoundError) -> str | None:
    """The sentence for a package that is not installed, with what installs it; None where the module is not one of an
    extra's.
    """
    module = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(module)
    if extra is None:
        return None
    return f"this needs the package {module}, which is not installed: pip install 'counterfactory[{extra}]'"


def installed(module: str) -> bool:
    """Whether there is a module of this name; it is not imported."""
    return find_spec(module) is not None


def pocket_networks() -> Path:
    """The folder of the pocket networks: beside the code in a checkout, else the package counterfactory_pocket. Where
    there is neither, the first, which then holds no network.
    """
    folder = Path(__file__).parent / "pocket" / "weights"
    apart = None if (folder / "latent.json").is_file() else find_spec("counterfactory_pocket")
    return Path(next(iter(apart.submodule_search_locations or ()), folder)) if apart else folder


def pandas() -> ModuleType:
    """The library. Raises CounterfactoryError where it is not installed: no extra brings it."""
    try:
        return import_module("pandas")
    except ImportError as error:
        raise CounterfactoryError(
            "a table as pandas needs the package pandas, which is not installed: run `pip install pandas`"
        ) from error


def release() -> str:
    """This package's own release; "0+unknown" of a checkout that is not installed."""
    try:
        return version("counterfactory")
    except PackageNotFoundError:
        return "0+unknown"
