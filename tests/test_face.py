"""`import counterfactory`: light to import, typed, one keyword per option, and what each verb takes and gives."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import MadeSuite, Street
from numpy.typing import NDArray
from picture_rows import original_row, picture_row, written
from PIL import Image

import counterfactory as cf
from counterfactory.engine import packages
from counterfactory.engine.api.networks_at_hand import CaptionEmbedding
from counterfactory.engine.cli.arguments import build_parser, main
from counterfactory.engine.edit import Edit
from counterfactory.engine.journey import Journey
from counterfactory.engine.judging.insights import bags_of_words
from counterfactory.engine.meter.meter import Progress
from counterfactory.engine.suite import PictureRow, read_metadata

VERBS: Mapping[str, tuple[Any, set[str]]] = {
    "generate": (cf.GenerateOptions, {"sources", "out"}),
    "import": (cf.ImportOptions, {"pairs", "out"}),
    "plan": (cf.PlanOptions, {"sources"}),
    "estimate": (cf.EstimateOptions, {"sources", "count"}),
    "evaluate": (cf.EvaluateOptions, {"suite", "models", "all", "table"}),
    "report": (cf.ReportOptions, {"suite", "models"}),
}


RED = Edit("colour", "", "red")


def test_importing_loads_nothing() -> None:
    """Not until a verb is named."""
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import counterfactory as cf\n"
        "dir(cf), cf.__version__, cf.CounterfactoryError\n"
        "ours = {name for name in set(sys.modules) - before if name.startswith('counterfactory.')}\n"
        "loaded = {name.split('.')[0] for name in sys.modules}\n"
        "heavy = loaded & {'numpy', 'cv2', 'pyarrow', 'openvino', 'rich', 'scipy', 'pandas'}\n"
        "print(sorted(heavy), sorted(ours))\n"
        "cf.generate\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.strip()
        == "[] ['counterfactory.engine', 'counterfactory.engine.errors', 'counterfactory.engine.packages']"
    )


def test_judging_takes_nothing_that_makes_suites(made_suite: MadeSuite) -> None:
    """And what is missing is named with what installs it."""
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.partition('.')[0] in ('openvino', 'tokenizers', 'llguidance'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import counterfactory as cf\n"
        f"result = cf.evaluate({str(made_suite.path)!r}, lambda pictures: ['bus'] * len(pictures))\n"
        "print(result.evaluation.variants.score.count)\n"
        "try:\n"
        f"    cf.plan({str(made_suite.path / 'images')!r}, profile='pocket', allow_out_of_domain=True)\n"
        "except cf.CounterfactoryError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    count, said = done.stdout.splitlines()
    assert count == "5"
    assert said == "this needs the package openvino, which is not installed: pip install 'counterfactory[generate]'"


def test_every_name_is_there() -> None:
    assert dir(cf) == sorted(cf.__all__)
    assert all(getattr(cf, name) is not None for name in cf.__all__)
    assert cf.__version__ == version("counterfactory")
    with pytest.raises(AttributeError, match="no attribute 'generat'"):
        cf.generat  # noqa: B018
    assert (Path(str(cf.__file__)).parent / "py.typed").is_file()


def options_of(command: str) -> dict[str, Any]:
    """The command line's options of a command by name, each with its default."""
    (commands,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    actions = commands.choices[command]._actions
    return {action.dest: action.default for action in actions if action.dest not in ("help", "json")}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_s_keywords_are_its_command_s_options(verb: str) -> None:
    options, others = VERBS[verb]
    keywords = options.__optional_keys__ - {"against", "predictions"}  # the last of the models, and those before
    assert options_of(verb).keys() == keywords | others


def test_an_estimate_is_of_a_number_or_of_sources() -> None:
    for sources, options in ((0, {}), (True, {"memory": 0}), (3, {"memory": float("nan")}), (3, {"variants": 0})):
        with pytest.raises(cf.CounterfactoryError):
            cf.estimate(sources, **options)  # type: ignore[arg-type]


def test_a_misspelt_keyword_is_told_its_neighbour(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"generate\(\) has no option 'variant'; did you mean 'variants'\?"):
        cf.generate(tmp_path, out=tmp_path / "suite", variant=5)  # type: ignore[call-arg]
    for call in (cf.plan, cf.estimate):
        with pytest.raises(TypeError, match="did you mean 'profile'"):
            call(tmp_path, profil="pocket")  # type: ignore[call-arg, operator]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variants": 0}, "variants is a whole number from 1, got 0"),
        ({"variants": 2.5}, "variants is a whole number from 1, got 2.5"),
        ({"sample": True}, "sample is a whole number from 1, got True"),
        ({"seed": -1}, "seed is a whole number from 0"),
        ({"seed": 1 << 63}, "seed is a whole number from 0"),
        ({"task": "detecton"}, "detecton"),
        ({"task": "segmentation", "task_file": "task.toml"}, "'segmentation' and the task file task.toml contradict"),
        ({"avoid": "two words"}, "avoid takes single words, got 'two words'"),
        ({"edits": (3, 1)}, "got 3..1"),
        ({"edits": "1..3"}, "edits is a number or a range such as (1, 3), got '1..3'"),
        ({"edits": 1.5}, "edits is a number or a range"),
        ({"classes": ["bus", ""]}, "names are needed"),
        ({"interventions": {"weather": ["rainy, snowy"]}}, "the value 'rainy, snowy' holds ','"),
        ({"interventions": {"wether": ["rainy"]}}, "did you mean 'weather'"),
        ({"layout": "coko"}, "coko"),
        ({"depth_values": "metres"}, "metres"),
    ],
)
def test_what_is_refused_is_refused_in_one_sentence(
    options: dict[str, Any], message: str, street: Street, tmp_path: Path
) -> None:
    with pytest.raises(cf.CounterfactoryError) as refused:
        cf.generate(street.root, out=tmp_path / "suite", **options)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "suite").exists()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Journey, Any]]:
    """What each run was asked for, which goes no further."""
    found: list[tuple[Journey, Any]] = []

    def stopped(journey: Journey, inputs: Any, *_: object) -> None:
        found.append((journey, inputs))
        raise KeyboardInterrupt

    monkeypatch.setattr(Journey, "run", stopped)
    return found


