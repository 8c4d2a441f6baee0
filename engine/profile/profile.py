"""A profile: models, precisions, steps and thresholds for one kind of box.

A TOML file fills frozen dataclasses, one for each table. It states completely what made a suite. Beside another, which
`extends` names, a file states the differences: tables are merged key by key; values, lists and lists of tables take the
place of the parent's. `without` takes keys and tables of the parent out first, by their dotted names. A parent is a
profile by itself, checked as such: whatever is wrong with the two together is the file's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ..edit import EDIT_TYPES
from ..errors import CounterfactoryError
from ..files.fill import fill, nearest, read_toml
from . import painter as painters
from .bounds import require
from .caption import CaptionSettings
from .check import CheckSettings, Score, score_named
from .image import ImageSettings
from .maps import DepthSettings, DetectorSettings, HintSettings, check_hints
from .paint import InvertSettings, PaintSettings, ProtectSettings, TextSettings, require_invertible
from .painter import Painter, PainterSettings
from .referees import RefereeSettings
from .rewrite import GroundingSettings, LlmSettings, RandomWordSettings, RewriteSettings
from .runtime import DeviceSettings, ModelPaths, RuntimeSettings, WeightSettings

__all__ = ["ModelPaths", "Profile", "fill", "load_profile", "profile_names"]

PROFILES = Path(__file__).parent / "profiles"
EXTENDS, WITHOUT = "extends", "without"
# Its own: no two profiles have one name.
_NAME = "name"


# Tables of networks that no profile needs.
_OF_NETWORKS = ("device", "weights", "grounding", "hints", "depth", "random_words", "protect", "referees", "invert")
# Of all tables those that painting alone reads, and those of networks that look at pictures and texts.
_OF_PAINTING = ("protect", "hints", "depth", "random_words", "invert")
_READING = ("runtime", "models", "caption", "text")
# What painters that work without networks read of the tables that others need or may have.
_OF_RULES = {"light": {"rewrite", "protect"}, "server": {"rewrite"}, "given": set[str]()}


@dataclass(frozen=True)
class Profile:
    """Everything that a run takes from its box. `shard_sources` is how many sources travel together. A `painter` that
    works without networks does without the tables of networks.

    `device` is the GPU that the profile is for, None for CPUs. `weights` are what its networks are exported from, None
    where the exporter's command line says it. With `grounding` the language model points at what names a label where
    words alone do not. `teacher` is the profile, by its name or file, whose painting the denoiser was distilled from:
    what such a profile is compared with, and nothing that a suite is made of. `hints` keep a picture's layout, in
    the denoiser's order, None for the edges alone; with `depth` a network finds depth. With `random_words` a masked
    language model edits captions (LANCE-R). `protect` is what variants keep of their sources. With `invert` sources are
    inverted and edited, without it their captions are painted anew.
    """

    name: str
    shard_sources: int
    image: ImageSettings
    check: CheckSettings
    runtime: RuntimeSettings = field(default=painters.NO_RUNTIME, metadata={"absent": painters.NO_RUNTIME})
    models: ModelPaths = field(default=painters.NO_MODELS, metadata={"absent": painters.NO_MODELS})
    llm: LlmSettings = field(default=painters.NO_LLM, metadata={"absent": painters.NO_LLM})
    caption: CaptionSettings = field(default=painters.NO_CAPTIONER, metadata={"absent": painters.NO_CAPTIONER})
    rewrite: RewriteSettings = field(default=painters.BY_RULE, metadata={"absent": painters.BY_RULE})
    edges: DetectorSettings = field(default=painters.NO_EDGES, metadata={"absent": painters.NO_EDGES})
    paint: PaintSettings = field(default=painters.NO_PAINT, metadata={"absent": painters.NO_PAINT})
    text: TextSettings = field(default=painters.NO_TEXT, metadata={"absent": painters.NO_TEXT})
    painter: PainterSettings | None = None
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
        self._require_tables()
        if self.teacher == self.name:
            raise ValueError(f"teacher is another profile, or left out where there is none; found {self.teacher!r}")
        if (self.device is not None) != self.runtime.on_gpu:
            wanted = "has no" if self.device else "needs a"
            raise ValueError(f'[runtime] "{self.runtime.provider or self.runtime.backend}" {wanted} table [device]')
        if self.grounding is not None and not self.llm.converses:
            style = self.llm.style
            raise ValueError(f'[grounding] goes with a language model that converses; found [llm] style = "{style}"')
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
        if self.weights is not None and self.captioned != bool(self.weights.blip2 or self.weights.florence2):
            raise ValueError(
                "[weights] names a captioner, blip2 or florence2, where there is a table [caption], and none without: "
                'without = ["caption", "weights.blip2"] takes both out'
            )
        if self.check.recaption and not self.captioned:
            raise ValueError("[check] recaption = true needs a table [caption]: it asks the captioner again")
        if self.paint.streams > 1 and self.runtime.backend != "openvino":
            raise ValueError(f'[paint] streams is 1 with backend = "{self.runtime.backend}", got {self.paint.streams}')
        if self.runtime.backend == "tensorrt" and not self.image.sizes:
            raise ValueError(
                '[image] needs buckets with backend = "tensorrt", whose plans are compiled for them: such as buckets = '
                f"[[{self.image.short_side}, {self.image.short_side}]], or a max_long_side that is the short_side"
            )
        require(self, 1, "shard_sources")

    def _require_tables(self) -> None:
        """Refuse a profile without a table that its painter needs, and with one that it does not read."""
        given = {one.name: getattr(self, one.name) is not one.default for one in fields(self) if one.metadata}
        needed, unread = set(given), set[str]()
        given |= {name: getattr(self, name) is not None for name in _OF_NETWORKS}
        painter = self.painter_kind
        bare = painter == "light" or (painter in ("given", "server") and self.by_rule)
        if bare:
            needed, unread = set(), set(given) - _OF_RULES[painter]
        elif painter in ("given", "server"):
            needed = set(_READING) | (set() if self.given else {"llm", "rewrite"})
            unread = set(_OF_PAINTING) - (set() if self.given else {"random_words"})
            unread |= set() if self.given else {"edges", "paint"}
        needed -= set() if self.given else {"caption"}  # whose captions the sources bring
        for name in ("batch", "label_prompt", "logit_scale"):
            if bool(getattr(self.check, name)) == self.by_rule:
                fault = f"is read by networks, which kind = {painter!r} has none of" if self.by_rule else "is missing"
                raise ValueError(f"[check] key 'check.{name}' {fault}")
        for name, there in given.items():
            if there and name in unread:
                what = "needs no network" if bare else "paints nothing itself"
                raise ValueError(f'[painter] kind = "{painter}" {what} and reads no [{name}]: take it out')
            if name in needed and not there:
                raise ValueError(f"the table [{name}] is missing: a painter of kind {painter!r} needs it")

    @property
    def painter_kind(self) -> Painter:
        if self.painter is not None and self.painter.kind != "diffusion":
            return self.painter.kind
        return "diffusion" if self.invert is None else "inversion"

    @property
    def given(self) -> bool:
        """Whether it paints nothing and takes the pictures that the user gives."""
        return self.painter_kind == "given"

    @property
    def by_rule(self) -> bool:
        """Whether captions name labels and edits come from the painter's own menu: no network reads a picture."""
        return self.models is painters.NO_MODELS

    @property
    def by_menu(self) -> bool:
        """Whether edits are those of the painter's own menu: one a variant where nobody asks for others."""
        return self.by_rule and not self.given

    @property
    def severity(self) -> int | None:
        """The strength of edits where nobody asks for another, None for all of it."""
        if self.painter is None:
            return None
        return self.painter.severity or painters.SEVERITY.get(self.painter.kind)

    @property
    def captioned(self) -> bool:
        """Whether a network says what sources show; else they bring their captions, or rules write them."""
        return self.caption != painters.NO_CAPTIONER

    @property
    def without_captioner(self) -> Profile:
        """The profile with the captions that sources bring."""
        weights = self.weights and replace(self.weights, blip2=None, florence2=None)
        return replace(self, caption=painters.NO_CAPTIONER, weights=weights)

    @property
    def decoder(self) -> str:
        """The plan that decodes latents; TAESD's has a name of its own, so that profiles share a folder."""
        return "vae_decoder_tiny" if self.weights is not None and self.weights.tiny_vae else "vae_decoder"

    def _unscored(self) -> tuple[str, str] | None:
        """A setting of [check] for a score that the profile does not measure, and what would."""
        check, kinds = self.check, {referee.kind for referee in self.referees or ()}
        for name in check.thresholds:
            score = score_named(name.partition("_")[2])
            assert score is not None, "checked by the settings"
            if why := self._unmeasured(score, kinds):
                return name, why
        parts = [name for part in check.valid or () for name in part.scores if name.startswith("said_")]
        for name in parts:
            if why := self._unread(name):
                return "valid", why
        known = dict.fromkeys(("label", *self.rewrite.types, *EDIT_TYPES))
        for name in check.recaption_of or ():
            if name not in known:
                return "recaption_of", f"there is no type of edits {name!r}; {nearest(name, known)}"
        return None

    def _unmeasured(self, score: Score, kinds: Collection[str]) -> str | None:
        """What a score lacks to be measured; None where it lacks nothing."""
        if self.by_rule and score.of_network:
            return "a network measures that, and the profile has none"
        if score.needs == "grounding" and self.grounding is None:
            return "a sentence encoder measures that: it needs a table [grounding]"
        if score.needs == "perplexity" and not self.rewrite.perplexity:
            return "it needs [rewrite] perplexity = true"
        if score.needs in ("labels", "masks", "boxes") and score.needs not in kinds:
            return f'it needs [[referees]] of kind = "{score.needs}"'
        return self._unread(score.name) if score.needs == "recaption" else None

    def _unread(self, score: str) -> str | None:
        """What a score of the captioner's second look lacks to be measured."""
        if not self.check.recaption:
            return f"what the captioner says, {score}, needs [check] recaption = true"
        if score != "said_edits" and not self.check.reads(kind := score.removeprefix("said_")):
            return f'{score} needs "{kind}" in [check] recaption_of'
        return None

    @property
    def follows_maps(self) -> bool:
        """Whether ControlNets follow maps of the sources; an editor does so where they have a scale."""
        return self.painter_kind == "diffusion" or (self.painter_kind == "inversion" and self.paint.control_scale > 0)

    @property
    def reads_depth(self) -> bool:
        """Whether depth maps are read from files."""
        return self.depth is None and any(hint.kind == "depth" and hint.weight for hint in self.hints or ())

    @property
    def hint_weights(self) -> list[float] | None:
        """The weights of the hints; None where edges alone are followed, which have none."""
        return None if self.hints is None else [hint.weight for hint in self.hints]

    @property
    def decisive(self) -> dict[str, Any]:
        """All of it that decides what a suite is, as plain data."""
        decisive = {name: value for name, value in asdict(self).items() if name not in ("teacher", "painter")}
        decisive["paint"] = self.paint.decisive
        if self.painter is not None:
            server = self.painter.server
            decisive["painter"] = (self.painter.kind, server and server.decisive)
        return decisive


