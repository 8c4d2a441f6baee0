"""`generate` and labels: the task that a profile's models are told, and what is doubtful, said before any painting."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Command
from PIL import Image

from counterfactory.engine.cli.arguments import main
from counterfactory.engine.journey import Journey
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.request import SuiteRequest


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[SuiteRequest]:
    """The settings of each run, which goes no further."""
    found: list[SuiteRequest] = []

    def stopped(journey: Journey, *_: object) -> None:
        found.append(journey.request)
        raise KeyboardInterrupt

    monkeypatch.setattr(Journey, "run", stopped)
    return found


def pictures(root: Path, *labels: str) -> Path:
    for number, label in enumerate(labels):
        (root / label).mkdir(parents=True)
        Image.new("RGB", (32, 32), (number, 9, 9)).save(root / label / "a.png")
    return root


def test_a_built_in_task_speaks_of_the_set_and_the_pocket_models_of_streets(
    asked: list[SuiteRequest], tmp_path: Path
) -> None:
    root = pictures(tmp_path / "set", "n02099601", "bus")
    for options in (["--profile", "a10g"], ["--profile", "pocket", "--allow-ungrounded"]):
        main(["generate", str(root), "--out", str(tmp_path / "suite"), "--allow-out-of-domain", *options])
    real, pocket = asked
    assert real.task.sentence == "tell which of these the image shows: bus, golden retriever"
    assert pocket.task == street_task("classification")
    assert (real.allow_ungrounded, pocket.allow_ungrounded) == (False, True)


def test_segmentation_is_told_what_the_masks_show(asked: list[SuiteRequest], tmp_path: Path) -> None:
    root = tmp_path / "set"
    for kind, mode in (("images", "RGB"), ("masks", "L")):
        (root / kind).mkdir(parents=True)
        Image.new(mode, (32, 32)).save(root / kind / "a.png")
    (tmp_path / "map.toml").write_text('[classes]\n0 = "sky"\n1 = "car"\n')
    options = ["--profile", "a10g", "--task", "segmentation", "--class-map", str(tmp_path / "map.toml")]
    main(["generate", str(root), "--out", str(tmp_path / "suite"), "--allow-out-of-domain", *options])
    (settings,) = asked
    assert settings.task.sentence == "segment the image into car, sky"
    assert {"car", "taxi", "sky"} <= set(settings.task.protect)


def test_doubtful_labels_are_warned_of_before_the_run(asked: list[SuiteRequest], tmp_path: Path, run: Command) -> None:
    root = pictures(tmp_path / "set", "n00000000")
    said = " ".join(run("generate", root, "--out", tmp_path / "suite", "--allow-out-of-domain")[2].split())
    assert "label n00000000 is no noun of WordNet 3.0 that can be seen" in said
    assert "all labels are 'n00000000': a classifier that knows one class cannot be wrong" in said
    assert len(asked) == 1


def test_what_a_task_file_brings_holds_and_the_command_line_may_not_contradict_it(
    asked: list[SuiteRequest], tmp_path: Path, run: Command
) -> None:
    root = pictures(tmp_path / "set", "bus")
    lens = (
        '[[types]]\nname = "lens"\ninstruction = "the lens"\nplace = "end"\ncaption = "a dog"\nexamples = [["", "x"]]\n'
    )
    task, types, values = tmp_path / "task.toml", tmp_path / "types.toml", tmp_path / "values.txt"
    task.write_text(
        'name = "t"\nsentence = "s"\nprotect = []\nprotect_label = true\ninterventions = "time: night"\n' + lens
    )
    types.write_text(lens.replace('"lens"', '"mood"'))
    values.write_text("mood: glad")
    start = ["generate", str(root), "--out", str(tmp_path / "suite"), "--allow-out-of-domain", "--task-file", str(task)]
    run.refuses(f"the types of {task}: the language model of profile pocket knows", *start, "--profile", "pocket")
    main([*start, "--profile", "a10g"])
    for key, file in (("types", types), ("interventions", values)):
        said = f"--{key} {file} and the key '{key}' of {task} contradict: leave one of them out"
        run.refuses(said, *start, "--profile", "a10g", f"--{key}", file)
    task.write_text('name = "t"\nsentence = "s"\nprotect = []\nprotect_label = true\n')
    main([*start, "--profile", "a10g", "--types", str(types), "--interventions", str(values)])
    own, other = asked
    found = [
        ([type_.name for type_ in one.types], one.interventions and one.interventions.axes) for one in (own, other)
    ]
    assert found == [(["lens"], (("time", ("night",)),)), (["mood"], (("mood", ("glad",)),))]
    assert (own.task.name, other.task.name) == ("t", "t")


def test_a_profile_says_how_many_edits_a_variant_has_unless_the_command_does(
    asked: list[SuiteRequest], tmp_path: Path
) -> None:
    root = pictures(tmp_path / "set", "bus")
    for options in (["--profile", "lance"], ["--profile", "a10g"], ["--profile", "lance", "--edits", "2..4"]):
        main(["generate", str(root), "--out", str(tmp_path / "suite"), "--allow-out-of-domain", *options])
    assert [settings.edits for settings in asked] == [(1, 1), (1, 3), (2, 4)]
