"""The published weights that a profile's networks are exported from."""

from __future__ import annotations

from dataclasses import dataclass


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
