"""A profile: models, precisions, steps and thresholds for one kind of box.

A TOML file fills frozen dataclasses, each of which is defined beside the code that reads it. Nothing has a default: a
profile states completely what made a suite.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..edit import EDIT_TYPES
from ..errors import CounterfactoryError
from ..files.fill import fill, nearest, read_toml
from ..language.settings import LlmSettings
from ..models.clip import TextSettings
from ..models.referee import RefereeSettings
from ..runtime.manifests import exported_classes
from ..runtime.session import RuntimeSettings
from ..sources.pixels import ImageSettings
from ..stages.caption import CaptionSettings
from ..stages.draft import RewriteSettings
from ..stages.edges import DetectorSettings
from ..stages.hints import DepthSettings, HintSettings, check_hints
from ..stages.invert import require_invertible
from ..stages.paint import PaintSettings
from ..stages.pointing import GroundingSettings
from ..stages.protect import ProtectSettings
from ..stages.random_words import RandomWordSettings
from ..stages.sweep import InvertSettings
from ..stages.verdict import CheckSettings
from .device import DeviceSettings, PlanFacts, load_facts
from .weights import WeightSettings

__all__ = ["ModelPaths", "Profile", "fill", "load_profile", "profile_names"]

_FOLDER = Path(__file__).parent / "profiles"
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
class Profile:
    """Everything that a run takes from its box. `shard_sources` is how many sources travel together.

    `device` is the GPU that the profile is for, as far as estimates need it; None for CPUs. `weights` are what its
    networks are exported from, None where that is left to the exporter's command line. With `grounding` the language
    model points at what names a label where words alone do not. `teacher` is the profile, by its name or file, whose
    painting the denoiser was distilled from, None where it was not: what such a profile is compared with, and nothing
    that a suite is made of. `hints` are what keeps a picture's layout, in the denoiser's order, None for the edges
    alone; with `depth` a network finds depth. With `random_words` a masked language model edits captions in place of
    the language model (LANCE-R). `protect` is what variants keep of their sources, None for nothing. With `invert`
    sources are inverted and edited, without it their captions are painted anew.
    """

    name: str
    shard_sources: int
    runtime: RuntimeSettings
    models: ModelPaths
    image: ImageSettings
    llm: LlmSettings
    caption: CaptionSettings
    rewrite: RewriteSettings
    edges: DetectorSettings
    paint: PaintSettings
    text: TextSettings
    check: CheckSettings
    device: DeviceSettings | None = None
    weights: WeightSettings | None = None
    grounding: GroundingSettings | None = None
    teacher: str | None = None
    hints: tuple[HintSettings, ...] | None = None
    depth: DepthSettings | None = None
    random_words: RandomWordSettings | None = None
    protect: ProtectSettings | None = None
    referees: tuple[RefereeSettings, ...] | None = None
    invert: InvertSettings | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name is empty")
        if self.teacher == self.name:
            raise ValueError(f"teacher is another profile, or left out where there is none; found {self.teacher!r}")
        if (self.device is not None) != self.runtime.on_gpu:
            wanted = "has no" if self.device else "needs a"
            raise ValueError(f'[runtime] "{self.runtime.provider or self.runtime.backend}" {wanted} table [device]')
        if self.grounding is not None and not self.llm.converses:
            found = self.llm.style
            raise ValueError(f'[grounding] goes with a language model that converses; found [llm] style = "{found}"')
        if self.random_words is not None and self.runtime.backend != "openvino":
            raise ValueError(f'[random_words] needs [runtime] backend = "openvino", got "{self.runtime.backend}"')
        if self.rewrite.perplexity and not self.llm.on_cpu:
            raise ValueError(f'[rewrite] perplexity = true needs [llm] backend = "openvino", got "{self.llm.backend}"')
        if unscored := self._unscored():
            raise ValueError(f"[check] {unscored[0]}: {unscored[1]}")
        if self.hints is not None or self.depth is not None:
            check_hints(self.hints or (), self.depth)
            if not self.follows_maps:
                raise ValueError(
                    "[invert] follows maps by [paint] control_scale, which is 0: say another, or take [[hints]] and "
                    "[depth] out"
                )
        if self.invert is not None:
            require_invertible(self.paint, self.invert)
        if self.weights is not None and not self.weights.controlnets and self.follows_maps:
            raise ValueError(
                "[weights] controlnets names none: name what follows the sources' edges, or invert sources without, "
                "by a table [invert] and control_scale = 0 in [paint]"
            )
        if self.paint.streams > 1 and self.runtime.backend != "openvino":
            raise ValueError(f'[paint] streams is 1 with backend = "{self.runtime.backend}", got {self.paint.streams}')
        if self.runtime.backend == "tensorrt" and not self.image.sizes:
            raise ValueError(
                '[image] needs buckets with backend = "tensorrt", whose plans are compiled for them: such as buckets = '
                f"[[{self.image.short_side}, {self.image.short_side}]], or a max_long_side that is the short_side"
            )
        if self.shard_sources < 1:
            raise ValueError(f"shard_sources must be at least 1, found {self.shard_sources}")

    def _unscored(self) -> tuple[str, str] | None:
        """A threshold of text scores that the profile does not measure, and what would."""
        for name, score in self.check.text_thresholds():
            if score.startswith("text_") and self.grounding is None:
                return name, "a sentence encoder measures that: it needs a table [grounding]"
            if score.startswith("perplexity") and not self.rewrite.perplexity:
                return name, "it needs [rewrite] perplexity = true"
        kinds = {referee.kind for referee in self.referees or ()}
        for score, kind in (("agreement", "labels"), ("ensemble", "labels"), ("miou", "masks"), ("recall", "masks")):
            if self.check.least(score) is not None and kind not in kinds:
                return f"min_{score}", f'it needs [[referees]] of kind = "{kind}"'
        if self.check.least("boxes") is not None and "boxes" not in kinds:
            return "min_boxes", 'it needs [[referees]] of kind = "boxes"'
        return self._unread()

    def _unread(self) -> tuple[str, str] | None:
        """What [check] asks of the captioner's second look that it does not read, and what would."""
        check = self.check
        known = dict.fromkeys(("label", *self.rewrite.types, *EDIT_TYPES))
        for name in check.recaption_of or ():
            if name not in known:
                return "recaption_of", f"there is no type of edits {name!r}; {nearest(name, known)}"
        asked = [("min_said_edits", "said_edits")] if check.min_said_edits is not None else []
        asked += [("min_said_label", "said_label")] if check.min_said_label is not None else []
        asked += [("valid", score) for part in check.valid or () for score in part.scores if score.startswith("said_")]
        for setting, score in asked:
            if not check.recaption:
                return setting, f"what the captioner says, {score}, needs [check] recaption = true"
            if score != "said_edits" and not check.reads(kind := score.removeprefix("said_")):
                return setting, f'{score} needs "{kind}" in [check] recaption_of'
        return None

    @property
    def follows_maps(self) -> bool:
        """Whether ControlNets follow maps of the sources; an editor does so where they have a scale."""
        return self.invert is None or self.paint.control_scale > 0

    @property
    def decisive(self) -> dict[str, Any]:
        """All of it that decides what a suite is, as plain data."""
        return {name: value for name, value in asdict(self).items() if name != "teacher"}


