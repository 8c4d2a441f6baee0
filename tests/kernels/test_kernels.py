"""Triton kernels without a GPU: under Triton's interpreter they give what their references give, and each of them
compiles for an A10G. What a GPU makes of the machine code is not checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interpreted import call, compiled, kernels, worker
from numpy.typing import NDArray

from counterfactory.engine.models import sampler as sampling
from counterfactory.engine.pocket.render import render
from counterfactory.engine.pocket.world import sample_scene
from counterfactory.kernels import edges, guided_step
from counterfactory.kernels.canny import CannySettings, canny

pytestmark = pytest.mark.skipif(
    find_spec("triton") is None or find_spec("torch") is None,
    reason="triton or torch is not installed: no kernel was held to its reference and none was compiled",
)

Pixels = NDArray[np.uint8]
Interpreted = Callable[..., Any]
FEW = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
# Whole sources of kernels, so that one without a variant to compile fails by name.
KERNELS = (
    "blur_kernel",
    "gradient_kernel",
    "grey_kernel",
    "guided_step_kernel",
    "keep_kernel",
    "link_kernel",
    "median_kernel",
    "relative_kernel",
    "smooth_kernel",
    "steepest_kernel",
    "tally_kernel",
    "thin_kernel",
)


@pytest.fixture(scope="module")
def interpreted() -> Iterator[Interpreted]:
    """Calls a launcher, `interpreted(module, function, *arguments)`, on arrays under the interpreter."""
    with worker(TRITON_INTERPRET="1") as pool:
        yield lambda *arguments, **options: pool.submit(call, *arguments, **options).result()


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessPoolExecutor]:
    """A process that compiles, with an empty cache."""
    with worker(TRITON_CACHE_DIR=str(tmp_path_factory.mktemp("triton")), TRITON_INTERPRET="0") as pool:
        yield pool


def shapes(seed: int, *shape: int) -> Pixels:
    """Soft noise in few levels: gradients of all directions, and neighbours that are equal."""
    images = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    for image in images:
        image[:] = cv2.GaussianBlur(image, (0, 0), 1.2).reshape(image.shape)
        low, high = int(image.min()), int(image.max())
        image[:] = (image.astype(int) - low) * 255 // max(high - low, 1) // 8 * 8
    return images


def streets(count: int) -> Pixels:
    rng = np.random.default_rng(7)
    return np.stack([render(sample_scene(rng))[0] for _ in range(count)])


@FEW
@given(
    shape=st.tuples(st.integers(1, 2), st.integers(1, 24), st.integers(1, 24)),
    colour=st.sampled_from([None, "grey", "steepest"]),
    blur=st.sampled_from([1, 3, 5, 7]),
    l2=st.booleans(),
    low=st.floats(0, 100),
    more=st.floats(0, 200),
    seed=st.integers(0, 1000),
)
def test_canny_is_opencvs(
    interpreted: Interpreted,
    shape: tuple[int, int, int],
    colour: Literal["grey", "steepest"] | None,
    blur: int,
    l2: bool,
    low: float,
    more: float,
    seed: int,
) -> None:
    images = shapes(seed, *shape, 3) if colour else shapes(seed, *shape)
    chosen = CannySettings(low, low + more, l2, blur, colour or "grey")
    assert np.array_equal(interpreted("canny", "canny", images, chosen), canny(images, chosen))


@pytest.mark.parametrize(
    "chosen", [CannySettings(100, 200), CannySettings(30, 90, True, 5, "grey")], ids=["plain", "blurred grey"]
)
def test_canny_of_photographs_is_opencvs(interpreted: Interpreted, chosen: CannySettings) -> None:
    skimage = pytest.importorskip("skimage", reason="scikit-image is not installed: no photograph went through Canny")
    folder = Path(skimage.__file__).parent / "data"
    photographs = [cv2.imread(str(folder / name)) for name in ("astronaut.png", "coffee.png")]
    images = np.stack([np.asarray(one, np.uint8)[100:140, 190:238, ::-1] for one in photographs if one is not None])
    expected = canny(images, chosen)
    assert (expected > 0).mean() > 0.02
    assert np.array_equal(interpreted("canny", "canny", images, chosen), expected)


def spiral(side: int) -> Pixels:
    """A line that winds inwards with a pixel of ground beside it."""
    line = np.zeros((side, side), np.uint8)
    x, y, dx, dy, length = 0, 0, 1, 0, side - 1
    line[0, 0] = 1
    for turn in range(side - 1):
        for _ in range(length):
            x, y = x + dx, y + dy
            line[y, x] = 1
        dx, dy = -dy, dx
        length -= 2 if turn % 2 == 0 and turn else 0
        if length <= 0:
            break
    return line


def test_one_strong_pixel_keeps_a_line_of_any_length(interpreted: Interpreted) -> None:
    """Across many programs and against the order of pixels; the same line without a strong pixel goes."""
    marks = np.stack([spiral(37)] * 2)
    pieces, _ = cv2.connectedComponents(marks[0])
    assert pieces == 2
    assert marks[0].sum() > 2 * 256
    inner = np.argwhere(marks[0])[len(np.argwhere(marks[0])) // 2]
    marks[1, inner[0], inner[1]] = 2
    kept = interpreted("pieces", "keep_pieces", marks)
    assert not kept[0].any()
    assert np.array_equal(kept[1], np.where(marks[1], 255, 0))


@FEW
@given(
    shape=st.tuples(st.integers(1, 2), st.integers(1, 32), st.integers(1, 32)),
    density=st.floats(0.1, 0.7),
    min_pixels=st.integers(0, 30),
    seed=st.integers(0, 1000),
)
def test_pieces_are_opencvs(
    interpreted: Interpreted, shape: tuple[int, int, int], density: float, min_pixels: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    marks = (rng.random(shape) < density).astype(np.uint8)
    marks[(rng.random(shape) < 0.03) & (marks > 0)] = 2
    kept = interpreted("pieces", "keep_pieces", marks, min_pixels)
    for one, found in zip(marks, kept, strict=True):
        count, labels, stats, _ = cv2.connectedComponentsWithStats(np.minimum(one, 1), connectivity=8)
        stays = np.isin(np.arange(count), labels[one == 2]) & (stats[:, cv2.CC_STAT_AREA] >= min_pixels)
        stays[0] = False
        assert np.array_equal(found, np.where(stays[labels], 255, 0))


@pytest.mark.parametrize(
    "chosen", [edges.EdgeSettings(reach=2.0, min_pixels=5), edges.EdgeSettings(median=5, reach=1.0, min_pixels=0)]
)
def test_relative_edges_differ_by_a_thousandth_at_most(
    interpreted: Interpreted, monkeypatch: pytest.MonkeyPatch, chosen: edges.EdgeSettings
) -> None:
    """Gradients stand within one unit of the reference's. From gradients to maps all is equal: what OpenCV makes of
    the kernels' gradients is the kernels' map, so that unit explains every differing pixel.
    """
    images = np.concatenate([streets(1)[:, 60:84, 40:72], shapes(5, 1, 24, 32, 3)])
    plain, given_to_canny = cv2.Canny, []

    def watched(across: Any, down: Any, *rest: Any, **options: Any) -> Any:
        given_to_canny.append((across, down))
        return plain(across, down, *rest, **options)

    monkeypatch.setattr(edges.cv2, "Canny", watched)
    expected = edges.canny_edges(images, chosen)
    monkeypatch.undo()
    gradients = interpreted("edges", "relative_gradients", images, chosen)
    for axis in (0, 1):
        wanted = np.stack([pair[axis] for pair in given_to_canny]).astype(int)
        away = abs(gradients[axis].astype(int) - wanted)
        # A pixel whose channels are equally steep but for rounding may take another channel's gradient.
        assert (away > 1).mean() < 1e-3
        assert (away > 0).mean() < 0.01
    bounds = chosen.low * 1000, chosen.high * 1000
    found = interpreted("canny", "edges_of", *gradients, *bounds, True, chosen.min_pixels)
    for across, down, one in zip(*gradients, found, strict=True):
        raw = np.asarray(plain(across, down, *bounds, L2gradient=True), np.uint8)
        _, labels, stats, _ = cv2.connectedComponentsWithStats(raw, connectivity=8)
        large = stats[:, cv2.CC_STAT_AREA] >= chosen.min_pixels
        large[0] = False
        assert np.array_equal(one, np.where(large[labels], 255, 0))
    assert (expected > 0).mean() > 0.02
    assert (found != expected).mean() < 2e-3


def test_relative_edges_are_those_of_the_gradients(interpreted: Interpreted) -> None:
    chosen = edges.EdgeSettings(low=0.3, high=0.8, reach=1.0, min_pixels=4)
    images = streets(1)[:, 60:76, 44:64]
    gradients = interpreted("edges", "relative_gradients", images, chosen)
    found = interpreted("edges", "canny_edges", images, chosen)
    assert np.array_equal(found, interpreted("canny", "edges_of", *gradients, 300.0, 800.0, True, 4))
    assert 0 < (found > 0).mean() < 0.5


def weights_of(sampler: sampling.Sampler) -> list[guided_step.StepWeights]:
    return [sampler.weights(i) for i in range(len(sampler.timesteps))]


def test_rows_at_any_step_are_the_samplers(interpreted: Interpreted) -> None:
    """A batch of variants from noise to latents through the kernel alone, each as the engine's sampler has it, bit
    for bit: other samplers, step counts and guidance, histories that begin as NaN, a last block that is not full.
    """
    kinds: list[tuple[Literal["ddim", "unipc", "lcm"], int]] = [("unipc", 5), ("unipc", 3), ("ddim", 4), ("lcm", 3)]
    samplers = [
        sampling.Sampler(
            sampling.SamplerSettings(kind, steps, "v_prediction", "lcm" if kind == "lcm" else "trailing", True)
        )
        for kind, steps in kinds
    ]
    rng = np.random.default_rng(3)
    shape = (4, 17, 23)
    latents = rng.standard_normal((4, *shape), np.float32)
    history = np.full((3, 4, *shape), np.nan, np.float32)
    alone: list[tuple[Any, Any]] = [(row.copy(), ()) for row in latents]
    for i in range(5):
        on = [row for row, (_, steps) in enumerate(kinds) if i < steps]
        conditional, unconditional = rng.standard_normal((2, len(on), *shape), np.float32)
        scales = [5.0 + row if (row + i) % 3 else None for row in on]
        for at, scale in enumerate(scales):
            if scale is None:
                unconditional[at] = np.nan
        noise = {row: rng.standard_normal(shape, np.float32) for row in on if samplers[row].adds_noise(i)}
        for row, added in noise.items():
            history[1, row] = added
        table = guided_step.pack([(weights_of(samplers[r])[i], s) for r, s in zip(on, scales, strict=True)])
        arrays = latents[on], conditional, unconditional, history[:, on]
        found, kept = interpreted("guided_step", "guided_step", table.weights, table.counts, *arrays)
        reference = guided_step.guided_step(table, *arrays)
        assert np.array_equal(found, reference[0])
        assert np.array_equal(kept, reference[1], equal_nan=True)
        latents[on], history[:, on] = found, kept
        for at, (row, scale) in enumerate(zip(on, scales, strict=True)):
            output = conditional[at]
            if scale:
                output = unconditional[at] + np.float32(scale) * (conditional[at] - unconditional[at])
            alone[row] = samplers[row].step(i, alone[row][0], output, alone[row][1], noise.get(row))
            assert np.array_equal(latents[row], alone[row][0])


def test_empty_batches_are_empty(interpreted: Interpreted) -> None:
    assert interpreted("canny", "canny", np.zeros((0, 8, 9), np.uint8), CannySettings(1, 2)).shape == (0, 8, 9)
    empty = np.zeros((0, 8, 9, 3), np.uint8)
    assert interpreted("edges", "canny_edges", empty, edges.EdgeSettings()).shape == (0, 8, 9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("canny", "canny", np.zeros((1, 8, 8), np.float32), CannySettings(1, 2)), "uint8 pictures"),
        (("edges", "canny_edges", np.zeros((1, 8, 8), np.uint8), edges.EdgeSettings()), "uint8 images"),
        (("pieces", "keep_pieces", np.zeros((8, 8), np.uint8)), "marks must be"),
        (("guided_step", "guided_step", *[np.zeros((1, 10), np.float32)] * 6), r"counts must be torch.int32 \[1, 3\]"),
    ],
)
def test_other_tensors_are_refused(interpreted: Interpreted, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        interpreted(*arguments)


def test_without_a_gpu_nothing_falls_back(compiler: ProcessPoolExecutor) -> None:
    images = np.zeros((1, 8, 8), np.uint8)
    with pytest.raises(ValueError, match="one CUDA device, got cpu"):
        compiler.submit(call, "canny", "canny", images, CannySettings(1, 2)).result()


def test_every_kernel_has_a_variant_to_compile(compiler: ProcessPoolExecutor) -> None:
    listed, found = compiler.submit(kernels).result()
    assert set(listed) == set(found) == set(KERNELS)


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_compile_for_an_a10g(compiler: ProcessPoolExecutor, kernel: str) -> None:
    """Machine code for SM86 comes out, hardly a register spills, and arithmetic rounds as NumPy's."""
    made = compiler.submit(compiled, kernel).result()
    assert made
    for name, machine in made:
        assert machine.cubin.startswith(b"\x7fELF"), name
        assert ".target sm_86" in machine.ptx, name
        # Triton 3.7's assembler spills three registers of `link` at its entry; that of 3.9 none.
        assert machine.spilled_bytes <= (12 if name == "link" else 0), name
        assert 0 < machine.registers <= 128, name
        for inexact in ("fma.rn.f32", ".ftz", ".approx", ".full"):
            assert inexact not in machine.ptx, (name, inexact)
