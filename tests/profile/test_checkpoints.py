"""Published checkpoints: which a profile names, and what of them is on a machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.published import Checkpoint, checkpoints_of, hub_folder

ONE = Checkpoint("owner/name", "c0ffee", "mit", {"config.json": 5, "unet/*.safetensors": 7})


@pytest.mark.parametrize("layout", ["owner/name", "models--owner--name/snapshots/c0ffee"])
def test_a_file_is_there_in_either_layout(layout: str, tmp_path: Path) -> None:
    assert (ONE.missing(tmp_path), ONE.bytes_with(tmp_path)) == (dict(ONE.files), 12)
    place = tmp_path / layout
    (place / "unet").mkdir(parents=True)
    (place / "config.json").write_bytes(b"{}")
    assert ONE.missing(tmp_path) == {"unet/*.safetensors": 7}
    for name in ("any", "more"):
        (place / "unet" / f"{name}.safetensors").write_bytes(b"abc")
    assert (ONE.missing(tmp_path), ONE.bytes_with(tmp_path)) == ({}, 2 + 2 * 3)
    others = replace(ONE, revision="beef"), replace(ONE, repository="another/name")
    assert [bool(other.missing(tmp_path)) for other in others] == ["snapshots" in layout, True]
    for name in ("any", "more"):
        (place / "unet" / f"{name}.safetensors").unlink()
    (place / "unet" / "any.safetensors").symlink_to(tmp_path / "a blob that is gone")
    assert (ONE.missing(tmp_path), ONE.bytes_with(tmp_path)) == ({"unet/*.safetensors": 7}, 2 + 7)


def test_the_exporter_may_take_other_files() -> None:
    assert ONE.of_exporter == ONE
    assert replace(ONE, exported={"a": 1}).of_exporter.files == {"a": 1}
    assert ONE.bytes == 12


def test_the_hub_s_folder_is_where_its_own_variables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.delenv("HF_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    assert hub_folder() == Path("/home/me/.cache/huggingface/hub")
    monkeypatch.setenv("HF_HOME", "/elsewhere")
    assert hub_folder() == Path("/elsewhere/hub")
    monkeypatch.setenv("HF_HUB_CACHE", "/cache")
    assert hub_folder() == Path("/cache")


def test_a_checkpoint_is_known_at_its_commit_alone() -> None:
    weights = load_profile("a10g").weights
    assert weights is not None
    known = checkpoints_of(weights)
    names = {one.repository for one in known}
    painter = weights.diffusion.split("@")[0]
    assert len(names) == len(known) >= 4
    assert painter in names
    at_another = replace(weights, diffusion=f"{painter}@{'0' * 40}")
    assert {one.repository for one in checkpoints_of(at_another)} == names - {painter}
    assert all(size > 0 for one in known for size in one.files.values())