def profile_names() -> tuple[str, ...]:
    return tuple(_shipped())


def load_profile(name_or_path: str) -> Profile:
    """A profile by its name, or from a file if the text ends in .toml or holds a "/", with what it extends.

    Raises CounterfactoryError for a name that there is not, a file that cannot be read, an unknown or missing key, a
    value of a wrong type or range, or a parent that there is not.
    """
    path = Path(name_or_path) if is_path(name_or_path) else _shipped().get(name_or_path)
    if path is None:
        known = ", ".join(profile_names())
        raise CounterfactoryError(f"no profile {name_or_path!r}; there are {known}, or give the path of a .toml file")
    profile, _ = _load(path, ())
    return profile


def _shipped() -> dict[str, Path]:
    return {path.stem: path for path in sorted(PROFILES.glob("*.toml"), key=lambda path: path.stem)}


def _load(path: Path, heirs: tuple[Path, ...]) -> tuple[Profile, dict[str, Any]]:
    """The profile in a file, and its table with all that it inherits. `heirs` are the files that extend this one."""
    table, known = read_toml(path), (*(field.name for field in fields(Profile)), EXTENDS, WITHOUT)
    for key in table:
        if key not in known:
            raise CounterfactoryError(f"{path}: unknown key {key!r}; {nearest(key, known)}")
    parent = parent_of(table, path, heirs, _shipped())
    if parent is not None:
        _, inherited = _load(parent, (*heirs, path))
        table = extend(inherited, table, str(path))
    return fill(Profile, table, str(path)), table


