"""The language model's exercises have the right answers, in forms that the grammars allow."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="no torch: the pocket language model's training goes unchecked")

import torch

from counterfactory.engine.english.mentions import changed_protected_word
from counterfactory.export.pocket.answers import built_in, request_of, same_facts
from counterfactory.export.pocket.data import HELD_OUT
from counterfactory.export.pocket.exercises import KINDS_OF_QUESTION
from counterfactory.export.pocket.languages import LANGUAGES
from counterfactory.export.pocket.questions import apply, article_fixed, exercise, phrase_of

STREET_LANGUAGE = LANGUAGES["streets"]
DRAWN = {kind: [exercise(kind, HELD_OUT, i) for i in range(60)] for kind in KINDS_OF_QUESTION}


def test_an_exercise_is_a_function_of_its_number() -> None:
    for kind in KINDS_OF_QUESTION:
        assert exercise(kind, 5, 3) == exercise(kind, 5, 3) != exercise(kind, 5, 4)
        assert len({e.prompt for e in DRAWN[kind]}) > 55


@pytest.mark.parametrize("kind", KINDS_OF_QUESTION)
def test_right_answers_are_allowed_by_the_grammars(kind: str) -> None:
    for drawn in DRAWN[kind]:
        request = request_of(STREET_LANGUAGE, kind, drawn)
        assert request.grammar.allows(drawn.answer), (drawn.answer, drawn.prompt)
        assert len(drawn.answer.encode()) < request.max_tokens


def test_keywords_stand_in_order_and_touch_no_kept_word() -> None:
    for drawn in DRAWN["keywords"]:
        pairs = json.loads(drawn.answer)
        places = [drawn.case.caption.index(keyword) for _, keyword in pairs]
        assert places == sorted(places)
        assert len({keyword for _, keyword in pairs}) == len(pairs) <= 6
        for type_, keyword in pairs:
            assert type_ in drawn.case.types
            assert type_ != drawn.case.frozen
            kept = [word for word in drawn.case.keep if word not in ("car", "bus", "truck")]
            assert changed_protected_word(keyword, "", kept) is None


def test_alternatives_are_others_or_the_users() -> None:
    for drawn in DRAWN["alternatives"]:
        values, (_, keyword, _) = json.loads(drawn.answer), drawn.changes[0]
        assert len(set(values)) == len(values) > 0
        assert keyword not in values
        assert not drawn.values or tuple(values) == drawn.values


def test_rewriting_makes_the_changes_and_no_other() -> None:
    seen = 0
    for drawn in DRAWN["rewrite"]:
        before, after = STREET_LANGUAGE.read(drawn.case.caption), STREET_LANGUAGE.read(json.loads(drawn.answer))
        assert re.search(r"\ba [aeiou]|\ban [^aeiou]", drawn.answer) is None, drawn.answer
        if not built_in(STREET_LANGUAGE, drawn):
            continue
        seen += 1
        assert (before.people, before.trees) == (after.people, after.trees)
        types = {type_ for type_, *_ in drawn.changes}
        assert (before.weather != after.weather) == ("weather" in types)
        assert (before.time != after.time) == ("time" in types)
        assert (before.material != after.material) == ("background" in types)
        assert (before.vehicles != after.vehicles) == ("colour" in types)
        assert [kind for _, kind in before.vehicles] == [kind for _, kind in after.vehicles]
        assert same_facts(STREET_LANGUAGE, drawn.answer, drawn.answer)
        assert not same_facts(STREET_LANGUAGE, json.dumps(drawn.case.caption), drawn.answer)
    assert seen > 10


def test_apply_mends_the_sentence() -> None:
    caption = "at sunset a red car and a blue car are on an icy road."
    changes = [("time", "at sunset", "night"), ("colour", "red car", "blue"), ("colour", "blue car", "orange car")]
    assert apply(caption, changes) == "at night a blue car and an orange car are on an icy road."
    assert apply("a bus during the day", [("time", "during the day", "in the morning")]) == "a bus in the morning"
    assert article_fixed("an orange bus, orange walls", "orange", "red") == "a red bus, red walls"
    assert [phrase_of(t) for t in ("day", "night", "at dusk")] == ["during the day", "at night", "at dusk"]


def asked(count: int) -> list[tuple[str, str]]:
    return [(one.prompt.text, one.answer) for one in DRAWN["alternatives"][:count]]


def test_rows_share_their_head_and_only_answers_are_learnt(tmp_path: Path) -> None:
    from counterfactory.export.language.answer_loss import encode_answers
    from counterfactory.export.pocket import llama

    tokenizer = llama.byte_tokenizer(["a prompt", '["an answer"]'], 300)
    head, rows, labels = encode_answers(tokenizer, asked(5), llama.END)
    for drawn, row, wanted in zip(DRAWN["alternatives"], rows, labels, strict=False):
        text = tokenizer.decode([*head.tolist(), *row.tolist()], skip_special_tokens=True)
        assert text == drawn.prompt.text + drawn.answer
        answer = wanted[wanted >= 0].tolist()
        assert tokenizer.decode(answer, skip_special_tokens=True) == drawn.answer
        assert answer[-1] == llama.END


def test_a_shared_head_changes_no_loss() -> None:
    from counterfactory.export.language.answer_loss import answer_loss, encode_answers
    from counterfactory.export.pocket import llama

    tokenizer = llama.byte_tokenizer(["a prompt"], 280)
    model = llama.build(tokenizer.get_vocab_size())
    head, rows, labels = encode_answers(tokenizer, asked(3), llama.END)
    whole = torch.cat([head.expand(3, -1), rows], 1)
    masked = torch.cat([torch.full((3, len(head)), -100), labels], 1)
    with torch.no_grad():
        expected = model(input_ids=whole, labels=masked).loss * (labels >= 0).sum()
        assert torch.allclose(answer_loss(model, head, rows, labels), expected, rtol=1e-4)
