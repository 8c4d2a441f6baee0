"""A perturber's typed pairs become the engine's questions with right answers, and a Llama learns them by an adapter."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import torch
from exporter import run_exporter
from tiny_llama import tiny_llama

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.language.chat import ChatPrompts, chatml
from counterfactory.engine.language.openvino_llm import OpenVinoLlm
from counterfactory.engine.language.questions import read_proposals
from counterfactory.engine.profile.profile import load_profile
from counterfactory.export.language import perturber
from counterfactory.export.language.llama_source import UserLlama, read_llama
from counterfactory.export.language.perturber import Recipe, batches, surprise, tune
from counterfactory.export.language.typed_pairs import (
    Captioned,
    TypedExercise,
    TypedPair,
    exercises,
    menu_pairs,
    read_captions,
    read_pairs,
    split,
    street_captions,
)
from counterfactory.export.pocket.llama import END, SPECIAL, byte_tokenizer

PROMPTS, BOUNDS = ChatPrompts(chatml), load_profile("lance").rewrite
DOG = Captioned("a brown dog on the grass", "dog")


def drawn(count: int, types: tuple[str, ...] = ("weather", "domain")) -> list[TypedExercise]:
    return exercises(menu_pairs(street_captions(count), types, 1), BOUNDS, PROMPTS)[0]


def test_pairs_are_the_engine_s_questions_and_answers_that_it_takes() -> None:
    edits = [("brown", "spotted"), ("dog", "small dog")]
    pairs = [TypedPair(DOG, "adjective", *edit) for edit in edits]
    (adjective, weather), left = exercises([*pairs, TypedPair(DOG, "weather", "", "in the rain")], BOUNDS, PROMPTS)
    assert left == 0
    assert (adjective.type, read_proposals(adjective.answer)) == ("adjective", edits)
    assert read_proposals(weather.answer) == [("", "in the rain")]
    assert "Keep: dog\nCaption: a brown dog on the grass" in adjective.prompt
    assert "a word that describes a thing" in adjective.prompt


def test_what_the_engine_would_not_ask_or_take_is_left_out() -> None:
    ungrounded = TypedPair(Captioned("a thing on grass", "dog"), "weather", "", "in the rain")
    hits_the_label = TypedPair(DOG, "subject", "dog", "cat")
    fine, odd = TypedPair(DOG, "weather", "", "in the rain"), TypedPair(DOG, "weather", "", "12345")
    found, left = exercises([ungrounded, hits_the_label, odd, fine], BOUNDS, PROMPTS)
    assert ([one.answer for one in found], left) == (['[["","in the rain"]]'], 3)
    five = [TypedPair(DOG, "background", "grass", f"{word} sand") for word in ("wet", "dry", "red", "old", "hot")]
    (first,), left = exercises(five, BOUNDS, PROMPTS)
    assert (len(read_proposals(first.answer)), left) == (BOUNDS.max_alternatives, 0)


def test_menus_give_each_caption_pairs_of_each_type() -> None:
    captions = [DOG, *street_captions(2)]
    pairs = menu_pairs(captions, BOUNDS.types, 2)
    assert {pair.type for pair in pairs} == set(BOUNDS.types)
    assert max(Counter((pair.about, pair.type) for pair in pairs).values()) == 2
    assert menu_pairs(captions[1:], ("weather",), 2) == [p for p in pairs if p.type == "weather" and p.about != DOG]
    assert len({caption.caption for caption in street_captions(20)}) == 20
    found, left = exercises(pairs, BOUNDS, PROMPTS)
    assert left < 0.1 * len(pairs), "the engine's grammar would not take all of its phrases"
    assert sum(len(read_proposals(one.answer)) for one in found) == len(pairs) - left


def test_whole_captions_are_held_out() -> None:
    found = drawn(40)
    learnt, held = split(found, 0.25)
    assert len(learnt) + len(held) == len(found)
    assert {one.about for one in learnt}.isdisjoint(one.about for one in held)
    assert 4 <= len({one.about for one in held}) <= 16
    assert split(found, 0.0) == (found, [])


def test_batches_are_of_one_type_and_every_epoch_has_all() -> None:
    found = drawn(5, ("weather", "background"))
    steps = batches(found, Recipe(batch=3, epochs=2.0))
    assert [len(step) for step in steps].count(3) == 4
    assert len(steps) == 8
    assert all(len({one.type for one in step}) == 1 for step in steps)
    for epoch in (steps[:4], steps[4:]):
        assert Counter(one for step in epoch for one in step) == Counter(found)
    assert steps[:4] != steps[4:]
    assert len(batches(found, Recipe(batch=3, epochs=0.5))) == 2
    assert batches(found, Recipe(seed=1)) == batches(found, Recipe(seed=1)) != batches(found, Recipe(seed=2))


def user_llama() -> UserLlama:
    tokenizer = byte_tokenizer([one.prompt + one.answer for one in drawn(3)], 400)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 1024}
    model = tiny_llama(tokenizer, **sizes, eos_token_id=END, bos_token_id=END)
    return UserLlama(model, tokenizer, END)


def test_only_queries_keys_and_values_change_and_right_answers_surprise_less() -> None:
    llama = user_llama()
    before = {name: value.clone() for name, value in llama.model.state_dict().items()}
    found, said = drawn(8, ("weather",)), list[str]()
    first = surprise(llama, found, 4)
    assert first["weather"] == first["all"]
    tune(llama, found, Recipe(rate=2e-2, epochs=15, dropout=0.0), said.append)
    after = llama.model.state_dict()
    assert after.keys() == before.keys(), "the adapter is merged"
    changed = {name.split(".")[-2] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"q_proj", "k_proj", "v_proj"}
    ranks = [int(torch.linalg.matrix_rank(after[n] - before[n], rtol=1e-3)) for n in before if "q_proj" in n]
    assert max(ranks) <= 8
    assert surprise(llama, found, 4)["all"] < 0.98 * first["all"]
    assert said[-1].startswith("step 15 of 15: ")


def test_an_interrupted_run_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    found, recipe, state = drawn(8, ("weather",)), Recipe(rate=2e-2, batch=2, epochs=5.0), tmp_path / "state.pt"

    def stop(line: str) -> None:
        if line.startswith("step 20 "):
            raise KeyboardInterrupt

    whole, parts = user_llama(), user_llama()
    tune(whole, found, recipe, print)
    with pytest.raises(KeyboardInterrupt):
        tune(parts, found, recipe, stop, state)
    said, parts = list[str](), user_llama()
    tune(parts, found, recipe, said.append, state)
    assert [line.split(":")[0] for line in said] == ["step 20 of 20"], "the state was kept after step 10"
    for name, value in whole.model.state_dict().items():
        torch.testing.assert_close(parts.model.state_dict()[name], value)
    with pytest.raises(CounterfactoryError, match="is of a run with another recipe or other pairs"):
        tune(user_llama(), found[1:], recipe, print, state)
    with pytest.raises(CounterfactoryError, match="is of a run with another recipe or other pairs"):
        tune(user_llama(), found, Recipe(rate=1e-2, batch=2, epochs=5.0), print, state)


def test_surprise_is_the_mean_over_tokens_however_batches_are_cut() -> None:
    llama, found = user_llama(), drawn(3)
    whole = surprise(llama, found, 8)
    assert list(whole) == ["weather", "domain", "all"]
    assert surprise(llama, found, 1) == pytest.approx(whole, rel=1e-4)


def test_the_command_writes_what_the_engine_opens_and_what_can_be_quantised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    llama, source = user_llama(), tmp_path / "llama"
    perturber.write_hub(llama, source)
    captions = tmp_path / "captions.jsonl"
    captions.write_text("\n".join(json.dumps(vars(one)) for one in street_captions(6)))
    out, hub, report = tmp_path / "out", tmp_path / "hub", tmp_path / "report.json"
    call = ["perturber", str(source), "--captions", str(captions), "--style", "chatml", "--out", str(out)]
    call += ["--hub", str(hub), "--report", str(report), "--epochs", "0.1", "--each", "1", "--held", "0.4"]
    call += ["--held-captions", str(tmp_path / "held.jsonl")]
    assert run_exporter(*call) == 0
    said = capsys.readouterr().out
    told = json.loads(report.read_text())
    assert f"{told['learnt']} exercises to learn from, {told['held']} held out, " in said
    assert set(told["before"]) == set(told["after"]) == {*BOUNDS.types, "all"}
    assert told["recipe"]["rank"] == 8
    held = read_captions(tmp_path / "held.jsonl")
    assert 0 < len(held) < 6
    assert set(held) < set(street_captions(6))
    again = read_llama(hub)
    texts = [one.prompt for one in drawn(2)]
    assert [again.tokenizer.encode(text).ids for text in texts] == [llama.tokenizer.encode(text).ids for text in texts]
    engine = OpenVinoLlm(out, precision="f32", threads=1)
    caption = "a red bus on a foggy street"
    beginning = "A caption of a photograph:"
    ids, before = engine._llama.encode([f"{beginning} {caption}", beginning])
    begun = len(before)
    labels = torch.tensor([[*[-100] * begun, *ids[begun:]]])
    with torch.no_grad():
        expected = float(again.model(torch.tensor([ids]), labels=labels).loss)
    assert engine.surprises([caption]) == pytest.approx([expected], rel=1e-3)
    assert SPECIAL[END] == "<|endoftext|>"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"type": "mood"}, r"pairs.jsonl:1: no type 'mood'; there are weather"),
        ({"keyword": "cat"}, "the caption 'a dog' has no 'cat'"),
        ({"keyword": "", "alternative": ""}, "an edit has a keyword, an alternative, or both"),
        ({"label": 3}, "needs a label, as text"),
    ],
)
def test_a_pair_that_is_none_is_named(tmp_path: Path, row: dict[str, object], message: str) -> None:
    fine = {"caption": "a dog", "label": "dog", "type": "adjective", "keyword": "dog", "alternative": "old dog"}
    file = tmp_path / "pairs.jsonl"
    file.write_text(json.dumps(fine))
    assert read_pairs(file) == [TypedPair(Captioned("a dog", "dog"), "adjective", "dog", "old dog")]
    assert read_captions(file) == [Captioned("a dog", "dog")]
    file.write_text(json.dumps(fine | row))
    with pytest.raises(CounterfactoryError, match=message):
        read_pairs(file)


@pytest.mark.parametrize("wrong", [{"rank": 0}, {"batch": 0}, {"dropout": 1.0}, {"rate": 0.0}, {"epochs": 0.0}])
def test_impossible_recipes_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(CounterfactoryError, match=next(iter(wrong))):
        Recipe(**wrong)  # type: ignore[arg-type]


def test_nothing_to_learn_from_is_said() -> None:
    with pytest.raises(CounterfactoryError, match="nothing to learn from"):
        tune(user_llama(), [], Recipe(), print)
