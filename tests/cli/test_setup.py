"""`counterfactory setup`: what it says before it begins, downloads that break, a profile made from a hub in little."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import small_hub
from command_line import Command
from exporter import run_exporter
from gguf_file import write_gguf
from hub_stand_in import look_there, served
from PIL import Image
from tiny_llama import byte_level, tiny_llama
from wiring import options_by_command

from counterfactory.engine.cli import doctor, exporting, room, setup
from counterfactory.engine.cli.arguments import main
from counterfactory.engine.cli.gpus import Gpu
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.keys import file_digest
from counterfactory.engine.meter.machine import machine
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.published import Checkpoint, checkpoints_of
from counterfactory.engine.sources.source import Problem
from counterfactory.engine.suite import read_metadata
from counterfactory.export import calibration, cpu
from counterfactory.export.graphs import hub
from counterfactory.export.production.graph import Request


def profile_in(folder: Path, *lines: str) -> str:
    """A profile that extends cpu, whose networks are in `folder`."""
    file = folder / "here.toml"
    file.write_text(
        "\n".join(('name = "here"', 'extends = "cpu"', *lines, "[models]", f'folder = "{folder / "made"}"'))
    )
    return str(file)


def test_the_profile_fits_its_bounds() -> None:
    weights = load_profile("cpu").weights
    known = checkpoints_of(weights)
    named = {text.partition("@")[0] for text in (str(weights.florence2), weights.llm, weights.clip, weights.diffusion)}
    assert named | {"lllyasviel/control_v11p_sd15_canny", "madebyollin/taesd"} <= {one.repository for one in known}
    assert sum(one.bytes for one in known) < 6e9
    assert all(one.licence and one.files for one in known)


@pytest.mark.parametrize(
    ("memory", "disk", "says"),
    [
        (4e9, 1e12, r"needs 8 GB of memory to be made, and this machine has 4\.0 GB"),
        (16e9, 5e9, r"setup needs 28 GB of disk at .*made and there are 5 GB"),
    ],
)
def test_too_little_is_said_before_anything_begins(
    memory: float, disk: float, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    monkeypatch.setattr(room, "machine_memory", lambda: int(memory))
    monkeypatch.setattr(room, "shutil", SimpleNamespace(disk_usage=lambda _: SimpleNamespace(free=int(disk))))
    monkeypatch.setattr(setup, "run_program", lambda *_: pytest.fail("it began"))
    status, out, err = run("setup", "--profile", profile_in(tmp_path))
    assert status == 2
    assert re.search(says, " ".join(err.split()))
    assert "CreativeML OpenRAIL-M" in " ".join(out.split())
    assert not (tmp_path / "made").exists()


def test_only_profiles_of_published_weights_are_set_up(run: Command) -> None:
    for name in ("pocket", "light"):
        run.refuses("see what it needs with 'counterfactory doctor", "setup", "--profile", name)


def on_a_box(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A machine with an A10G and all packages, and the file of a10g's profile with a folder of its own."""
    card = Gpu("NVIDIA A10G", "8.6", 24 * 10**9, 23 * 10**9, "580.65")
    monkeypatch.setattr(doctor, "find_gpus", lambda _: (card,))
    monkeypatch.setattr(doctor, "version", lambda _: "1.0")
    monkeypatch.setattr(doctor, "requires", lambda _: [])
    monkeypatch.setattr(room, "shutil", SimpleNamespace(disk_usage=lambda _: SimpleNamespace(free=10**12)))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    file = tmp_path / "box.toml"
    file.write_text(f'name = "box"\nextends = "a10g"\n[models]\nfolder = "{tmp_path / "made"}"\n')
    return str(file)


