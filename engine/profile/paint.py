"""[paint], [paint.sampler], [paint.guidance], [text], [protect] and [invert]: how pictures are painted."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from .bounds import PlanSettings, require

MAX_STEPS = 250  # beyond it "leading" would bunch up its integer timesteps far from the noise
# LCMs were distilled on every twentieth timestep only: 19, 39, ... 999.
LCM_TIMESTEPS = 50
# Guidance is in the weights of an LCM (Luo et al. 2023, section 4.2); LCM-LoRA's authors go up to 2 on top.
_MAX_LCM_SCALE = 2.0


_CHOICES = {
    "kind": ("ddim", "unipc", "lcm"),
    "prediction": ("epsilon", "v_prediction"),
    "spacing": ("leading", "trailing", "linspace", "lcm"),
}


@dataclass(frozen=True)
class SamplerSettings:
    """How latents are denoised. All but `kind` and `steps` are of the network's training: left out, they are what the
    scheduler_config.json says that the network was exported with (models/schedule.py).

    `kind` "lcm" is for weights that were distilled for it, and they for it alone. `prediction`: what the network's
    output means. `spacing`: which timesteps are visited; "trailing" starts at pure noise, as zero SNR needs, and "lcm"
    stays on those of the distillation. `zero_snr`: whether the schedule was rescaled to end in pure noise.
    """

    kind: Literal["ddim", "unipc", "lcm"]
    steps: int
    prediction: Literal["epsilon", "v_prediction"] | None = None
    spacing: Literal["leading", "trailing", "linspace", "lcm"] | None = None
    zero_snr: bool | None = None

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in (*choices, *[None] * (name != "kind")):
                raise ValueError(f"sampler {name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}")
        least = 2 if (self.kind, self.spacing) == ("ddim", "linspace") else 1  # one step would start at timestep 0
        most = LCM_TIMESTEPS if self.kind == "lcm" else MAX_STEPS
        if self.spacing is not None and (self.kind == "lcm") != (self.spacing == "lcm"):
            raise ValueError(
                f"sampler {self.kind} with {self.spacing} spacing: lcm weights know only the timesteps of their "
                'distillation, so kind "lcm" goes with spacing "lcm", and no other kind does'
            )
        if not least <= self.steps <= most:
            raise ValueError(
                f"sampler {self.kind}{f' with {self.spacing} spacing' * (self.spacing is not None)} takes {least} to "
                f"{most} steps, got {self.steps}"
            )
        if self.zero_snr and self.prediction == "epsilon":
            raise ValueError(
                "sampler zero_snr needs prediction v_prediction, got epsilon: "
                "where there is no signal, the noise alone does not determine the picture"
            )


@dataclass(frozen=True)
class GuidanceSettings:
    """How strongly the text is followed, and when: `scale` is w of the guidance equation, 1 for none.

    Step i of n is guided while start <= i / n < stop: 0 and 1 guide every step, two equal numbers none.
    """

    scale: float
    start: float
    stop: float

    def __post_init__(self) -> None:
        if self.scale < 1:
            raise ValueError(f"[paint.guidance] scale starts at 1 (no guidance), got {self.scale}")
        if not 0 <= self.start <= self.stop <= 1:
            raise ValueError(
                f"[paint.guidance] start and stop are shares of the steps, 0 <= start <= stop <= 1, "
                f"got {self.start} and {self.stop}"
            )

    def guides(self, step: int, steps: int) -> bool:
        return self.scale != 1 and self.start <= step / steps < self.stop


@dataclass(frozen=True)
class ReuseSettings:
    """Deep features of the denoiser serve `every` steps on end: one is whole, those after it go on from its features
    (DeepCache, Ma et al. 2023, arXiv 2312.00858). Where guidance begins a step is whole, so that a step's two rows go
    on from features of one age.
    """

    every: int

    def __post_init__(self) -> None:
        require(self, 2, "every")


@dataclass(frozen=True)
class PaintSettings:
    """How variants are painted. `batch` rows share an evaluation, `decode_batch` pictures a decode.

    `streams` evaluations go on side by side, each on its share of the cores. `denoiser` names the plan that is
    evaluated: "denoiser", or another form of it in the same folder, such as "denoiser_int8". `control_scale` weighs the
    edges, 1 as trained. With `reuse` some steps are shallow; without, none.
    """

    sampler: SamplerSettings
    guidance: GuidanceSettings
    denoiser: str
    control_scale: float
    negative_prompt: str
    batch: int
    streams: int
    decode_batch: int
    reuse: ReuseSettings | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w+", self.denoiser):
            raise ValueError(f"[paint] denoiser is the name of a plan, such as 'denoiser', got {self.denoiser!r}")
        require(self, 1, "batch", "decode_batch", "streams")
        require(self, 0, "control_scale")
        if self.sampler.kind == "lcm" and self.guidance.scale > _MAX_LCM_SCALE:
            raise ValueError(
                f"[paint.guidance] scale with an lcm sampler is 1 (none) to {_MAX_LCM_SCALE:g}, got "
                f"{self.guidance.scale:g}: such weights were distilled with guidance in them"
            )

    @property
    def rows_per_variant(self) -> int:
        """Evaluations of the denoiser that one variant costs, shallow ones among them."""
        return sum(self._rows)

    @property
    def shallow_rows(self) -> int:
        """Those that go on from deep features of an earlier step."""
        return sum(rows for rows, whole in zip(self._rows, self.whole_steps, strict=True) if not whole)

    @property
    def _rows(self) -> list[int]:
        steps = self.sampler.steps
        return [1 + self.guidance.guides(i, steps) for i in range(steps)]

    @property
    def whole_steps(self) -> list[bool]:
        whole, age, before = list[bool](), 0, 0
        for rows in self._rows:
            age = 0 if self.reuse is None or rows > before else (age + 1) % self.reuse.every
            whole.append(age == 0)
            before = rows
        return whole

    @property
    def decisive(self) -> dict[str, Any]:
        """All that decides pictures, as plain data; without reuse as it was before there was any."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class TextSettings(PlanSettings):
    """Of the text encoder: painting and checks share its plan, so that neither depends on the other's batch."""


