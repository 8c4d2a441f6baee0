"""`python -m counterfactory.export a10g`: every network of the box, exported, compared, and compiled where asked.

Each graph is made in a process of its own, which gives all of its memory back. `export.json` has a row a graph and is
written again after each, so that a run that was stopped leaves what it made.
"""

from __future__ import annotations

import argparse
import errno
import json
import logging
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.writing import TEMPORARY_SUFFIX, explain_os_errors, make_folder, write_whole
from counterfactory.engine.meter.machine import free_memory
from counterfactory.engine.models.painters import editor_form
from counterfactory.engine.models.plan_facts import decoder_gb, plan_facts
from counterfactory.engine.profile.profile import Profile, load_profile
from counterfactory.engine.profile.runtime import WeightSettings
from counterfactory.engine.runtime.opening import note_unplanned
from counterfactory.engine.runtime.trt_library import BOX_LIBRARY, BOX_TARGET, LIBRARIES
from counterfactory.engine.suite.lock import Lock

from ..graphs.hub import require_access
from ..plans.tensorrt import TARGETS, require_compiler, resolve_target
from ..precision.half import ISLANDS
from . import blip2, clip, denoiser, florence2, hed, reuse, sentence, vae
from .artefact import Asked, Precision, Row, compile_rows, export_graph, work_folder
from .aside import alone
from .examples import on_streets, painting
from .graph import Graph, Request, Sources, batches_of, names_of
from .workspace import Workspace

_Say = Callable[[str], None]
# The errors of a full disk, and how many bytes one has left at most.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_LEAST_DISK = 50_000_000
# What takes no longer was there before.
_AT_ONCE_S = 1.0
# How many times what was made the time is told of: tiny graphs take their time for other things than bytes.
_FORETOLD = 4


def graphs_of(request: Request) -> dict[str, Callable[[], Graph]]:
    """What builds each network, by name: the captioner's decoder, which takes most to make, then in the order of a
    picture's journey; HED where it has weights, the sentence encoder where the profile grounds by it, the shallow
    denoiser where it uses deep features again. With [invert] an
    editor stands in the denoiser's place, and hints are left out where it follows none; with that or [protect] there is
    an encoder of pictures.
    """
    sources = request.sources
    hints = len(sources.controlnets) if sources else request.controls
    captioner = florence2 if request.florence2 else blip2
    names = [f"hint_{i}" if i else "hint" for i in range(max(hints, 1)) if request.editor != "without controls"]
    makers: dict[str, Callable[[Request], Graph]] = {
        "opt_decoder": captioner.decoder_graph,
        "blip2_vision": captioner.vision_graph,
        "sentence": sentence.graph,
        "clip_text": clip.text_graph,
        **{name: partial(denoiser.hint_graph, index=i) for i, name in enumerate(names)},
        "vae_encoder": vae.encoder_graph,
        "denoiser": denoiser.denoiser_graph,
        "denoiser_shallow": denoiser.shallow_graph,
        "vae_decoder": vae.decoder_graph,
        "clip_image": clip.image_graph,
        "hed": hed.graph,
    }
    may_lack = {"blip2_vision", "opt_decoder", "sentence", "vae_encoder", "denoiser_shallow"}
    left_out = may_lack - set(request.batches)
    left_out |= set() if sources is None or sources.hed else {"hed"}
    return {name: partial(make, request) for name, make in makers.items() if name not in left_out}


def export_one(name: str, request: Request, out: Path, asked: Asked, threads: int) -> list[Row]:
    """Export one network to `out`, with the small files that belong beside it."""
    torch.set_num_threads(threads)
    # PyTorch's exporter tells of packages that it could use and of its own deprecations.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")

    own = replace(request, scratch=work_folder(out, request.plan(name)))

    def build() -> Graph:
        graph = graphs_of(own)[name]()
        if name == "opt_decoder":
            (florence2 if request.florence2 else blip2).write_tokens(request, graph, out)
        elif name == "sentence":
            sentence.write_tokenizer(request, out)
        elif name == "clip_text":
            clip.write_tokenizer(request, out)
        elif name == "vae_decoder":
            vae.write_latent(request, out)
        # On a CPU no island is looked for, for which examples of real use are made, at the cost of memory.
        shown = graph if asked.precision == "openvino" else on_streets(graph, own)
        return replace(shown, name=request.plan(name))

    asked = replace(asked, int8=asked.int8 and name == "denoiser")
    return export_graph(build, out, asked, random=request.random, painting=partial(painting, request))


