"""The record of graphs at full size: that it is of the code that is there, what is made anew, and that CI makes some.

`python tests/full_size.py --write` makes the record, docs/full_size.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import full_size
import pytest
from full_size import Made

from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.profile.profile import load_profile

# Those of each kind that take less than 4 GB, 9 minutes of a core together; the others are made by the command alone.
IN_CI = (
    *("a10g/vae_decoder", "a10g/hint", "a10g/hed", "a10g/clip_text", "a10g/clip_image", "a10g-fast/vae_decoder_tiny"),
    *("gpu/blip2_vision_beams", "gpu/opt_decoder_beams"),
)
ROW = {"parameters": 5e6, "onnx_bytes": 2e6, "core_seconds": 3.0, "peak_memory_bytes": 1e9, "parity_error": 0.00123}
ROW |= {"parity_bound": 0.01, "compiled": True, "plan_bytes": 4e6, "workspace_bytes": 7e6, "plan_seconds": 2.4}
ROW |= {"attentions": 3, "fused_attention": 2, "why": ""}


def test_every_graph_of_every_profile_with_networks_is_one() -> None:
    keys = {made.key for made in full_size.graphs()}
    for file in full_size.ROOT.glob("engine/profile/profiles/*.toml"):
        profile = load_profile(file.stem)
        assert (profile.weights is not None) == (file.stem in full_size.PROFILES)
        for network in networks_of(profile) if profile.weights is not None else ():
            folder = [one for one in full_size.PROFILES if load_profile(one).models.folder == profile.models.folder]
            assert network.name == "llm" or {f"{one}/{network.plan.removesuffix('_int8')}" for one in folder} & keys
    assert set(IN_CI) <= keys


def test_the_record_is_of_the_code_that_is_there_and_holds() -> None:
    """Else: python tests/full_size.py --write, which makes what changed. What was not made says why."""
    known, wrong = full_size.record(), []
    assert list(known) == [made.key for made in full_size.graphs()]
    for made in full_size.graphs():
        entry = known[made.key]
        planned = load_profile(made.profile).runtime.backend != "openvino"
        if "off" not in entry:
            wrong += [] if entry["why"] else [made.key]
        elif entry["code"] != full_size.code(made.name):
            wrong.append(f"{made.key} is of other code")
        elif not entry["off"] <= entry["bound"]:
            wrong.append(f"{made.key} is off by {entry['off']}")
        elif planned and "plan_mb" not in entry["plans"].get("sm86", {}):
            wrong.append(f"{made.key} has no plan")
    assert not wrong, "; ".join(wrong)
    figures = json.loads(full_size.FIGURES.read_text(encoding="utf-8"))
    assert {name: figures[name] for name in full_size.counts()} == full_size.counts()
    page = full_size.PAGE.read_text(encoding="utf-8")
    assert full_size.with_table(page) == page
    for plan in (plan for entry in known.values() for plan in entry.get("plans", {}).values() if "plan_mb" in plan):
        assert plan["scratch_mb"] <= plan["allowed_mb"], "more than the exporter takes it to be"


def test_words_about_the_code_are_not_the_code() -> None:
    usual = b'"""A module."""\nX = {"a": "b"}  # why\n\n\ndef f(x):\n    """What it does."""\n    return x + 1\n'
    said = (
        b'"""Another."""\nX = {\n    "a": "b"\n}\n\n\ndef f(x):  # how\n    """It.\n\n    More."""\n    return x + 1\n'
    )
    assert full_size._bare(usual) == full_size._bare(said)
    for other in (usual.replace(b"1", b"2"), usual.replace(b'"b"', b'"c"'), usual.replace(b"return", b"yield")):
        assert full_size._bare(usual) != full_size._bare(other)
    own = {full_size.code(name) for name in ("vae_decoder", "clip_text", "clip_image", "denoiser", "denoiser_shallow")}
    assert len(own) == 3, "what one network is made of does not make the others anew"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """What is made, in the exporter's place."""
    calls: list[tuple[str, str | None]] = []

    def make(one: Made, out: Path, target: str | None) -> Mapping[str, Any]:
        calls.append((one.key, target))
        return ROW if target != "sm75" else ROW | {"compiled": False, "why": "no kernel"}

    monkeypatch.setattr(full_size, "make", make)
    monkeypatch.setattr(full_size, "read_key", lambda plan: type("Key", (), {"scratch_bytes": 6e6}))
    return calls


