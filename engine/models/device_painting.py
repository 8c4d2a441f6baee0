"""Painting's plans on a device where everything stays: hints, texts, latents, predictions, until pictures come down.

The painter calls for evaluations, steps and pictures as on the host; here they are queued and not waited for. Rows of a
batch are gathered on the device. The steps of all variants that an evaluation waits for are one launch of one
kernel. What goes up for an evaluation is a parcel of timesteps, weights and addresses, some hundred bytes, and the
noise that was drawn for its variants.

Run on one H100 (docs/gpu.json); over a stand-in for the driver, tests get the host's pictures of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from counterfactory.kernels.guided_step import HISTORY, StepWeights, pack

from ..runtime.buffers import DeviceArray
from ..runtime.kernels import PaintKernels
from ..runtime.pipeline import Pipeline
from ..runtime.session import Array, not_finite, require_finite
from .batching import Batched, pad_rows
from .denoiser import DenoiserRow, Denoising, Evaluated, Floats, PaintPlans, blend
from .hints import embed_several, hints_of
from .sampler import Sampler

# Where fresh noise lies among a variant's arrays: latents, then its history, whose second array a step adds.
_NOISE = 2
# Of the flags behind pictures, bytes.
_ALIGNMENT = 256


def kept_bytes(
    batch: int,
    decode_batch: int,
    hint_batch: int,
    text_batch: int,
    *,
    latents: int,
    hint: int,
    text: int,
    picture: int,
    deep: int = 0,
) -> int:
    """The most bytes that painting pictures of one size keeps on the device in addition to its plans.

    `latents`, `hint`, `text` and `deep` are the bytes of a row of each, `picture` those of one in 8 bits. Variants are
    begun while they do not fill a batch, whole rows and shallow ones apart; those of the batch before may still be
    held, and those that wait for their decode.
    """
    variants = (3 if deep else 2) * batch + decode_batch
    each = (1 + HISTORY + 2) * latents + hint + text + 2 * deep  # two predictions
    parcels = 2 * 2 * (variants * latents + 4096)  # of two, each with room to the next power of two
    return variants * each + hint_batch * hint + (text_batch + 1) * text + 2 * (decode_batch * picture + 512) + parcels


@dataclass(frozen=True)
class _Step:
    """A requested step: of `arrays` [4, C, h, w], by the predictions [C, h, w]."""

    arrays: DeviceArray
    outputs: Sequence[DeviceArray]
    weights: StepWeights
    scale: float | None


class _OnDevice(Denoising):
    """A variant whose latents and history are arrays of the device."""

    def __init__(self, arrays: DeviceArray, sampler: Sampler, plans: DevicePaintPlans) -> None:
        super().__init__(arrays.row(0), sampler)
        self._arrays, self._plans, self._pending = arrays, plans, plans.pending

    def step(self, i: int, outputs: Sequence[Any], scale: float | None, noise: Floats | None) -> None:
        if noise is not None:
            self._pending.noise.append((self._arrays.row(_NOISE), noise))
        self._pending.steps.append(_Step(self._arrays, outputs, self._sampler.weights(i), scale))

    def blend(self, replacement: Floats, share: Floats) -> None:
        """On the host, for which the device is waited for: once a step of a variant that protects a region."""
        self._plans.settle()
        latents = self._plans.pipeline.fetch(self.latents)()
        self._pending.noise.append((self.latents, blend(latents, replacement, share)))


@dataclass
class _Pending:
    """Requests that go with the next parcel: noise and its place on the device, and steps; and by the address of a
    variant's latents what its rows were given, by the network that it is of and its address.
    """

    noise: list[tuple[DeviceArray, Floats]] = field(default_factory=list)
    steps: list[_Step] = field(default_factory=list)
    given: dict[int, dict[tuple[str, int], DeviceArray]] = field(default_factory=dict)


@dataclass(frozen=True)
class DevicePaintPlans(PaintPlans):
    """The plans of one picture size, on the device of `pipeline`."""

    pipeline: Pipeline
    kernels: PaintKernels
    behind: ClassVar[int] = 1  # the device paints on while pictures are brought down and written
    pending: _Pending = field(default_factory=_Pending, init=False, repr=False, compare=False)

    def embed_hints(self, edges: NDArray[np.uint8]) -> Sequence[Any]:
        """Hint embeddings [D, h, w] of edge maps uint8 [N, H, W], a batch at a time."""
        return self._queue_hints(self.hint, hints_of(edges))

    def embed_several(self, maps: Sequence[NDArray[Any] | None], weights: Sequence[float]) -> Sequence[Any]:
        """As on the host: embeddings are joined there, once a source, and go up again."""

        def embed(encoder: Batched, of_hint: NDArray[Any]) -> Sequence[Floats]:
            rows = self._queue_hints(encoder, hints_of(of_hint, encoder.signature.inputs[0].shape[1]))
            embeddings = [fetched() for fetched in [self.pipeline.fetch(row) for row in rows]]
            for embedding in embeddings:
                require_finite(encoder.name, {"hint_embedding": embedding})
            return embeddings

        embeddings = embed_several((self.hint, *self.other_hints), self.denoiser.signature, maps, weights, embed)
        with self.pipeline.parcel([np.stack(embeddings)]) as (sent,):
            return [self.pipeline.keep(sent.row(at)) for at in range(len(embeddings))]

    def _queue_hints(self, encoder: Batched, hints: Floats) -> list[DeviceArray]:
        """Embeddings [D, h, w] of hints [N, C, H, W], a batch at a time."""
        embeddings, batch = list[DeviceArray](), encoder.batch
        for start in range(0, len(hints), batch):
            chunk = hints[start : start + batch]
            with self.pipeline.parcel([pad_rows(chunk, batch)]) as (sent,):
                embedded = encoder.queue({"hint": sent}, len(chunk), self.pipeline)["hint_embedding"]
                embeddings += [self.pipeline.keep(embedded.row(at)) for at in range(len(chunk))]
        return embeddings

    def put_text(self, states: Floats) -> Any:
        """Text states [T, D] of the host, on the device."""
        with self.pipeline.parcel([states]) as (sent,):
            return self.pipeline.keep(sent)

    def begin(self, noise: Floats, sampler: Sampler) -> Denoising:
        """A variant's way from standard normal noise [C, h, w], which goes up with the next parcel."""
        arrays = self.pipeline.take((1 + HISTORY, *self.latent_shape), np.float32)
        self.pending.noise.append((arrays.row(0), noise))
        return _OnDevice(arrays, sampler, self)

    def evaluate(self, rows: Sequence[DenoiserRow]) -> Sequence[Evaluated]:
        """What at most a batch of rows come to, which are all whole or all shallow."""
        plan, arrays = self.plan_of(rows)
        batch = plan.batch
        timesteps = pad_rows(np.array([r.timestep for r in rows], np.int64), batch)
        scales = pad_rows(np.array([r.control_scale for r in rows], np.float32), batch)
        with self.pipeline.parcel([timesteps, scales, *self._going_up()]) as (timestep, scale, *sent):
            self._queue_pending(sent)
            feeds: dict[str, Any] = {**arrays, "timestep": timestep, "control_scale": scale}
            outputs = plan.queue(feeds, len(rows), self.pipeline)
            for row in rows:
                given = self.pending.given.setdefault(row.latents.pointer, {})
                given |= {(name, of.pointer): of for name, of in (("clip_text", row.text), (self.hint.name, row.hint))}
            predicted, deep = outputs["prediction"], outputs.get("deep")
            return [
                Evaluated(*(None if of is None else self.pipeline.keep(of.row(at)) for of in (predicted, deep)))
                for at in range(len(rows))
            ]

    def decode(self, latents: Sequence[Any]) -> Callable[[], list[NDArray[np.uint8]]]:
        """Begin to make pictures of scaled latents [C, h, w]; call the result for them, uint8 RGB [H, W, 3]."""
        self.settle()
        given = [self.pending.given.pop(array.pointer, {}) for array in latents]
        values = self.decoder.queue({"latents": latents}, len(latents), self.pipeline)["pixel_values"]
        _, channels, height, width = values.shape
        count, size = len(latents), height * width
        room = -(-count * size * channels // _ALIGNMENT) * _ALIGNMENT
        # Pictures, then a flag for each, so that they come down together.
        levels = self.pipeline.take((room + 4 * count,), np.uint8)
        flags = DeviceArray((count,), np.dtype(np.int32), levels.buffer, levels.session, levels.offset + room, levels)
        with self.pipeline.parcel([np.zeros(count, np.int32)]) as (zeros,):
            self.pipeline.cuda.on_device(flags, zeros, flags.nbytes)
        self.kernels.pixels.queue(count, size, values.pointer, levels.pointer, flags.pointer, size)
        finish = self.pipeline.fetch(levels)

        def pictures() -> list[NDArray[np.uint8]]:
            come = finish()
            for row in np.flatnonzero(come[room:].view(np.int32)).tolist():
                # What nobody looked at on its way to the denoiser is looked at now, lest that be blamed for it.
                for (network, _), array in given[row].items():
                    require_finite(network, {"its output": self.pipeline.fetch(array)()})
                require_finite(self.denoiser.name, {"prediction": self.pipeline.fetch(latents[row])()})
                raise not_finite(self.decoder.name, "pixel_values")
            return list(come[: count * size * channels].reshape(count, height, width, channels))

        return pictures

    def settle(self) -> None:
        """Queue pending requests when no evaluation takes them along."""
        if self.pending.steps or self.pending.noise:
            with self.pipeline.parcel(self._going_up()) as sent:
                self._queue_pending(sent)

    def _going_up(self) -> list[Array]:
        """The noise, then the table of steps, if there are any: weights, counts and addresses."""
        arrays: list[Array] = [noise for _, noise in self.pending.noise]
        steps = self.pending.steps
        if steps:
            table = pack([(step.weights, step.scale) for step in steps])
            # A row without guidance has one output, and the kernel does not look for another.
            addresses = [(step.arrays.pointer, step.outputs[0].pointer, step.outputs[-1].pointer) for step in steps]
            arrays += [table.weights, table.counts, np.array(addresses, np.int64)]
        return arrays

    def _queue_pending(self, sent: Sequence[DeviceArray]) -> None:
        """Put the noise into its places, and take the steps, by what `_going_up` sent."""
        noise, steps = self.pending.noise.copy(), self.pending.steps.copy()
        self.pending.noise.clear()
        self.pending.steps.clear()
        for (place, _), row in zip(noise, sent, strict=False):
            self.pipeline.cuda.on_device(place, row, row.nbytes)
        if steps:
            weights, counts, addresses = sent[len(noise) :]
            size = math.prod(self.latent_shape)
            self.kernels.guided_step.queue(len(steps), size, weights.pointer, counts.pointer, addresses.pointer, size)
