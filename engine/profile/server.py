"""The server that a user names to edit pictures: where it is, what it is asked, and how patiently."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from ..errors import CounterfactoryError
from ..keys import content_key, file_digest
from .bounds import require

# Fields of a request that other settings decide, or the client.
_TAKEN = ("image", "prompt", "model", "n")


@dataclass(frozen=True)
class ServerSettings:
    """A server at `address` that speaks `api`: OpenAI's image edits, then with its `model`, or ComfyUI's, then with the
    file of a `workflow`. `key_env` is the name of the environment variable that holds a secret.

    Pictures go out at sides of a `multiple` of pixels, none above `max_side`. `timeout_s` seconds bound one try at one
    picture; `retries` more follow where the server is away or busy. `parallel` requests are under way at once. `fields`
    are more fields of OpenAI's form, or other values of the client's; an empty one is not sent.
    """

    address: str
    api: Literal["openai", "comfyui"]
    max_side: int
    multiple: int
    timeout_s: float
    retries: int
    parallel: int
    model: str | None = None
    workflow: str | None = None
    key_env: str | None = None
    fields: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        _check_address(self.address)
        require(self, 1, "multiple", most=128)
        require(self, max(64, self.multiple), "max_side", most=8192)
        require(self, 0.001, "timeout_s", most=86400)
        require(self, 0, "retries", most=10)
        require(self, 1, "parallel", most=64)
        if self.api not in ("openai", "comfyui"):
            raise ValueError(f'api is "openai" or "comfyui", got {self.api!r}')
        own, other = ("model", "workflow") if self.api == "openai" else ("workflow", "model")
        if not getattr(self, own) or getattr(self, other) is not None:
            raise ValueError(f'api = "{self.api}" needs a {own} and has no {other}')
        if self.fields is not None and self.api != "openai":
            raise ValueError(f'fields go with api = "openai", got "{self.api}": its workflow says all of it')
        for name in self.fields or ():
            if name in _TAKEN or not re.fullmatch(r"\w+(\[\])?", name, re.ASCII):
                taken = ", ".join(_TAKEN)
                raise ValueError(f"fields have names of letters, digits and _, none of {taken}, got {name!r}")
        # What stands there by mistake may be the secret itself: no error shows it.
        if self.key_env is not None and not re.fullmatch(r"[A-Z][A-Z0-9_]*", self.key_env):
            raise ValueError("key_env is the name of an environment variable in capitals, such as SERVER_KEY")

    @property
    def decisive(self) -> dict[str, Any]:
        """What of it decides a picture, as plain data: not where the server is, nor how patiently it is asked."""
        names = ("api", "model", "max_side", "multiple")
        return {name: getattr(self, name) for name in names} | {"fields": dict(self.fields or {})}

    def digest(self) -> str:
        """Names what decides a picture beside the source, the instruction and the seed: settings, and the content of
        the workflow. Raises CounterfactoryError without one.
        """
        return content_key("server", self.decisive, self.workflow and file_digest(self.file()))

    def file(self) -> Path:
        """The workflow's. Raises CounterfactoryError where it is missing."""
        path = Path(self.workflow or "").expanduser()
        if not path.is_file():
            raise CounterfactoryError(f"the workflow {path} is missing: correct workflow in the profile")
        return path

    def size_for(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) to send a picture at, in pixels: as it is where that is a multiple and not too large."""
        zoom = min(1.0, self.max_side / max(height, width))
        most = self.max_side // self.multiple
        high, wide = (min(most, max(1, round(side * zoom / self.multiple))) * self.multiple for side in (height, width))
        return high, wide


def _check_address(address: str) -> None:
    wanted = "address is http://HOST:PORT or https://HOST, with a path where the server has one"
    if set("@?#").intersection(address):  # not shown: it may hold a secret
        raise ValueError(f"{wanted}, and without @, ? and #; key_env names the variable of a secret")
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # of the port, or an open bracket
        usable = False
    if not usable or not re.fullmatch(r"[!-~]+", address):
        raise ValueError(f"{wanted}, found {address!r}")
