"""What commands say of results, word for word: of painted drops, trainings, FID and cards that will not do."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import Command
from light_sets import photographs

from counterfactory.engine.api.predicting import FieldPrediction
from counterfactory.engine.api.retraining import Gain, Retraining
from counterfactory.engine.cli import gpus
from counterfactory.engine.cli.check_text import fid_line
from counterfactory.engine.cli.commands import with_words
from counterfactory.engine.cli.predicts import transfer_line, transfers_table
from counterfactory.engine.cli.retrain import gain_line, gains_table
from counterfactory.engine.judging.compare import Gap
from counterfactory.engine.judging.effects import Effect
from counterfactory.engine.judging.set_quality import Fid
from counterfactory.engine.judging.transfer import Bounded, Transfer


def test_painted_drops_beside_real_ones() -> None:
    known, half, none = Bounded(0.9, 0.25, 1.0), Bounded(0.9, None, 1.0), Bounded(None, None, None)
    drops = ((-0.2, -0.05, 0.0), (-0.3, -0.1, 0.01))
    transfers = (Transfer("all", *drops, known, half), Transfer("time", *drops, none, known))
    table = transfers_table(FieldPrediction("accuracy", (), transfers, 6, 3))
    assert table.title == "Painted against real: 0 models, 6 real pictures of 3 places, points of accuracy"
    assert table.columns == ("edit", "painted", "real", "rank correlation", "slope")
    assert table.rows == (
        ("all", "−20.0 … 0.0", "−30.0 … +1.0", "0.90 (0.25 … 1.00)", "0.90"),
        ("time", "−20.0 … 0.0", "−30.0 … +1.0", "-", "0.90 (0.25 … 1.00)"),
    )
    assert transfer_line(transfers[0]) == "all: models that lose more to painted pictures lose more to real ones"
    assert transfer_line(transfers[1]).startswith("time: whether painted drops predict real ones cannot be told")


def test_a_suite_is_named_with_what_looks_at_it(tmp_path: Path, run: Command) -> None:
    photos, suite = photographs(tmp_path / "photos", range(2)), tmp_path / "my suite"
    made = ("generate", photos, "--task", "classification", "--profile", "light", "--out", suite, "--anyway")
    lines = run.text(*made, "--variants", 2).splitlines()
    assert f"suite      {suite}" in lines
    assert f"look at it with: counterfactory report '{suite}'" in lines
    assert re.search(r"^digest     [0-9a-f]{64}$", "\n".join(lines), re.MULTILINE)
    page = suite / "report"
    assert run.text("report", suite).splitlines()[-3:] == [
        f"page           {page / 'index.html'}",
        f"contact sheet  {page / 'contact_sheet.png'}",
        f"figures        {page / 'report.json'}",
    ]


def test_what_machines_are_given(tmp_path: Path, run: Command) -> None:
    """Of a plan with values of one's own, the suite, and its page."""
    photos, values, suite = photographs(tmp_path / "photos", range(2)), tmp_path / "values.txt", tmp_path / "suite"
    values.write_text("weather: snowy, foggy")
    asked = (photos, "--profile", "light", "--interventions", values, "--variants", 2)
    planned = run.json("plan", *asked)
    assert planned.keys() >= {"sources", "baselines", "cells", "edits", "notes"}
    assert [(one["type"], one["value"], one["possible"]) for one in planned["cells"]] == [
        *(("weather", "snowy", 2), ("weather", "foggy", 2))
    ]
    assert planned["baselines"] == 0
    text = run.text("plan", *asked)
    assert "Coverage" in text
    made = run.json("generate", *asked, "--out", suite, "--anyway")
    assert re.fullmatch("[0-9a-f]{64}", made["suite_digest"])
    assert (made["suite"], made["costs"]["sessions"], made["problems"]) == (str(suite), 1, [])
    pages = run.json("report", suite, "--no-edges")
    names = ("page", "index.html"), ("sheet", "contact_sheet.png"), ("data", "report.json")
    assert pages == {name: str(suite / "report" / file) for name, file in names}


def test_words_on_inputs_go_to_models_and_not_to_answers(tmp_path: Path) -> None:
    table = tmp_path / "answers.csv"
    asked = Namespace(
        models=[table, "m:f", table, "m:g"], preprocess=["crop=8", "crop=9"], output=["scores"], fresh=True
    )
    nothing = {"preprocess": None, "output": None, "fresh": False}
    assert with_words(asked) == [
        (table, nothing),
        ("m:f", {"preprocess": "crop=8", "output": "scores", "fresh": True}),
        (table, nothing),
        ("m:g", {"preprocess": "crop=9", "output": "scores", "fresh": True}),
    ]


def gain(name: str, value: float, low: float | None, high: float | None, q: float = 0.01, seeds: int = 2) -> Gain:
    effect = Effect(name, value, low, high, q, q, 20, 20)
    return Gain(Gap(name, 0.5, 0.5 + value, effect), (value,) * seeds)


