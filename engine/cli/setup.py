"""`counterfactory setup`: what a profile of published weights needs, fetched, made and tried.

What it takes is said, and refused where the machine lacks it, before anything begins. The exporter does the work, as a
program of its own: it needs packages that the engine does without. Then a photograph or two go through the whole
journey, and a line of figures is kept. What was done is kept and not done again.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from PIL import Image

from ..api import verbs
from ..errors import CounterfactoryError
from ..files.writing import make_folder, open_whole, write_whole
from ..meter.machine import machine
from ..models.networks import library_of
from ..pocket.worlds import EMBEDDED
from ..profile.profile import Profile, load_profile
from ..profile.published import Checkpoint, hub_folder
from ..report.table import Table
from ..suite.run_record import RunSummary
from . import doctor
from .demo import write_sources
from .exporting import COMMAND, EXPORTS_WITH, FOR_CPUS, exporter_python, run_program
from .room import Provision, provision_of, require_room
from .run_text import as_data, cost_line, cost_table, count_line, time_lines
from .statuses import EXIT_SKIPPED
from .terminal import Terminal

# Bytes a second of a download.
_BYTES_PER_S = 50e6
_STREAM, _SCENES = 902, 4
_TRIED = 2  # photographs that go through the journey
# What the pictures that are tried are for: nothing that needs a label.
TRIAL = 'name = "trial"\nsentence = "tell what the image shows"\nprotect = []\nprotect_label = true\n'


def setup(args: Namespace, terminal: Terminal) -> int:
    profile = load_profile(args.profile)
    if profile.weights is None or profile.runtime.provider == "cpu":
        raise CounterfactoryError(
            f"setup makes profiles from published weights, such as cpu, gpu and a10g; profile {profile.name} is none: "
            f"see what it needs with 'counterfactory doctor --profile {args.profile}'"
        )
    on_gpu, folder = profile.runtime.on_gpu, profile.models.path
    if on_gpu and args.weights is not None:
        raise CounterfactoryError("--weights is for CPUs: for a GPU set HF_HUB_CACHE to the folder of the hub's cache")
    library = library_of(profile)
    missing = [network.name for network in library.networks if library.state(network)[0] != "found"]
    provision = provision_of(profile, missing, args.weights)
    terminal.show(_table(provision.checkpoints, provision.weights))
    if missing:
        terminal.say(*_need_lines(provision))
        require_room(provision)
    examination = doctor.examine(profile, named_as=args.profile)
    if on_gpu and (first := doctor.first_of_all(profile, examination, doctor.Place())):
        raise CounterfactoryError(f"profile {profile.name} cannot run here yet; say first: {first}")
    in_8_bits = not on_gpu and profile.paint.denoiser.endswith("_int8")
    work = bool(missing) or (in_8_bits and args.photos is not None)
    python = exporter_python(args.exporter, EXPORTS_WITH if on_gpu else FOR_CPUS, Path.home()) if work else ""
    if args.dry_run:
        terminal.say(f"to make    {', '.join(missing) or 'nothing: all is there'}")
        terminal.finish(
            {
                "missing": missing,
                "fetch_gb": provision.fetch_gb,
                "disk_gb": provision.needs.disk_gb,
                "folder": str(folder),
            }
        )
        return 0
    photos = args.photos or _scenes(folder / "photos", None if on_gpu else profile.image.short_side)
    began = time.monotonic()
    if in_8_bits and args.photos is None:
        terminal.say(
            "photos     none were named: the painter is calibrated on drawn streets, until --photos DIR names some"
        )
    if not missing:
        terminal.say(f"made before: {folder}; what is deleted there is made again")
    if missing and on_gpu:
        _make_for_gpu(profile, examination, args.profile, python, missing, terminal)
    elif work:
        words = ("cpu", "--profile", args.profile, "--weights", str(provision.weights), "--photos", str(photos))
        run_program([python, *COMMAND, *words, *([] if missing else ["--calibrate"])], terminal)
    made_s = time.monotonic() - began
    suite_path, task = folder / "tried", folder / "trial.toml"
    write_whole(task, TRIAL)
    with terminal.progress() as on_progress:
        suite = verbs.generate(
            photos, out=suite_path, profile=args.profile, task_file=task, variants=1, controls=0, sample=_TRIED,
            allow_ungrounded=True, on_progress=on_progress, warn=terminal.warn,
        )  # fmt: skip
    summary = suite.summary
    assert summary is not None, "a suite of a run that just ended"
    terminal.say(cost_line(summary), *time_lines(summary), count_line(summary))
    terminal.show(cost_table(summary))
    files = suite.report(warn=terminal.warn) if summary.variants else None
    sheet = None if files is None else str(files.sheet)
    rejected = [f"{row.source}: {row.reason}" for row in suite.rows if row.kind == "variant" and row.reason is not None]
    terminal.say(*(f"rejected   {one}" for one in rejected))
    if sheet is not None:
        terminal.say(f"look at    {sheet}")
    card = f"{examination.gpus[0].name}, driver {examination.gpus[0].driver}" if on_gpu else machine()
    figures = f"run on {date.today()}, {card}: {summary.variants / summary.wall_s:.3f} images/s with loading, "
    figures += f"{summary.accepted} of {summary.variants} accepted, {summary.peak_memory_bytes / 1e9:.1f} GB"
    with (folder / "runs.txt").open("a", encoding="utf-8") as kept:
        kept.write(figures + "\n")
    terminal.say(f"figures    {figures}")
    fault = _fault(summary, rejected, sheet)
    if fault is None:
        terminal.say(f"next       counterfactory generate PHOTOS --out suite --profile {args.profile}")
    else:
        terminal.error(f"profile {profile.name} is made, {fault}")
    data: dict[str, Any] = {"made_s": made_s, "folder": str(folder), "tried": str(suite_path), "figures": figures}
    data |= {"sheet": sheet, "reasons": rejected, "fault": fault}
    terminal.finish({**data, **as_data(summary)})
    return EXIT_SKIPPED if fault else 0


def _fault(summary: RunSummary, rejected: Sequence[str], sheet: str | None) -> str | None:
    """What the trial lacks, and what to do; None where a picture of it was accepted."""
    if summary.accepted:
        return None
    if summary.variants:
        return (
            f"and its checks accepted none of {summary.variants} pictures ({rejected[0]}): look at {sheet}, and "
            "name other photographs with --photos; thresholds are in [check]"
        )
    known = [f"{one.name}: {one.reason}" for one in (*summary.problems, *summary.shortfalls)]
    why = known[0] if known else f"{summary.dropped} edits broke the rules of the task"
    return f"and its trial painted no picture ({why}): name other photographs with --photos, and say this again"


def _make_for_gpu(
    profile: Profile,
    found_here: doctor.Examination,
    named_as: str,
    python: str,
    missing: Sequence[str],
    terminal: Terminal,
) -> None:
    """Export and compile what is missing, the language model last; each command goes on where it was stopped."""
    if set(missing) - {"llm"}:
        run_program([python, *COMMAND, *doctor.export_words(profile, found_here, named_as)], terminal)
    if "llm" in missing:
        by = python if profile.llm.on_cpu else sys.executable
        run_program([by, *COMMAND, "llm", "--profile", named_as], terminal)


def _table(checkpoints: Sequence[Checkpoint], weights: Path) -> Table:
    def state(one: Checkpoint) -> str:
        return ("to fetch, gated" if one.gated else "to fetch") if one.missing(weights, hub_folder()) else "here"

    rows = tuple((one.repository, one.licence, f"{one.bytes / 1e9:.2f}", state(one)) for one in checkpoints)
    total = sum(one.bytes for one in checkpoints)
    title = f"Published weights, {total / 1e9:.2f} GB in {weights}"
    return Table(title, ("checkpoint", "licence", "GB", "state"), rows)


def _need_lines(provision: Provision) -> list[str]:
    needs, fetch_gb = provision.needs, provision.fetch_gb
    lines = [f"download   {fetch_gb:.1f} GB, {1e9 * fetch_gb / _BYTES_PER_S / 60:.0f} min at 50 MB/s"]
    lines.append(f"disk       {needs.disk_gb:.0f} GB more while networks are made")
    if needs.minutes:
        lines.append(f"time       about {needs.minutes:.0f} min of exports on 2 cores; quantising was never timed")
    return lines


def _scenes(folder: Path, side: int | None) -> Path:
    """A folder of rendered streets, which stand for photographs where none are named: squares of so many pixels, or as
    they are, by their labels.
    """
    if side is None:
        write_sources(folder, _SCENES)
        return folder / "images"
    make_folder(folder)
    for index in range(_SCENES):
        file = folder / f"street-{index}.png"
        if not file.is_file():
            picture = Image.fromarray(EMBEDDED.draw(EMBEDDED.scene(_STREAM, index)).picture)
            with open_whole(file) as opened:
                picture.resize((side, side), Image.Resampling.LANCZOS).save(opened, "PNG")
    return folder