@dataclass(frozen=True)
class ProtectSettings:
    """`classes` of the mask are protected, by name, or by number where the data set has no names. The blend falls to 0
    over `feather` pixels of the painted picture, and ends after the share `until` of the steps.
    """

    classes: tuple[str, ...]
    feather: float
    until: float

    def __post_init__(self) -> None:
        if not self.classes:
            raise ValueError("[protect] classes names none: name some, or take the table out")
        if not 0 <= self.feather <= 1024:
            raise ValueError(f"[protect] feather is 0 to 1024 pixels, got {self.feather:g}")
        if not 0 < self.until <= 1:
            raise ValueError(f"[protect] until is a share of the steps, above 0 and at most 1, got {self.until:g}")

    def holds(self, step: int, steps: int) -> bool:
        """Whether the region is held after step `step` (0 first) of `steps`."""
        return step < self.until * steps


def protect_classes(classes: tuple[str, ...], usual: ProtectSettings | None, short_side: int) -> ProtectSettings:
    """Settings that protect these classes, the rest as in a profile's own; where it has none held through all steps,
    with a feather of a 32nd of the picture's short side.
    """
    if usual is not None:
        return replace(usual, classes=classes)
    return ProtectSettings(classes, short_side / 32, 1.0)


@dataclass(frozen=True)
class InvertSettings:
    """How sources are inverted and edited.

    The first steps, a share `start` of them, are the source's: it is taken back no further. `rounds` of the inversion
    follow its first. `fractions` are the shares of the steps, each of them tried, on which the source's self-attention
    is taken over, `cross_fraction` that of its cross-attention. What an edit brought is looked at `word_weight` times
    as much. Edits of `local_types` alone stay where the attention to their words is more than `local_threshold` of its
    greatest. What the autoencoder loses is given back where a picture moved by less than `detail_levels` grey levels.
    """

    start: float
    rounds: int
    fractions: tuple[float, ...]
    cross_fraction: float
    word_weight: float
    local_types: tuple[str, ...]
    local_threshold: float
    detail_levels: float

    def __post_init__(self) -> None:
        require(self, 0, "rounds")
        require(self, 0, "detail_levels", most=255)
        require(self, 0, "cross_fraction", most=1)
        if not self.fractions or sorted(set(self.fractions)) != list(self.fractions):
            raise ValueError(f"fractions are different shares of the steps in ascending order, got {self.fractions}")
        if not 0 <= self.start < 1:
            raise ValueError(f"start is a share of the steps, 0 or more and less than 1, got {self.start}")
        if not all(0 <= share <= 1 for share in self.fractions):
            raise ValueError(f"fractions are 0 to 1, got {self.fractions}")
        if self.word_weight <= 0:
            raise ValueError(f"word_weight is more than 0, got {self.word_weight}")
        if not 0 < self.local_threshold < 1:
            raise ValueError(f"local_threshold is between 0 and 1, got {self.local_threshold}")

    def edited(self, steps: int) -> range:
        return range(end_of(self.start, steps), steps)

    def parted(self, step: int, steps: int) -> list[int | None]:
        """What is told apart at step `step` of `steps`: the steps at which shares ended, None for those that go on."""
        ends = [end_of(fraction, steps) for fraction in self.fractions]
        return list(dict.fromkeys(end if end <= step else None for end in ends))


def end_of(fraction: float, steps: int) -> int:
    """The first of `steps` that a share of them does not reach."""
    return math.ceil(fraction * steps)


def require_invertible(paint: PaintSettings, settings: InvertSettings) -> None:
    """Raise ValueError for settings of painting that an inversion has no use for, or no room in."""
    if paint.sampler.kind != "ddim":
        kind = paint.sampler.kind
        raise ValueError(f'[invert] goes with kind = "ddim" in [paint.sampler], got "{kind}": only its steps go back')
    if paint.streams != 1:
        raise ValueError(f"[invert] goes with streams = 1 in [paint], got {paint.streams}: rows share batches")
    if paint.negative_prompt:
        raise ValueError(
            f'[invert] guides away from the source\'s caption: negative_prompt = "" in [paint], got '
            f'"{paint.negative_prompt}"'
        )
    if paint.reuse is not None:
        raise ValueError("[invert] follows the attention of every step: take [paint.reuse] out")
    if paint.batch < 1 + len(settings.fractions):
        raise ValueError(
            f"[invert] tries {len(settings.fractions)} fractions beside the source in one batch: [paint] batch of at "
            f"least {1 + len(settings.fractions)}, got {paint.batch}"
        )


def rows_per_source(paint: PaintSettings, settings: InvertSettings) -> int:
    """Evaluations that the inversion of a source costs."""
    return len(settings.edited(paint.sampler.steps)) * (1 + settings.rounds)


def rows_per_variant(paint: PaintSettings, settings: InvertSettings) -> int:
    """Evaluations that a variant costs, with the source's row beside it."""
    steps = paint.sampler.steps
    parted = ((len(settings.parted(i, steps)), paint.guidance.guides(i, steps)) for i in settings.edited(steps))
    return sum(1 + rows * (1 + guided) for rows, guided in parted)
