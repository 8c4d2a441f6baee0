"""Tasks: the built-in ones, the words of a label, those that stay in all captions of a source, and doubtful labels."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from small_sets import write

from counterfactory.engine.cli.arguments import main
from counterfactory.engine.edit import EDIT_TYPES, Edit
from counterfactory.engine.english.edit_scope import check_edited_caption
from counterfactory.engine.english.label_names import ground, label_words, names_of
from counterfactory.engine.english.mentions import changed_protected_word
from counterfactory.engine.english.nouns import load_nouns
from counterfactory.engine.english.words import spans
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.language.edit_types import EditType
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.tasks.task import Protection, Task, builtin_task, label_warnings, protect
from counterfactory.engine.tasks.user_task import (
    MAX_VALUE_CHARS,
    UserTask,
    load_interventions,
    load_task,
    load_types,
    parse_interventions,
)


def test_classification_protects_the_label_and_names_the_set_s_classes() -> None:
    task = builtin_task("classification", ["bus", "fire_truck", "n02084071", "bus"])
    assert task == Task("classification", "tell which of these the image shows: bus, fire truck, dog", (), True)
    assert task.protected("fire_truck") == ("fire truck",)
    assert task.protected(None) == ()
    assert builtin_task("classification").sentence == "tell what the image shows"


def test_of_many_classes_the_sentence_says_the_kind_and_each_source_s_own() -> None:
    breeds = [f"n0{number}" for number in range(2099267, 2113978) if f"n0{number}" in load_nouns()]
    breeds = [key for key in breeds if load_nouns()[key].definition]
    assert len(breeds) > 50
    task = builtin_task("classification", breeds)
    assert task.sentence == f"tell which of {len(breeds)} kinds of dog the image shows: here it is {{label}}"
    assert task.sentence_for("n02099601").endswith("kinds of dog the image shows: here it is golden retriever")
    assert task.sentence_for(None).endswith("here it is its label")
    at_most = builtin_task("classification", breeds[:20])
    assert at_most.sentence.count(", ") == 19
    mixed = builtin_task("classification", [*breeds, "bus", "n00000000"])
    assert "kinds of thing the" in mixed.sentence


def test_segmentation_and_detection_name_the_classes_that_are_shown_and_other_names_are_refused() -> None:
    segment = builtin_task("segmentation", ["car", "traffic light", "void", "TrafficLight"])
    assert segment.sentence == "segment the image into car, traffic light"
    assert not segment.protect_label
    assert {"car", "taxi", "stoplight"} <= set(segment.protect)
    assert "void" not in segment.protect
    detect = builtin_task("detection", ["car", "dog"])
    assert (detect.name, detect.sentence) == ("detection", "find and box every car, dog")
    assert not detect.protect_label
    assert builtin_task("detection", ["n01440764 tench, Tinca tinca"]).sentence == "find and box every tench"
    assert builtin_task("segmentation").sentence == "segment the image into its classes"
    assert builtin_task("detection").sentence == "find and box every object of its classes"
    with pytest.raises(CounterfactoryError, match="did you mean 'segmentation'"):
        builtin_task("segmentaton")
    with pytest.raises(CounterfactoryError, match="classification, segmentation, detection"):
        builtin_task("xyz")


def test_the_street_tasks_are_the_pocket_model_s_sentences() -> None:
    assert street_task("classification").sentence == "classify the vehicle in the image"
    assert street_task("classification").protected("bus") == ("bus",)
    segmentation = street_task("segmentation")
    assert segmentation.protected("car") == segmentation.protect
    assert {"car", "nobody", "sidewalk"} <= set(segmentation.protect)
    assert street_task("detection") == replace(segmentation, name="detection")
    refused = "the pocket models know no task 'detecton'; did you mean 'detection'"
    with pytest.raises(CounterfactoryError, match=refused):
        street_task("detecton")


def test_the_words_of_a_label() -> None:
    for label, words in (
        ("fire_truck", ("fire truck",)),
        ("n01440764 tench, Tinca tinca", ("tench", "Tinca tinca")),
        ("n01440764_tench", ("tench",)),
        ("n01440764", ("tench", "Tinca tinca")),
        ("n00000000", ()),
        ("001.Black_footed_Albatross", ("Black footed Albatross",)),
        ("crane (bird)", ("crane",)),
        ("50.5", ("50.5",)),
        (" , ", ()),
        ("n1 road", ("n1 road",)),
        ("Bäckerei", ("Bäckerei",)),
    ):
        assert label_words(label) == words


def test_a_broken_word() -> None:
    for before, after, words, broken in (
        ("a red car at night", "a blue car at night", ["car"], None),
        ("a red Car.", "a CAR, red", ["car"], None),
        ("a car", "two cars", ["car"], "car"),
        ("a car", "a car and a car", ["car"], "car"),
        ("a car", "a car on red carpet with a scar", ["car"], None),
        ("trees on both sides", "a tree on one side", ["trees"], "trees"),
        ("a street with a bus", "a street with buses", ["bus"], "bus"),
        ("a lady", "ladies", ["lady"], "lady"),
        ("a red fire truck", "a yellow fire-truck", ["fire truck"], None),
        ("a red fire truck", "a fire in a truck", ["fire truck"], "fire truck"),
        ("the car's lights", "the lights", ["car"], "car"),
        ("car car", "car", ["car"], "car"),
        ("a car", "a bus", [], None),
        ("eine B\u00e4ckerei", "eine Ba\u0308ckerei", ["b\u00e4ckerei"], None),
        ("c++ (sign)", "a sign", ["c++"], "c++"),
        ("a cap", "a cap, capes", ["cap"], None),
    ):
        assert changed_protected_word(before, after, words) == broken


@settings(max_examples=40)
@given(st.integers(0, 2**31), st.sampled_from(EMBEDDED.kinds), st.sampled_from(EMBEDDED.kinds))
def test_a_vehicle_that_changes_its_kind_is_always_found(seed: int, old: str, new: str) -> None:
    rng = np.random.default_rng(seed)
    caption = EMBEDDED.describe(EMBEDDED.sample(rng), rng)
    edited = caption.replace(f" {old} ", f" {new} ").replace(f" {old}.", f" {new}.")
    assert (changed_protected_word(caption, edited, EMBEDDED.kinds) is None) == (caption == edited)


@settings(max_examples=40)
@given(st.text(), st.text(), st.lists(st.text(min_size=1)))
def test_an_unchanged_caption_breaks_nothing_either_way(before: str, after: str, words: list[str]) -> None:
    assert changed_protected_word(before, before, words) is None
    assert changed_protected_word(before, after, words) == changed_protected_word(after, before, words)


NO_WORD = "no word of a caption would hold it true, so these sources get no variants; give names with --labels"
NO_NOUN = f"no noun of WordNet 3.0 that can be seen: {NO_WORD}"


def test_doubtful_labels() -> None:
    for labels, sentences in (
        (["bus", "car", "n02099601", None], []),
        ([], []),
        (["n00000000", "bus"], [f"label n00000000 is {NO_NOUN}"]),
        (
            [*(f"n0000000{i}" for i in range(4)), "bus", "n00000000"],
            [f"labels n00000000, n00000001, n00000002 and 1 more are {NO_NOUN}"],
        ),
        (["-", "--", "..", "bus"], [f"labels -, --, .. are not words: {NO_WORD}"]),
        (["--", "bus"], [f"label -- is not words: {NO_WORD}"]),
        (
            ["7", "8"],
            [
                "labels are numbers (7, 8), which captions seldom say: a source whose caption does not say its number "
                "gets no variants; give names with --class-map FILE, a name a line from 0, or with --labels"
            ],
        ),
        (["bus", "bus", None], ["all labels are 'bus': a classifier that knows one class cannot be wrong"]),
    ):
        assert label_warnings(builtin_task("classification"), labels) == sentences
        assert label_warnings(Task("mine", "find the dog", ("dog",), False), labels) == [], "labels are not protected"
        assert not any("one class" in sentence for sentence in label_warnings(street_task("segmentation"), labels))


CLASSIFY = builtin_task("classification", ["n02099601", "n02124075"])
CITY = ("bus", "car", "person", "sky", "void")
SEGMENT = builtin_task("segmentation", CITY)


def test_a_label_keeps_its_own_words_and_those_that_name_it_in_the_caption() -> None:
    found = protect(CLASSIFY, "n02099601", (), "two dogs and a cat in a field")
    assert found == Protection(("golden retriever", "dogs"), ("dogs",), True)
    assert found.grounded
    assert found.told == found.keep
    edit = Edit("subject", "dogs", "cats")
    assert "'dogs'" in (check_edited_caption("two dogs", "two cats", [edit], found.keep) or "")
    own = protect(CLASSIFY, "bus", (), "buses and a bus")
    assert own == Protection(("bus",), ("bus",), True)  # its forms are counted with it
    # Words that somebody points at are kept as if they named the label.
    pointed = protect(CLASSIFY, "n02099601", (), "a Puppy-like toy", "Puppy-like")
    assert pointed == Protection(("golden retriever", "puppy like"), ("puppy like",), True)
    assert pointed.grounded


def test_where_nothing_names_the_label_nothing_is_grounded() -> None:
    assert not protect(CLASSIFY, "n02099601", (), "a field of grass").grounded
    assert not protect(CLASSIFY, "n00000000", (), "a field of grass").grounded
    assert protect(CLASSIFY, None, (), "a field of grass") == Protection((), (), False)
    assert protect(CLASSIFY, None, (), "a field of grass").grounded
    free = Task("mine", "find the field", ("field",), False)
    assert protect(free, "dog", (), "grass") == Protection(("field",), (), False)
    assert not protect(free, None, ("cat",), "grass").grounded


def test_the_classes_that_a_mask_shows_keep_what_names_them_and_no_other_is_added() -> None:
    caption = "two men wait beside three cars on a street."
    found = protect(SEGMENT, "ignored", ("car", "person", "sky"), caption)
    assert found.named == ("cars", "men")
    assert found.told == found.keep
    assert {"bus", "coach"} <= set(found.keep)
    assert not {"car", "taxi", "sky", "void"} & set(found.keep)
    many = builtin_task("segmentation", (*CITY, "vegetation", "road"))
    assert protect(many, None, ("car", "person"), caption).told == ("street", "cars", "men")
    for edited, broken in (
        ("two men wait beside four cars on a street.", "cars"),
        ("three men wait beside three cars on a street.", "men"),
        ("two women wait beside three cars on a street.", "men"),
        ("two men wait beside three cars and a coach on a street.", "coach"),
        ("two men wait beside three cars on a street under a pink sky.", None),
        ("two tall men wait beside three red cars on a snowy street.", None),
    ):
        assert changed_protected_word(caption, edited, found.keep) == broken, edited
    assert not protect(SEGMENT, None, ("sky",), "a tram").grounded
    free = set(spans(caption, 1, found.keep))
    assert free & {"two", "three", "men", "cars", "wait"} == {"wait"}


DOGS = ("dog", "dogs", "golden retriever")
THINGS = {"n02099601": DOGS, "person": ("man", "people", "woman"), "car": ("taxi", "cars")}


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_an_accepted_caption_keeps_the_count_of_every_grounded_mention(data: st.DataObject) -> None:
    """Whatever words an edit exchanges for whatever others."""
    label = data.draw(st.sampled_from(sorted(THINGS)))
    words = ["two", "three", "red", "wet", "cat", "bus", "near", "grass", *THINGS[label]]
    caption = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=6))  # all within the rule's reach
    start = data.draw(st.integers(0, len(caption) - 1))
    end = data.draw(st.integers(start + 1, len(caption)))
    new = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=3))
    before, after = " ".join(caption), " ".join([*caption[:start], *new, *caption[end:]])
    keep = protect(CLASSIFY, label, (), before).keep
    edit = Edit("other", " ".join(caption[start:end]), " ".join(new))
    if check_edited_caption(before, after, [edit], keep) is None:
        event("accepted")
        for mention in ground(before, names_of(label)):
            assert numbered(mention, before) == numbered(mention, after)


def numbered(mention: str, text: str) -> list[str]:
    """The number that is said of each place of a mention, "" for none: the nearest of all words before it."""
    words, size = text.split(), len(mention.split())
    found = []
    for at in range(len(words) - size + 1):
        if " ".join(words[at : at + size]) == mention:
            before = " ".join(words[:at]).rpartition("near")[2].split()
            found.append(next((word for word in reversed(before) if word in ("two", "three")), ""))
    return sorted(found)


SETTINGS = SuiteRequest(builtin_task("classification"), variants=1, controls=0, edits=(1, 1), seed=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variants": 0}, "--variants must be at least 1, got 0"),
        ({"controls": -1}, r"--controls must be 0 \(none\) or more, got -1"),
        ({"edits": (0, 1)}, r"--edits must be a number or a range such as 1\.\.3, got 0\.\.1"),
        ({"edits": (3, 2)}, r"--edits must be a number or a range such as 1\.\.3, got 3\.\.2"),
        ({"levels": 0}, r"--levels is 1 \(edits in full alone\) to 9, got 0"),
        ({"levels": 10}, r"--levels is 1 \(edits in full alone\) to 9, got 10"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CounterfactoryError, match=f"^{message}$"):
        replace(SETTINGS, **options)


def test_levels_share_the_variants_among_them() -> None:
    assert (SETTINGS.levels, replace(SETTINGS, variants=2, controls=1, edits=(2, 3), levels=9).levels) == (1, 9)
    assert [replace(SETTINGS, variants=variants, levels=5).sets for variants in (1, 5, 6, 10)] == [1, 1, 2, 2]


TASK = 'name = "birds"\nsentence = "name the bird"\nprotect = ["bird", "wing tips"]\nprotect_label = true\n'
BIRDS = Task("birds", "name the bird", ("bird", "wing tips"), True)
VALUES = 'interventions = """\nlens: in soft focus  # mine\nweather: rainy, snowy; time: night"""\n'
LENS = """[[types]]
name = "lens"
instruction = "how the picture was taken"
place = "end"
caption = "a dog on grass"
examples = [["", "in soft focus"], ["on grass", "on blurred grass"]]
"""
BLURRED = (("", "in soft focus"), ("on grass", "on blurred grass"))
TYPE = EditType("lens", "how the picture was taken", "end", BLURRED, "a dog on grass")


