"""The projection: docs/a10g.json says what it computes today, levers are worth what the estimate says of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import projection
import pytest
from projection import FILE, GOALS, PAGE, cost, document, figures, levers, per_1k, project, stage_table, write

from counterfactory.engine.profile.profile import load_profile


def test_the_documents_say_what_is_projected_today() -> None:
    """After a change of profiles or of the estimate: `python bench/projection.py --write`."""
    said = json.loads(FILE.read_text())
    assert {key: said.get(key) for key in figures()} == figures()
    assert said["utilisation"] == 0.6
    assert document() in PAGE.read_text()


def test_figures_are_per_accepted_variant_at_60_percent() -> None:
    for key, name in (("a10g_gpu_hours_per_1k", "a10g"), ("a10g_fast_gpu_hours_per_1k", "a10g-fast")):
        found = project(load_profile(name)).at(0.6)
        assert figures()[key] == pytest.approx(found.device_hours_per_1k_accepted, abs=0.0005)


def test_stages_add_up_to_the_whole() -> None:
    profile = load_profile("a10g")
    *stages, whole = stage_table(profile).rows
    assert [row[0] for row in stages] == ["caption", "rewrite", "paint", "check"]
    for column in range(1, len(whole)):
        assert sum(float(row[column]) for row in stages) == pytest.approx(float(whole[column]), abs=0.0003)
    assert float(whole[2]) == pytest.approx(cost(profile), abs=0.0001)
    assert sum(map(float, whole[3:])) == pytest.approx(float(whole[2]), abs=0.0003)


@pytest.mark.parametrize("name", GOALS)
def test_every_lever_makes_it_cheaper_and_says_why(name: str) -> None:
    profile = load_profile(name)
    found = levers(profile)
    assert any(lever.taken for lever in found)
    assert all(0 < lever.brings < cost(profile) for lever in found)
    assert all(lever.why for lever in found)
    assert len({lever.name for lever in found}) == len(found)


def test_what_another_machine_measured_or_exported_changes_nothing(tmp_path: Path) -> None:
    profile = load_profile("a10g")
    (tmp_path / "facts.json").write_text("[]")
    assert cost(replace(profile, models=replace(profile.models, folder=str(tmp_path)))) == cost(profile)


def test_writing_leaves_the_other_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, page = tmp_path / "a10g.json", tmp_path / "page.md"
    monkeypatch.setattr(projection, "FILE", file)
    monkeypatch.setattr(projection, "PAGE", page)
    page.write_text("before <!-- by bench/projection.py --write --> old <!-- end --> after")
    for _ in range(2):
        write()
        assert json.loads(file.read_text()) == figures()
        text = page.read_text()
        assert text.startswith("before <!-- by")
        assert text.endswith("<!-- end --> after")
        assert document() in text
        assert "old" not in text
    file.write_text(json.dumps({"peak_gb": 21.5, "utilisation": 0.1}))
    write()
    assert json.loads(file.read_text()) == {"peak_gb": 21.5} | figures()


def test_seconds_become_gpu_hours_per_1000_accepted() -> None:
    found = project(load_profile("a10g"))
    assert per_1k(found, 3600.0) == pytest.approx(1000 / (125_000 * 0.9))