def test_a_gpu_s_setup_says_what_it_takes_and_refuses_what_the_doctor_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    profile = on_a_box(monkeypatch, tmp_path)
    monkeypatch.setattr(setup, "run_program", lambda *_: pytest.fail("it began"))
    asked = ("setup", "--profile", profile, "--dry-run")
    out = " ".join(run.text(*asked).split())
    fetched, minutes = re.findall(r"download (\S+) GB, (\d+) min at 50 MB/s", out)[0]
    assert float(fetched) == pytest.approx(64.1, abs=0.2)  # as docs/a10g.md lists them
    assert int(minutes) == pytest.approx(float(fetched) * 1000 / 50 / 60, abs=1)
    assert 80 < int(re.findall(r"disk (\d+) GB more", out)[0]) < 100  # docs/a10g.md: 45 and 31, and the quantised one's
    assert "to make blip2_vision, opt_decoder, llm, sentence" in out
    cached = tmp_path / "hf" / "hub" / "models--meta-llama--Llama-2-13b-chat-hf" / "snapshots"
    part = cached / "a2cb7a712bb6e5e736ca7f8cd98167f81a0b5bd8" / "model-00001-of-00003.safetensors"
    part.parent.mkdir(parents=True)
    part.touch()
    assert float(re.findall(r"download +(\S+) GB", run.text(*asked))[0]) == pytest.approx(float(fetched) - 26)
    monkeypatch.setattr(doctor, "find_gpus", lambda _: ())
    run.refuses("profile box cannot run here yet; say first: ", *asked)
    assert not (tmp_path / "made").exists()
    run.refuses("set HF_HUB_CACHE", "setup", "--profile", profile, "--weights", tmp_path)


def test_a_gpu_s_networks_are_made_by_the_exporter_and_its_language_model_by_the_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    profile, exporter = on_a_box(monkeypatch, tmp_path), tmp_path / "python"
    exporter.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    exporter.chmod(0o755)
    ran: list[list[str]] = []

    def generate(*_: Any, **__: Any) -> None:
        raise CounterfactoryError("that is all")

    monkeypatch.setattr(setup, "run_program", lambda command, _: ran.append(list(command)))
    monkeypatch.setattr(setup.verbs, "generate", generate)
    run.refuses("that is all", "setup", "--profile", profile, "--exporter", exporter)
    module = ["-m", "counterfactory.export"]
    assert ran == [
        [str(exporter), *module, "a10g", "--profile", profile, "--plans"],
        [sys.executable, *module, "llm", "--profile", profile],
    ]
    (tmp_path / "made" / "llm-exl2-5.0bpw").mkdir()
    run.refuses("that is all", "setup", "--profile", profile, "--exporter", exporter)
    assert len(ran) == 3, "the language model is there"
    run.refuses("is no Python that runs", "setup", "--profile", profile, "--exporter", tmp_path / "none")


def test_the_doctor_sends_to_setup(tmp_path: Path, run: Command) -> None:
    told = run.json("doctor", "--profile", profile_in(tmp_path))
    assert told["next"] == f"counterfactory setup --profile {tmp_path / 'here.toml'}"


def test_every_option_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command) -> None:
    """At the exporter, and of the photographs at the trial; without --json nothing is printed in JSON."""
    photos, weights = tmp_path / "mine", tmp_path / "hub"
    (weights / "madebyollin" / "taesd").mkdir(parents=True)
    for name in ("config.json", "diffusion_pytorch_model.safetensors"):
        (weights / "madebyollin" / "taesd" / name).touch()
    exported: list[list[str]] = []
    tried: list[Path] = []

    def generate(sources: Path, **_: Any) -> None:
        tried.append(sources)
        raise CounterfactoryError("that is all")

    monkeypatch.setattr(room, "machine_memory", lambda: 16 * 10**9)
    monkeypatch.setattr(room, "shutil", SimpleNamespace(disk_usage=lambda _: SimpleNamespace(free=10**12)))
    monkeypatch.setattr(setup, "run_program", lambda command, _: exported.append(list(command)))
    monkeypatch.setattr(setup.verbs, "generate", generate)
    profile = profile_in(tmp_path)
    (tmp_path / "made").mkdir()
    said = {"--profile": profile, "--weights": str(weights), "--photos": str(photos)}
    assert options_by_command()["setup"] == {*said, "--exporter", "--dry-run", "--json"}
    by = tmp_path / "python"
    by.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    by.chmod(0o755)
    words = [word for pair in said.items() for word in pair]
    planned = run.json("setup", *words, "--dry-run")
    assert {"denoiser", "llm", "vae_decoder"} <= set(planned["missing"])
    assert (planned["disk_gb"], planned["fetch_gb"] > 5, exported) == (pytest.approx(22, abs=0.2), True, [])
    status, out, err = run("setup", *words, "--exporter", by)
    assert (status, "that is all" in err) == (2, True)
    assert re.findall(r"(\S+) .* here\n", out) == ["madebyollin/taesd"]  # the others are to fetch, in 80 columns
    assert len(re.findall(r"(\S+) .* to fetch\n", out)) == 6
    assert run("setup", "--profile", profile, "--json")[:2] == (2, "")
    assert exported[0][:4] == [str(by), "-m", "counterfactory.export", "cpu"]
    assert exported[1][0] == sys.executable
    exported = [command[4:] for command in exported]
    assert dict(zip(exported[0][::2], exported[0][1::2], strict=True)) == said
    own = {"--weights": str(tmp_path / "made" / "weights"), "--photos": str(tmp_path / "made" / "photos")}
    assert dict(zip(exported[1][::2], exported[1][1::2], strict=True)) == said | own
    assert tried == [photos, tmp_path / "made" / "photos"]