def export_all(
    request: Request,
    out: Path,
    *,
    only: Sequence[str] = (),
    asked: Asked,
    threads: int = 0,
    again: bool = False,
    say: _Say = lambda _: None,
    sizes: Mapping[str, float] | None = None,
) -> list[str]:
    """Export the networks of `only`, or all, to `out`; returns what went wrong, a sentence each.

    `sizes` are 10^9 bytes of the networks' weights, by which the time that is left is told.
    What an earlier export to `out` made of the same is left as it is, unless it is to be made `again`. Rows of earlier
    runs stay in export.json unless made again. Raises CounterfactoryError for a name of no network, and while another
    export goes to `out`.
    """
    names = list(graphs_of(request))
    unknown = sorted(set(only) - set(names))
    if unknown:
        raise CounterfactoryError(f"no graph {', '.join(unknown)}; there are {', '.join(names)}")
    make_folder(out)
    lock = Lock(out / "export.lock")
    try:
        wanted = [name for name in names if not only or name in only]
        pace = _Pace({name: (sizes or {}).get(name, 0.0) for name in wanted}, say)
        return [fault for name in wanted for fault in _export(name, request, out, asked, threads, again, pace)]
    finally:
        lock.release()


@dataclass
class _Pace:
    """How far an export is, by 10^9 bytes of weights that are known, and what it takes for each that was written."""

    sizes: Mapping[str, float]
    say: _Say
    left: set[str] = field(init=False)
    done_gb: float = 0.0
    made_gb: float = 0.0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.left = set(self.sizes)

    def tell(self, name: str, rows: Sequence[Row], seconds: float) -> None:
        """Say how far it is after a graph; of one that failed nothing. Graphs that were there took no time, and the
        time that is left is told once what was made is no small part of what is to be.
        """
        self.left.discard(name)
        total_gb, left_gb = sum(self.sizes.values()), sum(self.sizes[one] for one in self.left)
        if not total_gb or not rows or any(row.faults for row in rows):
            return
        self.done_gb += self.sizes[name]
        if seconds > _AT_ONCE_S:
            self.made_gb, self.seconds = self.made_gb + rows[0].onnx_bytes / 1e9, self.seconds + seconds
        told = f"graphs: {self.done_gb:.1f} of {total_gb:.1f} GB done"
        if 0 < left_gb <= _FORETOLD * self.made_gb:
            told += f", about {timedelta(seconds=round(left_gb * self.seconds / self.made_gb))} left"
        self.say(told)


def _export(name: str, request: Request, out: Path, asked: Asked, threads: int, again: bool, pace: _Pace) -> list[str]:
    """Export a network and note its rows; returns what went wrong, which keeps nothing else from being made."""
    say, began = pace.say, time.monotonic()
    try:
        with _explained(out):
            rows = _rows(name, request, out, asked, threads or os.cpu_count() or 1, again, say)
            # In the place of earlier rows of the same names.
            kept = [row for row in reuse.on_record(out) if row["name"] not in {row.name for row in rows}]
            write_whole(out / "export.json", json.dumps(kept + [asdict(row) for row in rows], indent=2) + "\n")
    except CounterfactoryError as error:
        say(f"{name} failed: {error}")
        pace.tell(name, (), 0.0)
        return [f"{name}: {error}"]
    faults = [fault for row in rows for fault in row.faults]
    for row in rows:
        say(_line(row))
    pace.tell(name, rows, time.monotonic() - began)
    if asked.plans:
        lacking = [row for row in rows if not row.compiled and row.name not in asked.unplanned]
        faults += [f"{row.name} was not compiled: {row.why}" for row in lacking]
    return faults


