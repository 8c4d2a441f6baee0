"""[[referees]]: networks of a user's own that look at painted pictures."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import CounterfactoryError
from ..keys import content_key, file_digest
from .bounds import require


@dataclass(frozen=True)
class RefereeSettings:
    """A referee `run` (an .onnx file or "module:function") in batches of `batch`; `classes` are the names of its class
    numbers from 0 on. `size` (height, width), `mean` and `std` are an ONNX graph's.
    """

    kind: Literal["masks", "labels", "boxes"]
    run: str
    batch: int
    classes: tuple[str, ...]
    size: tuple[int, int] | None = None
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        require(self, 1, "batch")
        if not self.classes:
            raise ValueError("[[referees]] classes names what the referee's numbers mean: at least one name")
        if self.is_graph != (self.size is not None):
            wanted = "needs" if self.is_graph else "has no"
            raise ValueError(f"[[referees]] {self.run!r} {wanted} size = [height, width]: a graph has one, no function")
        if not self.is_graph and (self.run.count(":") != 1 or self.mean or self.std):
            raise ValueError(
                f'[[referees]] run is a file NAME.onnx, or "module:function" without mean and std, found {self.run!r}'
            )
        if self.std is not None and min(self.std) <= 0:
            raise ValueError(f"[[referees]] std is above 0, got {list(self.std)}")

    @property
    def is_graph(self) -> bool:
        return self.run.endswith(".onnx")

    def digest(self) -> str:
        """Names what it computes: the settings, and the content of its file. Raises CounterfactoryError without one."""
        return content_key("referee", self, file_digest(self.file()))

    def file(self) -> Path:
        if self.is_graph:
            path = Path(self.run).expanduser()
            if not path.is_file():
                raise CounterfactoryError(f"referee {path} is missing: correct [[referees]] run in the profile")
            return path
        return Path(inspect.getsourcefile(load_function(self.run)) or __file__)


def load_function(named: str) -> Callable[..., Any]:
    module, _, name = named.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise CounterfactoryError(f"referee {named!r} is not found ({error}): correct [[referees]] run") from error
    if not inspect.isfunction(function):
        raise CounterfactoryError(f"referee {named!r} is no function, found {type(function).__name__}")
    return function