def test_keywords_and_options_ask_for_the_same(
    street: Street, tmp_path: Path, asked: list[tuple[Journey, Any]]
) -> None:
    """With nothing but what is required, and with all that a request can hold."""
    (tmp_path / "values.txt").write_text("weather: rainy, snowy\ntime: night")
    out = tmp_path / "suite"
    said = (
        "--task segmentation --variants 4 --controls 2 --edits 1..2 --seed 7 --levels 2 --avoid red,blue --sample 2 "
        f"--allow-ungrounded --allow-out-of-domain --interventions {tmp_path / 'values.txt'} --shard 3 --protect 1"
    )
    given: dict[str, Any] = {
        "task": "segmentation",
        "variants": 4,
        "controls": 2,
        "edits": (1, 2),
        "seed": 7,
        "levels": 2,
        "avoid": ("red", "blue"),
        "sample": 2,
        "allow_ungrounded": True,
        "allow_out_of_domain": True,
        "interventions": {"weather": ["rainy", "snowy"], "time": ["night"]},
        "shard": 3,
        "protect": ["1"],
    }
    for words, options in (([], {}), (said.split(), given)):
        main(["generate", str(street.root), "--out", str(out), *words])
        with pytest.raises(KeyboardInterrupt):
            cf.generate(str(street.root), out=str(out), warn=lambda _: None, **options)
        (command, of_command), (call, of_call) = asked
        assert command == call
        assert of_command == of_call
        asked.clear()
    assert call.request.interventions is not None
    assert call.profile.protect is not None


