"""A row of the table of networks: what is known of a network before it is opened.

The rows follow from a profile (models/networks.py). `Library` finds files by them, `ModelPool` opens plans by them,
estimates multiply by them, and the doctor and the exporters go through them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..content_keys import STAGES, Stage
from ..runtime.session import GraphForm

# The last two axes of an input are the picture's in pixels, or its latents'.
Follows = Literal["picture", "latents"]


@dataclass(frozen=True)
class Rows:
    """Rows that a stage puts through a network: so many per source, so many more for each of its variants, and for each
    of its controls, where None is as many as for a variant.
    """

    per_source: float = 0.0
    per_variant: float = 0.0
    per_control: float | None = None

    def of_source(self, variants: int, controls: int = 0) -> float:
        of_control = self.per_variant if self.per_control is None else self.per_control
        return self.per_source + variants * self.per_variant + controls * of_control


@dataclass(frozen=True)
class Tokens:
    """A decoder's work on one row: `read` tokens at once, which its cache does not hold, then `written` one by one."""

    read: int
    written: int


@dataclass(frozen=True)
class LlmQuestion:
    """A kind of row of a language model: how many of them there are, and the work on one."""

    rows: Rows
    tokens: Tokens


@dataclass(frozen=True)
class Network:
    """One network under a profile.

    `plan` is the file that is opened (another one than `name` where a profile chooses a form of the network), `batch`
    the rows of its plan, `streams` how many batches go side by side. `rows` says which stages use it and how much.
    `sizes` names the inputs whose last two axes follow the picture, `files` the further files that the plan needs,
    `optional_files` those that count where an export wrote them. `tokens` is for decoders, `questions` for a language
    model, `cached_tokens` how many tokens in f16 the caches of either on a GPU have room for. `moved_bytes` of a row
    cross the bus of a GPU, `kept_bytes` stay there with the plan while it is used. `form` is what OpenVINO makes
    of a denoiser when it opens one; a plan for another runtime is that already.
    """

    name: str
    plan: str
    batch: int
    rows: Mapping[Stage, Rows]
    sizes: Mapping[str, Follows] = field(default_factory=dict)
    streams: int = 1
    files: tuple[str, ...] = ()
    optional_files: tuple[str, ...] = ()
    tokens: Tokens | None = None
    questions: tuple[LlmQuestion, ...] = ()
    cached_tokens: float = 0.0
    moved_bytes: int = 0
    kept_bytes: int = 0
    form: GraphForm | None = None

    def sizes_at(self, picture: tuple[int, int], latents: tuple[int, int]) -> dict[str, tuple[int, int]]:
        """(height, width) of each input of `sizes`, for a picture and its latents of these sizes."""
        of = {"picture": picture, "latents": latents}
        return {name: of[follows] for name, follows in self.sizes.items()}


@dataclass(frozen=True)
class Networks:
    """The table: every network that suites of a profile need, in the order of the stages."""

    table: tuple[Network, ...]

    def __iter__(self) -> Iterator[Network]:
        return iter(self.table)

    def __contains__(self, name: object) -> bool:
        return any(network.name == name for network in self.table)

    def __getitem__(self, name: str) -> Network:
        """The network of that name. Raises KeyError where the profile has none."""
        for network in self.table:
            if network.name == name:
                return network
        raise KeyError(name)

    def of(self, stage: Stage) -> tuple[Network, ...]:
        return tuple(network for network in self.table if stage in network.rows)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that have networks, in their order."""
        return tuple(stage for stage in STAGES if self.of(stage))

    @property
    def plans(self) -> tuple[str, ...]:
        return tuple(network.plan for network in self.table)
