"""The card of this machine, as checks use it: arrays' way to it and back, its clock, and what our kernels and calls do.

What each check shows is in gpu_check.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.models.sampler import Sampler
from counterfactory.engine.profile.paint import SamplerSettings
from counterfactory.engine.runtime import cuda as cuda_calls
from counterfactory.engine.runtime.cuda import Buffer
from counterfactory.engine.runtime.kernels import Kernel, load_paint_kernels
from counterfactory.kernels.guided_step import pack
from counterfactory.kernels.pixels import to_pictures

Figures = dict[str, Any]
_SIDE, _ROWS, _BYTES, _ROUNDS = 512, 256, 1 << 28, 20


class Card:
    def __init__(self) -> None:
        self.cuda = cuda_calls.open_device()

    def up(self, array: NDArray[Any]) -> Buffer:
        """The bytes of an array, on the device."""
        buffer, host = self.cuda.allocate(array.nbytes), self.cuda.pin(array.nbytes)
        host.array[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.cuda.to_device(buffer, host, array.nbytes)
        self.cuda.wait()
        return buffer

    def down(self, buffer: Buffer, like: NDArray[Any]) -> NDArray[Any]:
        """The bytes of a buffer, as an array like that one."""
        host = self.cuda.pin(like.nbytes)
        self.cuda.to_host(host, buffer, like.nbytes)
        self.cuda.wait()
        return host.array[: like.nbytes].view(like.dtype).reshape(like.shape).copy()

    def seconds(self, work: Callable[[], object], times: int = 20) -> float:
        """The median of the device's own seconds that `work` takes, once it has run three times."""
        first, last, spent = self.cuda.event(), self.cuda.event(), []
        for turn in range(times + 3):
            self.cuda.mark(first)
            work()
            self.cuda.mark(last)
            self.cuda.wait_for(last)
            if turn >= 3:
                spent.append(self.cuda.seconds_between(first, last))
        return float(np.median(spent))


def require(holds: bool, says: str) -> None:
    if not holds:
        raise AssertionError(says)


