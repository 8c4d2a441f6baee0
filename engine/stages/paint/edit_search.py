"""One source's edits, from its latents back to noise and forth again: jobs whose rows share batches with others'.

A variant's row follows the source's row, which goes the recorded way. Shares of the steps on which self-attention is
taken over are tried side by side; until they part they are one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.guided_step import guide
from counterfactory.kernels.opencv import cv2

from ...models.alignment import align, follow_nobody, read_tokens
from ...models.editor import EditorOutput, EditorRow, RowHint
from ...models.inversion import Path, step_back
from ...models.sampler import Sampler
from ...profile.paint import GuidanceSettings, InvertSettings, end_of
from ...schedule.evaluations import Job
from ...variant import Variant
from .paint_variants import text_of
from .protect import ProtectedRegion

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Floats = NDArray[np.float32]
# Latents [C, h, w] of a variant by the share of the steps on which self-attention was taken over.
ShareLatents = tuple[Variant, float, Floats]
EditJob = Job[EditorRow, EditorOutput, list[ShareLatents]]


@dataclass(frozen=True)
class Editor:
    """What all edits share."""

    sampler: Sampler
    guidance: GuidanceSettings
    settings: InvertSettings
    tokenizer: Tokenizer


@dataclass(frozen=True)
class SourceWay:
    """A source's recorded way, its caption's text states [T, D], and the hint that its rows and its edits' follow."""

    path: Path
    caption: Floats
    hint: RowHint | None = None

    def row(self, i: int, latents: Floats) -> EditorRow:
        """A row of step `i` by the source's own caption, which follows no other row and reads no attention."""
        cross_map, cross_own = follow_nobody(len(self.caption))
        timestep, words = int(self.path.sampler.timesteps[i]), np.zeros_like(cross_own)
        return EditorRow(latents, timestep, self.caption, cross_map, cross_own, words, hint=self.hint)


@dataclass(frozen=True)
class SourceEdits:
    """A source's latents [C, h, w], variants, captions' text states [T, D], the region that is kept, and the hint."""

    clean: Floats
    variants: Sequence[Variant]
    states: Mapping[str, Floats]
    region: ProtectedRegion | None = None
    hint: RowHint | None = None


def edit_source(editor: Editor, edits: SourceEdits) -> EditJob:
    """A source's variants, from its latents to theirs [C, h, w] for each share; a control is the source itself."""
    edited = [variant for variant in edits.variants if not is_control(variant)]
    controls = [(variant, 1.0, edits.clean) for variant in edits.variants if is_control(variant)]
    if not edited:
        return controls
    way = SourceWay(Path(editor.sampler, edits.clean), edits.states[edited[0].caption], edits.hint)
    yield from invert_source(way, editor.settings)
    searches = [_Search(editor, edits, way, variant) for variant in edited]
    for i in editor.settings.edited(len(editor.sampler.timesteps)):
        groups_by_search = [search.rows(i) for search in searches]
        results = iter((yield [group for groups in groups_by_search for group in groups]))
        for search, groups in zip(searches, groups_by_search, strict=True):
            search.step(i, [result for _ in groups for result in next(results)])
    return controls + [swept for search in searches for swept in search.done()]


def is_control(variant: Variant) -> bool:
    """Whether nothing of the caption is edited, so that nothing is searched."""
    return variant.edited_caption == variant.caption


def invert_source(way: SourceWay, settings: InvertSettings) -> Job[EditorRow, EditorOutput, None]:
    """Take a source's latents back, step by step, and record them."""
    path = way.path
    for i in reversed(settings.edited(len(path.sampler.timesteps))):
        before = path.latents[i + 1]
        for _ in range(1 + settings.rounds):
            ((evaluated,),) = yield [[way.row(i, before)]]
            before = step_back(path.sampler, i, path.latents[i + 1], evaluated.output)
        path.latents[i] = before


@dataclass(frozen=True)
class _Edit:
    """The state of an edit: latents [C, h, w], and the attention so far to the words that are gone and to new ones."""

    latents: Floats
    gone: Floats | float = 0.0
    new: Floats | float = 0.0


