"""Referees of a user's own: graphs and functions, and what either must give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.models.referee import open_referee
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.referees import RefereeSettings

STREETS = "counterfactory.engine.pocket.judges"
RUNTIME = load_profile("pocket").runtime


class Brightest(torch.nn.Module):
    """Logits of the three channels, at half the size or on average; or the whole picture as a box of class 1."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, pixel_values: torch.Tensor) -> Any:
        if self.kind == "masks":
            return pixel_values[:, :, ::2, ::2]
        means = pixel_values.mean((2, 3))
        if self.kind == "labels":
            return means
        whole = torch.tensor([[[0.0, 0.0, 8.0, 4.0], [0.0, 0.0, 1.0, 1.0]]]) + 0 * means[:, :1, None]
        return whole, torch.tensor([[1, 2]]) + 0 * means[:, :1].long(), torch.tensor([[0.5, 0.4]]) + 0 * means[:, :1]


def graph(folder: Path, kind: Any) -> RefereeSettings:
    path = folder / f"{kind}.onnx"
    if not path.is_file():
        names = {"boxes": ["boxes", "kinds", "scores"]}.get(kind, ["logits"])
        ports = {"input_names": ["pixel_values"], "output_names": names}
        torch.onnx.export(Brightest(kind), (torch.zeros(2, 3, 4, 8),), path, dynamo=False, **ports)
    return RefereeSettings(kind, str(path), 2, ("r", "g", "b"), size=(4, 8))


def pictures() -> NDArray[np.uint8]:
    """Two of 8 x 16: the left half red and the right half blue, and green all over."""
    found = np.zeros((2, 8, 16, 3), np.uint8)
    found[0, :, :8, 0], found[0, :, 8:, 2], found[1, ..., 1] = 255, 200, 100
    return found


def test_graphs_see_masks_labels_and_boxes(tmp_path: Path) -> None:
    masks = open_referee(graph(tmp_path, "masks"), RUNTIME)(pictures())
    assert masks.shape == (2, 8, 16)
    assert (masks[0, :, :8] == 0).all()
    assert (masks[0, :, 8:] == 2).all()
    assert (masks[1] == 1).all()
    labels = open_referee(graph(tmp_path, "labels"), RUNTIME)
    found = labels(pictures())
    assert found.sum(axis=1) == pytest.approx(1.0)
    assert found.argmax(axis=1).tolist() == [0, 1]
    assert labels(pictures()[1:]) == pytest.approx(found[1:]), "a batch that is not full is padded"
    darker = replace(graph(tmp_path, "labels"), mean=(0.5, 0.0, 0.0), std=(1.0, 1.0, 0.5))
    assert open_referee(darker, RUNTIME)(pictures()).argmax(axis=1).tolist() == [2, 1]
    boxes = open_referee(graph(tmp_path, "boxes"), RUNTIME)(pictures())
    assert boxes == [[(0.0, 0.0, 16.0, 8.0, 1)]] * 2, "in the picture's pixels, and sure ones only"


def test_the_pocket_s_own_are_referees_too() -> None:
    drawn = [EMBEDDED.sample(np.random.default_rng(i)) for i in range(3)]
    scenes = [EMBEDDED.fair(scene, 0) for scene in drawn]  # the days that they know
    images, masks = (np.stack(parts) for parts in zip(*(EMBEDDED.draw(scene).pair for scene in scenes), strict=True))
    kinds = open_referee(RefereeSettings("labels", f"{STREETS}:classify_streets", 2, EMBEDDED.kinds), RUNTIME)(images)
    assert kinds.sum(axis=1) == pytest.approx(1.0)
    assert sum(EMBEDDED.kinds[i] == scene.label for i, scene in zip(kinds.argmax(axis=1), scenes, strict=True)) >= 2
    seen = open_referee(RefereeSettings("masks", f"{STREETS}:segment_streets", 2, EMBEDDED.classes), RUNTIME)(images)
    assert (seen == masks).mean() > 0.8


def wrong_masks(images: NDArray[np.uint8]) -> Any:
    return np.zeros(images.shape[:3], np.float32)


def wrong_labels(images: NDArray[np.uint8]) -> Any:
    return np.zeros((len(images), 2), np.float32)


def wrong_boxes(images: NDArray[np.uint8]) -> Any:
    return []


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("masks", r"of masks gives whole numbers \[2, 8, 16\], got float32 \[2, 8, 16\]"),
        ("labels", r"of labels gives probabilities \[2, 3\], got float32 \[2, 2\]"),
        ("boxes", r"of boxes gives a list of boxes for each of 2 pictures, got 0"),
    ],
)
def test_a_function_that_gives_something_else_is_named(kind: Any, message: str) -> None:
    look = open_referee(RefereeSettings(kind, f"{__name__}:wrong_{kind}", 2, ("a", "b", "c")), RUNTIME)
    with pytest.raises(CounterfactoryError, match=f"referee {__name__}:wrong_{kind} {message}"):
        look(pictures())


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("no_such_module:look", "referee 'no_such_module:look' is not found"),
        (f"{__name__}:no_such_function", "is not found .*correct .*run"),
        (f"{__name__}:RUNTIME", "is no function, found RuntimeSettings"),
    ],
)
def test_what_is_no_function_is_refused(run: str, message: str) -> None:
    with pytest.raises(CounterfactoryError, match=message):
        open_referee(RefereeSettings("labels", run, 1, ("a",)), RUNTIME)


def test_a_graph_needs_its_file_and_a_runtime_that_opens_it(tmp_path: Path) -> None:
    missing = RefereeSettings("labels", str(tmp_path / "none.onnx"), 1, ("a",), size=(4, 8))
    with pytest.raises(CounterfactoryError, match=r"referee .*none\.onnx is missing"):
        missing.digest()
    gpu = replace(RUNTIME, backend="tensorrt", precision="f16")
    with pytest.raises(CounterfactoryError, match=r"is a graph, which .* \"openvino\" opens, found \"tensorrt\""):
        open_referee(missing, gpu)


def test_another_file_is_another_referee(tmp_path: Path) -> None:
    one = RefereeSettings("labels", str(tmp_path / "a.onnx"), 1, ("a",), size=(4, 8))
    (tmp_path / "a.onnx").write_bytes(b"1")
    before = one.digest()
    assert one.digest() == before
    assert replace(one, classes=("b",)).digest() != before
    (tmp_path / "a.onnx").write_bytes(b"2")
    assert one.digest() != before
    own = RefereeSettings("labels", f"{__name__}:wrong_labels", 1, ("a",))
    assert own.digest() != replace(own, run=f"{__name__}:wrong_masks").digest()
