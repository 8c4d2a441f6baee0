"""The demo: a team's street photographs, their counterfactual suite, and what it says about the team's models.

The sources are scenes of the street world, written as files as a team would have them: mostly clear and cloudy days.
The models under test saw nothing else in training. The suite shows them the same streets in other weather and light.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ..api.pages import describe_model, describe_suite
from ..files.writing import make_folder, open_whole
from ..inputs import Inputs
from ..journey import Journey
from ..judging.confusion import confusion_matrix
from ..judging.evaluate import evaluate_labels, evaluate_masks
from ..judging.evaluation import Evaluation
from ..pocket.judges import Classifier, Segmenter
from ..pocket.tasks import street_task
from ..pocket.worlds import EMBEDDED
from ..profile.profile import load_profile
from ..report.album import Answer, add_scores, mark_answers
from ..report.effects_text import effects_table, note_lines, other_table, sides_table
from ..report.folder import edge_detector, write_report
from ..report.page import ReportText
from ..report.suite_text import reason_table, suite_notes
from ..request import SuiteRequest
from ..runtime.blob_cache import find_blob_cache
from ..sources.data_set import find_sources
from ..suite import PictureRow, Suite, read_metadata
from ..suite.images import open_png
from .run_text import as_data, cost_line, count_line, duration, time_lines
from .terminal import Terminal

STREAM = 901


def demo(args: Namespace, terminal: Terminal) -> int:
    """A second run goes on where the first was stopped."""
    clock, out = [time.monotonic()], args.out
    profile, suite_path = load_profile("pocket"), out / "suite"
    write_sources(out / "sources", args.sources)
    # The world's own renderer drew them.
    sources = [replace(source, known_world=True) for source in find_sources(out / "sources")[0]]
    clock.append(time.monotonic())
    settings = SuiteRequest(
        task=street_task("classification"), variants=args.variants, controls=1, edits=(1, 3), seed=0, interventions=None
    )
    with Suite.open(suite_path) as suite, terminal.progress() as on_progress:
        report = Journey(profile, settings).run(Inputs(sources), suite, on_progress)
    clock.append(time.monotonic())
    rows, weights, blobs = read_metadata(suite_path), profile.models.path, find_blob_cache()
    models = Classifier.load(weights, blobs=blobs), Segmenter.load(weights, blobs=blobs)
    labels, masks, answers = ask_models(rows, suite_path, *models)
    clock.append(time.monotonic())
    tables = (
        *(table for of in (labels.effects, masks.effects) for table in (effects_table(of), other_table(of))),
        sides_table({f"classifier's {labels.measure_name}": labels, f"segmenter's {masks.measure_name}": masks}),
    )
    text, shown = _text(suite_path, rows, labels, masks), add_scores(rows, masks.effects.measure, masks.outcomes)
    files = write_report(out, shown, suite_path, text, edges=edge_detector(profile), answers=answers)
    clock.append(time.monotonic())
    parts = dict(zip(("sources", "suite", "judging", "page"), np.diff(clock).tolist(), strict=True))
    if report.cache_problem:
        terminal.warn(report.cache_problem)
    terminal.say(cost_line(report), *time_lines(report), count_line(report))
    terminal.say("time       " + ", ".join(f"{name} {duration(seconds)}" for name, seconds in parts.items()))
    terminal.show(*tables, *filter(None, [reason_table(rows)]))
    terminal.note(*suite_notes(rows), *note_lines(labels))
    for name, path in (("sources", out / "sources"), ("suite", suite_path), ("sheet", files.sheet)):
        terminal.say(f"{name:<10} {path}")
    terminal.note(text.findings[0].sentence)
    terminal.say(f"look at    {files.page}")
    terminal.finish(
        {
            "suite": str(suite_path),
            "page": str(files.page),
            "sheet": str(files.sheet),
            **as_data(report),
            "classifier": labels.to_json(),
            "segmenter": masks.to_json(),
            "parts_s": parts,
        }
    )
    return 0


def _text(suite: Path, rows: Sequence[PictureRow], labels: Evaluation, masks: Evaluation) -> ReportText:
    """Both models on one page, the classifier first."""
    classifier, segmenter = (
        describe_model(describe_suite(suite, rows), evaluation, name, (), rows)
        for evaluation, name in ((labels, "the demo's classifier"), (masks, "its segmenter"))
    )
    return replace(
        classifier,
        title="Counterfactory's demo: a classifier and a segmenter",
        findings=(*classifier.findings, *segmenter.findings),
        forests=(*classifier.forests, *segmenter.forests),
        figures=(*classifier.figures, segmenter.figures[-1]),
        tables=(
            *classifier.tables,
            *(replace(table, title=f"The segmenter. {table.title}") for table in segmenter.tables),
        ),
        classes=EMBEDDED.classes,
        remarks=(*classifier.remarks, *segmenter.remarks),
        data={"classifier": classifier.data, "segmenter": segmenter.data},
    )


def demo_scene(index: int) -> Any:
    """Scene number `index` of the demo: two of three are fair days, the others as the world draws them."""
    scene = EMBEDDED.scene(STREAM, index)
    return scene if index % 3 == 2 else EMBEDDED.fair(scene, index // 3)


def write_sources(folder: Path, count: int) -> None:
    """Render `count` scenes into `folder`/images/<kind>/NNNN.png and `folder`/masks/<kind>/NNNN.png."""
    for index in range(count):
        scene = demo_scene(index)
        for kind, array in zip(("images", "masks"), EMBEDDED.draw(scene).pair, strict=True):
            path = folder / kind / scene.label / f"{index:04d}.png"
            make_folder(path.parent)
            with open_whole(path, sync="nothing") as file:
                Image.fromarray(array).save(file, "PNG")


def ask_models(
    rows: Sequence[PictureRow], suite: Path, classifier: Classifier, segmenter: Segmenter
) -> tuple[Evaluation, Evaluation, dict[str, Answer]]:
    """Both models under test on every picture of a suite of street scenes with masks, and the classifier's answers."""
    pictures = np.stack([open_png(suite / row.file_name, np.asarray) for row in rows])
    truths = [open_png(suite / str(row.mask), np.asarray) for row in rows]
    answers, masks = classifier.predict(pictures), segmenter.predict(pictures)
    size = len(EMBEDDED.classes)
    counts = [confusion_matrix(truth, mask, size) for truth, mask in zip(truths, masks, strict=True)]
    evaluations = evaluate_labels(rows, answers), evaluate_masks(rows, counts, EMBEDDED.classes)
    return *evaluations, mark_answers(rows, answers)