def painting_as_teacher(profile: Profile) -> Profile:
    """The profile, painting as its teacher does and with the teacher's weights; itself where it has no teacher.

    Raises CounterfactoryError as `load_profile` does of the teacher.
    """
    if profile.teacher is None:
        return profile
    teacher = load_profile(profile.teacher)
    return replace(profile, paint=teacher.paint, weights=teacher.weights, teacher=None)


def is_path(name: str) -> bool:
    return name.endswith(".toml") or "/" in name


def parent_of(table: Mapping[str, Any], path: Path, heirs: Sequence[Path], shipped: Mapping[str, Path]) -> Path | None:
    """The file of what the profile in `path` extends, None for nothing. `heirs` are the files that extend this one,
    the first first; `shipped` are the files of the profiles that have a name.

    Raises CounterfactoryError for a parent that there is not, or that extends this one.
    """
    if EXTENDS not in table:
        if WITHOUT in table:
            raise CounterfactoryError(f"{path}: {WITHOUT} takes keys out of what a profile {EXTENDS}: name that too")
        return None
    name = table[EXTENDS]
    if not isinstance(name, str):
        raise CounterfactoryError(f"{path}: '{EXTENDS}' should be the name or the file of a profile, found {name!r}")
    at_home = Path(name).expanduser() if name.startswith("~/") else Path(name)
    parent = path.parent / at_home if is_path(name) else shipped.get(name)
    if parent is None or not parent.exists():
        siblings = sorted(file.name for file in path.parent.glob("*.toml") if file.name != path.name)
        missing = "is no profile" if parent is None else f"names a file that there is not, {parent}"
        raise CounterfactoryError(f'{path}: {EXTENDS} = "{name}" {missing}; {nearest(name, [*shipped, *siblings])}')
    circle = [*heirs, path]
    if any(parent.samefile(file) for file in circle):
        way = " extends ".join(file.name for file in (*circle, parent))
        raise CounterfactoryError(
            f'{path}: {EXTENDS} = "{name}" goes round in a circle, {way}; {nearest(name, shipped)}'
        )
    return parent