@pytest.mark.usefixtures("shared_answers", "counted_once")
def test_a_suite_from_python(street: Street, tmp_path: Path) -> None:
    told: list[str] = []
    progress: list[Progress] = []
    estimate = cf.estimate(3, variants=2)
    assert (estimate.sources, estimate.variants, estimate.controls) == (3, 6, 3)
    images = street.root / "images"
    plan = cf.plan(images, first=2, variants=2, warn=told.append)
    frame = plan.pandas()
    assert list(frame.columns) == ["source", "label", "caption", "variant", "edits", "edited_caption", "dropped"]
    assert list(frame["source"]) == [street.names[0]] * 2 + [street.names[1]] * 2
    assert all(": " in edits for edits in frame["edits"])
    suite = cf.generate(street.root, out=tmp_path / "suite", variants=1, on_progress=progress.append, warn=told.append)
    assert {one.stage for one in progress} >= {"read", "caption", "paint", "check"}
    assert suite.rows == read_metadata(tmp_path / "suite") == cf.open(str(tmp_path / "suite")).rows
    assert suite.summary.accepted == sum(row.accepted for row in suite.rows if row.kind == "variant")
    assert suite.costs == suite.summary.suite
    assert suite.problems == ()
    assert cf.open(suite.path).summary is None
    assert suite.check(suite.settings()).turned == 0


def test_warnings_are_python_s_where_nobody_takes_them(street: Street, tmp_path: Path) -> None:
    (street.root / "images" / "broken.png").write_text("no picture")
    with (
        pytest.warns(UserWarning, match="skipped broken") as warned,
        pytest.raises(cf.CounterfactoryError, match="weekdays"),
    ):
        cf.generate(street.root, out=tmp_path / "suite", interventions={"weekdays": ["monday"]})
    assert {one.filename for one in warned} == {__file__}


def answers_of(suite: MadeSuite) -> dict[str, str]:
    """Right on originals, wrong on every second variant."""
    return {row.file_name: "tram" if row.kind == "variant" and row.number else str(row.label) for row in suite.rows}


def by_file(suite: MadeSuite, folder: Path) -> Any:
    lines = [f"{name},{label}" for name, label in answers_of(suite).items()]
    (folder / "answers.csv").write_text("\n".join(["image,prediction", *lines]))
    return folder / "answers.csv"


def by_frame(suite: MadeSuite, folder: Path) -> Any:
    frame = cf.open(suite.path).pandas()
    return frame.assign(prediction=frame["file_name"].map(answers_of(suite)))


def knows(suite: MadeSuite, answer: Callable[[PictureRow], Any]) -> Callable[[NDArray[np.uint8]], list[Any]]:
    """A model that tells the suite's pictures by their bytes."""
    rows = {np.asarray(Image.open(suite.path / row.file_name)).tobytes(): row for row in suite.rows if row.accepted}
    return lambda pictures: [answer(rows[picture.tobytes()]) for picture in pictures]


def by_model(suite: MadeSuite, folder: Path) -> Any:
    known = answers_of(suite)
    answer = knows(suite, lambda row: known[row.file_name])

    def model(pictures: NDArray[np.uint8]) -> NDArray[np.str_]:
        assert pictures.dtype == np.uint8
        assert pictures.shape[1:] == (128, 128, 3)
        return np.array(answer(pictures))

    return model


@pytest.mark.parametrize("given", [by_file, by_frame, by_model])
def test_answers_in_any_form_are_judged_alike(
    given: Callable[[MadeSuite, Path], Any], made_suite: MadeSuite, tmp_path: Path
) -> None:
    told: list[str] = []
    result = cf.evaluate(made_suite.path, given(made_suite, tmp_path), warn=told.append)
    assert told == []
    assert result.evaluation == cf.open(made_suite.path).evaluate(answers_of(made_suite)).evaluation
    found = result.evaluation
    assert (found.originals.score.value, found.variants.score.count, found.variants.score.value) == (1, 5, 0.6)
    effects = result.effects()
    assert list(effects.columns) == ["edit", "points", "low", "high", "q", "sources"]
    (weather,) = effects.to_dict("records")
    (effect,) = found.effects.by_type
    assert (weather["edit"], weather["sources"]) == ("weather", 3)
    assert weather["points"] == pytest.approx(100 * (effect.value or 0))
    assert len(result.effects("value")) == len(found.effects.by_value)
    assert set(result.failures()["prediction"]) == {"tram"}
    assert "1 rejected variant is not counted" in result.notes


