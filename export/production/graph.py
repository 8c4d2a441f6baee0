"""A network ready to be exported: a torch module in float32, what it is called with, and the shapes of its plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from diffusers import ModelMixin
from torch import nn
from transformers import PreTrainedModel

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.models.network import Networks
from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.profile.maps import DetectorSettings, HedSettings
from counterfactory.engine.profile.paint import PaintSettings
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.runtime.plans import PlanProfile, Shapes
from counterfactory.engine.runtime.session import EditorForm

from ..graphs.tracing import Axes

ROWS: Mapping[int, str] = {0: "batch"}
PICTURE: Mapping[int, str] = {0: "batch", 2: "height", 3: "width"}


@dataclass(frozen=True)
class Graph:
    """`inputs` are examples, in the order of the module's arguments, with every dynamic axis of length 2 or more.

    torch.export takes an axis of length 1 for a fixed one. `axes` names the dynamic axes of each input, `plan` the
    shapes that its compiled form takes, once for each size of pictures. `examples` says what the inputs show: "noise",
    or "streets" (examples.py). `facts` is what its manifest says besides.
    """

    name: str
    module: nn.Module
    inputs: Mapping[str, torch.Tensor]
    outputs: tuple[str, ...]
    axes: Axes
    plan: tuple[PlanProfile, ...]
    examples: Literal["noise", "streets"] = "noise"
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of diffusers and transformers in it."""
        published = (ModelMixin, PreTrainedModel)
        return tuple(sorted({type(m).__name__ for m in self.module.modules() if isinstance(m, published)}))

    @property
    def parameters(self) -> int:
        """Numbers in the weights, shared ones counted once."""
        return sum(parameter.numel() for parameter in self.module.parameters())


@dataclass(frozen=True)
class Sources:
    """Where weights are: a local folder or file, or a hub id with its pinned revision, ID@COMMIT or ID@COMMIT/FILE.

    `diffusion` is a folder of a Stable Diffusion 1.x pipeline (its `unet` and `vae` are used); `tiny_vae` takes the
    place of that `vae`. Several `controlnets` make one denoiser. A LoRA is FILE or FILE:WEIGHT. The captioner is
    `florence2` where it is named, else `blip2`.
    """

    blip2: str | None = None
    florence2: str | None = None
    clip: str | None = None
    diffusion: str | None = None
    controlnets: tuple[str, ...] = ()
    hed: str | None = None
    tiny_vae: str | None = None
    loras: tuple[str, ...] = ()
    sentence: str | None = None

    @property
    def all(self) -> tuple[str, ...]:
        """Every source, a LoRA without its weight."""
        one = (self.blip2, self.florence2, self.clip, self.diffusion, self.hed, self.tiny_vae, self.sentence)
        return (*filter(None, one), *self.controlnets, *(lora.partition(":")[0] for lora in self.loras))

    def named(self, what: str) -> Any:
        """The source of `what`, or the sources. Raises CounterfactoryError when none was given."""
        found = getattr(self, what)
        if not found:
            flag = {"controlnets": "controlnet"}.get(what, what).replace("_", "-")
            raise CounterfactoryError(f"no weights of {what} were named: say --{flag} FOLDER or ID@COMMIT, or --random")
        return found


# Of HED's plan where the profile finds edges without it.
_HED_BATCH = 4


def exported_networks(profile: Profile) -> Networks:
    """The networks that are exported for a profile: its own but for the language model, and HED in any case; with
    `[grounding]` the sentence encoder is one of them.
    """
    edges = DetectorSettings("hed", hed=profile.edges.hed or HedSettings(_HED_BATCH))
    hints = profile.hints and tuple(replace(hint, weight=1.0) for hint in profile.hints)  # also those of no weight now
    networks = networks_of(replace(profile, edges=edges, hints=hints))
    cut = profile.runtime.backend == "openvino"  # which makes the shallow form of a denoiser's file
    left_out = {"llm", "denoiser_shallow"} if cut else {"llm"}
    return Networks(tuple(network for network in networks if network.name not in left_out))


def batches_of(profile: Profile) -> dict[str, int]:
    """Rows of each network's plan as a profile will ask for them."""
    return {network.name: network.batch for network in exported_networks(profile)}


