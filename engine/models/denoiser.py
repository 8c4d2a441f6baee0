"""The denoiser as the engine uses it: hint encoder, fused ControlNet and UNet, and the decoder of latents.

A plan has one shape, so pictures of another size need plans of their own. One row of a batch is one evaluation; rows
never see each other. What passes from plan to plan (hints, texts, latents, predictions) lies where the plans compute:
as arrays on the host here, on the device in device_painting.py. The painter treats it as opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.guided_step import guide
from counterfactory.kernels.pixels import to_pictures

from ..runtime.session import Array
from .batching import Batched
from .hints import embed_several, hints_apart, hints_of
from .sampler import Sampler

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class DenoiserRow:
    """One row: latents [C, h, w], a timestep, text states [T, D], a hint embedding [D, h, w], a control scale; for
    several ControlNets [N, D, h, w], and a scale each.

    With `deep` [D', h, w] the row is shallow, and goes on from those features of an earlier step. Arrays are where the
    plans have them.
    """

    latents: Any
    timestep: int
    text: Any
    hint: Any
    control_scale: float | tuple[float, ...]
    deep: Any | None = None


class Evaluated(NamedTuple):
    """What a row comes to: the model's output [C, h, w], and the deep features [D', h, w] for the steps after it, None
    where the row was shallow or the plan gives none.
    """

    prediction: Any
    deep: Any | None = None


class Denoising:
    """One variant on its way from noise to latents [C, h, w], which are an array of the host here."""

    def __init__(self, latents: Any, sampler: Sampler) -> None:
        self.latents = latents
        self._sampler, self._history = sampler, sampler.start

    def step(self, i: int, outputs: Sequence[Any], scale: float | None, noise: Floats | None) -> None:
        """Take the sampler's step `i` by the outputs of its rows: with the text and, where `scale` guides, without.

        `noise` [C, h, w] is what the step adds, if it does.
        """
        output = outputs[0] if scale is None else guide(outputs[0], outputs[1], scale)
        self.latents, self._history = self._sampler.step(i, self.latents, output, self._history, noise)

    def blend(self, replacement: Floats, share: Floats) -> None:
        """Mix `replacement` [C, h, w] into the latents by `share` [h, w]; 1 replaces them."""
        self.latents = blend(self.latents, replacement, share)


@dataclass(frozen=True)
class _RowBuffer:
    """Gathered rows, and the row that each place of the array is a copy of; a gathered row does not change."""

    array: Floats
    rows: list[Floats | None]


@dataclass(frozen=True)
class PaintPlans:
    """The plans of one picture size, on the host. `latent_shape` is [C, h, w]. `hint` embeds the maps of the first
    hint, `other_hints` those of the others, as far as they have a weight. `shallow` takes the rows that go on from deep
    features. One thread at a time evaluates.
    """

    hint: Batched
    denoiser: Batched
    decoder: Batched
    latent_shape: tuple[int, int, int]
    other_hints: tuple[Batched, ...] = field(default=(), kw_only=True)
    shallow: Batched | None = field(default=None, kw_only=True)
    # How many decodes may be under way before the first of them has to be waited for.
    behind: ClassVar[int] = 0
    # Where rows are gathered, again and again: memory that is new each time costs as much as the copying, and texts and
    # hints are often where they were.
    _gathered: dict[str, _RowBuffer] = field(default_factory=dict, init=False, repr=False, compare=False)

    def embed_hints(self, edges: NDArray[np.uint8]) -> Sequence[Any]:
        """Hint embeddings [D, h, w] of edge maps uint8 [N, H, W], for a denoiser that follows them alone."""
        return list(self.hint.run({"hint": hints_of(edges)})["hint_embedding"])

    def embed_several(self, maps: Sequence[NDArray[Any] | None], weights: Sequence[float]) -> Sequence[Any]:
        return embed_several((self.hint, *self.other_hints), self.denoiser.signature, maps, weights)

    @property
    def hints_apart(self) -> bool:
        """Whether each hint has a ControlNet of its own in the denoiser."""
        return hints_apart(self.denoiser.signature) is not None

    def put_text(self, states: Floats) -> Any:
        """Text states [T, D] of the host, where rows take them."""
        return states

    def begin(self, noise: Floats, sampler: Sampler) -> Denoising:
        """A variant's way from standard normal noise [C, h, w] by a sampler's steps."""
        return Denoising(noise, sampler)

    def evaluate(self, rows: Sequence[DenoiserRow]) -> Sequence[Evaluated]:
        """What rows come to, which are all whole or all shallow."""
        plan, arrays = self.plan_of(rows)
        feeds: dict[str, Array] = {name: self._gather(name, of_rows) for name, of_rows in arrays.items()}
        feeds["timestep"] = np.array([r.timestep for r in rows], np.int64)
        feeds["control_scale"] = np.array([r.control_scale for r in rows], np.float32)
        outputs = plan.run(feeds)
        deep = outputs.get("deep", [None] * len(rows))
        return [Evaluated(*of_row) for of_row in zip(outputs["prediction"], deep, strict=True)]

    def plan_of(self, rows: Sequence[DenoiserRow]) -> tuple[Batched, dict[str, list[Any]]]:
        """The plan that rows take, and their arrays by the inputs of it that hold some."""
        arrays = {
            "latents": [r.latents for r in rows],
            "text": [r.text for r in rows],
            "hint_embedding": [r.hint for r in rows],
        }
        if rows[0].deep is None:
            return self.denoiser, arrays
        assert self.shallow is not None, "rows go on from what a whole plan beside it gave"
        arrays["deep"] = [r.deep for r in rows]
        read = {port.name for port in self.shallow.signature.inputs}  # these layers may have no attention to the text
        return self.shallow, {name: of_rows for name, of_rows in arrays.items() if name in read}

    def decode(self, latents: Sequence[Any]) -> Callable[[], list[NDArray[np.uint8]]]:
        """Begin to make pictures of scaled latents [C, h, w]; call the result for them, uint8 RGB [H, W, 3]."""
        pictures = to_pictures(self.decoder.run({"latents": np.stack(latents)})["pixel_values"])
        return lambda: pictures

    def _gather(self, name: str, rows: Sequence[Floats]) -> Floats:
        """Rows as one array, which the next gathering of that name overwrites where its rows are others."""
        buffer = self._gathered.get(name)
        if buffer is None or len(buffer.array) < len(rows):
            buffer = self._gathered[name] = _RowBuffer(
                np.empty((len(rows), *rows[0].shape), np.float32), [None] * len(rows)
            )
        for place, row in enumerate(rows):
            if buffer.rows[place] is not row:
                buffer.array[place] = buffer.rows[place] = row
        return buffer.array[: len(rows)]


def blend(latents: Floats, replacement: Floats, share: Floats) -> Floats:
    """Latents [C, h, w] mixed with `replacement` by `share` [h, w]; bit for bit one of the two where that is 0 or 1."""
    mixed = share * replacement + (1 - share) * latents
    return np.where(share >= 1, replacement, np.where(share <= 0, latents, mixed)).astype(np.float32)