def test_a_model_is_given_batches_of_one_size(made_suite: MadeSuite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfactory.engine.asking.under_test.BATCH", 3)
    sizes: list[int] = []

    def model(pictures: NDArray[np.uint8]) -> list[int]:
        sizes.append(len(pictures))
        return ["bus"] * len(pictures)

    cf.evaluate(made_suite.path, model)
    assert sizes == [3, 3, 3, 2], "the first ones twice"


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        (lambda pictures: ["bus"], "the model was given 8 pictures, and returned 1 answers"),
        (lambda pictures: [object()] * len(pictures), "a label is a text or a whole number"),
        ({}, "predictions holds no predictions"),
        ({"a.png": True}, "predictions['a.png']: every row needs an image"),
        (
            5,
            "predictions are a path, a mapping of file_name to label, a data frame with the columns image and "
            "prediction, an array, or a model that takes pictures and returns labels; got a int",
        ),
        ("nowhere.csv", "nowhere.csv"),
    ],
)
def test_answers_that_are_none_are_refused(predictions: Any, message: str, made_suite: MadeSuite) -> None:
    with pytest.raises(cf.CounterfactoryError) as refused:
        cf.evaluate(made_suite.path, predictions)
    assert message in str(refused.value)


def test_two_models_are_compared(made_suite: MadeSuite) -> None:
    right = {name: label for name, label in answers_of(made_suite).items() if label != "tram"}
    whole = {row.file_name: str(row.label) for row in made_suite.rows}
    result = cf.evaluate(made_suite.path, answers_of(made_suite), against=whole, max_regression=0)
    (comparison,) = result.comparisons
    assert [(gap.name, gap.first, gap.second) for gap in comparison.sides] == [
        ("originals", 1, 1),
        ("variants", 1, pytest.approx(0.6)),
    ]
    first = cf.evaluate(made_suite.path, whole)
    again = cf.evaluate(made_suite.path, right, against=[first, lambda pictures: ["bus"] * len(pictures)])
    assert [one.pictures for one in again.comparisons] == [len(right)] * 2
    for options, message in (
        ({"max_regression": 2}, "twice"),
        ({"against": cf.evaluate(made_suite.path, whole), "max_regression": 200}, "0 to 100"),
    ):
        with pytest.raises(cf.CounterfactoryError, match=message):
            cf.evaluate(made_suite.path, whole, **options)  # type: ignore[arg-type]


def test_a_model_s_scores_are_named_by_a_list_or_by_folders(made_suite: MadeSuite, tmp_path: Path) -> None:
    labels = ["bus", "car", "tram", "truck"]  # of the record
    truth = {row.file_name: labels.index(str(row.label)) for row in made_suite.rows}
    number = knows(made_suite, lambda row: truth[row.file_name])

    def model(pictures: NDArray[np.uint8]) -> NDArray[np.float64]:
        return np.eye(len(labels))[number(pictures)]

    result = cf.evaluate(made_suite.path, model)
    assert f"model: classes 0 to {len(labels) - 1} by ImageFolder's order: {', '.join(labels)}" in result.notes
    assert result.evaluation.variants.score.value == 1
    (p_true,) = result.evaluation.measures
    assert (p_true.name, p_true.variants.value) == ("p(true)", 1)
    scores = np.eye(8)[[7 - truth[row.file_name] for row in made_suite.rows]]
    with pytest.raises(cf.CounterfactoryError, match="name what they are of by --classes FILE"):
        cf.evaluate(made_suite.path, scores)
    listed = tmp_path / "names.txt"
    listed.write_text("\n".join([*(f"other{i}" for i in range(8 - len(labels))), *reversed(labels)]))
    np.save(tmp_path / "scores.npy", scores)
    result = cf.evaluate(made_suite.path, tmp_path / "scores.npy", classes=listed)
    assert result.evaluation.variants.score.value == 1
    assert [one.name for one in result.evaluation.measures] == ["top-5 accuracy", "p(true)"]
    with pytest.raises(cf.CounterfactoryError, match="too few for the 8 classes"):
        cf.evaluate(made_suite.path, scores[:, :3], classes=listed)
    with pytest.raises(cf.CounterfactoryError, match="or the 8 accepted ones, in its order"):
        cf.evaluate(made_suite.path, scores[:4], classes=listed)


