"""[models] and [weights]: where the networks are, which pictures they know, and what they are exported from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# The world of models that know any picture.
PHOTOGRAPHS = "photographs"


@dataclass(frozen=True)
class ModelPaths:
    """Where the networks are, and what they know: `folder` is "pocket" for those that come with the package, or a path;
    `world` is "photographs", or a kind of picture (see `worlds`).
    """

    folder: str
    world: str = PHOTOGRAPHS

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9_]+", self.world):
            raise ValueError(f"[models] world is a name of letters, digits and underscores, found {self.world!r}")
        if not self.folder:
            raise ValueError("[models] folder is empty; name 'pocket' or the path of a folder of networks")

    @property
    def path(self) -> Path:
        """The folder itself."""
        if self.folder == "pocket":
            return Path(__file__).parents[1] / "pocket" / "weights"
        return Path(self.folder).expanduser()


@dataclass(frozen=True)
class WeightSettings:
    """What the exporter takes: a path, ID@COMMIT of the hub, or ID@COMMIT/FILE.

    `controlnets` are summed where there are several; an editor that follows no edges has none. `loras` are merged into
    the UNet of `diffusion`, each FILE or FILE:WEIGHT. `hed` finds edges where the profile has them found by a network,
    `tiny_vae` decodes latents in place of the pipeline's own decoder. `llm` is the language model before it is
    quantised, `sentence` the encoder of [grounding].
    """

    blip2: str
    diffusion: str
    controlnets: tuple[str, ...]
    clip: str
    llm: str
    loras: tuple[str, ...]
    hed: str | None = None
    tiny_vae: str | None = None
    sentence: str | None = None

    def __post_init__(self) -> None:
        named = (self.blip2, self.diffusion, *self.controlnets, self.clip, self.llm, *self.loras)
        if not all(named):
            raise ValueError("[weights] names nothing somewhere: take the key of what is not used out, or name it")