def distance(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """The norm of the difference by the norm of `theirs`; infinite where anything is not finite."""
    if not np.isfinite(ours).all():
        return float("inf")
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    return float(np.linalg.norm(a - b) / max(float(np.linalg.norm(b)), 1e-30))


def check_kernels(card: Card) -> Figures:
    """The guided step through whole denoisings of several samplers, then pictures; and the speed of both."""
    kernels, rng = load_paint_kernels(card.cuda), np.random.default_rng()
    runs = [("unipc", 6), ("ddim", 4), ("lcm", 3), ("unipc", 1)]
    steps = 0
    for shape in ((4, 64, 64), (4, 7, 11)):
        for kind, count in runs:
            spacing = "lcm" if kind == "lcm" else "trailing"
            sampler = Sampler(SamplerSettings(kind, count, "epsilon", spacing, False))  # type: ignore[arg-type]
            steps += _denoised(card, kernels.guided_step, sampler, shape, rng)
    values = rng.uniform(-1.3, 1.3, (4, 3, _SIDE, _SIDE)).astype(np.float32)
    values[0, 0, 0] = (np.arange(_SIDE, dtype=np.float32) - 100 + np.float32(0.5)) / np.float32(127.5) - 1
    levels = np.full((4, _SIDE, _SIDE, 3), 7, np.uint8)
    source, target, flags = card.up(values), card.up(levels), card.up(np.zeros(4, np.int32))
    places = source.pointer, target.pointer, flags.pointer
    kernels.pixels.queue(4, _SIDE**2, *places, _SIDE**2)
    drawn = card.down(target, levels)
    require(all((a == b).all() for a, b in zip(drawn, to_pictures(values), strict=True)), "pictures differ")
    require(not card.down(flags, np.zeros(4, np.int32)).any(), "finite numbers were flagged")
    spent = card.seconds(lambda: kernels.pixels.queue(4, _SIDE**2, *places, _SIDE**2))
    values[2, 1, 3, 4], values[3, 0, 0, 0] = np.nan, -np.inf
    poisoned = card.up(values)
    kernels.pixels.queue(4, _SIDE**2, poisoned.pointer, *places[1:], _SIDE**2)
    require(card.down(flags, np.zeros(4, np.int32)).tolist() == [0, 0, 1, 1], "NaN and infinity were not flagged")
    rates = {"pixels_gb_per_s": (values.nbytes + levels.nbytes) / spent / 1e9}
    rates["guided_step_gb_per_s"] = _guided_step_rate(card, kernels.guided_step)
    refused = "nothing"
    try:
        kernels.pixels.queue(0, 5, 0, 0, 0, 5)
    except CounterfactoryError as error:
        refused = str(error)
    require("CUDA_ERROR_INVALID_VALUE" in refused, f"a launch of no rows gave {refused}")
    return {"steps": steps, **rates}


def _denoised(
    card: Card, kernel: Kernel, sampler: Sampler, shape: tuple[int, ...], rng: np.random.Generator, rows: int = 3
) -> int:
    """Rows from noise to latents on the device and on the host, equal after every step; how many steps those were."""
    size, count = int(np.prod(shape)), sampler.settings.steps
    arrays = np.full((rows, 4, *shape), np.nan, np.float32)
    arrays[:, 0] = rng.standard_normal((rows, *shape), np.float32)
    alone: list[tuple[Any, Any]] = [(arrays[row, 0].copy(), sampler.start) for row in range(rows)]
    held = [card.up(arrays[row]) for row in range(rows)]
    for i in range(count):
        outputs = rng.standard_normal((rows, 2, *shape), np.float32)
        scales = [None if (row + i) % 3 == 0 else 5.0 + row for row in range(rows)]
        if sampler.adds_noise(i):
            for row in range(rows):
                now = card.down(held[row], arrays[row])
                now[2] = rng.standard_normal(shape, np.float32)
                arrays[row], held[row] = now, card.up(now)
        table = pack([(sampler.weights(i), scale) for scale in scales])
        predicted = [card.up(output) for output in outputs]
        addresses = np.array(
            [[a.pointer, p.pointer, p.pointer + 4 * size] for a, p in zip(held, predicted, strict=True)], np.int64
        )
        sent = [card.up(one) for one in (table.weights, table.counts, addresses)]
        kernel.queue(rows, size, *(one.pointer for one in sent), size)
        for row, scale in enumerate(scales):
            output = outputs[row, 0]
            if scale is not None:
                output = outputs[row, 1] + np.float32(scale) * (outputs[row, 0] - outputs[row, 1])
            noise = arrays[row, 2] if sampler.adds_noise(i) else None
            alone[row] = sampler.step(i, alone[row][0], output, alone[row][1], noise)
            found = card.down(held[row], arrays[row])[0]
            require((found == alone[row][0]).all(), f"step {i} of {sampler.settings.kind} differs at {list(shape)}")
    return rows * count


def _guided_step_rate(card: Card, kernel: Kernel) -> float:
    """10^9 bytes a second of guided UniPC steps: six arrays read and four written."""
    size, rows = 4 * 64 * 64, _ROWS
    table = pack([(Sampler(SamplerSettings("unipc", 6, "epsilon", "trailing", False)).weights(3), 5.0)] * rows)
    arrays = np.random.default_rng(0).standard_normal((rows, 6, size), np.float32)
    held = card.up(arrays)
    starts = held.pointer + np.arange(rows, dtype=np.int64) * 6 * size * 4
    addresses = np.stack([starts, starts + 4 * size * 4, starts + 5 * size * 4], 1)
    sent = [card.up(one) for one in (table.weights, table.counts, addresses)]
    spent = card.seconds(lambda: kernel.queue(rows, size, *(one.pointer for one in sent), size))
    return rows * 10 * size * 4 / spent / 1e9


def check_cuda(card: Card) -> Figures:
    """Copies on one stream under computations of another, ordered by events; a recording; errors; what is freed."""
    free = cuda_calls.memory(card.cuda.runtime)[0]
    rate = _exercised(card, _BYTES)
    card.cuda.settle()
    card.cuda.wait()
    left = free - cuda_calls.memory(card.cuda.runtime)[0]
    require(left < 64 << 20, f"{left} bytes were not given back")
    return {"rounds": _ROUNDS, "copy_gb_per_s": rate, "left_mb": left / 2**20}


def _exercised(card: Card, size: int) -> float:
    """10^9 bytes a second of a copy on the device, after all that may go wrong."""
    cuda, rng = card.cuda, np.random.default_rng()
    numbers = [rng.integers(0, 255, size, np.uint8) for _ in range(3)]
    host, back = [cuda.pin(size) for _ in numbers], cuda.pin(size)
    for pinned, array in zip(host, numbers, strict=True):
        pinned.array[:] = array
    first, second = cuda.allocate(size), cuda.allocate(size)
    arrived, copied = cuda.event(), cuda.event()
    for turn in range(_ROUNDS):  # without the events a copy would overtake the one that it waits for
        cuda.to_device(first, host[turn % 3], size, on_copies=True)
        cuda.mark(arrived, on_copies=True)
        cuda.hold_until(arrived)
        cuda.on_device(second, first, size)
        cuda.mark(copied)
        cuda.hold_until(copied, on_copies=True)
        cuda.to_host(back, second, size, on_copies=True)
        cuda.mark(arrived, on_copies=True)
        cuda.wait_for(arrived)
        require(cuda.has_passed(arrived), "an event that was waited for has not passed")
        require((back.array == numbers[turn % 3]).all(), f"turn {turn} brought other bytes back")
    poisoned = card.up(np.full(size, 0xFF, np.uint8))
    replay = cuda.capture(lambda: cuda.on_device(poisoned, first, size))
    require((card.down(poisoned, numbers[0]) == 0xFF).all(), "a recording ran when it was made")
    for turn in range(3):
        cuda.to_device(first, host[turn], size)
        replay()
        require((card.down(poisoned, numbers[turn]) == numbers[turn]).all(), "a recording copied other bytes")
    failed = "nothing"
    try:
        cuda.allocate(1 << 50)
    except CounterfactoryError as error:
        failed = str(error)
    require("cudaErrorMemoryAllocation" in failed, f"a petabyte gave {failed}")
    leases = [cuda.lease(1 << 28), cuda.lease(1 << 20)]
    require(leases[1].renewed() is not None and leases[1].renewed() is None, "a lease is not renewed once")
    return 2 * size / card.seconds(lambda: cuda.on_device(second, first, size)) / 1e9
