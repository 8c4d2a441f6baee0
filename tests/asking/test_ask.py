"""A model under test is asked about every accepted picture once, and what it answered is kept."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models_of_tests import Brightness, pictures, under_test
from numpy.typing import NDArray
from picture_rows import picture_row

from counterfactory.engine.asking.ask import ModelAnswers, ask_model
from counterfactory.engine.asking.outputs import LabelAnswer, ScoreAnswer
from counterfactory.engine.asking.under_test import ModelUnderTest
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.meter.meter import Progress
from counterfactory.engine.suite import PictureRow
from counterfactory.engine.suite.ledger import Ledger


def ask(
    model: ModelUnderTest, suite: Path, rows: list[PictureRow], told: list[str] | None = None
) -> tuple[ModelAnswers, list[Progress]]:
    progress: list[Progress] = []
    warnings = [] if told is None else told
    return ask_model(model, suite, rows, progress.append, warnings.append), progress


def test_pictures_of_two_sizes_are_asked_in_batches_of_one_size(tmp_path: Path) -> None:
    rows, function = pictures(tmp_path, range(0, 250, 25)), Brightness()
    asked, progress = ask(under_test(function, batch=3), tmp_path, rows)
    assert sorted(function.batches) == [2, 2, 3, 3, 3], "the first one twice"
    assert [one.done for one in progress] == [0, *np.cumsum(function.batches[1:]).tolist()]
    assert {one.total for one in progress} == {10}
    for row, level in zip(rows, range(0, 250, 25), strict=True):
        answer = asked.answers[row.file_name]
        assert isinstance(answer, ScoreAnswer)
        assert answer.scores.tolist() == pytest.approx([1 - level / 255, level / 255])


def test_a_second_evaluation_asks_a_few_of_all_labels_again(tmp_path: Path) -> None:
    rows = pictures(tmp_path, range(0, 250, 5))
    first, _ = ask(under_test(Brightness()), tmp_path, rows)
    function = Brightness()
    second, progress = ask(under_test(function), tmp_path, rows)
    assert sum(function.batches) == 32
    assert (second.kept, progress) == (50, [Progress("ask", 50, 50)])
    for name, answer in first.answers.items():
        again = second.answers[name]
        assert isinstance(answer, ScoreAnswer)
        assert isinstance(again, ScoreAnswer)
        assert np.array_equal(answer.scores, again.scores)
    for number, other in enumerate(({"digest": "e" * 64}, {"name": "n"}, {"input": "another"}), start=2):
        function = Brightness(scale=3)
        asked, _ = ask(under_test(function, **other), tmp_path, rows)
        assert (asked.kept, sum(function.batches)) == (0, 75), "what another model answered is not taken"
        assert len(list((tmp_path / "predictions").glob("*.sqlite"))) == number
    for options in ({"wanted": frozenset(("labels",))}, {"fresh": True}):
        told = list[str]()
        asked = ask_model(under_test(Brightness()), tmp_path, rows, lambda _: None, told.append, **options)
        assert (asked.kept, len(asked.answers), told) == (0, 50, [])


def test_asking_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    rows = pictures(tmp_path, range(0, 240, 20))
    stopped = Brightness()

    def stop(inputs: NDArray[Any]) -> Any:
        if len(stopped.batches) == 3:
            raise KeyboardInterrupt
        return stopped(inputs)

    with pytest.raises(KeyboardInterrupt):
        ask(under_test(stop, batch=2), tmp_path, rows)
    function = Brightness()
    asked, _ = ask(under_test(function, batch=2), tmp_path, rows)
    assert (asked.kept, sum(function.batches), len(asked.answers)) == (4, 4 + 8, 12)


def test_equal_pictures_are_asked_once_and_rejected_ones_never(tmp_path: Path) -> None:
    rows, function = pictures(tmp_path, (7, 90, 7)), Brightness()
    rows[1] = picture_row(1, reason="it was not seen")
    asked, _ = ask(under_test(function), tmp_path, rows)
    assert function.batches == [1, 1]
    assert asked.answers.keys() == {rows[0].file_name, rows[2].file_name}


def test_a_picture_that_the_model_raises_on_is_named_and_the_rest_judged(tmp_path: Path) -> None:
    rows, told, function = pictures(tmp_path, (10, 20, 200, 30)), list[str](), Brightness()

    def careful(inputs: NDArray[Any]) -> Any:
        if inputs.max() > 100:
            raise RuntimeError("too light\nand more")
        return function(inputs)

    asked, progress = ask(under_test(careful), tmp_path, rows, told)
    assert asked.failed == {rows[2].file_name: "the model raised RuntimeError: too light"}
    named = f"{rows[2].file_name} (the model raised RuntimeError: too light)"
    assert told == [f"m has no answer to a picture, and the rest is judged: {named}"]
    assert len(asked.answers) == 3
    assert progress[-1].done == 4
    with pytest.raises(CounterfactoryError, match="m has no answer to any of the first 1 pictures: the model raised"):
        ask(under_test(careful, digest="e" * 64), tmp_path, rows[2:3])


def test_an_answer_of_nan_is_named_and_asked_again_the_next_time(tmp_path: Path) -> None:
    rows, told = pictures(tmp_path, (10, 20, 200)), list[str]()

    def broken(inputs: NDArray[Any]) -> Any:
        scores = Brightness()(inputs)
        scores[scores[:, 1] > 0.5] = np.nan
        return scores

    ask(under_test(broken), tmp_path, rows, told)
    assert rows[2].file_name in told[0]
    assert "NaN" in told[0]
    function = Brightness()
    asked, _ = ask(under_test(function), tmp_path, rows)
    assert (sum(function.batches), len(asked.answers)) == (2 + 1, 3)


def test_a_model_that_changed_is_asked_anew_and_keeps_none_of_the_old_answers_when_stopped(
    tmp_path: Path,
) -> None:
    rows, told = pictures(tmp_path, range(0, 200, 20)), list[str]()
    ask(under_test(Brightness()), tmp_path, rows)
    asked, _ = ask(under_test(Brightness(), batch=4), tmp_path, rows, told)
    assert (asked.kept, told) == (10, [])
    other = Brightness(scale=9)

    def stop(inputs: NDArray[Any]) -> Any:
        if len(other.batches) == 6:
            raise KeyboardInterrupt
        return other(inputs)

    with pytest.raises(KeyboardInterrupt):
        ask(under_test(stop, batch=4), tmp_path, rows, told)
    assert "answers 10 of 10 pictures otherwise than when its predictions were kept" in told[0]
    asked, _ = ask(under_test(Brightness(scale=9), batch=4), tmp_path, rows)
    assert asked.kept > 0
    scores = [answer.scores.sum() for answer in asked.answers.values() if isinstance(answer, ScoreAnswer)]
    assert scores == pytest.approx([9.0] * 10)


def test_labels_are_kept_as_they_are(tmp_path: Path) -> None:
    rows = pictures(tmp_path, (1, 2))
    for kept in (0, 2):
        asked, _ = ask(under_test(lambda inputs: ["bus"] * len(inputs)), tmp_path, rows)
        assert (asked.kept, set(asked.answers.values())) == (kept, {LabelAnswer("bus")})


def test_a_change_in_one_class_of_many_is_seen(tmp_path: Path) -> None:
    """Also where the class comes last, behind many pictures of others."""
    rows = pictures(tmp_path, range(200))
    labelled = [replace(row, label="rare" if i == 199 else "common") for i, row in enumerate(rows)]

    def model(of_rare: str, name: str) -> ModelUnderTest:
        return under_test(lambda inputs: [of_rare if one.max() == 199 else "common" for one in inputs], name=name)

    # An answer of its own, or a label of its own.
    for name, first, some in (("answers", "rare", rows), ("labels", "common", labelled)):
        ask(model(first, name), tmp_path, some)
        told = list[str]()
        asked, _ = ask(model("other", name), tmp_path, some, told)
        assert "1 of 32 pictures" in told[0]
        assert asked.answers[rows[199].file_name] == LabelAnswer("other")


def test_a_model_that_changes_its_answers_from_call_to_call_is_said_to_and_not_kept(tmp_path: Path) -> None:
    rows, told, random = pictures(tmp_path, range(0, 120, 2)), list[str](), np.random.default_rng(4)

    def drops(inputs: NDArray[Any]) -> Any:
        scores = Brightness()(inputs)
        return scores * (random.random(len(inputs)) < 0.9)[:, None]

    ask(under_test(drops), tmp_path, rows, told)
    assert re.search(r"^m answers [1-9]\d* of 30 pictures otherwise when it is asked again", told[0])
    asked, _ = ask(under_test(Brightness()), tmp_path, rows, told)
    assert (asked.kept, len(told)) == (0, 1)


def test_the_first_pictures_are_of_all_labels_and_may_be_refused(tmp_path: Path) -> None:
    rows = [replace(row, label=str(i // 10)) for i, row in enumerate(pictures(tmp_path, range(0, 200, 2)))]
    function, seen = Brightness(), list[list[str]]()

    def refuse(answers: Mapping[str, Any]) -> None:
        seen.append([str(row.label) for row in rows if row.file_name in answers])
        raise CounterfactoryError("enough")

    with pytest.raises(CounterfactoryError, match="enough"):
        ask_model(under_test(function, batch=10), tmp_path, rows, lambda _: None, lambda _: None, examine=refuse)
    assert len(set(seen[0])) > 5
    assert function.batches == [10, 10]


def test_two_models_answer_alike_by_all_their_answers(tmp_path: Path) -> None:
    rows = pictures(tmp_path, (1, 2, 3))
    digests = {ask(under_test(Brightness(scale), name=str(scale)), tmp_path, rows)[0].digest for scale in (1, 1.0, 2)}
    assert len(digests) == 2


def test_a_kept_answer_that_rotted_is_asked_for_again_and_one_that_is_damaged_is_refused(tmp_path: Path) -> None:
    rows = pictures(tmp_path, (1, 2))
    first, _ = ask(under_test(Brightness()), tmp_path, rows)
    (file,) = (tmp_path / "predictions").glob("*.sqlite")
    with sqlite3.connect(file) as base:
        assert base.execute("UPDATE results SET value = replace(value, '1', '2') WHERE stage != 'model'").rowcount == 2
    assert repr(ask(under_test(Brightness()), tmp_path, rows)[0].answers) == repr(first.answers)
    for value in ({"scores": "?"}, {"map": 3}, [], {"boxes": [[1]]}):
        with sqlite3.connect(file) as base:
            places = base.execute("SELECT stage, key FROM results WHERE stage != 'model'").fetchall()
        ledger = Ledger(file)
        for stage, key in places:
            ledger.put(stage, {key: value})
        ledger.close()
        with pytest.raises(CounterfactoryError, match="no answer of a model: remove the file"):
            ask(under_test(Brightness()), tmp_path, rows)


def test_predictions_are_not_kept_outside_of_the_suite(tmp_path: Path) -> None:
    rows = pictures(tmp_path / "suite", (1, 2))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "suite" / "predictions").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CounterfactoryError, match="outside of the suite"):
        ask(under_test(Brightness()), tmp_path / "suite", rows)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_suite_that_may_not_be_written_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, told = pictures(tmp_path, (1, 2)), list[str]()
    monkeypatch.setattr(os, "mkdir", lambda *_, **__: (_ for _ in ()).throw(OSError(errno.EROFS, "read-only")))
    asked, _ = ask(under_test(Brightness()), tmp_path, rows, told)
    assert len(asked.answers) == 2
    assert told[0].startswith("the answers are not kept: cannot write")


def test_one_process_asks_a_model_at_a_time_and_a_broken_picture_is_named(tmp_path: Path) -> None:
    rows = pictures(tmp_path, (1, 2))

    def again(inputs: NDArray[Any]) -> Any:
        ask(under_test(Brightness()), tmp_path, rows)

    with pytest.raises(CounterfactoryError, match="is in use by process"):
        ask(under_test(again), tmp_path, rows)
    (tmp_path / rows[1].file_name).write_bytes(b"no picture")
    with pytest.raises(CounterfactoryError, match="cannot be read as a picture of a suite"):
        ask(under_test(Brightness()), tmp_path, rows)