def test_a_pipeline_s_labels_in_json(made_suite: MadeSuite, tmp_path: Path) -> None:
    listed = {
        name: [{"score": 0.2, "label": "truck"}, {"score": 0.8, "label": label}]
        for name, label in answers_of(made_suite).items()
    }
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(listed))
    result = cf.evaluate(made_suite.path, file)
    assert result.evaluation.outcomes == cf.evaluate(made_suite.path, answers_of(made_suite)).evaluation.outcomes
    assert [one.name for one in result.evaluation.measures] == ["confidence"]
    file.write_text(json.dumps({**listed, next(iter(listed)): [{"label": "bus"}]}))
    with pytest.raises(cf.CounterfactoryError, match="needs a list of dicts of label and score"):
        cf.evaluate(made_suite.path, file)


def test_a_model_that_guesses_is_said_to(made_suite: MadeSuite, monkeypatch: pytest.MonkeyPatch) -> None:
    def always(pictures: NDArray[np.uint8]) -> NDArray[np.float64]:
        return np.tile([0.0, 0, 0, 1], (len(pictures), 1))

    assert not any("chance" in note for note in cf.evaluate(made_suite.path, always).notes), "three originals are few"
    monkeypatch.setattr("counterfactory.engine.api.answers._FEW", 3)
    assert any("no better than chance" in note for note in cf.evaluate(made_suite.path, always).notes)
    truth = knows(made_suite, lambda row: ["bus", "car", "tram", "truck"].index(str(row.label)))
    result = cf.evaluate(made_suite.path, lambda pictures: np.eye(4)[truth(pictures)])
    assert not any("chance" in note for note in result.notes)


def test_a_segmenter_is_run(made_suite: MadeSuite) -> None:
    masks = {row.sha256: np.asarray(Image.open(made_suite.path / str(row.mask))) for row in made_suite.rows}
    shown = knows(made_suite, lambda row: masks[row.sha256])
    found = cf.evaluate(made_suite.path, lambda pictures: np.stack(shown(pictures))).evaluation
    assert (found.measure, found.variants.score.value) == ("pooled_miou", 1)


def test_a_frame_without_answers_is_refused(made_suite: MadeSuite) -> None:
    frame = cf.open(made_suite.path).pandas()
    with pytest.raises(cf.CounterfactoryError, match="lacks the column 'prediction'"):
        cf.evaluate(made_suite.path, frame)


def test_limits_are_held(made_suite: MadeSuite) -> None:
    suite, answers = cf.open(made_suite.path), answers_of(made_suite)
    kept = suite.evaluate(answers, max_drop={"weather": 100}, fail_under=0.5)
    assert kept.passed
    assert len(kept.findings) == 2
    assert not suite.evaluate(answers, fail_under=0.7).passed
    with pytest.raises(cf.CounterfactoryError, match="a share from 0 to 1, got 70"):
        suite.evaluate(answers, fail_under=70)


def test_reports_with_and_without_answers(made_suite: MadeSuite, tmp_path: Path) -> None:
    bare = cf.report(made_suite.path, out=tmp_path / "bare", no_edges=True)
    assert bare.page == tmp_path / "bare" / "index.html"
    result = cf.evaluate(made_suite.path, answers_of(made_suite))
    judged = result.report(tmp_path / "judged", no_edges=True)
    given = cf.report(made_suite.path, out=tmp_path / "given", predictions=answers_of(made_suite), no_edges=True)
    assert "tram" not in bare.page.read_text()
    assert "tram" in judged.page.read_text()
    assert judged.page.read_text() == given.page.read_text()
    assert "<figcaption><b>min_image_text</b>" in judged.page.read_text(), "curves of thresholds as without answers"