def names_of(profile: Profile) -> dict[str, str]:
    """The names of plans as a profile opens them; of a form in int8 that of the graph beside which it is made."""
    return {network.name: network.plan.removesuffix("_int8") for network in exported_networks(profile)}


@dataclass(frozen=True)
class Request:
    """What is to be exported.

    Without `sources`, weights are random, seeded by `seed`: `small` networks of the same classes, or the real sizes.
    `captioner` is BLIP-2's "2.7b" or "6.7b", or "florence2", and `caption_side` BLIP-2's 224 or 364, both for random
    weights only. `sizes` are the
    (height, width) of the pictures to paint, in pixels; `controls` the number of ControlNets; `tiny_vae` takes the
    small decoder. `prompt_tokens` are what a caption goes on after at most, its first token included, and
    `caption_tokens` those of the caption; both bound the captioner's cache. With more than one of `beams` the
    captioner's rows go on from one another. `paint` says how suites will be painted, which int8 is calibrated for.
    `hint_channels` is 1 where hints are grey (Canny, HED, depth), whatever the ControlNet was trained with, else 3.
    `scratch` is a folder for the weights of a large network, which are mapped there; without it they are in memory.
    `names` are the plans of networks that are called otherwise. `editor` is what is made of the denoiser, None where it
    paints. `pinned` is what `sources` were named before they were fetched, and what an export is recorded by;
    `stand_ins` says that the weights there are random all the same.
    """

    sources: Sources | None = None
    small: bool = False
    seed: int = 15
    captioner: str = "6.7b"
    caption_side: int = 364
    sizes: tuple[tuple[int, int], ...] = ((512, 512),)
    controls: int = 1
    tiny_vae: bool = False
    hint_channels: int = 1
    batches: Mapping[str, int] = field(default_factory=lambda: batches_of(load_profile("a10g")))
    prompt_tokens: int = 1
    caption_tokens: int = 50
    beams: int = 1
    paint: PaintSettings = field(default_factory=lambda: load_profile("a10g").paint)
    scratch: Path | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    editor: EditorForm | None = None
    pinned: Sources | None = None
    stand_ins: bool = False

    def __post_init__(self) -> None:
        if self.small and self.sources is not None:
            raise CounterfactoryError("--small has random weights by nature: drop it, or drop the weights named")
        for height, width in self.sizes:
            if height % 64 or width % 64 or height < 64 or width < 64:
                raise CounterfactoryError(f"picture sides are multiples of 64, got {height} x {width}")
        if self.controls < 1:
            raise CounterfactoryError(f"there is a ControlNet at least, got {self.controls}")

    @property
    def random(self) -> bool:
        return self.sources is None or self.stand_ins

    @property
    def florence2(self) -> bool:
        return self.captioner == "florence2" if self.sources is None else self.sources.florence2 is not None

    @property
    def pictures(self) -> tuple[tuple[int, int], ...]:
        """Height and width of the pictures; small networks paint small ones, of a sixteenth of the sides."""
        shrink = 16 if self.small else 1
        return tuple((height // shrink, width // shrink) for height, width in self.sizes)

    @property
    def example(self) -> tuple[int, int]:
        """Height and width of the pictures that graphs are traced and compared with.

        Not square, lest a graph take height for width, and small at full size: weights and depth make the errors, and
        a picture four times as large takes four times as long on a CPU.
        """
        return (32, 48) if self.small else (256, 384)

    def plan(self, network: str) -> str:
        return self.names.get(network, network)

    def batch(self, name: str) -> int:
        """Rows of a plan; the hint encoders of all ControlNets, "hint" and "hint_1", take as many."""
        rows = self.batches["hint" if name.startswith("hint_") else name]
        return min(2, rows) if self.small else rows


def static(
    batch: int,
    inputs: Mapping[str, torch.Tensor],
    following: Collection[str] = (),
    sizes: Iterable[tuple[int, int]] = ((0, 0),),
) -> tuple[PlanProfile, ...]:
    """The plan that takes `batch` rows of each input, the axes after the first as in the example; of the inputs named
    in `following` the last two are of each of `sizes` in turn.
    """

    def shape(name: str, size: tuple[int, int]) -> tuple[int, ...]:
        own = inputs[name].shape[1:]
        return (*own[:-2], *size) if name in following else tuple(own)

    return tuple({name: Shapes.static(batch, *shape(name, size)) for name in inputs} for size in sizes)


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
