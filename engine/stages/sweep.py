"""One source's edits, from its latents back to noise and forth again: jobs whose rows share batches with others'.

A variant's row follows the source's row, which goes the recorded way. Shares of the steps on which self-attention is
taken over are tried side by side; until they part they are one row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.guided_step import guide
from counterfactory.kernels.opencv import cv2

from ..models.alignment import align, follow_nobody, read_tokens
from ..models.editor import EditorRow, Evaluated, RowHint
from ..models.inversion import Path, step_back
from ..models.sampler import Sampler
from ..schedule.evaluations import Job
from ..variant import Variant
from .paint import GuidanceSettings
from .protect import Kept
from .severity import text_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Floats = NDArray[np.float32]
# Latents [C, h, w] of a variant by the share of the steps on which self-attention was taken over.
Swept = tuple[Variant, float, Floats]
EditJob = Job[EditorRow, Evaluated, list[Swept]]


@dataclass(frozen=True)
class InvertSettings:
    """How sources are inverted and edited.

    The first steps, a share `start` of them, are the source's: it is taken back no further, and what is laid down there
    stays where it is. `rounds` of the inversion follow its first. `fractions` are the shares of the steps, each of them
    tried, on which the source's self-attention is taken over, `cross_fraction` that of its cross-attention. What an
    edit brought is looked at `word_weight` times as much. Edits of `local_types` alone stay where the attention to
    their words is more than `local_threshold` of its greatest. What the autoencoder loses is given back where a picture
    moved by less than `detail_levels` grey levels, 0: nowhere.
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
        if self.rounds < 0:
            raise ValueError(f"rounds is 0 or more, got {self.rounds}")
        if not self.fractions or sorted(set(self.fractions)) != list(self.fractions):
            raise ValueError(f"fractions are different shares of the steps in ascending order, got {self.fractions}")
        if not 0 <= self.start < 1:
            raise ValueError(f"start is a share of the steps, 0 or more and less than 1, got {self.start}")
        if not all(0 <= share <= 1 for share in (*self.fractions, self.cross_fraction)):
            raise ValueError(f"fractions and cross_fraction are 0 to 1, got {self.fractions} and {self.cross_fraction}")
        if self.word_weight <= 0:
            raise ValueError(f"word_weight is more than 0, got {self.word_weight}")
        if not 0 < self.local_threshold < 1:
            raise ValueError(f"local_threshold is between 0 and 1, got {self.local_threshold}")
        if not 0 <= self.detail_levels <= 255:
            raise ValueError(f"detail_levels are 0 to 255, got {self.detail_levels}")

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


@dataclass(frozen=True)
class Editor:
    """What all edits share."""

    sampler: Sampler
    guidance: GuidanceSettings
    settings: InvertSettings
    tokenizer: Tokenizer


def edit_source(
    editor: Editor,
    clean: Floats,
    variants: Sequence[Variant],
    states: Mapping[str, Floats],
    kept: Kept | None = None,
    hint: RowHint | None = None,
) -> EditJob:
    """A source's variants, from its latents [C, h, w] to theirs for each share; a control is the source itself.

    `states` are the text states [T, D] of all captions, `kept` is what variants keep of the source, `hint` what all
    rows follow of it beside.
    """
    edited = [variant for variant in variants if not _is_control(variant)]
    path = Path(editor.sampler, clean)
    if edited:
        yield from invert_source(path, states[edited[0].caption], editor.settings, hint)
    sweeps = [_Sweep(editor, path, variant, states, kept, hint) for variant in edited]
    for i in editor.settings.edited(len(editor.sampler.timesteps)) if edited else ():
        asked = [sweep.rows(i) for sweep in sweeps]
        results = iter((yield [group for groups in asked for group in groups]))
        for sweep, groups in zip(sweeps, asked, strict=True):
            sweep.step(i, [found for _ in groups for found in next(results)])
    controls = [(variant, 1.0, clean) for variant in variants if _is_control(variant)]
    return controls + [swept for sweep in sweeps for swept in sweep.done()]


def _is_control(variant: Variant) -> bool:
    return variant.edited_caption == variant.caption


def invert_source(
    path: Path, caption: Floats, settings: InvertSettings, hint: RowHint | None = None
) -> Job[EditorRow, Evaluated, None]:
    """Take a source's latents back, step by step, and record them."""
    for i in reversed(settings.edited(len(path.sampler.timesteps))):
        before = path.latents[i + 1]
        for _ in range(1 + settings.rounds):
            ((found,),) = yield [[_alone(path, i, before, caption, hint)]]
            before = step_back(path.sampler, i, path.latents[i + 1], found.output)
        path.latents[i] = before


def _alone(path: Path, i: int, latents: Floats, text: Floats, hint: RowHint | None) -> EditorRow:
    """A row that follows nobody and shows nothing."""
    cross_map, cross_own = follow_nobody(len(text))
    timestep, words = int(path.sampler.timesteps[i]), np.zeros_like(cross_own)
    return EditorRow(latents, timestep, text, cross_map, cross_own, words, hint=hint)