def test_what_a_training_brought() -> None:
    gains, loses = gain("originals", 0.2, 0.1, 0.3), gain("variants", -0.1, -0.2, -0.01)
    outcome = Retraining("accuracy", (gains, loses), (), (6, 12), 20, (0, 1, 2))
    table = gains_table(outcome)
    assert table.title == (
        "DILLEMA, retraining: accuracy on 20 held-out sources, mean of 3 seeds; trained on 6 originals, with 12 "
        "variants"
    )
    assert table.columns == ("pictures", "on originals", "with variants", "points", "95 % interval")
    assert table.rows[0] == ("originals", "50.0 %", "70.0 %", "+20.0", "+10.0 … +30.0")
    given = gains_table(Retraining("mIoU", (gains, loses), (), (6, 12), 20, (0,), given=(0.25, 0.125)))
    assert given.title.startswith("DILLEMA, retraining: mIoU on 20 held-out sources; trained")
    assert given.columns == ("pictures", "as given", "on originals", "with variants", "points", "95 % interval")
    assert [row[1] for row in given.rows] == ["25.0 %", "12.5 %"]
    assert gain_line(gains, "mIoU") == "originals: training with variants gains 20.0 points of mIoU"
    assert gain_line(loses, "mIoU") == "variants: training with variants loses 10.0 points of mIoU"
    unsure = "time: no gain is claimed: "
    assert gain_line(gain("time", 0.2, -0.1, 0.5, q=0.2), "mIoU") == f"{unsure}+20.0 (−10.0 … +50.0)"
    assert gain_line(gain("time", 0.2, None, None), "mIoU") == f"{unsure}too few sources"
    assert "--seeds 3" in gain_line(gain("time", 0.2, None, None, seeds=1), "mIoU")


def test_distances_of_pictures() -> None:
    few = Fid("clip", 64, 20, None, 12.3456, 19)
    said = "FID to 20 originals by clip, 64 features: variants 12.35; with fewer pictures than features it is too large"
    assert fid_line(few) == said
    many = Fid("clip", 64, 64, 1.0, 12.3456, 64)
    assert fid_line(many) == "FID to 64 originals by clip, 64 features: variants 12.35, controls 1"
    assert fid_line(Fid("clip", 64, 64, None, None, 0)).startswith(
        "FID to 64 originals by clip, 64 features: no pictures; with fewer"
    )


class Nvml:
    """Two cards, the second of them in two MIG instances; it answers about handles that it gave, and no others."""

    def __getattr__(self, name: str) -> Any:
        memory = SimpleNamespace(total=24 * 10**9, free=20 * 10**9)
        running = [SimpleNamespace(pid=7, usedGpuMemory=3 * 10**9), SimpleNamespace(pid=8, usedGpuMemory=None)]
        of: dict[str, dict[Any, Any]] = {
            "nvmlInit": {None: None},
            "nvmlSystemGetDriverVersion": {None: b"580.65.06"},
            "nvmlDeviceGetCount": {None: 2},
            "nvmlDeviceGetHandleByIndex": {0: "first", 1: "second"},
            "nvmlDeviceGetHandleByUUID": {"MIG-a": "instance"},
            "nvmlDeviceGetMigMode": {"first": (0, 0), "second": (1, 1)},
            "nvmlDeviceGetCudaComputeCapability": {"first": (8, 6), "second": (9, 0), "instance": (9, 0)},
            "nvmlDeviceGetMemoryInfo": {"first": memory, "instance": memory},
            "nvmlDeviceGetComputeRunningProcesses": {"first": running},
            "nvmlDeviceGetName": {"first": "NVIDIA A10G", "second": b"NVIDIA H100", "instance": "NVIDIA H100 MIG"},
        }
        return lambda handle=None: of[name][handle]


def test_every_card_is_asked_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    first, second = gpus.find_gpus(Nvml)
    held = ((7, 3 * 10**9), (8, 0))
    assert first == gpus.Gpu("NVIDIA A10G", "8.6", 24 * 10**9, 20 * 10**9, "580.65.06", held)
    assert second == gpus.Gpu("NVIDIA H100", "9.0", 0, 0, "580.65.06", split=True)
    assert (first.target, second.target) == ("sm86", "sm90")
    said = gpus.card_fault([second], 24)
    assert said == (
        "card NVIDIA H100 is split by MIG and computes nothing as a whole: say sudo nvidia-smi -mig 0, or set "
        "CUDA_VISIBLE_DEVICES to one of its instances, as nvidia-smi -L lists them"
    )
    assert gpus.card_fault([first], 24) == (
        "card NVIDIA A10G has 20.0 of its 24.0 GB free and the profile plans for 24: end what holds the rest, process "
        "7 with 3.0 GB, process 8 with 0.0 GB"
    )
    assert gpus.card_fault([first], 22) == ""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b")
    _, instance = gpus.find_gpus(Nvml)
    assert instance == gpus.Gpu("NVIDIA H100 MIG", "9.0", 24 * 10**9, 20 * 10**9, "580.65.06")
