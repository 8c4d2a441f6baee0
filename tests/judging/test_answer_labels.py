"""Answers against labels: which are counted, which are refused, and what the error says of them."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from picture_rows import picture_row
from refusing import refusal
from session_records import costs, session_facts

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.judging.answer_labels import Vocabulary, nearest_label, read_names, read_vocabulary
from counterfactory.engine.judging.evaluation import StrangeAnswer
from counterfactory.engine.judging.predictions import Prediction
from counterfactory.engine.suite.run_record import RunRecord, write_run
from counterfactory.engine.suite.session_record import SessionRecord

STREET = ("bus", "car", "truck")
SYNSETS = ("n01440764", "n01443537", "n02099601")


def vocabulary(
    folder: Path, labels: tuple[str, ...] = STREET, listed: str | Path | None = None, **data: Any
) -> Vocabulary:
    """That of a suite with these labels, whose record says `data` of its set; `listed` is `--classes`."""
    facts = session_facts(data={"layout": "folders", **data})
    write_run(folder, RunRecord((SessionRecord("a", "2026-11-23", True, facts, (), costs()),)))
    rows = [picture_row(i, label=label) for i, label in enumerate(labels)]
    return read_vocabulary(folder, rows, None if listed is None else Path(listed))


def settled(words: Vocabulary, *answers: str) -> list[str]:
    return [words.settle(Prediction(answer)).label for answer in answers]


@pytest.mark.parametrize(
    ("labels", "nearest"),
    [
        (STREET, {"Bus": "bus", " bus": "bus", "minibus": "bus", "pickup truck": "truck"}),
        (STREET, dict.fromkeys(("zebra", "", "7"))),
        (("fire_truck", "car"), {"fire truck": "fire_truck"}),
        (("car", "Fire Truck"), {"fire-truck": "Fire Truck"}),
        (("car", "fire"), {"ﬁre": "fire"}),
        (("01", "02"), {"1": "01"}),
        (("2", "3"), {"03": "3", "3.0": "3"}),
        (("1", "010"), {"10": "010"}),
        (("Auto", "Köfferli"), {unicodedata.normalize("NFD", "Köfferli"): "Köfferli"}),
        (SYNSETS, {"golden retriever": SYNSETS[2], "goldfish": SYNSETS[1], "n01440764 tench": SYNSETS[0]}),
        (("car", "golden retriever"), {"n02099601": "golden retriever"}),
        (("002.Laysan", "001.Black_footed_Albatross"), {"Black footed Albatross": "001.Black_footed_Albatross"}),
    ],
)
def test_the_label_that_an_answer_seems_to_mean(labels: tuple[str, ...], nearest: dict[str, str | None]) -> None:
    assert {answer: nearest_label(answer, labels) for answer in nearest} == nearest


def test_a_tenth_of_answers_that_nobody_knows_is_refused_and_less_is_named(tmp_path: Path) -> None:
    words = vocabulary(tmp_path)
    assert words.require_known(["bus", "car", "truck"] * 7) == ()
    assert words.require_known(["Bus", *["bus"] * 10]) == (StrangeAnswer("Bus", 1, "bus"),)
    with pytest.raises(CounterfactoryError) as refused:
        words.require_known(["Bus", *["bus"] * 9])
    assert str(refused.value) == (
        "1 of 10 predictions are no label of this suite nor a class of its record: its labels are 'bus', 'car', "
        "'truck', the predictions 'Bus' (1 time, nearest label 'bus'); write predictions as the labels are written; if "
        "the model has more classes, name all of them by --classes FILE (a name on each line, or JSON)"
    )
    many = [*"zxyw" * 2, "v", "Car", "Car", "Car"]
    with refusal(
        r"^no prediction is a label .* the predictions 'Car' \(3 times, nearest label 'car'\), 'w' .2 times.* and 2"
    ):
        words.require_known(many)
    assert words.require_known([]) == ()


def test_known_are_the_classes_of_the_record_and_all_synsets_of_imagenet(tmp_path: Path) -> None:
    words = vocabulary(tmp_path, labels=("bus", "car", "tram"), classes={"0": "sky", "7": "person"})
    assert words.require_known(["tram", "sky", "person"]) == ()
    with refusal(r"'1' .3 times"):
        words.require_known(["1"] * 3)  # a number that has no name in the record
    assert vocabulary(tmp_path, SYNSETS).require_known(["n04467665", SYNSETS[0]]) == ()
    for wrong in ("n00000000", "n00001740"):  # none, and none of the 1,000
        with refusal(f"the predictions '{wrong}'"):
            vocabulary(tmp_path, SYNSETS).require_known([wrong])
    with refusal("1 of 2"):
        vocabulary(tmp_path, ("bus", SYNSETS[0])).require_known(["n04467665", "bus"])
    (tmp_path / "run.json").write_text("{")
    assert read_vocabulary(tmp_path, [picture_row()], None).require_known(["bus"]) == ()


def test_a_list_of_the_model_s_classes_tells_wrong_answers_from_strange_ones(tmp_path: Path) -> None:
    listed = tmp_path / "names.txt"
    listed.write_text("bus\nzebra\ncar\nTruck\n")
    words = vocabulary(tmp_path, listed=listed)
    assert settled(words, "bus", "zebra", "Truck", "3", "1", "0.0", "tram") == [
        *("bus", "zebra", "truck", "truck", "zebra", "bus", "tram")
    ]
    assert words.require_known(["zebra"] * 9) == ()
    assert (words.numbers, vocabulary(tmp_path).missing()) == (4, ())
    with refusal(r"nor a class in .*names.txt.*'tram'.*; write predictions as the labels or"):
        words.require_known(["tram"])
    assert words.missing() == ()
    listed.write_text("minibus\ncar\npickup truck\n")
    assert vocabulary(tmp_path, listed=listed).missing() == ("bus", "truck")
    listed.write_text("minibus\nlorry\n")
    with refusal(r"names\.txt is a label.* labels are 'bus'.* the classes 'minibus', 'lorry'"):
        vocabulary(tmp_path, listed=listed)
    with refusal(r"^no class in vit\.onnx is a label of this suite"):
        read_vocabulary(tmp_path, [picture_row()], None, {0: "lorry"}, "vit.onnx")
    listed.write_text("bus\n\ncar\n")
    with refusal("class 1 needs a name"):
        vocabulary(tmp_path, listed=listed)
    listed.write_text("bus\nKo\u0308fferli\n")
    assert vocabulary(tmp_path, listed=listed).require_known(["K\xf6fferli"]) == ()
    (tmp_path / "birds.names").write_text("crane, bird\ncrane, machine\nbus\n")
    birds = vocabulary(tmp_path, listed=tmp_path / "birds.names")
    assert settled(birds, "crane", "crane, machine") == ["crane", "crane, machine"], "which of two is not guessed"
    listed.write_text("bus\nBus\ncar\n")
    assert settled(vocabulary(tmp_path, listed=listed), "Bus", "1") == ["Bus", "Bus"], "a model may tell them apart"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("synsets.txt", "n01440764 tench, Tinca tinca\nn01443537 goldfish\nn02099601 golden retriever\n"),
        ("synsets.lst", "n01440764\nn01443537\nn02099601"),
        ("names.names", "tench, Tinca tinca\ngoldfish, Carassius auratus\ngolden retriever\n\n"),
        (
            "index.json",
            json.dumps({"0": ["n01440764", "tench"], "1": ["n01443537", "goldfish"], "2": ["n02099601", "x"]}),
        ),
        ("map.toml", '[classes]\n0 = "tench"\n1 = "goldfish"\n2 = "golden retriever"\n'),
        ("list.json", json.dumps(["tench", "goldfish", "golden_retriever"])),
    ],
)
@pytest.mark.parametrize("labels", [SYNSETS, ("tench", "goldfish", "golden retriever")])
def test_a_list_by_synsets_or_by_names_says_what_numbers_stand_for(
    name: str, text: str, labels: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    words = vocabulary(tmp_path, labels, tmp_path / name)
    assert settled(words, "0", "1", "2", "2.0") == [*labels, labels[2]]
    assert words.numbers == 3
    assert settled(words, "tench") == [labels[0]]
    top = words.settle(Prediction("1", 0.5, ("0", "1", "7")))
    assert top == Prediction(labels[1], 0.5, (labels[0], labels[1], "7"))


def test_numbers_are_labels_where_the_labels_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("tench\ngoldfish\nshark\n")
    words = vocabulary(tmp_path, ("0", "2"), tmp_path / "names.txt")
    assert settled(words, "0", "1", "2", "2.0", "shark") == ["0", "1", "2", "2", "2"]
    assert words.require_known(["1"] * 3) == ()
    with refusal("the predictions '3'"):
        words.require_known(["3"])
    floats = vocabulary(tmp_path, ("1.0", "bus "))
    assert settled(floats, "1", "1.0", "bus") == ["1.0", "1.0", "bus "]


def test_numbers_become_names_in_image_folder_s_order_when_asked(tmp_path: Path) -> None:
    plain = vocabulary(tmp_path)
    with refusal(
        r"the numbers 0 to 2 fit ImageFolder's order .bus, car, truck.: add --classes imagefolder, or name what"
    ):
        plain.require_known(["0", "2", "1"])
    with refusal(r"'3' .1 time, no label is near.; name what numbers stand for by --cl"):
        plain.require_known(["3"])
    with refusal("the numbers 0 to 2 fit"):
        plain.require_known(["0.0", "2.0"])
    assert settled(vocabulary(tmp_path, listed="imagefolder"), "0", "1.0", "2", "3") == ["bus", "car", "truck", "3"]
    # The set has a class of which the suite has no picture, and folders whose names are in another form.
    of_set = vocabulary(tmp_path, listed="imagefolder", labels=("bus", "truck"))
    assert settled(of_set, "0", "1") == ["bus", "truck"]
    facts = session_facts(data={"labels": ["ambulance", "bus", "truck"]})
    write_run(tmp_path, RunRecord((SessionRecord("a", "2026-11-23", True, facts, (), costs()),)))
    words = read_vocabulary(tmp_path, [picture_row(label="truck"), picture_row(label="bus")], Path("imagefolder"))
    assert settled(words, "0", "1", "2") == ["ambulance", "bus", "truck"]
    assert words.require_known(["ambulance"]) == ()


@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=5, unique=True), st.text(max_size=6))
def test_a_label_is_its_own_answer_whatever_it_is(labels: list[str], other: str) -> None:
    words = Vocabulary(tuple(sorted(labels)), frozenset(labels), tuple(labels))
    assert settled(words, *labels) == labels
    assert nearest_label(other, labels) in (None, *labels)
    assert all(nearest_label(label, [label]) == label for label in labels)


def test_answers_in_another_spelling_are_the_one_class_that_they_are_like(tmp_path: Path) -> None:
    words = vocabulary(tmp_path, ("Boston_bull", "crane (bird)", "crane (machine)", "car", "12"))
    for answer in ("Boston bull", "boston-bull", "BOSTON_BULL", "n02096585 Boston bull", "n02096585_Boston_bull"):
        assert settled(words, answer) == ["Boston_bull"]
        assert words.respelled([answer, "car", "tram"]) == {answer: "Boston_bull"}
    assert settled(words, "crane", "012", "tram") == ["crane", "012", "tram"]
    assert settled(vocabulary(tmp_path, SYNSETS), "golden retriever", "n01440764 tench") == [SYNSETS[2], SYNSETS[0]]
    assert settled(vocabulary(tmp_path, ("bus", "Bus")), "Bus", "BUS") == ["Bus", "BUS"]
    known = vocabulary(tmp_path, ("bus",), classes={"0": "Traffic_light"})
    assert settled(known, "traffic light") == ["Traffic_light"]


def test_padded_numbers_are_their_numbers_where_both_orders_are_one(tmp_path: Path) -> None:
    padded = tuple(f"{number:02}" for number in range(12))
    assert settled(vocabulary(tmp_path, padded), "3", "11", "03") == ["03", "11", "03"]
    assert settled(vocabulary(tmp_path, padded[1:]), "3") == ["3"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("instances.json", json.dumps({"categories": [{"id": 3, "name": "car"}, {"id": 6, "name": "bus"}]})),
        ("config.json", json.dumps({"id2label": {"3": "car", "6": "bus"}})),
        ("data.yaml", "names:\n  3: car\n  6: bus\n"),
        ("map.pbtxt", 'item { id: 3 name: "x" display_name: "car" }\nitem {\n  name: \'bus\'\n  id: 6\n}\n'),
    ],
)
def test_files_of_other_tools_say_what_numbers_stand_for(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert read_names(tmp_path / name) == {3: "car", 6: "bus"}
    assert settled(vocabulary(tmp_path, listed=tmp_path / name), "3", "6", "7") == ["car", "bus", "7"]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.json", json.dumps({"categories": [{"id": 3}]}), "categories without id and name"),
        ("a.json", json.dumps({"id2label": ["a"]}), "an id2label of none"),
        ("a.pbtxt", "item { id: 3 }", "no item with an id and a name"),
        ("a.yaml", "nc: 3", "names should be"),
    ],
)
def test_files_that_name_nothing_are_refused(name: str, text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with refusal(told):
        read_names(tmp_path / name)
