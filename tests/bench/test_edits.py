"""The bench of edits, with a handful of invented captions, and the pocket's language model."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import caption_file
import edits
import numpy as np
import pytest
from caption_file import Captioned, name_label, read_captions
from edit_judges import TypeJudge, changed_words, only_changes, phrases, same_names, stems, words_of_label

from counterfactory.engine.edit import EDIT_TYPES
from counterfactory.engine.tasks.task import builtin_task

CAPTIONS = ("A brown dog on the grass.", "A small red kettle sits on a table.", "A strange thing.")
LABELS = ("n02084071", "teapot, kettle", "n03255030")
LLM = Path(__file__).parents[2] / "engine" / "pocket" / "weights" / "llm"


@pytest.fixture
def encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose network is not opened: a text's embedding is how often it says each letter."""

    def encode(texts: Sequence[str]) -> np.ndarray:
        counts = np.array([[text.count(chr(97 + i)) for i in range(26)] for text in texts], np.float32)
        return np.asarray(counts / np.linalg.norm(counts, axis=1, keepdims=True))

    folder = tmp_path / "encoder"
    folder.mkdir()
    for name in ("sentence.xml", "sentence.bin", "sentence_tokenizer.json"):
        (folder / name).write_text(name, encoding="utf-8")
    monkeypatch.setattr(caption_file.Language, "sentence", lambda _: SimpleNamespace(encode=encode))
    return folder


def write_captions(file: Path) -> Path:
    rows = [{"name": str(i), "caption": c, "label": k} for i, (c, k) in enumerate(zip(CAPTIONS, LABELS, strict=True))]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return file


@pytest.mark.slow
def test_captions_are_rewritten_judged_and_counted(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, eye, rows = tmp_path / "edits.json", tmp_path / "eye.csv", tmp_path / "rows.csv"
    monkeypatch.setattr(edits, "_FIGURES", kept)
    call = ["edits.py", str(write_captions(tmp_path / "captions.jsonl")), "--llm", str(LLM), "--encoder", str(encoder)]
    call += ["--answers", str(tmp_path / "answers"), "--rows", str(rows)]
    monkeypatch.setattr("sys.argv", call)
    edits.main()
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["captions"], found["classes"], found["edits"]) == (3, 3, 10)
    assert found["sources_with_all_variants"] == found["grounded"] == pytest.approx(2 / 3, abs=1e-4)
    assert found["only_the_edit"] == 1
    assert found["tokens_per_variant"] > 1
    assert set(found["by_type"]) == set(EDIT_TYPES)
    with rows.open(encoding="utf-8") as lines:
        written = list(csv.DictReader(lines))
    assert len(written) == 10
    with eye.open("w", encoding="utf-8") as lines:
        lines.write("edited_caption,label,type,grammar,coherent\n")
        lines.writelines(f'"{row["edited_caption"]}",1,{int(i > 1)},1,0\n' for i, row in enumerate(written[:4]))
    prefixed = ["--label-prefix", "a photo of a {label}: ", "--by-eye", str(eye), "--write"]
    monkeypatch.setattr("sys.argv", [*call, *prefixed])
    edits.main()
    figures = json.loads(kept.read_text())
    assert figures["by_eye"] == {"edits": 4, "label": 4, "type": 2, "grammar": 4, "coherent": 0}
    assert figures["captions_named_by_prefix"] == 1
    assert figures["sources_with_all_variants"] == 1
    assert figures["all_types_possible"] == 1
    with rows.open(encoding="utf-8") as lines:
        captions = {row["name"]: row["caption"] for row in csv.DictReader(lines)}
    assert captions["2"] == "a photo of a dumbbell: A strange thing."


def test_a_person_s_verdicts_are_of_this_run_s_edits(tmp_path: Path) -> None:
    file = tmp_path / "eye.csv"
    file.write_text("edited_caption,label,type,grammar,coherent\na dog,1,1,1,1\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"1 rows of .* such as 'a dog'"):
        edits.by_eye(file, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("caption,label\n", "has no rows"),
        ("caption,label\na dog,\n", "row 1 of .* needs a caption and a label"),
        ("name,caption,label\nx,a dog,dog\nx,a cat,cat\n", "has a name twice"),
    ],
)
def test_files_that_make_no_sense_are_refused(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "captions.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match=message):
        read_captions(file)


def test_captions_that_name_their_label_have_no_prefix() -> None:
    rows = [Captioned("0", "a dog", "n02084071"), Captioned("1", "a thing", "n02084071")]
    task = builtin_task("classification", ["n02084071"])
    assert name_label(rows, task, None) == rows
    assert [row.caption for row in name_label(rows, task, "a {label}: ")] == ["a dog", "a dog: a thing"]
    (bird,) = name_label([Captioned("0", "a bird", "ostrich egg")], task, "a {label}, ")
    assert bird.caption.startswith("an ostrich")


def test_a_label_is_named_as_often() -> None:
    for caption, edited in (("a dog", "a wet dog"), ("two dogs", "dogs at night")):
        assert same_names("n02084071", caption, edited)
    for edited in ("a cat", "a dog and an animal"):
        assert not same_names("n02084071", "a dog", edited)
    assert same_names("fire engine", "a truck", "a red truck")


def test_words_of_a_label_are_last_words_in_the_singular() -> None:
    assert {"retriever", "dog", "animal"} <= words_of_label("n02099601")
    assert "thing" not in words_of_label("n02099601")
    found = stems("The dog's Knives, boxes and berries; glass is his")
    assert " ".join(found) == "the dog knife box and berry glass is his"


def test_only_the_edit_changes() -> None:
    for edit, right, wrong in (
        (("dog", "old dog"), "an old dog on grass", "an old dog on snow"),
        (("", "at night"), "a dog on grass at night", "a cat on grass at night"),
    ):
        assert only_changes("a dog on grass", right, *edit)
        assert not only_changes("a dog on grass", wrong, *edit)


def test_what_an_edit_says() -> None:
    said = [changed_words(*pair) for pair in (("dog", "old dog"), ("", "at night"), ("red", "blue"), ("dog", ""))]
    assert said == ["old", "at night", "blue", ""]


def test_types_are_told_by_their_examples_and_tried_on_others() -> None:
    tables = phrases("known"), phrases("tried")
    order = {type_: i for i, type_ in enumerate(tables[0])}
    spot = {text: order[type_] for some in tables for type_, texts in some.items() for text in texts}

    def encode(texts: object) -> np.ndarray:
        return np.eye(len(order), dtype=np.float32)[[spot[text] for text in texts]]  # type: ignore[attr-defined]

    judge = TypeJudge(encode)
    assert [ranked[0] for ranked in judge.ranked(["at sundown", "gray"])] == ["time", "colour"]
    assert judge.held_out(1) == 1
    known, tried = tables
    assert list(known) == list(tried)
    assert set(known) == set(EDIT_TYPES)
    assert [{len(set(some)) for some in table.values()} for table in tables] == [{24}, {6}]
    assert not {text for some in known.values() for text in some} & {text for some in tried.values() for text in some}