def test_what_a_class_relies_on_and_what_to_look_at_first(tmp_path: Path) -> None:
    """Of twelve buses all fail at night and none elsewhere, of twelve cars none; another model fails on the first."""
    rows = []
    for index in range(24):
        same = {"source": str(index), "caption": "a bus by day.", "edited_caption": "a bus at night."}
        same |= {"label": "bus" if index < 12 else "car"}
        rows += [original_row(index, **same | {"edited_caption": "a bus by day."})]
        rows += [picture_row(3 * index, **same, edits=(Edit("time", "by day", "at night"),))]
        rows += [picture_row(3 * index + 1, **same | {"edited_caption": "a red bus by day."}, edits=(RED,))]
    suite = written(tmp_path, rows)
    right = {row.file_name: str(row.label) for row in rows}
    night = right | {row.file_name: "car" for row in rows if "time" in row.edit_types}
    one = right | {rows[1].file_name: "car"}
    result = cf.evaluate(suite, night, warn=list[str]().append)
    insights = result.insights()
    assert list(insights["clear"]) == [True, False, False, False]
    assert insights.loc[0, ["label", "name", "drop", "pictures"]].tolist() == [
        *("bus", "time: at night", pytest.approx(100), 12)
    ]
    sentence = insights.loc[0, "sentence"]
    assert sentence == result.evaluation.to_json()["insights"][0]["sentence"]
    assert all(fact in sentence for fact in ('bus relies on "by day"', "to 100 points more", "12 pictures"))
    assert set(insights.loc[0, "worst"]) <= {row.key for row in rows if row.edits}
    assert "edits are grouped by their words" in result.notes
    order = result.order()
    assert sorted(order["file_name"]) == sorted(row.file_name for row in rows if row.kind == "variant")
    assert (order["wrong_answer"][:1] == "car").all()
    both = cf.evaluate(suite, night, against=one, warn=list[str]().append).order()
    assert both["file_name"][0] == rows[1].file_name
    with pytest.raises(cf.CounterfactoryError, match="has no run"):
        cf.open(suite).perplexity()
    well = cf.evaluate(suite, right, warn=list[str]().append)
    assert "no class clearly relies on anything: 4 kinds of edits in 2 classes were compared" in well.notes


def test_a_set_as_a_whole(made_suite: MadeSuite) -> None:
    suite = cf.open(made_suite.path)
    fid = suite.fid(lambda pictures: pictures.mean(axis=(1, 2)), warn=list[str]().append)
    assert (fid.features, fid.originals, fid.pictures) == (3, 3, 5)
    assert fid.controls is None
    assert (fid.variants or 0) > 0
    with pytest.raises(cf.CounterfactoryError, match="or by a model as evaluate takes it; got 5"):
        suite.fid(5)
    with pytest.raises(cf.CounterfactoryError, match="FID needs a row of numbers"):
        suite.fid(lambda pictures: ["bus"] * len(pictures))
    assert suite.perplexity().texts > 0


def test_captions_are_compared_by_the_suite_s_clip_or_by_words(made_suite: MadeSuite, tmp_path: Path) -> None:
    texts = ["a bus by day.", "a bus at night.", "a bus by day."]
    clip, words = CaptionEmbedding(made_suite.path), CaptionEmbedding(tmp_path)
    assert (clip.by, words.by) == (None, None)
    vectors = clip(texts)
    assert clip.by == "CLIP of mine"
    assert vectors.shape == (3, 128)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)
    assert np.array_equal(vectors[0], vectors[2])
    assert np.array_equal(words(texts), bags_of_words(texts))
    assert words.by == "their words"


def test_tables_say_that_pandas_is_missing(made_suite: MadeSuite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    suite = cf.open(made_suite.path)
    result = suite.evaluate(answers_of(made_suite))
    for table in (suite.pandas, result.effects, result.failures, result.insights, result.order, packages.pandas):
        with pytest.raises(cf.CounterfactoryError, match="pip install pandas"):
            table()
    assert suite.table().num_rows == len(made_suite.rows)


def test_there_is_no_suite_where_there_is_none(tmp_path: Path) -> None:
    for verb in (cf.open, cf.report):
        with pytest.raises(cf.CounterfactoryError, match="holds no finished suite"):
            verb(tmp_path)
    with pytest.raises(cf.CounterfactoryError, match="holds no finished suite"):
        cf.evaluate(tmp_path, {})