@dataclass(frozen=True)
class _Edit:
    """Where an edit stands: latents [C, h, w], and the attention so far to the words that went and those that came."""

    latents: Floats
    gone: Floats | float = 0.0
    new: Floats | float = 0.0


class _Sweep:
    """A variant's edits for all shares of the steps."""

    def __init__(
        self,
        editor: Editor,
        path: Path,
        variant: Variant,
        states: Mapping[str, Floats],
        kept: Kept | None,
        hint: RowHint | None,
    ) -> None:
        captions = variant.caption, variant.edited_caption
        before, after = (read_tokens(editor.tokenizer, caption) for caption in captions)
        self._editor, self._path, self._variant, self._kept, self._hint = editor, path, variant, kept, hint
        self._alignment = align(before, after).reweighted(editor.settings.word_weight)
        self._caption, edited = (states[caption] for caption in captions)
        self._text = text_of(variant, self._caption, edited)
        self._local = all(edit.type in editor.settings.local_types for edit in variant.edits)
        # By the step at which self-attention was no longer taken over, None where it still is.
        first = editor.settings.edited(self._steps).start
        self._edits: dict[int | None, _Edit] = {None: _Edit(path.latents[first])}

    def rows(self, i: int) -> list[list[EditorRow]]:
        """What step `i` asks for: the source's row with those that follow it, then what guidance leads away from."""
        settings, found = self._editor.settings, self._alignment
        source = replace(self._row(i, self._path.latents[i]), words=found.gone.astype(np.float32))
        edit = replace(source, text=self._text, words=found.new.astype(np.float32))
        if i < end_of(settings.cross_fraction, self._steps):
            edit = replace(edit, cross_map=found.cross_map, cross_own=found.cross_own)
        parted = settings.parted(i, self._steps)
        self._edits = {end: self._edits.get(end) or self._edits[None] for end in parted}
        following = [
            replace(edit, latents=one.latents, follows=place, takes_self=end is None)
            for place, (end, one) in enumerate(self._edits.items(), 1)
        ]
        # Guidance leads away from the source's own caption (negative-prompt inversion).
        away = [[self._row(i, one.latents)] for one in self._edits.values()]
        return [[source, *following], *(away if self._guides(i) else [])]

    def step(self, i: int, found: Sequence[Evaluated]) -> None:
        """Take step `i` by what its rows came to."""
        source, following, away = found[0], found[1 : 1 + len(self._edits)], found[1 + len(self._edits) :]
        after = dict[int | None, _Edit]()
        for place, (end, one) in enumerate(self._edits.items()):
            output = following[place].output
            if self._guides(i):
                output = guide(output, away[place].output, self._editor.guidance.scale)
            moved = _Edit(
                self._path.follow(i, one.latents, output, source.output),
                one.gone + source.attention,
                one.new + following[place].attention,
            )
            after[end] = replace(moved, latents=self._keep(i, moved))
        self._edits = after

    def done(self) -> Iterator[Swept]:
        """The latents of each share at the end."""
        for fraction in self._editor.settings.fractions:
            end = end_of(fraction, self._steps)
            yield self._variant, fraction, self._edits[end if end < self._steps else None].latents

    def _row(self, i: int, latents: Floats) -> EditorRow:
        """A row by the source's own caption."""
        return _alone(self._path, i, latents, self._caption, self._hint)

    @property
    def _steps(self) -> int:
        return len(self._editor.sampler.timesteps)

    def _guides(self, i: int) -> bool:
        return self._editor.guidance.guides(i, self._steps)

    def _keep(self, i: int, one: _Edit) -> Floats:
        """The edit's latents after step `i`, the source's where a local edit's words are not looked at (local blend),
        and where a part of it is protected.
        """
        latents, source = one.latents, self._path.latents[i + 1]
        if self._local:
            shape, threshold = latents.shape[1:], self._editor.settings.local_threshold
            gone, new = (words_mask(np.asarray(seen, np.float32), shape, threshold) for seen in (one.gone, one.new))
            latents = np.where(gone | new, latents, source)
        if self._kept is not None and self._kept.settings.holds(i, self._steps):
            latents = latents + self._kept.share * (source - latents)
        return latents


def words_mask(attention: Floats, shape: tuple[int, ...], threshold: float) -> NDArray[np.bool_]:
    """Where words are looked at, bool of `shape` [h, w], by their attention at any size [h', w'].

    The greatest of each place and its neighbours is compared with `threshold` of the greatest of all (Hertz et al.
    2022, section 4, and the authors' code). Nowhere where there are no words.
    """
    widened = cv2.dilate(attention, np.ones((3, 3), np.uint8))
    scaled = cv2.resize(widened, shape[::-1], interpolation=cv2.INTER_NEAREST)
    return np.asarray(scaled > threshold * scaled.max())
