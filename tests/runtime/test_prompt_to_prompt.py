"""Editors that are made of denoisers: by hand on a small graph, and beside the painter and the exporter's module."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as op
import pytest
import torch
from numpy.typing import NDArray

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime.blob_cache import BlobCache
from counterfactory.engine.runtime.openvino import OpenVinoSession, open_session
from counterfactory.engine.runtime.session import EditorForm
from counterfactory.export.graphs.editing import EditingDenoiser
from counterfactory.export.graphs.parity import assert_parity, relative_error
from counterfactory.export.pocket.restore import restore_denoiser

Floats = NDArray[Any]
ROWS = 4
CONTROLS = ("hint_embedding", "control_scale")
# A small denoiser's: channels, height and width of latents, tokens, their width, heads.
C, H, W, TOKENS, WIDTH, HEADS = 4, 4, 6, 3, 5, 2


def opened(file: Path, form: EditorForm | None, size: tuple[int, int] = (H, W), **more: Any) -> OpenVinoSession:
    sizes = {"latents": size} if form == "without controls" else {"latents": size, "hint_embedding": size}
    return open_session(file, batch=ROWS, precision="f32", sizes=sizes, editor=form, **more)


def feeds(size: tuple[int, int], tokens: int, width: int, hint: int) -> dict[str, Any]:
    """A source, two rows that follow it, and one that follows nobody."""
    random = np.random.default_rng(5)

    def drawn(*shape: int) -> Floats:
        return random.standard_normal(shape).astype(np.float32)

    cross_map = random.random((ROWS, tokens, tokens)).astype(np.float32) / tokens
    cross_own = random.random((ROWS, tokens)).astype(np.float32)
    cross_map[[0, 3]], cross_own[[0, 3]] = 0, 1
    return {
        "latents": drawn(ROWS, C, *size),
        "timestep": np.array([400, 400, 400, 7]),
        "text": drawn(ROWS, tokens, width),
        "source_rows": np.array([0, 0, 0, 3]),
        "self_rows": np.array([0, 0, 2, 3]),
        "cross_map": cross_map,
        "cross_own": cross_own,
        "words": random.random((ROWS, tokens)).astype(np.float32),
        "hint_embedding": drawn(ROWS, hint, *size),
        "control_scale": np.array([1.0, 1.0, 0.5, 1.6], np.float32),
    }


def without(names: tuple[str, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: array for name, array in given.items() if name not in names}


def weight(rows: int, columns: int) -> Floats:
    return np.random.default_rng(rows * 10 + columns).normal(0, 0.5, (rows, columns)).astype(np.float32)


def by_heads(tokens: Any) -> Any:
    """[B, N, C] to [B * heads, N, C / heads], sizes as they come."""
    count = op.gather(op.shape_of(tokens), [1], np.int64(0))
    apart = op.reshape(tokens, op.concat([[0], count, [HEADS, C // HEADS]], 0), special_zero=True)
    turned = op.transpose(apart, [0, 2, 1, 3])
    return op.reshape(turned, op.concat([[-1], count, [C // HEADS]], 0), special_zero=False)


def attend(tokens: Any, read: Any) -> Any:
    """Attention of tokens [B, N, C] to what is read, [B, M, D]."""
    width = read.get_output_partial_shape(0)[2].get_length()
    query = by_heads(op.matmul(tokens, weight(C, C), False, False))
    key, value = (by_heads(op.matmul(read, weight(width, C) + i, False, False)) for i in (0, 1))
    scores = op.add(op.multiply(op.matmul(query, key, False, True), np.float32(0.7)), np.float32(0.0))
    found = op.matmul(op.softmax(scores, -1), value, False, False)
    count = op.gather(op.shape_of(tokens), [1], np.int64(0))
    apart = op.reshape(found, op.concat([[-1, HEADS], count, [C // HEADS]], 0), special_zero=False)
    return op.reshape(op.transpose(apart, [0, 2, 1, 3]), op.concat([[0], count, [C]], 0), special_zero=True)


def flat(picture: Any) -> Any:
    return op.transpose(op.reshape(picture, [0, 0, -1], special_zero=True), [0, 2, 1])


def layers(picture: Any, text: Any | None) -> Any:
    """Of a picture [B, C, h, w]: attention to itself at its size, then, halved, to itself and to the text."""
    large = flat(picture)
    large = op.add(large, attend(large, large))
    back = op.reshape(op.transpose(large, [0, 2, 1]), op.shape_of(picture), special_zero=False)
    small = flat(op.avg_pool(back, [2, 2], [0, 0], [0, 0], [2, 2], True))
    small = op.add(small, attend(small, small))
    return small if text is None else op.add(small, attend(small, text))


def small_denoiser(file: Path, reads: bool = True) -> Path:
    """A graph with the inputs of a denoiser: a ControlNet with attention of its own, and a UNet, which `reads` the text
    or does not. Gives [B, N, C].
    """
    shapes = {"latents": [-1, C, -1, -1], "text": [-1, TOKENS, WIDTH], "hint_embedding": [-1, C, -1, -1]}
    inputs = {name: op.parameter(shape, np.float32) for name, shape in shapes.items()}
    inputs |= {"timestep": op.parameter([-1], np.int64), "control_scale": op.parameter([-1], np.float32)}
    latents, text = inputs["latents"], inputs["text"]
    scale = op.reshape(inputs["control_scale"], op.concat([op.shape_of(inputs["timestep"]), [1, 1]], 0), False)
    control = op.multiply(layers(op.add(latents, inputs["hint_embedding"]), text), scale)
    time = op.unsqueeze(op.unsqueeze(op.convert(inputs["timestep"], "f32"), np.int64(1)), np.int64(2))
    found = op.add(op.add(layers(latents, text if reads else None), control), op.multiply(time, np.float32(0.01)))
    found.output(0).set_names({"prediction"})
    for name, parameter in inputs.items():
        parameter.output(0).set_names({name})
    ov.save_model(ov.Model([found], list(inputs.values())), file, compress_to_fp16=False)
    return file


def slow(given: Mapping[str, Any], controls: bool) -> tuple[Floats, Floats]:
    """What the small editor should say, head by head: predictions, and the words' attention."""
    shown: list[Floats] = []

    def attention(tokens: Floats, read: Floats, how: str) -> Floats:
        query = tokens @ weight(C, C)
        key, value = (read @ (weight(read.shape[2], C) + i) for i in (0, 1))
        if how == "self":
            query, key = query[given["self_rows"]], key[given["self_rows"]]
        found, seen = np.zeros_like(query), 0.0
        for head in np.split(np.arange(C), HEADS):
            scores = 0.7 * query[..., head] @ key[..., head].swapaxes(1, 2)
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            own = scores / scores.sum(-1, keepdims=True)
            if how == "cross":
                own = own[given["source_rows"]] @ given["cross_map"] + own * given["cross_own"][:, None]
                seen = seen + np.einsum("bpt,bt->bp", own, given["words"]) / HEADS
            found[..., head] = own @ value[..., head]
        shown.extend([np.asarray(seen)] if how == "cross" else [])
        return found

    def through(picture: Floats, edits: bool) -> Floats:
        large = picture.reshape(ROWS, C, H * W).swapaxes(1, 2)
        large = large + attention(large, large, "plain")  # never taken over at full size
        back = large.swapaxes(1, 2).reshape(ROWS, C, H // 2, 2, W // 2, 2).mean((3, 5))
        small = back.reshape(ROWS, C, -1).swapaxes(1, 2)
        small = small + attention(small, small, "self" if edits else "plain")
        return small + attention(small, given["text"], "cross" if edits else "plain")

    found = through(given["latents"], True) + given["timestep"][:, None, None] * 0.01
    if controls:
        control = through(given["latents"] + given["hint_embedding"], False)
        found = found + control * given["control_scale"][:, None, None]
    (seen,) = shown
    return found, seen.reshape(ROWS, H // 2, W // 2)


@pytest.mark.parametrize("form", ["with controls", "without controls"])
def test_rows_follow_as_they_do_by_hand(form: EditorForm, tmp_path: Path) -> None:
    given, controls = feeds((H, W), TOKENS, WIDTH, C), form == "with controls"
    file, blobs = small_denoiser(tmp_path / "denoiser.xml"), BlobCache(tmp_path / "compiled")
    opened(file, None, blobs=blobs)
    session = opened(file, form, blobs=blobs)
    assert len(blobs.sizes()) == 2, "painter and editor are kept apart"
    taken = given if controls else without(CONTROLS, given)
    assert {port.name for port in session.signature.inputs} == taken.keys()
    found, (prediction, attention) = session.run(taken), slow(given, controls)
    assert_parity(found["prediction"], prediction, "f32")
    assert_parity(found["attention"], attention, "f32")
    nobody = {**given, "source_rows": np.arange(ROWS), "self_rows": np.arange(ROWS)}
    others = slow(nobody, controls)[0]
    assert [relative_error(prediction[row], others[row]) > 1e-2 for row in range(ROWS)] == [False, True, True, False]


def test_what_is_no_denoiser_becomes_no_editor(tmp_path: Path) -> None:
    x = op.parameter([-1, C], np.float32)
    x.output(0).set_names({"latents"})
    ov.save_model(ov.Model([op.relu(x)], [x]), tmp_path / "other.xml")
    with pytest.raises(CounterfactoryError, match=r"other.xml is no denoiser, .* it takes \['latents'\]"):
        open_session(tmp_path / "other.xml", batch=ROWS, precision="f32", editor="with controls")
    silent = small_denoiser(tmp_path / "silent.xml", reads=False)
    with pytest.raises(CounterfactoryError, match=r"silent.xml: no attention to the text .* halved 1 times; export"):
        opened(silent, "with controls")


def test_a_graph_that_follows_already_is_left_as_it_is(tmp_path: Path) -> None:
    inputs = [op.parameter([-1, C], np.float32) for _ in range(2)]
    for parameter, name in zip(inputs, ("latents", "source_rows"), strict=True):
        parameter.output(0).set_names({name})
    found = op.add(*inputs)
    found.output(0).set_names({"sum"})
    ov.save_model(ov.Model([found], inputs), tmp_path / "editor.xml", compress_to_fp16=False)
    given = {name: np.ones((ROWS, C), np.float32) for name in ("latents", "source_rows")}
    forms: tuple[EditorForm, ...] = ("with controls", "without controls")
    for form in forms:
        session = open_session(tmp_path / "editor.xml", batch=ROWS, precision="f32", editor=form)
        assert (session.run(given)["sum"] == 2).all()


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("form", ["with controls", "without controls"])
def test_a_denoiser_becomes_the_editor_that_is_exported(form: EditorForm, packed_models: Path) -> None:
    given = feeds((16, 24), 64, 192, 32)
    given = given if form == "with controls" else without(CONTROLS, given)
    found = opened(packed_models / "denoiser.xml", form, (16, 24)).run(given)
    trained = restore_denoiser(packed_models)
    module = EditingDenoiser(trained.unet, *([trained.controlnet] if form == "with controls" else [])).eval()
    wanted = module(**{name: torch.from_numpy(array) for name, array in given.items()})
    for name, reference in zip(("prediction", "attention"), wanted, strict=True):
        assert relative_error(found[name], reference) < 1e-3  # weights are restored from fp16
