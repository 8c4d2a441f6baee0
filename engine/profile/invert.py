"""[invert]: how sources are inverted and edited in place of painting their captions anew."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .bounds import require
from .paint import PaintSettings


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
        """The steps that edits take."""
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