def test_types_and_interventions_of_a_task_file(tmp_path: Path) -> None:
    assert load_task(write(tmp_path / "task.toml", TASK)) == UserTask(BIRDS, (), None)
    both = load_task(write(tmp_path / "task.toml", TASK + VALUES + LENS))
    assert (both.task, both.types) == (BIRDS, (TYPE,))
    assert type(both.task) is Task  # its content names random numbers: a file with types is no other task
    assert both.interventions is not None
    weather = ("weather", ("rainy", "snowy"))
    assert both.interventions.axes == (("lens", ("in soft focus",)), weather, ("time", ("night",)))
    assert BIRDS.protected("Bird") == ("bird", "wing tips")
    assert BIRDS.protected("001.Black_footed_Albatross") == ("bird", "wing tips", "Black footed Albatross")
    types = load_types(write(tmp_path / "types.toml", LENS + LENS.replace('"lens"', '"mood 2"')))
    assert (types[0], [type_.name for type_ in types]) == (TYPE, ["lens", "mood 2"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TASK.replace("protect_label = true\n", ""), "key 'protect_label' is missing"),
        (TASK.replace("protect =", "protects ="), "unknown key 'protects'; did you mean 'protect'"),
        (TASK.replace('"wing tips"', '" - "'), "no letters or digits"),
        (TASK.replace('"name the bird"', '" "'), "sentence is empty"),
        (TASK.replace('"birds"', '"birds'), "not valid TOML"),
        (TASK.replace('"birds"', '" "') + LENS, "name is empty"),
        (TASK + 'interventions = "weathr: rainy"', "interventions:1: unknown axis 'weathr'; did you mean 'weather'"),
        (TASK + 'interventions = ""', "interventions names no axis"),
        # The same of a task's types and of a file of types.
        ("types = []", r"it has no \[\[types\]\]$"),
        (LENS + LENS, "the type 'lens' is there twice$"),
        (LENS.replace('"lens"', '"Lens"'), "a type's name is in small letters, found 'Lens'$"),
        (LENS.replace('"on grass", "on', '"on sand", "on'), "replaces 'on sand' by 'on blurred grass'"),
    ],
)
def test_files_that_say_no_task_or_no_type_are_refused(tmp_path: Path, text: str, message: str) -> None:
    if "sentence" not in text:
        with pytest.raises(CounterfactoryError, match=rf"types\.toml: .*{message}"):
            load_types(write(tmp_path / "types.toml", text))
        text = TASK + text
    with pytest.raises(CounterfactoryError, match=rf"task\.toml.*{message}"):
        load_task(write(tmp_path / "task.toml", text))


