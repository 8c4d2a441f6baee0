"""[grounding], [caption] and [rewrite]: which networks read texts, and how often."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.rewrite import GroundingSettings


@pytest.mark.parametrize("name", ["a10g", "a10g-fast", "lance"])
def test_boxes_ground_labels_and_write_captions_that_name_none_again(name: str) -> None:
    found = load_profile(name)
    assert found.grounding == GroundingSettings(32, 0.45, 0.95)
    assert found.caption.label_prefix == "a photo of a {label}"
    assert found.caption.prompt_tokens == 46
    networks, caption = networks_of(found), found.caption
    positions = 32 + 46 + caption.decoding.max_tokens - 1
    assert networks["opt_decoder"].cached_tokens == caption.batch * caption.rows * positions
    assert found.weights is not None
    assert str(found.weights.sentence).startswith("sentence-transformers/all-MiniLM-L6-v2@")


def test_perplexity_is_the_language_model_s_on_a_cpu() -> None:
    pocket = load_profile("pocket")
    read = replace(pocket, rewrite=replace(pocket.rewrite, perplexity=True))
    before, after = (networks_of(one)["llm"].rows["rewrite"] for one in (pocket, read))
    assert (after.per_source, after.per_variant) == (before.per_source + 1, before.per_variant + 1)
    replace(read, check=read.check.having(max_perplexity=9.0))


def test_words_of_all_edits_are_compared_where_they_are_chosen_by_it() -> None:
    lance = load_profile("lance")
    for free, texts in (((), 51), (("max_text_label",), 51), (("max_text_label", "max_text_replaced"), 3)):
        one = replace(lance, check=lance.check.having(**dict.fromkeys(free)))
        rows = networks_of(one)["sentence"].rows["rewrite"]
        assert (rows.per_source, rows.per_variant) == (texts, 3)
