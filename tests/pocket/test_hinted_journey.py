"""A run over the true depth and classes of the street world: hint encoders of seeded weights beside the embedded
models, whose denoiser takes the sum of what they embed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import quick_profile
from diffusers.models.controlnets.controlnet import ControlNetConditioningEmbedding
from PIL import Image
from tiny_networks import filled

from counterfactory.engine.cli.arguments import main
from counterfactory.engine.inputs import Inputs
from counterfactory.engine.journey import Journey
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.worlds import STREETS
from counterfactory.engine.profile import profile as profile_module
from counterfactory.engine.profile.maps import HintSettings
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.data_set import SetOptions, read_set
from counterfactory.engine.suite import Suite
from counterfactory.engine.suite.run_record import RunSummary
from counterfactory.export.graphs.tracing import to_ir

pytestmark = pytest.mark.usefixtures("shared_plans")

TASK = street_task("segmentation")
SETTINGS = SuiteRequest(TASK, variants=1, controls=1, edits=(1, 1), seed=0, allow_out_of_domain=True)
EDGES = HintSettings("edges", "hint", 1.0)
DEPTH = HintSettings("depth", "hint_depth", 1.0)
CLASSES = HintSettings("segmentation", "hint_classes", 1.0, "streets")


@pytest.fixture(scope="module")
def models(packed_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pocket's networks, and two encoders beside them that embed as the denoiser is wide."""
    folder = tmp_path_factory.mktemp("hinted")
    for file in packed_models.iterdir():
        (folder / file.name).symlink_to(file)
    for seed, (name, channels) in enumerate({"hint_depth": 1, "hint_classes": 3}.items()):
        encoder = filled(ControlNetConditioningEmbedding(32, channels, (8, 16, 32)), seed)
        hint = {"hint": torch.rand(2, channels, 64, 96)}
        axes = {"hint": {0: "batch", 2: "height", 3: "width"}}
        to_ir(encoder, hint, ["hint_embedding"], folder / f"{name}.xml", axes)
    return folder


@pytest.fixture
def quick(models: Path) -> Profile:
    return quick_profile(models, steps=1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two scenes with their masks, and their distances beside them."""
    for kind in ("images", "masks", "depth"):
        (tmp_path / "set" / kind).mkdir(parents=True)
    for number in range(2):
        scene = STREETS.draw(STREETS.scene(2, number))
        Image.fromarray(scene.picture).save(tmp_path / "set" / "images" / f"{number}.png")
        Image.fromarray(scene.mask).save(tmp_path / "set" / "masks" / f"{number}.png")
        np.save(tmp_path / "set" / "depth" / f"{number}.npy", 255 / np.maximum(scene.nearness.astype(np.float32), 1))
    return tmp_path / "set"


def travel(profile: Profile, root: Path, suite_path: Path) -> tuple[RunSummary, dict[str, bytes]]:
    inputs = Inputs(read_set(str(root), SetOptions(depth=root / "depth")).sources)
    with Suite.open(suite_path) as suite:
        report = Journey(profile, SETTINGS).run(inputs, suite)
    images = suite_path / "images"
    return report, {str(file.relative_to(images)): file.read_bytes() for file in images.rglob("*.png")}


def painted(report: RunSummary) -> int:
    return sum(cost.made for cost in report.stages if cost.stage == "paint")


@pytest.mark.slow
def test_every_hint_paints_another_picture_and_none_is_painted_twice(
    quick: Profile, root: Path, tmp_path: Path
) -> None:
    found: dict[str, bytes] = {}
    for name, hints in {
        "depth": (replace(EDGES, weight=0.0), DEPTH),
        "classes": (CLASSES,),
        "together": (replace(EDGES, weight=0.5), DEPTH, CLASSES),
    }.items():
        report, files = travel(replace(quick, hints=hints), root, tmp_path / "suite")
        assert painted(report) == len(files) >= 2, "another hint is another picture"
        used = {use.plan for use in report.plans if use.rows and use.plan.startswith("hint")}
        assert used == {hint.plan for hint in hints if hint.weight}
        found[name] = min(files.items())[1]
    assert len(set(found.values())) == 3
    report, files = travel(replace(quick, hints=(CLASSES,)), root, tmp_path / "suite")
    assert painted(report) == 0
    assert min(files.items())[1] == found["classes"]


@pytest.mark.slow
def test_a_source_s_other_depth_or_palette_paints_it_again(quick: Profile, root: Path, tmp_path: Path) -> None:
    palette = tmp_path / "palette.toml"
    text = (Path(profile_module.__file__).parents[1] / "sources" / "palettes" / "streets.toml").read_text()
    palette.write_text(text)
    profile = replace(quick, hints=(DEPTH, replace(CLASSES, palette=str(palette))))
    _, before = travel(profile, root, tmp_path / "suite")
    np.save(root / "depth" / "0.npy", np.load(root / "depth" / "0.npy")[::-1])
    report, files = travel(profile, root, tmp_path / "suite")
    changed = {name for name in files if files[name] != before.get(name)}
    assert 0 < painted(report) == len(changed) < len(files)
    palette.write_text(text.replace('road = "128 64 128"', 'road = "128 64 129"'))
    report, files = travel(profile, root, tmp_path / "suite")
    assert painted(report) == len(files)


def test_generate_says_what_a_hint_lacks_before_there_is_a_suite(
    models: Path, root: Path, tmp_path: Path, capsys: Any
) -> None:
    text = Path(profile_module.__file__).with_name("profiles").joinpath("pocket.toml").read_text()
    hint = '\n[[hints]]\nkind = "depth"\nplan = "hint_depth"\nweight = 1.0\n'
    (tmp_path / "depth.toml").write_text(text.replace('folder = "pocket"', f'folder = "{models}"') + hint)
    (tmp_path / "plain.toml").write_text(text)
    out, task = tmp_path / "suite", ["--task", "segmentation", "--allow-out-of-domain"]
    (root / "depth").rename(tmp_path / "depth")
    asked = ["generate", str(root), "--out", str(out), *task, "--profile"]
    assert main([*asked, str(tmp_path / "depth.toml")]) == 2
    assert '[[hints]] kind = "depth" needs a depth map (--depth DIR, or a network: [depth])' in capsys.readouterr().err
    assert main([*asked, str(tmp_path / "plain.toml"), "--protect", "5,car"]) == 2
    assert "[protect] names the class 'car', which the data set does not have" in capsys.readouterr().err
    assert not out.exists()