def profile_names() -> tuple[str, ...]:
    """The profiles that come with the package."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def load_profile(name_or_path: str) -> Profile:
    """A profile by its name, or from a file if the text ends in .toml or holds a "/".

    Raises CounterfactoryError for a name that there is not, a file that cannot be read, an unknown or missing key, or
    a value of a wrong type or range.
    """
    if name_or_path.endswith(".toml") or "/" in name_or_path:
        path = Path(name_or_path)
    elif name_or_path in profile_names():
        path = _FOLDER / f"{name_or_path}.toml"
    else:
        known = ", ".join(profile_names())
        raise CounterfactoryError(f"no profile {name_or_path!r}; there are {known}, or give the path of a .toml file")
    return fill(Profile, read_toml(path), str(path))


def painting_as_teacher(profile: Profile) -> Profile:
    """The profile, painting as its teacher does and with the teacher's weights; itself where it has no teacher.

    Raises CounterfactoryError as `load_profile` does of the teacher.
    """
    if profile.teacher is None:
        return profile
    teacher = load_profile(profile.teacher)
    return replace(profile, paint=teacher.paint, weights=teacher.weights, teacher=None)


def plan_facts(profile: Profile) -> dict[str, PlanFacts]:
    """What is known of the profile's plans before they are opened: from its own export, else as it came with us.

    The decoder of latents is the one that was exported, or else will be. Raises CounterfactoryError where neither is
    there.
    """
    exported = profile.models.path / "facts.json"
    facts = load_facts(exported if exported.is_file() else _FOLDER / "a10g.json")
    tiny = facts.pop("vae_decoder_tiny", None)
    if not exported.is_file() and tiny is not None and _decodes_with_taesd(profile):
        facts["vae_decoder"] = tiny
    if not exported.is_file() and profile.follows_maps:
        facts.pop("editor", None)  # what is known of it is without a ControlNet
    # Another form of a network costs what the network does, but where its own export was counted.
    forms = {f"{name}{profile.caption.form}": name for name in ("blip2_vision", "opt_decoder")}
    forms[profile.paint.denoiser] = "denoiser" if profile.follows_maps or "editor" not in facts else "editor"
    forms |= dict.fromkeys((hint.plan for hint in profile.hints or ()), "hint")
    return {form: facts[name] for form, name in forms.items() if name in facts} | facts


def other_decoder(profile: Profile) -> str:
    """What is to be known where another decoder of latents was exported than the profile names; "" where none was."""
    named, classes = _names_taesd(profile), exported_classes(profile.models.path, "vae_decoder")
    if profile.weights is None or classes is None or ("AutoencoderTiny" in classes) == named:
        return ""
    wanted = "tiny_vae" if named else "the pipeline's own decoder"
    return f"it is {' and '.join(classes)}'s, and [weights] names {wanted}: pictures are decoded by what was exported"


def _names_taesd(profile: Profile) -> bool:
    return profile.weights is not None and profile.weights.tiny_vae is not None


def _decodes_with_taesd(profile: Profile) -> bool:
    classes = exported_classes(profile.models.path, "vae_decoder")
    return _names_taesd(profile) if classes is None else "AutoencoderTiny" in classes
