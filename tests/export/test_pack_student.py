"""The stage `distil`: from packed models to a packed student, which the engine opens and torch gets back."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.meter.meter import Meter
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.profile.models import ModelPaths
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.runtime.openvino import open_session
from counterfactory.export import __main__ as command
from counterfactory.export.graphs.modules import FusedDenoiser
from counterfactory.export.pocket import distil, int8, pack
from counterfactory.export.pocket.restore import restore_denoiser
from counterfactory.export.pocket.training import Recipe

SIZES = {"latents": (32, 32), "hint_embedding": (32, 32)}


class BegunError(Exception):
    """Raised where the training would begin, with what it was to learn."""


def asked_of(monkeypatch: pytest.MonkeyPatch, training: pack.Training, weights: Path) -> dict[str, Any]:
    """What the stage asks of the teacher and of the training, without networks."""
    found: dict[str, Any] = {}

    def teacher_of(profile: Profile, embed: Any) -> str:
        found["teacher"] = profile
        return "teacher"

    def lessons(*given: Any) -> str:
        found["lessons"] = given
        return "lessons"

    def learn(work: Path, student: Any, autoencoder: Any, lessons: str, few: Any, recipe: Recipe) -> None:
        found["trained"] = (work, student, lessons, few, recipe)
        raise BegunError

    networks = type("Networks", (), {"controlnet": type("Net", (), {"controlnet_cond_embedding": "hints"})})
    monkeypatch.setattr(pack, "restore_denoiser", lambda folder: networks())
    monkeypatch.setattr(pack, "restore_vae", lambda folder: "vae")
    monkeypatch.setattr(pack.Teacher, "of", teacher_of)
    monkeypatch.setattr(pack, "Lessons", lessons)
    monkeypatch.setattr(pack.distil, "distil", learn)
    with pytest.raises(BegunError):
        pack.STEPS["distil"](training, weights)
    return found


@pytest.mark.parametrize(("rows", "kept"), [(2, (0, 4, 8)), (4, (0, 2, 4, 6, 8))])
def test_a_student_learns_the_profiles_full_sampling_in_a_few_rows(
    rows: int, kept: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = pack.Training(tmp_path / "work", workers=3, rows=rows)
    found = asked_of(monkeypatch, training, tmp_path)
    pocket, full = load_profile("pocket"), load_profile("pocket-full")
    teacher: Profile = found["teacher"]
    assert teacher.paint == full.paint
    assert teacher.models.path == tmp_path
    assert teacher.runtime.threads == torch.get_num_threads()
    assert found["lessons"] == ("teacher", "vae", kept, distil.POOL, distil.FRESH, 3)
    work, _, lessons, few, recipe = found["trained"]
    assert (work, lessons, recipe) == (tmp_path / "work", "lessons", distil.RECIPE)
    assert few == distil.student_paint(full.paint, rows)
    assert (replace(few, denoiser="denoiser_few_int8") == pocket.paint) == (rows == 2)
    assert few.rows_per_variant == rows


def test_the_teacher_of_a_profile_that_has_one_is_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the profile paints in few rows, full sampling is its teacher's."""
    full = replace(load_profile("pocket-full"), name="full")
    few = replace(full, name="pocket", paint=distil.student_paint(full.paint, 2), teacher="full.toml")
    monkeypatch.setattr(int8, "load_profile", lambda name: few)
    monkeypatch.setattr("counterfactory.engine.profile.profile.load_profile", {"full.toml": full}.get)
    assert int8.full_profile(tmp_path).paint == full.paint
    assert int8.full_profile(tmp_path).models.path == tmp_path


@pytest.mark.parametrize(("said", "rows"), [([], 2), (["--rows", "4"], 4)])
def test_the_command_line_says_how_many_rows(
    said: list[str], rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[pack.Training] = []
    monkeypatch.setitem(pack.STEPS, "distil", lambda training, weights: found.append(training))
    words = ["export", "pocket", "--only", "distil", "--weights", str(tmp_path), *said]
    monkeypatch.setattr("sys.argv", words)
    threads = torch.get_num_threads()
    with pytest.raises(SystemExit) as ended:
        command.main()
    torch.set_num_threads(threads)
    assert ended.value.code == 0
    assert [training.rows for training in found] == [rows]


def test_a_row_count_that_the_teacher_does_not_visit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CounterfactoryError, match="ask for a number of steps that divides the teacher's"):
        asked_of(monkeypatch, pack.Training(tmp_path, rows=3), tmp_path)


@pytest.mark.slow
def test_an_untrained_student_is_its_teacher_packed_anew(
    packed_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = tmp_path / "weights"
    shutil.copytree(packed_models, weights)
    monkeypatch.setattr(distil, "RECIPE", replace(distil.RECIPE, steps=0))
    monkeypatch.setattr(distil, "compiled", lambda module: module)
    really = pack.pack_int8

    def calibrated(*given: Any, calibration_runs: int, **more: Any) -> None:
        assert calibration_runs > 64
        really(*given, calibration_runs=4, **more)

    monkeypatch.setattr(pack, "pack_int8", calibrated)
    pack.pack_distil(pack.Training(tmp_path / "work"), weights)
    random = np.random.default_rng(4)
    feeds = {
        "latents": random.standard_normal((2, 4, 32, 32)).astype(np.float32),
        "timestep": np.array([999, 499]),
        "text": random.standard_normal((2, 64, 192)).astype(np.float32),
        "hint_embedding": random.standard_normal((2, 32, 32, 32)).astype(np.float32),
        "control_scale": np.array([1.6, 1.0], np.float32),
    }
    found = {
        name: open_session(weights / f"{name}.xml", batch=2, precision="f32", sizes=SIZES).run(feeds)["prediction"]
        for name in ("denoiser", "denoiser_few", "denoiser_few_int8")
    }
    wanted = found["denoiser"]
    assert wanted.std() > 0.1
    few = found["denoiser_few"]  # its weights are rounded to fp16 a second time
    np.testing.assert_allclose(few, wanted, atol=5e-3 * np.abs(wanted).max())
    error = np.sqrt(np.mean((found["denoiser_few_int8"] - wanted) ** 2) / np.mean(wanted**2))
    assert 1e-3 < error < 0.3
    model = restore_denoiser(weights, distil.STUDENT)
    hint = torch.rand(1, 1, 128, 128)
    with torch.no_grad():
        embedded = model.controlnet.controlnet_cond_embedding(hint)
        known = restore_denoiser(weights).controlnet.controlnet_cond_embedding(hint)
        assert torch.equal(embedded, known)
        again = FusedDenoiser(model.unet, model.controlnet)(*map(torch.from_numpy, feeds.values()))
    np.testing.assert_allclose(again.numpy(), few, atol=5e-3 * np.abs(wanted).max())
    profile = replace(load_profile("pocket"), models=ModelPaths(str(weights)))
    plans = ModelPool(library_of(profile), Meter(lambda _: None)).paint_plans(128, 128)
    assert plans.latent_shape == (4, 32, 32)