class _Search:
    """A variant's edits for all shares of the steps."""

    def __init__(self, editor: Editor, edits: SourceEdits, way: SourceWay, variant: Variant) -> None:
        captions = variant.caption, variant.edited_caption
        before, after = (read_tokens(editor.tokenizer, caption) for caption in captions)
        self._editor, self._way, self._path, self._variant, self._region = editor, way, way.path, variant, edits.region
        self._alignment = align(before, after).reweighted(editor.settings.word_weight)
        self._text = text_of(variant, *(edits.states[caption] for caption in captions))
        self._local = all(edit.type in editor.settings.local_types for edit in variant.edits)
        # By the step at which self-attention was no longer taken over, None where it still is.
        first = editor.settings.edited(self._steps).start
        self._edits: dict[int | None, _Edit] = {None: _Edit(way.path.latents[first])}

    def rows(self, i: int) -> list[list[EditorRow]]:
        """What step `i` asks for: the source's row with those that follow it, then what guidance leads away from."""
        settings, alignment = self._editor.settings, self._alignment
        source = replace(self._way.row(i, self._path.latents[i]), words=alignment.gone.astype(np.float32))
        edit = replace(source, text=self._text, words=alignment.new.astype(np.float32))
        if i < end_of(settings.cross_fraction, self._steps):
            edit = replace(edit, cross_map=alignment.cross_map, cross_own=alignment.cross_own)
        parted = settings.parted(i, self._steps)
        self._edits = {end: self._edits.get(end) or self._edits[None] for end in parted}
        following = [
            replace(edit, latents=state.latents, follows=place, takes_self=end is None)
            for place, (end, state) in enumerate(self._edits.items(), 1)
        ]
        # Guidance leads away from the source's own caption (negative-prompt inversion).
        away = [[self._way.row(i, state.latents)] for state in self._edits.values()]
        return [[source, *following], *(away if self._guides(i) else [])]

    def step(self, i: int, evaluated: Sequence[EditorOutput]) -> None:
        """Take step `i` by what its rows came to."""
        count = len(self._edits)
        source, following, away = evaluated[0], evaluated[1 : 1 + count], evaluated[1 + count :]
        after = dict[int | None, _Edit]()
        for place, (end, state) in enumerate(self._edits.items()):
            output = following[place].output
            if self._guides(i):
                output = guide(output, away[place].output, self._editor.guidance.scale)
            moved = _Edit(
                self._path.follow(i, state.latents, output, source.output),
                state.gone + source.attention,
                state.new + following[place].attention,
            )
            after[end] = replace(moved, latents=self._keep(i, moved))
        self._edits = after

    def done(self) -> Iterator[ShareLatents]:
        """The latents of each share at the end."""
        for fraction in self._editor.settings.fractions:
            end = end_of(fraction, self._steps)
            yield self._variant, fraction, self._edits[end if end < self._steps else None].latents

    @property
    def _steps(self) -> int:
        return len(self._editor.sampler.timesteps)

    def _guides(self, i: int) -> bool:
        return self._editor.guidance.guides(i, self._steps)

    def _keep(self, i: int, state: _Edit) -> Floats:
        """The latents after step `i`; the source's where a local edit's words are not looked at, or it is protected."""
        latents, source = state.latents, self._path.latents[i + 1]
        if self._local:
            shape, threshold = latents.shape[1:], self._editor.settings.local_threshold
            gone, new = (words_mask(np.asarray(seen, np.float32), shape, threshold) for seen in (state.gone, state.new))
            latents = np.where(gone | new, latents, source)
        if self._region is not None and self._region.settings.holds(i, self._steps):
            latents = latents + self._region.share * (source - latents)
        return latents


def words_mask(attention: Floats, shape: tuple[int, ...], threshold: float) -> NDArray[np.bool_]:
    """Where words are looked at, bool of `shape` [h, w], by their attention at any size [h', w'].

    The greatest of each place and its neighbours is compared with `threshold` of the greatest of all (Hertz et al.
    2022, section 4, and the authors' code). Nowhere where there are no words.
    """
    widened = cv2.dilate(attention, np.ones((3, 3), np.uint8))
    scaled = cv2.resize(widened, shape[::-1], interpolation=cv2.INTER_NEAREST)
    return np.asarray(scaled > threshold * scaled.max())