def extend(parent: Mapping[str, Any], table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The parent's table, whole, with the differences in `table`.

    Raises CounterfactoryError, which `where` begins, for a `without` of what the parent has not.
    """
    inherited = {key: value for key, value in parent.items() if key != _NAME}
    gone = table.get(WITHOUT, [])
    if not isinstance(gone, list) or not all(isinstance(key, str) for key in gone):
        raise CounterfactoryError(f"{where}: '{WITHOUT}' should be a list of keys, such as \"invert\", found {gone!r}")
    for key in gone:
        inherited = _removed(inherited, key, where)
    return merge_tables(inherited, {key: value for key, value in table.items() if key not in (EXTENDS, WITHOUT)})


def _removed(table: Mapping[str, Any], key: str, where: str, prefix: str = "") -> dict[str, Any]:
    first, _, rest = key.partition(".")
    inner = table.get(first)
    if rest and isinstance(inner, Mapping):
        return {**table, first: _removed(inner, rest, where, f"{prefix}{first}.")}
    if key not in table:
        near = nearest(key, table, prefix)
        raise CounterfactoryError(
            f"{where}: '{WITHOUT}' names {prefix + key!r}, which its parent does not have; {near}"
        )
    return {name: value for name, value in table.items() if name != key}


def merge_tables(parent: Mapping[str, Any], child: Mapping[str, Any]) -> dict[str, Any]:
    """The parent's table with the child's keys in place of its own, table by table."""
    merged = dict(parent)
    for key, value in child.items():
        inner = merged.get(key)
        merged[key] = merge_tables(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
    return merged