@contextmanager
def _explained(out: Path) -> Iterator[None]:
    """Turns what a full disk, or a system short of memory, does to a process into a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        with explain_os_errors(Path(error.filename or out)):
            raise
    except RuntimeError as error:  # a page of a mapped file that the disk has no room for ends the process
        free_disk, ended = shutil.disk_usage(out).free, isinstance(error, BrokenProcessPool)
        if not ended and free_disk >= _LEAST_DISK:
            raise
        what = "the system ended its process" if ended else "it failed on a full disk"
        free = f"{sum(free_memory()) / 1e9:.1f} GB of memory, swap included, and {free_disk / 1e9:.1f} GB of disk"
        todo = "make room and run the same command again; what was made before is kept"
        raise CounterfactoryError(f"{what}, with {free} free now: {todo}") from error
    finally:  # what a process that was ended leaves
        shutil.rmtree(out / "work", ignore_errors=True)
        for part in (out / "plans").glob(f"*{TEMPORARY_SUFFIX}"):
            part.unlink(missing_ok=True)


def sizes_of(profile: Profile, request: Request) -> dict[str, float]:
    """10^9 bytes of each network's weights, as far as they are known."""
    known = {plan: facts.weight_bytes / 1e9 for plan, facts in plan_facts(profile).items()}
    return {name: known.get(request.plan(name), 0.0) for name in graphs_of(request)}


def _rows(name: str, request: Request, out: Path, asked: Asked, threads: int, again: bool, say: _Say) -> list[Row]:
    """Export one network, compile it, or neither; its rows.

    Each in a process of its own: what the first one held, weights in files that are deleted by then among it, has gone
    when the compiler takes memory and disk.
    """
    made, plan = reuse.made_of(name, request, asked), request.plan(name)
    if asked.plans:
        note_unplanned(out, plan, plan in asked.unplanned)
        asked = replace(asked, plans=plan not in asked.unplanned)
    both = [plan, f"{plan}_int8"] if asked.int8 and name == "denoiser" else [plan]
    rows = None if again else reuse.kept(out, both, made)
    to_compile = [] if rows is None else reuse.uncompiled(out, rows, asked)
    if rows is not None and reuse.compilable(out, to_compile):
        say(f"{name}: exported before" + (", compiled ..." if to_compile else "; say --again to make it anew"))
        new = {row.name: row for row in alone(compile_rows, to_compile, out, asked)} if to_compile else {}
        return [new.get(row.name, row) for row in rows]
    say(f"{name} ...")
    rows = alone(export_one, name, request, out, replace(asked, plans=False), threads)
    reuse.note(out, rows, made)
    return alone(compile_rows, rows, out, asked) if asked.plans else rows


def _line(row: Row) -> str:
    scratch = "" if row.workspace_bytes is None else f", workspace up to {row.workspace_bytes / 1e6:,.0f} MB"
    fused = f", {row.fused_attention} of {row.attentions} attentions fused" * bool(row.attentions)
    made = f"plan {row.plan_bytes / 1e6:.1f} MB in {row.plan_seconds:.0f} s{scratch}{fused}"
    plan = made + f" ({row.doubt})" * bool(row.doubt) if row.compiled else f"no plan ({row.why})"
    islands = ", ".join(row.islands) or "none"
    return (
        f"{row.name}: {row.parameters / 1e6:.1f} M parameters, {row.precision}, islands {islands}, "
        f"off by {row.parity_error:.1e} (bound {row.parity_bound:g}), {row.onnx_bytes / 1e6:.1f} MB, {plan}, "
        f"{row.seconds:.0f} s, peak {row.peak_memory_bytes / 1e9:.1f} GB"
    )


