"""The projection: docs/a10g.json says what it computes today, and stages and changes cost what the estimate says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import projection
import pytest
from projection import ALL, FILE, GOALS, changed, cost, figures, per_1k, profile_table, project, stage_table

from counterfactory.engine.profile.profile import load_profile


def test_the_documents_say_what_is_projected_today() -> None:
    """After a change of profiles or of the estimate: `python bench/projection.py --write`."""
    said = json.loads(FILE.read_text())
    assert {key: said.get(key) for key in figures()} == figures()


def test_figures_are_gpu_hours_per_1000_accepted_variants_at_60_percent() -> None:
    for key, name in (("a10g_gpu_hours_per_1k", "a10g"), ("a10g_fast_gpu_hours_per_1k", "a10g-fast")):
        found = project(load_profile(name)).at(0.6)
        assert figures()[key] == pytest.approx(found.device_hours_per_1k_accepted, abs=0.0005)
    found = project(load_profile("a10g"))
    assert per_1k(found, 3600.0) == pytest.approx(1000 / (125_000 * 0.9))


def test_stages_add_up_to_the_whole() -> None:
    profile = load_profile("a10g")
    *stages, whole = stage_table(profile).rows
    assert [row[0] for row in stages] == ["caption", "rewrite", "paint", "check"]
    for column in range(1, len(whole)):
        assert sum(float(row[column]) for row in stages) == pytest.approx(float(whole[column]), abs=0.0003)
    assert float(whole[2]) == pytest.approx(cost(profile), abs=0.0001)
    assert sum(map(float, whole[3:])) == pytest.approx(float(whole[2]), abs=0.0003)


def test_profiles_cost_less_at_60_percent_and_more_with_controls() -> None:
    rows = {name: (low, high, controls, goal) for name, low, high, controls, goal in profile_table().rows}
    assert all(float(high) < float(low) and float(high) < float(controls) for low, high, controls, _ in rows.values())
    for name, key in (("a10g", "a10g"), ("a10g-fast", "a10g_fast")):
        assert float(rows[name][1]) == pytest.approx(figures()[f"{key}_gpu_hours_per_1k"], abs=0.0006)
    assert [rows[name][3] for name in ("a10g", "a10g-fast", "lance")] == ["0.21", "0.05", "none"]


def test_changes_of_a_profile() -> None:
    full, fast = ({what: cost(p) for what, p in changed(load_profile(name)).items()} for name in GOALS)
    now = [cost(load_profile(name)) for name in GOALS]
    both = {"one caption per source", "LLaMA-2-7B", "one question a source, whose answer chooses from menus", ALL}
    dearer = {"guidance on all steps", "deep features anew at every step"}
    slower = {"four steps", "the pipeline's own decoder", "captions of at most 50 tokens"}
    assert set(fast) == both | slower | {"deep features on every second step"}, "what it has is no change"
    even = {"one caption per source"}  # of short ones, what it saves is no more than how shards fill batches
    own = {"TAESD decodes", "captions of at most 25 tokens", "captions verbatim but for their edits"}
    assert set(full) == both | dearer | own
    assert all(full[name] > now[0] for name in dearer)
    assert all(fast[name] > now[1] for name in slower)
    for costs, before, savings in ((full, now[0], set(full) - dearer), (fast, now[1], set(fast) - slower - even)):
        assert all(costs[name] < before for name in savings)
        assert costs[ALL] == min(costs.values())


def test_a_model_of_7b_is_counted_by_its_published_sizes() -> None:
    """6.74 G weights, of which the table that looks tokens up multiplies nothing (Touvron et al. 2023)."""
    assert projection.LLAMA_7B.weight_bytes * 8 / 5 == pytest.approx(6.74e9, rel=0.002)
    assert projection.LLAMA_7B.flops == pytest.approx(2 * (6.74e9 - 32000 * 4096), rel=0.002)
    profile = load_profile("a10g")
    (saved,) = (cost(profile) - cost(other) for name, other in changed(profile).items() if name == "LLaMA-2-7B")
    (rewrite,) = (row for row in stage_table(profile).rows if row[0] == "rewrite")
    assert 0.4 * float(rewrite[2]) < saved < 0.5 * float(rewrite[2]), "half of the weights, half of the time"


def test_what_another_machine_measured_or_exported_changes_nothing(tmp_path: Path) -> None:
    profile = load_profile("a10g")
    (tmp_path / "facts.json").write_text("[]")
    assert cost(replace(profile, models=replace(profile.models, folder=str(tmp_path)))) == cost(profile)


def test_writing_leaves_the_other_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a10g.json"
    monkeypatch.setattr(projection, "FILE", file)
    monkeypatch.setattr("sys.argv", ["projection.py", "--write"])
    file.write_text(json.dumps({"peak_gb": 21.5, "utilisation": 0.1}))
    projection.main()
    assert json.loads(file.read_text()) == {"peak_gb": 21.5} | figures()