def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("RECORD", "FIGURES", "PAGE"):
        monkeypatch.setattr(full_size, name, tmp_path / f"{name}.json")
    full_size.PAGE.write_text(f"before\n{full_size.BEGIN}\nold\n{full_size.END}\nafter\n")
    return tmp_path / "RECORD.json"


def test_a_run_goes_on_where_it_was_cut(
    made: list[tuple[str, str | None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, words = written(tmp_path, monkeypatch), ["--only", "a10g/hint,cpu/hint", "--write", "--memory", "10"]
    assert full_size.main([*words, "--targets", "sm86"]) == 0
    assert made == [("a10g/hint", "sm86"), ("cpu/hint", None)], "OpenVINO's forms have no plans"
    entry = full_size.record()["a10g/hint"]
    assert entry["plans"]["sm86"] == {
        "plan_mb": 4.0,
        "scratch_mb": 6.0,
        "allowed_mb": 7.0,
        "attentions": 3,
        "fused": 2,
        "seconds": 2,
        "peak_gb": 1.0,
    }
    assert (entry["off"], entry["bound"], entry["parameters_m"], entry["code"]) == (
        0.0012,
        0.01,
        5.0,
        full_size.code("hint"),
    )
    assert json.loads((tmp_path / "FIGURES.json").read_text()) == {"full_size_graphs": 2, "full_size_compiled": 1}
    page = full_size.PAGE.read_text()
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    assert "|a10g/hint|5.0|0.0012|1.0|4.0|6.0|2|2/3||" in page
    assert "old" not in page
    made.clear()
    assert full_size.main(words) == 1
    assert made == [("a10g/hint", "sm75"), ("a10g/hint", "sm120")]
    assert full_size.record()["a10g/hint"]["plans"]["sm75"] == {"why": "no kernel"}
    made.clear()
    assert full_size.main([*words, "--targets", "sm86"]) == 0
    assert made == []
    # What other code made is made anew.
    file.write_text(file.read_text().replace(full_size.code("hint"), "0" * 16))
    assert full_size.counts() == {"full_size_graphs": 0, "full_size_compiled": 0}
    assert full_size.main([*words, "--targets", "sm86"]) == 0
    assert made == [("a10g/hint", "sm86"), ("cpu/hint", None)]


def test_what_a_machine_has_no_memory_for_is_said_and_keeps_nothing_of_other_code(
    made: list[tuple[str, str | None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, words = written(tmp_path, monkeypatch), ["--only", "a10g/denoiser", "--write", "--targets", "sm86"]
    assert full_size.main([*words, "--memory", "30"]) == 0
    assert full_size.main([*words, "--memory", "10"]) == 0
    assert "off" in full_size.record()["a10g/denoiser"], "made elsewhere, of this code"
    file.write_text(file.read_text().replace(full_size.code("denoiser"), "0" * 16))
    assert full_size.main([*words, "--memory", "10"]) == 0
    entry = full_size.record()["a10g/denoiser"]
    assert entry["why"] == "takes 17 GB of memory to make, 10 were free"
    assert entry["code"] == full_size.code("denoiser")
    assert "off" not in entry
    assert len(made) == 1


@pytest.mark.slow
@pytest.mark.parametrize("key", IN_CI)
def test_a_graph_at_full_size_keeps_its_bound_and_becomes_a_plan(key: str) -> None:
    pytest.importorskip("tensorrt_rtx", reason="no tensorrt_rtx: that full-size graphs compile for SM86 goes unchecked")
    assert full_size.main(["--only", key, "--targets", "sm86", "--again"]) == 0