def test_the_documented_task_file_is_one(tmp_path: Path) -> None:
    docs = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(name = .*?)```", docs, re.DOTALL)
    found = load_task(write(tmp_path / "task.toml", example))
    assert [type_.name for type_ in found.types] == ["lens"]
    assert found.interventions is not None
    assert found.interventions.types == ("weather", "lens")


def test_the_pocket_model_takes_no_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "types.toml", LENS)
    (tmp_path / "photos" / "dog").mkdir(parents=True)
    cv2.imwrite(str(tmp_path / "photos" / "dog" / "1.png"), np.zeros((64, 64, 3), np.uint8))
    assert main(["plan", str(tmp_path / "photos"), "--types", str(file), "--allow-out-of-domain"]) == 2
    assert "knows the types that it was trained on and no others" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "weather: rainy, snowy\ntime: night\n",
        "weather: rainy, snowy; time: night",
        "# mine\n\n  Weather :rainy ,  snowy  # wet\r\n;time:night;\r\n",
        "weather: rainy,snowy;;\n\ttime:\tnight",
    ],
)
def test_one_axis_a_line_or_several_with_semicolons(text: str) -> None:
    interventions = parse_interventions(text, "file")
    assert interventions.axes == (("weather", ("rainy", "snowy")), ("time", ("night",)))
    assert interventions.types == ("weather", "time")
    assert interventions.values("weather") == ("rainy", "snowy")
    assert interventions.values("colour") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("weathr: rainy", r"file:1: unknown axis 'weathr'; did you mean 'weather'\?"),
        ("time: night\nrainy, snowy", r"file:2: found 'rainy, snowy'; write an axis"),
        ("time: night,", r"file:1: an empty value for 'time'"),
        ("time: night,,day", r"file:1: an empty value"),
        ("time: night\ntime: day", r"file:2: axis 'time' is there twice"),
        ("time: night; time: day", r"file:1: axis 'time' is there twice"),
        ("time: night, Night", r"file:1: the value 'Night' is there twice"),
        ("time: at  night, at night", r"file:1: the value 'at night' is there twice"),
        (f"time: {'x' * (MAX_VALUE_CHARS + 1)}", rf"a value of {MAX_VALUE_CHARS + 1} characters .* at most"),
        ('time: a "night"', "holds '\"'"),
        ("weather: rainy time: night", "holds ':'"),
        ("# nothing\n\n ; ;", "file names no axis"),
    ],
)
def test_what_is_refused_and_how(text: str, message: str) -> None:
    with pytest.raises(CounterfactoryError, match=message):
        parse_interventions(text, "file")
    assert parse_interventions(f"time: {'x' * MAX_VALUE_CHARS}", "file").values("time") == ("x" * MAX_VALUE_CHARS,)


@settings(max_examples=25)
@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused_in_one_sentence(text: str) -> None:
    with contextlib.suppress(CounterfactoryError):
        assert set(parse_interventions(text, "file").types) <= set(EDIT_TYPES)


def test_files_are_utf8_with_or_without_mark(tmp_path: Path) -> None:
    path = tmp_path / "axes.txt"
    path.write_bytes("\ufeffbackground: café\n".encode())
    assert load_interventions(path).values("background") == ("café",)
    path.write_text("lens: wide")
    assert load_interventions(path, ("lens",)).types == ("lens",)
    with pytest.raises(CounterfactoryError, match=r"axes\.txt:1: unknown axis 'lens'"):
        load_interventions(path)
    path.write_bytes(b"background: caf\xe9\n")
    with pytest.raises(CounterfactoryError, match="not UTF-8"):
        load_interventions(path)
    for missing in (tmp_path / "none.txt", tmp_path):
        with pytest.raises(CounterfactoryError, match="cannot read"):
            load_interventions(missing)
