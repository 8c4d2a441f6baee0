"""Chat templates and the prompts of the questions, against the published templates and the grammars of the answers."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfactory.engine.edit import EDIT_TYPES, Edit
from counterfactory.engine.english.edit_scope import check_edited_caption
from counterfactory.engine.english.words import allowed_proposals, kept_words, phrases
from counterfactory.engine.keys import content_key
from counterfactory.engine.language.chat import ChatPrompts, chatml, llama2, prompts_of
from counterfactory.engine.language.edit_types import BUILT_IN, EditType, edit_types
from counterfactory.engine.language.grammar import edited_grammar, place_grammar, proposals_grammar, values_grammar
from counterfactory.engine.language.llm_request import LlmRequest, Prompt
from counterfactory.engine.language.questions import PlainPrompts, read_caption, read_proposals
from counterfactory.engine.profile.rewrite import Style

TASK = "classify the animal"
CAPTION = "a horse in front of a red barn in the rain."
STYLES: tuple[Style, ...] = ("llama2", "chatml")
HORSE = ("horse",)


def turns_of(asked: Prompt, style: Style) -> list[str]:
    """What is said in a prompt: system, then user and model by turns; read by the templates' own marks."""
    prompt = asked.text
    if style == "chatml":
        said = re.findall(r"<\|im_start\|>(?:system|user|assistant)\n(.*?)(?:<\|im_end\|>\n|$)", prompt, re.DOTALL)
        return [str(x) for x in said]
    inner = re.findall(r"<s>\[INST\] (.*?) \[/INST\] Answer:\n(.*?)(?: </s>|$)", prompt, re.DOTALL)
    system, first = inner[0][0].removeprefix("<<SYS>>\n").split("\n<</SYS>>\n\n")
    return [system, first, *itertools.chain(inner[0][1:], *inner[1:])]


def asked(style: Style, kind: str, task: str = TASK, caption: str = CAPTION, keep: Sequence[str] = HORSE) -> Prompt:
    written = prompts_of(style)
    if kind == "rewrite":
        return written.rewrite(task, keep, caption, [("in the rain", "in the snow")])
    if isinstance(written, ChatPrompts):
        return (written.proposals if kind == "proposals" else written.place)(task, BUILT_IN["weather"], keep, caption)
    if kind == "proposals":
        return written.keywords(task, EDIT_TYPES, keep, caption)
    return written.alternatives(task, keep, caption, "weather", "in the rain")


MARKS = ["<s>", "</s>", "[INST]", "[/INST]", "<|im_end|>", "<|", "|>", "<<SYS>>", *"<|>s\n", "im_end", '"']
KINDS = ("proposals", "place", "rewrite")


