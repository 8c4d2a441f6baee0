"""Editors made of denoisers, beside the exporter's module, which tests/export/test_editing.py holds to its paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as op
import pytest
import torch

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime.blob_cache import BlobCache
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.engine.runtime.session import EditorForm
from counterfactory.export.graphs.editing import EditingDenoiser
from counterfactory.export.graphs.parity import relative_error
from counterfactory.export.pocket.restore import restore_denoiser

ROWS = 4
# The pocket denoiser's: channels, height and width of latents, tokens, their width, channels of hints.
C, H, W, TOKENS, WIDTH, HINT = 4, 16, 24, 64, 192, 32


def feeds(form: EditorForm) -> dict[str, Any]:
    """A source, two rows that follow it, and one that follows nobody."""
    random = np.random.default_rng(5)

    def drawn(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    cross_map = random.random((ROWS, TOKENS, TOKENS)).astype(np.float32) / TOKENS
    cross_own = random.random((ROWS, TOKENS)).astype(np.float32)
    cross_map[[0, 3]], cross_own[[0, 3]] = 0, 1
    given = {"latents": drawn(ROWS, C, H, W), "text": drawn(ROWS, TOKENS, WIDTH), "timestep": np.array([400] * 3 + [7])}
    given |= {"source_rows": np.array([0, 0, 0, 3]), "self_rows": np.array([0, 0, 2, 3])}
    given |= {"cross_map": cross_map, "cross_own": cross_own}
    given["words"] = random.random((ROWS, TOKENS)).astype(np.float32)
    if form == "with controls":
        scales = np.array([1.0, 1.0, 0.5, 1.6], np.float32)
        given |= {"hint_embedding": drawn(ROWS, HINT, H, W), "control_scale": scales}
    return given


@torch.no_grad()
@pytest.mark.slow
@pytest.mark.parametrize("form", ["with controls", "without controls"])
def test_a_denoiser_becomes_the_editor_that_is_exported(form: EditorForm, packed_models: Path) -> None:
    given = feeds(form)
    file, sizes = packed_models / "denoiser.xml", {"latents": (H, W)}
    session = open_session(file, batch=ROWS, precision="f32", sizes=sizes, form=form)
    assert {port.name for port in session.signature.inputs} == given.keys()
    found = session.run(given)
    trained = restore_denoiser(packed_models)
    module = EditingDenoiser(trained.unet, *([trained.controlnet] if form == "with controls" else [])).eval()

    def wanted(**changed: Any) -> Any:
        return module(**{name: torch.from_numpy(array) for name, array in {**given, **changed}.items()})

    for name, reference in zip(("prediction", "attention"), wanted(), strict=True):
        assert relative_error(found[name], reference) < 1e-3  # weights are restored from fp16
    nobody = {"cross_map": 0 * given["cross_map"], "cross_own": np.ones((ROWS, TOKENS), np.float32)}
    others = wanted(self_rows=np.arange(ROWS), **nobody)[0]
    apart = [relative_error(found["prediction"][row], others[row]) > 1e-2 for row in range(ROWS)]
    assert apart == [False, True, True, False]


def test_attention_to_itself_is_not_taken_over_at_full_size(tmp_path: Path) -> None:
    latents, text = op.parameter([-1, C, H, W], np.float32), op.parameter([-1, TOKENS, WIDTH], np.float32)
    pixels = op.transpose(op.reshape(latents, [0, C, -1], special_zero=True), [0, 2, 1])
    mixed = op.matmul(op.softmax(op.matmul(pixels, pixels, False, True), -1), pixels, False, False)
    keys = op.matmul(text, np.random.default_rng(0).normal(0, 0.1, (WIDTH, C)).astype(np.float32), False, False)
    found = op.matmul(op.softmax(op.matmul(mixed, keys, False, True), -1), keys, False, False)
    for node, name in ((latents, "latents"), (text, "text"), (found, "prediction")):
        node.output(0).set_names({name})
    ov.save_model(ov.Model([found], [latents, text]), tmp_path / "flat.xml", compress_to_fp16=False)
    session = open_session(tmp_path / "flat.xml", batch=ROWS, precision="f32", form="without controls")
    given = feeds("without controls")
    del given["timestep"]
    own, taken = (session.run({**given, "self_rows": rows}) for rows in (np.arange(ROWS), np.zeros(ROWS, np.int64)))
    np.testing.assert_array_equal(own["prediction"], taken["prediction"])


def test_what_is_no_denoiser_becomes_no_editor(tmp_path: Path) -> None:
    x, text = op.parameter([-1, C], np.float32), op.parameter([-1, TOKENS, WIDTH], np.float32)
    for parameter, name in ((x, "latents"), (text, "text")):
        parameter.output(0).set_names({name})
    ov.save_model(ov.Model([op.relu(x)], [x]), tmp_path / "other.xml")
    ov.save_model(ov.Model([op.relu(x), op.relu(text)], [x, text]), tmp_path / "silent.xml")
    for name, says in (
        ("other", r"other.xml is no denoiser, .* it takes \['latents'\]"),
        ("silent", r"silent.xml: no attention to the text .* halved 0 times; export"),
    ):
        with pytest.raises(CounterfactoryError, match=says):
            open_session(tmp_path / f"{name}.xml", batch=ROWS, precision="f32", form="with controls")


def test_a_graph_that_follows_already_is_left_as_it_is_and_each_form_is_kept_apart(tmp_path: Path) -> None:
    inputs = [op.parameter([-1, C], np.float32) for _ in range(2)]
    for parameter, name in zip(inputs, ("latents", "source_rows"), strict=True):
        parameter.output(0).set_names({name})
    found = op.add(*inputs)
    found.output(0).set_names({"sum"})
    ov.save_model(ov.Model([found], inputs), tmp_path / "editor.xml", compress_to_fp16=False)
    given = {name: np.ones((ROWS, C), np.float32) for name in ("latents", "source_rows")}
    forms: tuple[EditorForm | None, ...] = (None, "with controls", "without controls")
    blobs = BlobCache(tmp_path / "compiled")
    for form in forms:
        session = open_session(tmp_path / "editor.xml", batch=ROWS, precision="f32", form=form, blobs=blobs)
        assert (session.run(given)["sum"] == 2).all()
    assert len(blobs.sizes()) == 3