def add_command(commands: Any) -> None:
    parser = commands.add_parser("a10g", help="export the networks of a GPU box and compile them", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder of the export (default: the profile's [models] folder)")
    parser.add_argument("--random", action="store_true", help="seeded random weights: for sizes, speed and CI")
    parser.add_argument("--small", action="store_true", help="the same classes in a tiny configuration (with --random)")
    parser.add_argument("--only", default="", help="some of the graphs, with commas: denoiser,hed")
    parser.add_argument("--again", action="store_true", help="export also what is there, of the same weights")
    parser.add_argument("--plans", action="store_true", help="compile each graph")
    libraries = tuple(name.replace("_", "-") for name in LIBRARIES)
    compiles = "what compiles: tensorrt on the box itself, tensorrt-rtx anywhere (%(default)s)"
    parser.add_argument("--library", choices=libraries, default=BOX_LIBRARY, help=compiles)
    card = "the compute capability of the GPU that plans are for; 'this' machine's is all that tensorrt makes"
    parser.add_argument("--target", choices=TARGETS, default=BOX_TARGET, help=f"{card} (%(default)s)")
    form = "of the ONNX graphs, or OpenVINO's form (default: as the profile's runtime takes)"
    parser.add_argument("--precision", choices=("fp16", "fp32", "openvino"), help=form)
    islands = f"of fp16, instead of looking for them: {', '.join(ISLANDS)}"
    parser.add_argument("--islands", metavar="NAMES", help=islands)
    int8 = "an int8 form of the denoiser beside it, for TensorRT (unproven on TensorRT-RTX)"
    parser.add_argument("--int8", action="store_true", help=int8)
    parser.add_argument("--threads", type=int, default=0, help="threads of torch (default: all cores)")
    for name, what in (
        ("blip2", "BLIP-2 with OPT"),
        ("florence2", "Florence-2, as captioner in BLIP-2's place"),
        ("clip", "CLIP ViT-L/14"),
        ("diffusion", "a Stable Diffusion 1.x pipeline"),
        ("hed", "ControlNet's HED weights, a file"),
        ("tiny-vae", "TAESD, in place of the pipeline's decoder"),
        ("sentence", "the sentence encoder of a profile with [grounding]"),
    ):
        parser.add_argument(f"--{name}", help=f"{what}: a path, ID@COMMIT or ID@COMMIT/FILE (default: the profile's)")
    for name, what in (
        ("controlnet", "a ControlNet; several are summed"),
        ("lora", "FILE or ID@COMMIT/FILE, maybe :WEIGHT; merged into the UNet"),
    ):
        parser.add_argument(f"--{name}", dest=f"{name}s", action="append", default=[], help=what)
    parser.add_argument("--captioner", choices=("2.7b", "6.7b", "florence2"), default="6.7b", help="size with --random")
    parser.add_argument("--caption-side", type=int, choices=(224, 364), default=364, help="pixels with --random")
    parser.add_argument("--controls", type=int, default=1, help="number of ControlNets with --random")
    parser.add_argument("--random-tiny-vae", action="store_true", help="the small decoder with --random")
    parser.add_argument("--hint-channels", type=int, choices=(1, 3), default=1, help="1 grey, 3 colours")
    taken = "whose weights, sizes of pictures, batches and memory are taken (%(default)s)"
    parser.add_argument("--profile", default="a10g", help=taken)
    parser.add_argument("--batch", action="append", default=[], metavar="NAME=ROWS", help="rows of a plan instead")
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace, say: _Say = lambda _: None) -> int:
    """Do what the command line asks; returns the exit status, 1 where a graph failed, missed its bound or a plan."""
    only = [name for name in asked.only.split(",") if name]
    profile = load_profile(asked.profile)
    request, library = _request(asked, profile), asked.library.replace("-", "_")
    # Random weights go where they are told to, never in the place of a box's own.
    if asked.out is None and (asked.random or profile.models.folder == "pocket"):
        raise CounterfactoryError("name the folder of the export: --out DIR")
    out: Path = asked.out or profile.models.path
    usual: Precision = "openvino" if profile.runtime.backend == "openvino" else "fp16"
    precision: Precision = asked.precision or usual
    if precision == "openvino" and (asked.plans or asked.int8):
        raise CounterfactoryError("--plans and --int8 are made of ONNX graphs, for GPUs: leave them out with openvino")
    target = resolve_target(asked.target) if asked.plans else BOX_TARGET
    if asked.plans:
        require_compiler(library, target)
    if asked.int8 and profile.invert is not None:
        raise CounterfactoryError(
            f"--int8 is calibrated by painting from noise, and profile {profile.name} inverts: leave it out"
        )
    islands = None if asked.islands is None else tuple(name for name in asked.islands.split(",") if name)
    if unknown := sorted(set(islands or ()) - ISLANDS.keys()):
        raise CounterfactoryError(f"no island {', '.join(unknown)}; there are {', '.join(ISLANDS)}")
    unplanned = _unplanned(request, out, asked.plans, say)
    if request.sources is not None:
        # The language model, too, which is made last: its weights may be given to those alone who ask for them.
        last = () if profile.weights is None or only else (profile.weights.llm,)
        require_access((*request.sources.all, *last))
    if not only or "denoiser" in only:
        denoiser.sampler_of(request)  # a file that the profile contradicts, before hours are spent on the others
    form = Asked(precision, asked.int8, asked.plans, library, target, islands, Workspace(profile, out), unplanned)
    faults = export_all(
        request,
        out,
        only=only,
        asked=form,
        threads=asked.threads,
        again=asked.again,
        say=say,
        sizes=sizes_of(profile, request),
    )
    for fault in faults:
        say(f"error: {fault}")
    return 1 if faults else 0


def _unplanned(request: Request, out: Path, plans: bool, say: _Say) -> tuple[str, ...]:
    """The plans that this machine has too little memory to compile, said before anything is fetched: the captioner's
    decoder, the largest by far.
    """
    if "opt_decoder" not in request.batches:
        return ()
    plan = request.plan("opt_decoder")
    if not plans or request.small or request.florence2 or (out / "plans" / f"{plan}.plan").is_file():
        return ()
    named = request.captioner if request.sources is None else str(request.sources.blip2)
    needed_gb = decoder_gb(named)
    free_gb = sum(free_memory()) / 1e9
    if free_gb >= needed_gb:
        return ()
    say(
        f"opt_decoder: compiling it takes {needed_gb:g} GB of the host's memory, and {free_gb:.1f} are free with swap; "
        "it gets no plan, and ONNX Runtime's CUDA provider computes it (requirements/onnxruntime-gpu.txt); for a plan "
        "add swap and say this again, or take a smaller captioner, as profile gpu has"
    )
    return (plan,)


def _request(asked: argparse.Namespace, profile: Profile) -> Request:
    given = {field.name: getattr(asked, field.name) for field in fields(Sources)}
    named = Sources(**given | {"controlnets": tuple(asked.controlnets), "loras": tuple(asked.loras)})
    if asked.random and named != Sources():
        raise CounterfactoryError("--random was asked for together with weights: name the one or the other")
    if not asked.random and named == Sources() and profile.weights is None:
        raise CounterfactoryError(
            f"profile {profile.name} has no table [weights]: name weights (--blip2, --clip, --diffusion, --controlnet) "
            "or say --random"
        )
    batches = batches_of(profile)
    request = request_of(profile, None if asked.random else sources_of(profile.weights, named))
    told = {name: getattr(asked, name) for name in ("small", "captioner", "caption_side", "controls", "hint_channels")}
    rows = {**batches, **_batches(asked.batch, batches)}
    return replace(request, **told, tiny_vae=asked.random_tiny_vae, batches=rows)


def request_of(profile: Profile, sources: Sources | None) -> Request:
    """What is exported for a profile. Raises CounterfactoryError where it does not say the sizes of pictures."""
    if not profile.image.sizes:
        raise CounterfactoryError(
            f"profile {profile.name} paints at sizes that follow from each picture, and plans take few: "
            "name them in [image] buckets"
        )
    return Request(
        sources=sources,
        sizes=profile.image.sizes,
        batches=batches_of(profile),
        names=names_of(profile),
        prompt_tokens=profile.caption.prompt_tokens,
        # At least as many as usual: profiles of shorter captions share the plan of a folder.
        caption_tokens=max(Request.caption_tokens, profile.caption.decoding.max_tokens),
        beams=profile.caption.decoding.beams,
        paint=profile.paint,
        editor=editor_form(profile),
    )


def sources_of(usual: WeightSettings | None, named: Sources) -> Sources:
    """What the command line names, and the profile's where it names nothing."""
    if usual is None:
        return named
    found = {field.name: getattr(named, field.name) or getattr(usual, field.name) for field in fields(Sources)}
    if named.blip2 and not named.florence2:  # one captioner
        found["florence2"] = None
    return Sources(**found)


def _batches(said: Sequence[str], usual: Mapping[str, int]) -> Mapping[str, int]:
    found = {}
    for one in said:
        name, _, rows = one.partition("=")
        if name not in usual or not rows.isdigit() or int(rows) < 1:
            raise CounterfactoryError(f"--batch takes NAME=ROWS with NAME of {', '.join(usual)}, got {one!r}")
        found[name] = int(rows)
    return found
