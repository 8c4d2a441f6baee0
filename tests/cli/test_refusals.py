"""What cannot be made a suite of is refused by `plan` as by `generate`, and what both say of sources is the same."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command_line import Command
from PIL import Image
from profiles import profile_with
from streets import save_picture

from counterfactory.engine.pocket.worlds import EMBEDDED

NO_LABELS = "classification needs labels (class folders, or --labels), and no source has one"


def streets(root: Path, names: tuple[str, ...] = ("a.png", "b.png")) -> Path:
    for i, name in enumerate(names):
        save_picture(root / name, EMBEDDED.draw(EMBEDDED.scene(1, i)).picture)
    return root


def table(root: Path, text: str) -> Path:
    streets(root)
    (root / "set.csv").write_text(text)
    return root / "set.csv"


def pickled(root: Path) -> Path:
    streets(root)
    (root / "labels.pkl").write_bytes(pickle.dumps([0, 1]))
    return root


def crowds(root: Path) -> Path:
    """COCO without a single box."""
    streets(root)
    about = {"images": [{"id": 1, "file_name": "a.png"}], "categories": [{"id": 1, "name": "bus"}], "annotations": []}
    (root / "instances_a.json").write_text(json.dumps(about))
    return root


def refusal(ran: tuple[int, str, str]) -> str:
    """What a command was refused with."""
    status, _, err = ran
    assert status == 2
    return " ".join(line for line in err.splitlines() if not line.startswith("read "))


Make = Callable[[Path], Path]


@pytest.mark.parametrize(
    ("make", "options", "sentence"),
    [
        (streets, (), NO_LABELS),
        (streets, ("--task", "detection"), "detection needs boxes, and no source has one"),
        (streets, ("--task", "segmentation"), "segmentation needs masks (a folder masks/ beside images/, or --masks)"),
        (crowds, ("--task", "detection"), "detection needs boxes, and no source has one"),
        (lambda root: table(root, "image\na.png\nb.png\n"), (), NO_LABELS),
        (lambda root: table(root, "image,cat,dog\na.png,1,0\nb.png,0,1\n"), (), NO_LABELS),
        (pickled, (), NO_LABELS),
        (pickled, ("--labels", "labels.pkl"), "labels come in a .csv, .tsv, .jsonl or .txt file"),
    ],
)
def test_plan_refuses_what_generate_refuses(
    make: Make, options: tuple[str, ...], sentence: str, tmp_path: Path, run: Command
) -> None:
    path = make(tmp_path / "set")
    planned = refusal(run("plan", path, *options))
    assert planned == refusal(run("generate", path, "--out", tmp_path / "suite", *options))
    assert sentence in planned
    assert not (tmp_path / "suite").exists()


def test_a_set_of_which_nothing_can_be_used_is_refused_by_all(tmp_path: Path, run: Command) -> None:
    """A profile that keeps what masks show, and no masks."""
    path = streets(tmp_path / "set", ("bus/a.png", "bus/b.png"))
    profile = profile_with(tmp_path / "keeps", protect={"classes": ["bus"], "feather": 1.0, "until": 0.5})
    (sentence,) = {
        refusal(run(verb, path, "--profile", profile, *more))
        for verb, *more in (("plan",), ("estimate",), ("generate", "--out", str(tmp_path / "suite")))
    }
    assert "[protect] needs masks" in sentence


@pytest.mark.usefixtures("shared_plans")
@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("estimate", ("--profile", "a10g")),
        pytest.param("plan", ("--task", "detection", "--first", "1", "--variants", "1"), marks=pytest.mark.slow),
    ],
)
def test_what_is_lost_and_lacking_is_said(verb: str, options: tuple[str, ...], tmp_path: Path, run: Command) -> None:
    """A crop, an enlargement, a picture without a thing."""
    root = streets(tmp_path / "set", ("wide.png", "tiny.png"))
    for name, size in (("wide.png", (512, 128)), ("tiny.png", (16, 16))):
        Image.open(root / name).resize(size).save(root / name)
    images = [{"id": i, "file_name": name} for i, name in enumerate(("wide.png", "tiny.png"))]
    thing = {"id": 1, "image_id": 0, "category_id": 1, "bbox": [200, 20, 90, 90]}
    about = {"images": images, "categories": [{"id": 1, "name": "bus"}], "annotations": [thing]}
    (root / "instances_a.json").write_text(json.dumps(about))
    status, _, err = run(verb, root, *options, "--allow-out-of-domain")
    text = " ".join(err.split())
    assert status == 0
    assert "1 of 2 sources lose more than 10 % of their area to the crop, wide most" in text
    assert "1 of 2 sources are enlarged more than 4 times, tiny most (16 x 16, " in text
    lacking = "1 of 2 sources lack boxes, the first is tiny: their variants tell of false alarms and nothing else"
    assert (lacking in text) == (verb == "plan")


def test_masks_are_no_sources(tmp_path: Path, run: Command) -> None:
    root = streets(tmp_path / "set", ("bus/a.png", "car/b.png"))
    for name in ("bus/a", "car/b"):
        Image.fromarray(np.eye(128, dtype=np.uint8) * 255).save(root / f"{name}_mask.png")
    status, out, err = run("estimate", root, "--profile", "a10g", "--json")
    assert (status, json.loads(out)["sources"]) == (0, 2)
    assert "masks of other pictures are left out: 2, the first is" in " ".join(err.split())
