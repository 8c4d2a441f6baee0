"""Runs of the engine for benches: rendered sources in, a suite and what it took out; and the work that was behind it.

`work_of` gives the engine's captions, its questions to the language model with their answers, and the variants that
were painted, source by source, so that others can be given the same.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
from measure import Pixels, Spent, picture_at, spent, with_masters

from counterfactory.engine.inputs import Inputs
from counterfactory.engine.journey import Journey
from counterfactory.engine.keys import content_key
from counterfactory.engine.language.chat import prompts_of
from counterfactory.engine.language.llm_request import LlmRequest
from counterfactory.engine.language.open_llm import open_llm
from counterfactory.engine.models.denoiser import PaintPlans
from counterfactory.engine.models.model_pool import ModelPool
from counterfactory.engine.models.networks import library_of
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.paint.paint_variants import PaintJob, paint
from counterfactory.engine.stages.rewrite.caption_edits import Questions
from counterfactory.engine.stages.rewrite.rewrite_captions import rewrite
from counterfactory.engine.suite import Suite, read_metadata
from counterfactory.engine.suite.run_record import RunSummary
from counterfactory.engine.variant import Variant
from counterfactory.export.graphs.recording import master_of

if TYPE_CHECKING:
    from counterfactory.export.pocket.observed import Pair


# The stream of the scenes that runs take.
STREAM = 56


@dataclass(frozen=True)
class Run:
    """A run of the engine: its report, and what everything but the loading of models took on the wall; the seconds of
    cores are with loading.
    """

    report: RunSummary
    spent: Spent


@dataclass(frozen=True)
class Bench:
    """What all runs of one bench share. Suites are made in `folder`."""

    profile: Profile
    settings: SuiteRequest
    sources: Sequence[Source]
    folder: Path

    def run(self, name: str) -> Run:
        """The whole journey into the new suite `folder`/`name`."""
        gc.collect()
        reports: list[RunSummary] = []

        def work() -> None:
            with Suite.open(self.folder / name) as suite:
                reports.append(Journey(self.profile, self.settings).run(Inputs(self.sources), suite))

        took = spent(work)
        return Run(reports[0], replace(took, wall_s=took.wall_s - reports[0].models_load_s))


@dataclass(frozen=True)
class Call:
    """A question to the language model and the engine's answer."""

    request: LlmRequest
    answer: str


@dataclass(frozen=True)
class Work:
    """What the engine did for a source: its caption, its questions, and the variants that were painted."""

    source: Source
    caption: str
    calls: tuple[Call, ...]
    variants: tuple[Variant, ...]


def save_sources(folder: Path, pictures: Mapping[str, Pixels]) -> list[Source]:
    """Pictures saved by their names, found as the command line finds them."""
    for name, picture in pictures.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(folder / name), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    return find_sources(folder)[0]


def render_sources(folder: Path, count: int) -> list[Source]:
    scenes = [EMBEDDED.scene(STREAM, i) for i in range(count)]
    return save_sources(folder, {f"{s.label}/{i:04d}.png": EMBEDDED.draw(s).picture for i, s in enumerate(scenes)})


def work_of(bench: Bench, name: str, most: int) -> list[Work]:
    """The work behind the finished suite `name`, of at most `most` of the sources of which something was painted.

    The language model is asked again, to have its questions on record.
    """
    profile, settings = bench.profile, bench.settings
    captions = {row.source: row.caption for row in read_metadata(bench.folder / name)}
    llm = open_llm(library_of(profile).llm_path, profile.llm, profile.runtime)
    prompts, works = prompts_of(profile.llm.style), []
    for source in [source for source in bench.sources if source.name in captions][:most]:
        calls: list[Call] = []

        def ask(_: str, requests: Sequence[LlmRequest], calls: list[Call] = calls) -> Sequence[str]:
            answers = llm.generate(requests)
            calls += map(Call, requests, answers)
            return answers

        texts = [captions[source.name]]
        (rewritten,) = rewrite([source], texts, Questions(profile.rewrite, settings, ask, prompts))
        standing = tuple(v for v in rewritten.variants if v.dropped is None)
        works.append(Work(source, captions[source.name], tuple(calls), standing))
    llm.close()
    return works


def pictures_of(suite: Path) -> dict[str, Pixels]:
    return {row.key: picture_at(suite / row.file_name) for row in read_metadata(suite) if row.kind != "original"}


def fully_guided(profile: Profile) -> Profile:
    """The profile with every step guided, as diffusers' pipelines do it."""
    guidance = replace(profile.paint.guidance, start=0.0, stop=1.0)
    return replace(profile, paint=replace(profile.paint, guidance=guidance))


def paint_pairs(
    models: ModelPool, plans: PaintPlans, profile: Profile, pairs: Sequence[Pair], embed: Callable[[Pair], Any],
    purpose: str, **how: Any,
) -> tuple[list[Pixels], float]:  # fmt: skip
    """Pictures of the pairs' captions over what `embed` makes of each source, in the pairs' order, from the noise of a
    `purpose`; and the core-seconds of painting. `how` is of every PaintJob.
    """
    clip, jobs, found = models.clip_text(), list[PaintJob](), list[tuple[int, Pixels]]()
    (negative,) = clip.encode_states([profile.paint.negative_prompt])
    texts = iter(clip.encode_states([pair.caption for pair in pairs]))
    for source, group in groupby(pairs, key=lambda pair: pair.source):
        same = list(group)
        hint = embed(same[0])
        keys = [content_key(purpose, source, number, pair.caption) for number, pair in enumerate(same)]
        jobs += [PaintJob(key, next(texts), hint, plans, **how) for key in keys]
    took = spent(lambda: found.extend(paint(jobs, negative, profile.paint)))
    return [picture for _, picture in sorted(found, key=lambda painted: painted[0])], took.cpu_s


def unquantised(profile: Profile) -> Profile:
    """The profile with the denoiser that rounds nothing to integers."""
    return replace(with_masters(profile), paint=replace(profile.paint, denoiser=master_of(profile.paint.denoiser)))


def in_f32(profile: Profile) -> Profile:
    """The profile in full precision, no integers in it."""
    return replace(unquantised(profile), runtime=replace(profile.runtime, precision="f32"))
