"""A tiny Llama of random weights under grammars, on the card of this machine through ExLlamaV3."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from gpu_card import Figures, require

from counterfactory.engine.language.exllama import open_exllama
from counterfactory.engine.language.exllamav3 import ExLlamaV3
from counterfactory.engine.language.grammar import alternatives_grammar, edited_grammar, keywords_grammar
from counterfactory.engine.language.llm_request import LlmRequest, Prompt
from counterfactory.engine.language.token_filter import TokenFilter, TokenVocabulary, allowed
from counterfactory.engine.profile.rewrite import ExllamaSettings


def check_language(folder: Path) -> Figures:
    """Answers of ExLlamaV3 under grammars: allowed, and those of a greedy loop over transformers' f32 scores."""
    import torch

    model = _write_llama(folder / "llama")
    settings = ExllamaSettings(rows=4, cache="fp16", cache_tokens=16 * 256, temperature=0.0, top_p=0.85, seed=0)
    began = time.perf_counter()
    llm = open_exllama(ExLlamaV3(settings), folder / "llama")
    opened_s = time.perf_counter() - began
    caption, words = "a red car on a foggy street at night.", ("foggy", "red car", "street", "at night")
    grammars = [
        edited_grammar(caption, [("foggy", "rainy"), ("red", "blue")]),
        keywords_grammar(("weather", "time"), words, 2),
        alternatives_grammar("foggy", 1),
    ]
    asked = [LlmRequest(Prompt("", "", f"<s>{i}. {caption}\n"), grammars[i % 3]) for i in range(24)]
    answers, agreed, free = llm.generate(asked), list[float](), 0
    for request, answer in zip(asked, answers, strict=True):
        ids, taken = llm.encode(request.prompt.text), TokenFilter(llm.vocabulary, request.grammar)
        while not taken.closed and len(taken.tokens) < request.max_tokens:
            forced = taken.forced()
            if not forced:
                with torch.no_grad():
                    scores = model(torch.tensor([[*ids, *taken.tokens]])).logits[0, -1].float().numpy()
                scores = scores[: llm.vocabulary.size]
                scores[~allowed(taken.mask(), llm.vocabulary.size)] = -np.inf
                forced, free = (int(scores.argmax()),), free + 1
            if forced[0] == llm.vocabulary.end:
                break
            taken.accept(forced[0])
        prefix = next((i for i, (x, y) in enumerate(zip(taken.text, answer, strict=False)) if x != y), len(taken.text))
        agreed.append(prefix / max(1, len(taken.text), len(answer)))
        require(_follows(llm.vocabulary, request, answer), f"an answer breaks its grammar: {answer!r}")
    require(float(np.mean(agreed)) > 0.7, f"answers agree with transformers' on {np.mean(agreed):.0%} of their length")
    llm.close()
    shares = {"equal": sum(share == 1 for share in agreed), "agreed": float(np.mean(agreed))}
    return {"answers": len(asked), **shares, "choices": free, "opened_s": opened_s}


def _follows(vocabulary: TokenVocabulary, request: LlmRequest, answer: str) -> bool:
    """Whether a grammar allows an answer, or its beginning where it was cut off."""

    follower = TokenFilter(vocabulary, request.grammar)
    for token in vocabulary.tokens.tokenize_str(answer):
        if follower.closed or not allowed(follower.mask(), vocabulary.size)[token]:
            return False
        follower.accept(token)
    return True


def _write_llama(folder: Path) -> Any:
    """A Llama of random weights, written as the hub has it; the model in f32, of the f16 weights."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    told: dict[str, Any] = {"special_tokens": ["<s>", "</s>"], "show_progress": False}
    trainer = trainers.BpeTrainer(vocab_size=384, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **told)
    tokenizer.train_from_iterator(["a red car on a foggy street at night in the rain"] * 4, trainer)
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=384, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=2048, tie_word_embeddings=False, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():  # fresh weights hardly look at the context
            value.mul_(1.0 if "norm" in name else 4.0)
            value.copy_(value.half().float())
    model.half().save_pretrained(folder, safe_serialization=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return model.float()
