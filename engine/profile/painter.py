"""[painter]: who paints, and what stands for the tables that a painter without networks does without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from counterfactory.kernels.edges import EdgeSettings

from ..edit import SEVERITIES
from .bounds import require
from .caption import CaptionSettings, DecodingSettings
from .maps import DetectorSettings
from .paint import GuidanceSettings, PaintSettings, SamplerSettings, TextSettings
from .rewrite import LlmSettings, RewriteSettings
from .runtime import ModelPaths, RuntimeSettings
from .server import ServerSettings

Kind = Literal["diffusion", "light", "given", "server"]
# Who paints: as `Kind`, and a diffusion model that edits inverted sources, which a table [invert] asks for.
Painter = Literal["diffusion", "inversion", "light", "given", "server"]


@dataclass(frozen=True)
class PainterSettings:
    """`kind` "diffusion" paints captions over maps of the sources, or edits inverted sources where there is a table
    [invert]; "light" changes weather and light of the sources themselves, by rule; "given" takes pictures that anybody
    painted; "server" has a server edit the sources, which a table [painter.server] names. `severity` is the strength of
    edits, 1 to 5, where nobody asks for another; where it is left out "light" has that of `SEVERITY`, and others paint
    in full.
    """

    kind: Kind
    server: ServerSettings | None = None
    severity: int | None = None

    def __post_init__(self) -> None:
        if (self.kind == "server") != (self.server is not None):
            wanted = "needs a" if self.kind == "server" else "has no"
            raise ValueError(f'[painter] kind = "{self.kind}" {wanted} table [painter.server]')
        if self.severity is not None:
            require(self, 1, "severity", most=SEVERITIES)
            if self.kind == "given":
                raise ValueError('[painter] kind = "given" takes pictures as they are and has no severity')


# In full many a photograph is hard to make out: it is what a robust model is tried with last.
SEVERITY: Mapping[Kind, int] = MappingProxyType({"light": 3})

# What a painter without networks does without, as it stands in a profile that leaves it out.
NO_RUNTIME = RuntimeSettings("openvino", "f32", 0, 0)
NO_MODELS = ModelPaths("none")
NO_LLM = LlmSettings("openvino", "none", "pocket")
NO_CAPTIONER = CaptionSettings(1, 1, "", DecodingSettings("greedy", 1, 1.0, 1.0, 0, 1, 1.0, 1.0))
NO_EDGES = DetectorSettings("relative", relative=EdgeSettings())
NO_PAINT = PaintSettings(
    SamplerSettings("ddim", 1, "epsilon", "leading", zero_snr=False),
    GuidanceSettings(1.0, 0.0, 0.0),
    denoiser="none",
    control_scale=0.0,
    negative_prompt="",
    batch=1,
    streams=1,
    decode_batch=4,
)
NO_TEXT = TextSettings(1)
# Any caption that a rule writes may be added to.
BY_RULE = RewriteSettings(("weather", "time", "light", "camera"), 1, 1, 1, 10_000, verbatim=True)
