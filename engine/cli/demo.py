"""The demo: a team's street photographs, their counterfactual suite, and what it says about the team's models.

The sources are scenes of the street world, written as files as a team would have them: mostly clear and cloudy days.
The models under test saw nothing else in training. The suite shows them the same streets in other weather and light.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..config.profile import load_profile
from ..edit import EDIT_TYPES
from ..journey import Journey, JourneySettings, RunSummary
from ..judging.confusion import confusion_matrix
from ..judging.evaluate import Evaluation, Score, evaluate_labels, evaluate_masks
from ..pocket.judges import Classifier, Segmenter
from ..pocket.render import render
from ..pocket.world import CLASSES, Scene, sample_scene
from ..report.album import Answer, mark_answers
from ..report.folder import ReportText, write_report
from ..report.originals import originals_of
from ..report.table import Table
from ..sources.source import ImageSettings, Source, find_sources, load_mask, load_pixels
from ..suite import Suite, VariantRow, read_metadata
from ..tasks.task import builtin_task
from .run_text import as_data, cost_line, count_line, duration, figure, percent, time_lines
from .terminal import Terminal

STREAM = 901
_FAIR = ("clear", "cloudy")

Images = NDArray[np.uint8]


@dataclass(frozen=True)
class ModelResults:
    """The models under test on originals and variants, and the classifier's answer to each picture (`mark_answers`)."""

    classifier: Evaluation
    segmenter: Evaluation
    answers: dict[str, Answer]


def run_demo(out: Path, count: int, variants: int, terminal: Terminal) -> None:
    """Make the demo in the folder `out`, with `count` sources; a second run goes on where the first was stopped."""
    clock = [time.monotonic()]
    profile, suite_path = load_profile("pocket"), out / "suite"
    write_sources(out / "sources", count)
    sources, _ = find_sources(out / "sources")
    clock.append(time.monotonic())
    settings = JourneySettings(
        task=builtin_task("classification"), variants=variants, edits=(1, 3), seed=0, interventions=None
    )
    with Suite.open(suite_path) as suite, terminal.progress() as on_progress:
        report = Journey(profile, settings).run(sources, suite, on_progress)
    clock.append(time.monotonic())
    rows, weights = read_metadata(suite_path), profile.models.path
    results = ask_models(rows, suite_path, sources, profile.image, Classifier.load(weights), Segmenter.load(weights))
    clock.append(time.monotonic())
    table = results_table(results)
    files = write_report(
        out,
        rows,
        suite_path,
        _text(report, results, table, variants),
        originals=originals_of(sources, profile),
        answers=results.answers,
    )
    clock.append(time.monotonic())
    parts = dict(zip(("sources", "suite", "judging", "page"), np.diff(clock).tolist(), strict=True))
    terminal.say(cost_line(report))
    for line in time_lines(report):
        terminal.say(line)
    terminal.say(count_line(report))
    terminal.say("time       " + ", ".join(f"{name} {duration(seconds)}" for name, seconds in parts.items()))
    terminal.show(table)
    for name, path in (
        ("look at", files.sheet),
        ("and at", files.page),
        ("suite", suite_path),
        ("sources", out / "sources"),
    ):
        terminal.say(f"{name:<10} {path}")
    terminal.finish(
        {
            "suite": str(suite_path),
            "page": str(files.page),
            "sheet": str(files.sheet),
            **as_data(report),
            "classifier": results.classifier.to_json(),
            "segmenter": results.segmenter.to_json(),
            "parts_s": parts,
        }
    )


def _text(report: RunSummary, results: ModelResults, table: Table, variants: int) -> ReportText:
    before, after = (side.score.value for side in (results.classifier.originals, results.classifier.variants))
    miou_before, miou_after = (side.score.value for side in (results.segmenter.originals, results.segmenter.variants))
    return ReportText(
        title="A counterfactual suite",
        subtitle=f"{report.sources} street scenes, {variants} variants each: the same layout and the same label "
        "under other weather, light and colours. In red: the model under test is wrong, or the variant was rejected.",
        figures=(
            ("variants accepted", f"{report.accepted} of {report.variants}"),
            ("classifier's accuracy", f"{percent(before)} \N{RIGHTWARDS ARROW} {percent(after)}"),
            ("segmenter's mIoU", f"{percent(miou_before)} \N{RIGHTWARDS ARROW} {percent(miou_after)}"),
            (f"{report.device}-hours per 1,000 accepted", figure(report.device_hours_per_1k_accepted)),
        ),
        tables=(table,),
    )


def demo_scene(index: int) -> Scene:
    """Scene number `index` of the demo: two of three are fair days, the others as the world draws them."""
    scene = sample_scene(np.random.default_rng((STREAM, index)))
    return scene if index % 3 == 2 else replace(scene, weather=_FAIR[index // 3 % 2], time="day")


def write_sources(folder: Path, count: int) -> None:
    """Render `count` scenes into `folder`/images/<kind>/NNNN.png and `folder`/masks/<kind>/NNNN.png."""
    for index in range(count):
        scene = demo_scene(index)
        for kind, array in zip(("images", "masks"), render(scene), strict=True):
            path = folder / kind / scene.label / f"{index:04d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(array).save(path)


def ask_models(
    rows: Sequence[VariantRow],
    suite: Path,
    sources: Sequence[Source],
    image: ImageSettings,
    classifier: Classifier,
    segmenter: Segmenter,
) -> ModelResults:
    """Ask both models under test about every source and every variant of a suite of street scenes with masks."""
    originals = np.stack([load_pixels(s, image.short_side, image.multiple, image.max_long_side) for s in sources])
    truths = np.stack([load_mask(source, originals.shape[1:3]) for source in sources])
    variants = np.stack([np.asarray(Image.open(suite / row.file_name).convert("RGB")) for row in rows])
    carried = np.stack([np.asarray(Image.open(suite / row.mask)) for row in rows if row.mask is not None])
    of_sources, of_variants = classifier.predict(originals), classifier.predict(variants)

    pairs = {source.name: (str(source.label), answer) for source, answer in zip(sources, of_sources, strict=True)}
    masks_of_originals = segmenter.predict(originals)
    counts = {s.name: _counts(t, m) for s, t, m in zip(sources, truths, masks_of_originals, strict=True)}
    return ModelResults(
        classifier=evaluate_labels(rows, of_variants, pairs),
        segmenter=evaluate_masks(
            rows, [_counts(t, m) for t, m in zip(carried, segmenter.predict(variants), strict=True)], counts, CLASSES
        ),
        answers=mark_answers(rows, of_variants, pairs),
    )


def _counts(truth: NDArray[Any], predicted: NDArray[Any]) -> NDArray[np.int64]:
    return confusion_matrix(truth, predicted, len(CLASSES))


def results_table(results: ModelResults) -> Table:
    """Accuracy and mIoU on originals, on accepted variants, and by kind of edit."""
    rows = [
        _row("originals", results.classifier.originals.score, results.segmenter.originals.score),
        _row("variants", results.classifier.variants.score, results.segmenter.variants.score),
    ]
    by_type = results.classifier.by_edit_type
    rows += [
        _row(f"  {kind} edited", by_type[kind], results.segmenter.by_edit_type[kind])
        for kind in EDIT_TYPES
        if kind in by_type
    ]
    return Table("Models under test", ("pictures", "count", "classifier's accuracy", "segmenter's mIoU"), tuple(rows))


def _row(name: str, labels: Score, masks: Score) -> tuple[str, ...]:
    return name, str(labels.count), percent(labels.value), percent(masks.value)