def test_templates_are_the_published_ones() -> None:
    # As the reference code and the tokenizer's own template write LLaMA-2's, but for where the answers begin.
    assert "u3".join(llama2("S", [("u1", "a1"), ("u2", "a2")])) == (
        "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nu1 [/INST] Answer:\na1 </s>"
        "<s>[INST] u2 [/INST] Answer:\na2 </s>"
        "<s>[INST] u3 [/INST] Answer:\n"
    )
    assert "u2".join(chatml("S", [("u1", "a1")])) == (
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nu1<|im_end|>\n<|im_start|>assistant\na1<|im_end|>\n"
        "<|im_start|>user\nu2<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_has_the_task_one_example_and_the_question(style: Style, kind: str) -> None:
    system, example, answer, question, *begun = turns_of(asked(style, kind), style)
    assert TASK in question
    assert TASK not in system + example
    assert begun in ([], [""])
    assert CAPTION in question
    assert CAPTION not in example
    assert "Keep: horse" in question
    lines = [re.findall(r"^(\w+): ", text, re.MULTILINE) for text in (example, question)]
    assert lines[0] == lines[1] != [], "the question is asked in the example's form"
    assert json.dumps(json.loads(answer), ensure_ascii=False, separators=(",", ":")) == answer


@pytest.mark.parametrize("style", ["pocket", *STYLES])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_the_same_stands_first(style: Style, kind: str) -> None:
    one, other = (asked(style, kind, caption=c, keep=k) for c, k in ((CAPTION, HORSE), ("a cat.", ("cat",))))
    assert (one.suite, one.own) == (other.suite, other.own)
    assert len(one.suite) > len(one.text) / 2
    # Models that converse hear the task with the source, whose label it names.
    assert (TASK in one.suite) == (style == "pocket")
    heard = "" if style == "pocket" else f"Task: {TASK}\n"
    assert one.source.strip() == f"{heard}Keep: horse\nCaption: {CAPTION}"
    assert other.source.strip() == f"{heard}Keep: cat\nCaption: a cat."
    if style != "pocket":
        assert asked(style, kind, task="here it is cat").suite == one.suite
    # Questions about one caption share it.
    written, words = prompts_of(style), ("in the rain", "horse")
    pairs = [[written.rewrite(TASK, (), CAPTION, [(word, "x")]) for word in words]]
    if isinstance(written, PlainPrompts):
        pairs.append([written.alternatives(TASK, (), CAPTION, "weather", word) for word in words])
    for first, second in pairs:
        assert (first.suite, first.source) == (second.suite, second.source)
        assert first.own != second.own


def test_a_key_is_of_the_text_whatever_is_shared_of_it() -> None:
    grammar = values_grammar(["a"])
    one, other = (LlmRequest(prompt, grammar).content for prompt in (Prompt("a", "b", "c"), Prompt("", "", "abc")))
    assert content_key(one) == content_key(other) == content_key({"prompt": "abc", "grammar": asdict(grammar)})


def chat(style: Style) -> ChatPrompts:
    written = prompts_of(style)
    assert isinstance(written, ChatPrompts)
    return written


def example_of(prompt: Prompt) -> tuple[dict[str, str], str]:
    _, example, answer, *_ = turns_of(prompt, "chatml")
    return dict(re.findall(r"^(\w+): (.*)$", example, re.MULTILINE)), answer


@pytest.mark.parametrize("type_", BUILT_IN.values(), ids=BUILT_IN)
def test_a_type_s_examples_are_an_answer_that_is_taken(type_: EditType) -> None:
    prompt = chat("chatml").proposals(TASK, type_, (), CAPTION)
    fields, answer = example_of(prompt)
    keep = () if fields["Keep"] == "nothing" else (fields["Keep"],)
    spans, place = phrases(fields["Caption"], 4, keep), "medium" if type_.name == "domain" else type_.place
    grammar = proposals_grammar(spans, kept_words(fields["Caption"], keep), (), place, 3)
    assert grammar.allows(answer), answer
    assert allowed_proposals(read_proposals(answer), fields["Caption"], keep, ()) == read_proposals(answer)
    assert f"Change or add: {type_.instruction}." in prompt.text
    where = chat("chatml").place(TASK, type_, (), CAPTION)
    _, said = example_of(where)
    assert place_grammar((*spans, "dog"), optional=True).allows(said)
    assert f"say this: {type_.instruction}?" in where.text


def test_types_that_show_nothing_are_refused_and_a_user_s_stands_before_a_built_in_one() -> None:
    nothing, shown = "^a type of edit needs a name and an instruction$", (("", "y"),)
    for name, instruction, examples, problem in (
        (" ", "x", shown, nothing),
        ("x", "", shown, nothing),
        ("x", "x", (), "^the type 'x' needs a worked example$"),
        ("x", "x", (("cat", "y"),), "^the example of type 'x' replaces 'cat' by 'y': "),
        ("x", "x", (("", " "),), "^the example of type 'x' replaces '' by ' ': "),
    ):
        with pytest.raises(ValueError, match=problem):
            EditType(name, instruction, "end", examples, "a dog")
    assert tuple(BUILT_IN) == EDIT_TYPES
    own = EditType("time", "the century", "end", (("", "in 1920"),), "a dog")
    assert edit_types(("weather", "time"), (own,)) == (BUILT_IN["weather"], own)


def test_the_example_caption_is_rewritten_by_the_rules() -> None:
    fields, answer = example_of(asked("chatml", "rewrite"))
    changes = [tuple(change.split(" -> ")) for change in fields["Changes"].split("; ")]
    pairs = [(old, new) for old, new in changes]
    assert edited_grammar(fields["Caption"], pairs).allows(answer)
    edits = [Edit("other", old, new) for old, new in pairs]
    assert check_edited_caption(fields["Caption"], read_caption(answer), edits, (fields["Keep"],)) is None


@pytest.mark.parametrize("style", STYLES)
@given(text=st.lists(st.sampled_from(MARKS)).map("".join))
def test_no_word_of_a_user_ends_a_turn(style: Style, text: str) -> None:
    written = chat(style)
    marks = re.compile(r"</?s>|\[/?INST\]|<</?SYS>>|<\|im_\w+\|>")
    plain = marks.findall(written.rewrite("x", ("x",), "x", [("x", "x")]).text)
    hostile = written.rewrite(text, (text,), text, [(text, text)])
    assert marks.findall(hostile.text) == plain
    type_ = EditType("x", f"{text} x", "end", (("", f"{text} x"),), "x")
    assert marks.findall(written.proposals(text, type_, (text,), text).text) == plain
    assert marks.findall(written.place(text, type_, (text,), text).text) == plain


def test_pocket_prompts_are_those_it_was_trained_on() -> None:
    """Word for word: the model knows no others."""
    assert prompts_of("pocket") == PlainPrompts()
    words = PlainPrompts().keywords(TASK, ("weather", "time"), ("horse", "barn"), ' a "horse"\n in\\ rain ')
    assert words.text == (
        "Which words of the caption can change while the task keeps its answer?\n"
        "Task: count the trees\nTypes: weather, time\nKeep: trees\nCaption: tall trees in the rain at noon.\n"
        'Keywords:\n[["weather","in the rain"],["time","at noon"]]\n\n'
        "Task: classify the animal\nTypes: weather, time\nKeep: horse, barn\nCaption: a 'horse' in/ rain\nKeywords:\n"
    )
    assert PlainPrompts().alternatives(TASK, (), "a cat", "colour", "cat").text == (
        "What else could the words of the caption be?\n"
        "Task: count the trees\nKeep: trees\nCaption: tall trees in the rain at noon.\nValues: any\n"
        'Words: weather: in the rain\nAlternatives:\n["in the snow","in the fog"]\n\n'
        "Task: classify the animal\nKeep: nothing\nCaption: a cat\nValues: any\nWords: colour: cat\nAlternatives:\n"
    )
    assert PlainPrompts().rewrite(TASK, ("cat",), "a cat", [("a", "one"), ("b", "two")]).text == (
        "Write the caption anew with the changes.\n"
        "Task: count the trees\nKeep: trees\nCaption: tall trees in the rain at noon.\n"
        'Changes: in the rain -> in the snow\nNew caption:\n"tall trees in the snow at noon."\n\n'
        "Task: classify the animal\nKeep: cat\nCaption: a cat\nChanges: a -> one; b -> two\nNew caption:\n"
    )