def test_a_profile_that_was_made_is_tried_and_its_figures_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    """By light, which stands for what was made; see the slow test below for the whole."""
    asked: list[dict[str, Any]] = []
    generate = setup.verbs.generate

    def by_light(sources: Path, **options: Any) -> Any:
        asked.append({"sources": sources, **options})
        options["warn"]("a lamp is missing")
        return generate(sources, **{**options, "profile": "light"})

    found = SimpleNamespace(networks=[], state=lambda _: ("found", ""))
    monkeypatch.setattr(setup, "library_of", lambda _: found)
    monkeypatch.setattr(setup.verbs, "generate", by_light)
    monkeypatch.setattr(setup, "run_program", lambda *_: pytest.fail("all is there"))
    profile, made = profile_in(tmp_path), tmp_path / "made"
    made.mkdir()
    status, out, err = run("setup", "--profile", profile)
    assert (status, "a lamp is missing" in err) == (0, True)
    said = " ".join(out.split())
    assert "checkpoint licence GB state" in said
    assert f"made before: {made}; what is deleted there is made again" in said
    assert "download" not in said
    assert re.search(r"GPU-hours|core-hours", said)
    assert f"next counterfactory generate PHOTOS --out suite --profile {profile}" in said
    photos = made / "photos"
    sizes = {Image.open(file).size for file in photos.iterdir()}
    assert (len(list(photos.iterdir())), sizes) == (4, {(512, 512)})
    (options,) = asked
    assert (options["sources"], options["out"], options["task_file"]) == (photos, made / "tried", made / "trial.toml")
    assert (options["variants"], options["controls"], options["sample"]) == (1, 0, 2)
    told = run.json("setup", "--profile", profile)
    before, again = (made / "runs.txt").read_text().splitlines()
    assert told["figures"] == again
    assert re.fullmatch(rf"run on {date.today()}, {re.escape(machine())}: .*, 2 of 2 accepted, \d\.\d GB", again)
    assert "images/s with loading, 2 of 2 accepted" in before
    assert float(re.findall(r"([\d.]+) images/s", again)[0]) == pytest.approx(2 / told["wall_s"], abs=1e-3)
    assert (told["folder"], told["tried"], told["reused"]) == (str(made), str(made / "tried"), 2)
    assert Path(told["sheet"]).is_file()
    assert 0 <= told["made_s"] < 60


@pytest.mark.parametrize("way", ["no picture", "all rejected"])
def test_a_trial_without_a_picture_is_no_success(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    """It says what was painted, what was accepted, and why not; a status and one sentence, said again alike."""
    generate = setup.verbs.generate

    def by_light(sources: Path, **options: Any) -> Any:
        suite = generate(sources, **{**options, "profile": "light"})
        summary = suite.summary
        assert summary is not None, "it just ran"
        if way == "no picture":
            told = replace(summary, variants=0, accepted=0, shortfalls=(Problem("street-0", "its caption is empty"),))
            return SimpleNamespace(summary=told, rows=[], report=lambda **_: pytest.fail("nothing to show"))
        rows = [replace(row, reason=row.reason or "image_text 0.10 is below 0.2") for row in suite.rows]
        told = replace(summary, accepted=0, rejected=summary.variants)
        return SimpleNamespace(summary=told, rows=rows, report=suite.report)

    monkeypatch.setattr(setup, "library_of", lambda _: SimpleNamespace(networks=[], state=lambda _: ("found", "")))
    monkeypatch.setattr(setup.verbs, "generate", by_light)
    profile = profile_in(tmp_path)
    (tmp_path / "made").mkdir()
    for _ in range(2):
        status, out, err = run("setup", "--profile", profile)
        assert status == 1
        assert err.count("error: profile here is made, and its") == 1
        assert ("its caption is empty" if way == "no picture" else "image_text 0.10 is below 0.2") in " ".join(
            err.split()
        )
        assert "next" not in out
    told = run.json("setup", "--profile", profile, status=1)
    assert told["fault"]
    assert (told["variants"], len(told["reasons"])) == ((0, 0) if way == "no picture" else (2, 2))


def test_photographs_are_looked_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is fetched: what comes next takes half an hour."""
    monkeypatch.setattr(cpu, "fetch", lambda *_: pytest.fail("it began"))
    profile = load_profile(profile_in(tmp_path))
    with pytest.raises(CounterfactoryError, match=r"there is no folder .*none: name one with a few photographs"):
        cpu.prepare(profile, tmp_path, tmp_path / "none", print)
    with pytest.raises(CounterfactoryError, match=r"holds no picture"):
        cpu.prepare(profile, tmp_path, tmp_path, print)


def photograph(file: Path, value: int) -> Path:
    file.parent.mkdir(exist_ok=True)
    Image.new("RGB", (640, 520), (value, value, value)).save(file)
    return file


@pytest.mark.parametrize("error", [0.02, 0.3, float("nan")])
def test_the_painter_is_calibrated_on_the_journey_and_held_against_its_master(
    error: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On what it is fed while the user's photographs, as large as they are painted, are captioned and painted; other
    photographs judge it, and where it is off by more than the bound the master stands in its place.
    """
    profile = load_profile(profile_in(tmp_path))
    pictures = [photograph(tmp_path / "mine" / f"{value:03}.png", value) for value in range(10, 210, 20)]
    made = tmp_path / "made"
    made.mkdir()
    for suffix in ("xml", "bin"):
        (made / f"denoiser_lcm.{suffix}").write_text("the master")
    seen: dict[str, Any] = {}

    def captioned(_: Any, keyed: Any, settings: Any) -> list[str]:
        assert settings == profile.caption
        assert [key for key, _ in keyed] == [picture.name for picture in pictures]
        return [f"of {image.mean():.0f}" for _, image in keyed]

    def painted(of: Any, images: Any, captions: Any, first: int = 0) -> list[Any]:
        """Two rows of a batch, and four steps."""
        assert of is profile
        assert {image.shape for image in images} == {(512, 512, 3)}
        for caption in captions:
            seen.setdefault("held" if first else "learned", set()).add(caption)
        return [{"latents": np.zeros((2, 4))}] * (len(images) * 4 // 2)

    def quantised(master: Path, feeds: Any, form: Path) -> None:
        seen["batches"] = len(feeds)
        for suffix in (".xml", ".bin"):
            form.with_suffix(suffix).write_text("8 bits")

    def opened(path: Path, *, batch: int, precision: str) -> Any:
        assert (batch, precision) == (2, "auto")
        value = 1.0 + (error if path.read_text() == "8 bits" else 0)
        return SimpleNamespace(run=lambda _: {"prediction": np.full((2, 4), value)})

    monkeypatch.setattr(calibration, "ModelPool", lambda *_: SimpleNamespace(blip2=lambda: None, close=lambda: None))
    monkeypatch.setattr(calibration, "caption_images", captioned)
    monkeypatch.setattr(calibration, "painting_feeds", painted)
    monkeypatch.setattr(calibration, "quantise_by_tensor", quantised)
    monkeypatch.setattr(calibration, "open_session", opened)
    told = calibration.calibrate(profile, pictures)
    assert 64 <= seen["batches"] < 64 + 2 * len(pictures)
    assert seen["held"] == {"of 10", "of 110"}
    assert len(seen["learned"]) == 8
    assert not seen["held"] & seen["learned"]
    stands = (made / "denoiser_lcm_int8.bin").read_text()
    assert (stands == "8 bits") == (error < calibration.BOUND)
    assert ("stands in its place" in told) == (stands == "the master")
    assert (made / "denoiser_lcm.bin").read_text() == "the master"


def test_photographs_are_spread_over_their_folder(tmp_path: Path) -> None:
    files = [photograph(tmp_path / "mine" / f"{number:03}.png", 9) for number in range(60)]
    (tmp_path / "mine" / "notes.txt").touch()
    found = calibration.pictures_in(tmp_path / "mine")
    assert found == files[::3]
    assert calibration.pictures_in(photograph(tmp_path / "one" / "a.png", 9).parent) == [tmp_path / "one" / "a.png"]


def test_other_photographs_calibrate_again_and_the_same_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    """Of a profile that was made; without any named, nothing is done again."""
    found = SimpleNamespace(networks=[], state=lambda _: ("found", ""))
    asked: list[list[str]] = []
    monkeypatch.setattr(setup, "library_of", lambda _: found)
    monkeypatch.setattr(setup, "run_program", lambda command, _: asked.append(list(command)))
    monkeypatch.setattr(setup.verbs, "generate", lambda *_, **__: (_ for _ in ()).throw(CounterfactoryError("enough")))
    profile = profile_in(tmp_path)
    (tmp_path / "made" / "onnx" / "denoiser_lcm").mkdir(parents=True)
    (tmp_path / "made" / "onnx" / "denoiser_lcm" / "manifest.json").write_text('{"onnx_sha256": "a"}')
    for name in ("one", "two"):
        photograph(tmp_path / name / "a.png", ord(name[0]))
    assert run("setup", "--profile", profile)[0] == 2
    assert asked == []
    assert run("setup", "--profile", profile, "--photos", tmp_path / "one")[0] == 2
    assert asked[0][-3:] == ["--photos", str(tmp_path / "one"), "--calibrate"]
    done: list[str] = []

    def calibrate(of: Any, pictures: list[Path]) -> str:
        for suffix in ("xml", "bin"):
            (tmp_path / "made" / f"denoiser_lcm_int8.{suffix}").touch()
        done.append(pictures[0].parent.name)
        return f"calibrated on {pictures[0].parent.name}"

    monkeypatch.setattr(cpu, "calibrate", calibrate)
    monkeypatch.setattr(cpu, "alone", lambda work, *arguments: work(*arguments))
    lines: list[str] = []
    for name in ("one", "one", "two", "one"):
        cpu.calibrate_once(load_profile(profile), calibration.pictures_in(tmp_path / name), lines.append)
    assert done == ["one", "two", "one"]
    assert any("made before; calibrated on one" in line for line in lines)


@pytest.mark.parametrize("stand_ins", [False, True])
def test_an_export_is_on_record_by_the_published_names(
    stand_ins: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says of weights that stand for the published ones that they do."""
    weights = tmp_path / "hub"
    (weights / "openai" / "clip-vit-large-patch14").mkdir(parents=True)
    if stand_ins:
        (weights / "STAND-INS").touch()
    photograph(tmp_path / "mine" / "a.png", 9)
    fetched: list[str] = []
    asked: list[Request] = []

    def export_all(request: Request, *_: Any, **how: Any) -> list[str]:
        assert how["asked"].precision == "openvino"
        asked.append(request)
        return ["clip_text is off"]

    monkeypatch.setattr(cpu, "fetch", lambda checkpoint, *_: fetched.append(checkpoint.repository))
    monkeypatch.setattr(cpu, "export_all", export_all)
    profile = load_profile(profile_in(tmp_path))
    assert cpu.prepare(profile, weights, tmp_path / "mine", print) == ["clip_text is off"]
    assert len(fetched) == 7
    (request,) = asked
    assert request.pinned.clip == profile.weights.clip
    assert request.sources.clip == str(weights / "openai" / "clip-vit-large-patch14")
    assert request.stand_ins is request.random is stand_ins


def test_what_the_exporter_says_last_is_the_error(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    told = "print('made one'); print('error: the hub is down'); raise SystemExit(2)"
    terminal: Any = SimpleNamespace(say=print)
    with pytest.raises(CounterfactoryError, match=r"^the hub is down$"):
        exporting.run_program([sys.executable, "-c", told], terminal)
    assert capsys.readouterr().out == "made one\n", "the error is told once, by whoever catches it"


def test_what_libraries_say_is_left_out_and_the_environment_is_the_one_given(capsys: Any) -> None:
    noise = "W1126 a library's line", "warnings.warn(", "a FutureWarning: old", "Evaluation failed, taking on", "", "  "
    told = f"import os; print(os.environ['OF_MINE']); [print(line) for line in {noise!r}]; print('made two')"
    terminal: Any = SimpleNamespace(say=print)
    exporting.run_program([sys.executable, "-c", told], terminal, {**os.environ, "OF_MINE": "here"})
    assert capsys.readouterr().out == "here\nmade two\n"
    with pytest.raises(CounterfactoryError, match=r"^import sys; sys.exit\(3\) ended with status 3$"):
        exporting.run_program([sys.executable, "-c", "import sys; sys.exit(3)"], terminal)


# --- downloads ---


CHECKPOINT = Checkpoint("owner/name", "a" * 40, "MIT", {"one.bin": 3, "folder/two.bin": 4})


def test_what_is_in_the_hubs_cache_is_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as all of it is there, and the folder has none of it."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    fetched: list[str] = []
    monkeypatch.setattr(hub, "download", lambda file, *_: fetched.append(file.name))
    snapshot = tmp_path / "cache" / "models--owner--name" / "snapshots" / CHECKPOINT.revision
    (snapshot / "folder").mkdir(parents=True)
    (snapshot / "one.bin").write_text("one")
    hub.fetch(CHECKPOINT, tmp_path, print)
    assert fetched == ["one.bin", "folder/two.bin"]
    (snapshot / "folder" / "two.bin").write_text("two")
    fetched.clear()
    hub.fetch(CHECKPOINT, tmp_path, print)
    assert fetched == []
    (tmp_path / "owner" / "name").mkdir(parents=True)
    hub.fetch(CHECKPOINT, tmp_path, print)
    assert fetched == ["one.bin", "folder/two.bin"]


def test_room_is_looked_at_on_the_disks_that_are_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small root beside a large disk: what is fetched and what is made each find their own."""
    (tmp_path / "proc").mkdir()
    small, large = tmp_path / "root", tmp_path / "nvme"
    for folder in (small, large):
        folder.mkdir()
    free = {str(small): 12e9, str(large): 400e9}
    monkeypatch.setattr(room, "_there", lambda path: OnDisk(small if path.is_relative_to(small) else large))
    monkeypatch.setattr(room.shutil, "disk_usage", lambda path: SimpleNamespace(free=free[str(path)]))
    claims = [room.Claim(small / "hub", 64, "HF_HUB_CACHE"), room.Claim(large / "made", 90, "[models] folder")]
    (without,) = room.shortages(claims, tmp_path)
    assert all(word in without for word in ("64 GB", str(small / "hub"), "12 GB", "lsblk", "by HF_HUB_CACHE"))
    (tmp_path / "proc" / "mounts").write_text(f"/dev/nvme0n1 {small} ext4 rw 0 0\n/dev/nvme1n1 {large} xfs rw 0 0\n")
    (advised,) = room.shortages(claims, tmp_path)
    assert f"a folder on {large}" in advised
    both = [room.Claim(large / "hub", 350, "HF_HUB_CACHE"), room.Claim(large / "made", 90, "[models] folder")]
    (sum_of,) = room.shortages(both, tmp_path)
    assert "440 GB" in sum_of
    assert list(room.shortages([room.Claim(large / "hub", 350, ""), room.Claim(small / "made", 9, "")], tmp_path)) == []


class OnDisk(type(Path())):  # type: ignore[misc]
    """A folder whose disk is its own."""

    def stat(self, **_: Any) -> Any:
        return SimpleNamespace(st_dev=str(self))


# --- from a hub in little to a suite ---


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of the profile cpu, each in little, laid out like the hub."""
    root = tmp_path_factory.mktemp("hub")
    lora = root / "latent-consistency" / "lcm-lora-sdv1-5" / "pytorch_lora_weights.safetensors"
    small_hub.write_painter(root, lora, half_only=True)
    small_hub.write_small_decoder(root)
    small_hub.write_clip(root)
    small_hub.write_captioner(root)
    words = byte_level(
        ["a red car on a street at night in the rain"] * 4, 400, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    )
    llama = tiny_llama(words, max_position_embeddings=2048, num_key_value_heads=4)
    folder = root / "HuggingFaceTB" / "SmolLM2-1.7B-Instruct-GGUF"
    folder.mkdir(parents=True)
    write_gguf(llama, words, folder / "smollm2-1.7b-instruct-q4_k_m.gguf", special=3, end=2)
    return root


# Pictures and captions are small, and nothing that is painted is rejected.
IN_LITTLE = (
    *("[image]", "short_side = 128", "max_long_side = 128", "buckets = [[128, 128]]"),
    *("[caption.decoding]", "min_tokens = 12", "max_tokens = 16"),
    *("[check]", "min_image_text = -1.0", "min_directional = -1.0", "min_in_place = 0.0", "min_visible = 0.0"),
    *("min_changed = 0.0", "min_intact = 0.0", "min_distinct = 0.0"),
)


def in_this_process(command: Sequence[str], terminal: Any) -> None:
    """`run_program`, whose libraries are imported once."""
    words, said = list(command), io.StringIO()
    with redirect_stdout(said):
        assert run_exporter(*words[words.index("cpu") :]) == 0
    terminal.say(*said.getvalue().splitlines())


@pytest.mark.slow
def test_a_hub_becomes_a_suite_and_nothing_is_made_twice(
    here: None, published: Path, tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over HTTP; a connection is cut on the way. What is made again a program of its own makes."""
    profile = profile_in(tmp_path, *IN_LITTLE)
    photos = setup._scenes(tmp_path / "mine", 128)
    other = photograph(tmp_path / "other" / "a.png", 90).parent
    made = tmp_path / "made"
    weights = load_profile(profile).weights
    assert weights is not None
    known = {one.repository: one.revision for one in checkpoints_of(weights)}
    with served(published, known) as hub:
        look_there(hub, tmp_path / "cache", monkeypatch)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
        hub.fault(file="pytorch_model.bin", cut=5000, times=1)
        said = ["setup", "--profile", profile, "--photos", str(photos)]
        monkeypatch.setattr(cpu, "alone", lambda work, *arguments: work(*arguments))
        program = setup.run_program
        monkeypatch.setattr(setup, "run_program", in_this_process)
        assert main(said) == 0
        told = capfd.readouterr().out
        fetched = Counter(hub.fetched())
    assert fetched.pop("pytorch_model.bin") == 2, "what was cut goes on"
    assert fetched.total() == sum(len(one.files) for one in checkpoints_of(weights)) - 1
    assert re.search(r"graphs: \d\.\d of \d\.\d GB done", told)
    ((pictures, batches, off),) = re.findall(r"calibrated on (\d+) pictures, (\d+) batches; .* off by ([\d.]+) %", told)
    assert (int(pictures), int(batches) >= 64) == (3, True)
    graphs = {file.name: file.stat().st_mtime_ns for file in made.glob("*.bin")}
    assert {"blip2_vision.bin", "opt_decoder.bin", "denoiser_lcm.bin", "denoiser_lcm_int8.bin"} <= graphs.keys()
    form, master = ((made / f"denoiser_lcm{kind}.bin").stat().st_size for kind in ("_int8", ""))
    # Random weights are mostly too far off in 8 bits.
    assert (form < 0.7 * master, form == master) == ((float(off) <= 10), (float(off) > 10))

    def changed(*options: str) -> tuple[dict[str, Any], set[str]]:
        """What a setup told a machine, and the networks that it made anew; the hub is gone."""
        before = {file.name: file.stat().st_mtime_ns for file in made.glob("*.bin")}
        assert main([*said[:3], *options, "--json"]) == 0
        after = {file.name: file.stat().st_mtime_ns for file in made.glob("*.bin")}
        return json.loads(capfd.readouterr().out), {name for name in after if after[name] != before.get(name)}

    # What is lost is made again, and nothing else; by the exporter as a program of its own.
    monkeypatch.setattr(setup, "run_program", program)
    lost = file_digest(made / "hint.bin")
    for suffix in ("bin", "xml"):
        (made / f"hint.{suffix}").unlink()
    assert changed("--photos", str(photos))[1] == {"hint.bin"}
    assert file_digest(made / "hint.bin") == lost
    again, anew = changed("--photos", str(photos))
    assert (again["reused"], anew) == (again["variants"], set())
    rows = read_metadata(Path(again["tried"]))
    assert {row.kind for row in rows} == {"original", "variant"}
    assert Path(again["sheet"]).is_file()
    # Other photographs are calibrated on.
    assert changed("--photos", str(other))[1] <= {"denoiser_lcm_int8.bin"}
    stamp = json.loads((made / "onnx" / "denoiser_lcm_int8" / "made_of.json").read_text())
    assert stamp["made_of"]["pictures"] == [file_digest(other / "a.png")]
    shutil.rmtree(made)
