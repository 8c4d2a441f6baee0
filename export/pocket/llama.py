"""The pocket language model: a LlamaForCausalLM of about 2 M parameters that answers the three questions of rewriting.

Its byte-level BPE is trained on the exercises themselves, so that prompts are short. The loss is on answers only. Rows
of a batch share the head of their prompts (instruction and worked example), which is computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM

from counterfactory.engine.files.writing import write_whole

from ..language.answer_loss import answer_loss, encode_answers
from ..language.llama_steps import LlamaSteps, write_llama
from .data import TRAIN
from .exercises import KINDS_OF_QUESTION, exercise
from .parameters import record
from .training import Recipe, fit

RECIPE = Recipe(steps=2500, lr=3e-3, seed=17, weight_decay=1e-2, warmup=80, ema=0.99, save_every=50)
_SEED = 17
VOCABULARY = 640
CONTEXT = 1024
END = 0
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
# Rows of a step by question: the first and the last question make the longer answers, the second the shortest.
_ROWS = {"keywords": 12, "alternatives": 12, "rewrite": 16}
# Copying is practised in the first steps, by when it is learned: rows, tokens each, steps.
_COPIES, _COPIED, _COPY_STEPS = 24, 40, 750


def byte_tokenizer(
    texts: Iterable[str], vocabulary: int, special: Sequence[str] = SPECIAL, like_opt: bool = False
) -> Tokenizer:
    """A byte-level BPE of at most `vocabulary` tokens trained on `texts`; it encodes any text."""
    tokenizer: Tokenizer = Tokenizer(models.BPE())
    # Digits stand alone, as in SmolLM's: numbers are spelled.
    split = [] if like_opt else [pre_tokenizers.Digits(individual_digits=True)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*split, pre_tokenizers.ByteLevel(add_prefix_space=like_opt)])
    tokenizer.decoder = decoders.ByteLevel()
    given: dict[str, Any] = {"special_tokens": list(special), "initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, show_progress=False, **given)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def build(vocabulary: int) -> LlamaForCausalLM:
    """The model with seeded initial weights."""
    torch.manual_seed(_SEED)
    sizes = {"hidden_size": 192, "intermediate_size": 576, "num_hidden_layers": 4, "vocab_size": vocabulary}
    heads = {"num_attention_heads": 6, "num_key_value_heads": 6}
    ends = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), END)
    config = LlamaConfig(**sizes, **heads, **ends, max_position_embeddings=CONTEXT, tie_word_embeddings=True)
    model = LlamaForCausalLM(config)
    # On CPUs the backward pass of fused attention costs several times that of the plain one at these lengths.
    model.set_attn_implementation("eager")
    return model


def copy_loss(model: LlamaForCausalLM) -> torch.Tensor:
    """Mean cross-entropy of random tokens said a second time.

    Answers mostly repeat words of the prompt, yet a model that has not found out how to look them up learns what is
    likely instead. Tokens that nothing but the context can tell teach the looking up (induction) within a few hundred
    steps; from the questions alone it had not begun after 400.
    """
    tokens = torch.randint(len(SPECIAL), model.config.vocab_size, (_COPIES, _COPIED))
    rows = torch.cat([tokens, tokens], 1)
    logits = model(rows).logits[:, _COPIED - 1 : -1]
    return F.cross_entropy(logits.float().flatten(0, 1), tokens.flatten())


def train(work: Path) -> tuple[LlamaForCausalLM, Tokenizer]:
    """Train on the exercises, or load the finished training, from `work`; the tokenizer on 2,000 a question."""
    file = work / "llama_tokenizer.json"
    if not file.exists():
        drawn = [exercise(kind, TRAIN, i) for kind in KINDS_OF_QUESTION for i in range(2000)]
        texts = (text for e in drawn for text in (e.prompt.text, e.answer))
        work.mkdir(parents=True, exist_ok=True)
        write_whole(file, byte_tokenizer(texts, VOCABULARY).to_str())
    tokenizer = Tokenizer.from_file(str(file))
    model = build(tokenizer.get_vocab_size())

    def loss_of(step: int) -> torch.Tensor:
        total, answered = torch.zeros(()), 0
        for kind, count in _ROWS.items():
            drawn = [exercise(kind, TRAIN, 10_000 + step * count + i) for i in range(count)]
            head, rows, labels = encode_answers(tokenizer, [(one.prompt.text, one.answer) for one in drawn], END)
            with torch.autocast("cpu", torch.bfloat16):
                total = total + answer_loss(model, head, rows, labels)
            answered += int((labels >= 0).sum())
        loss = total / answered
        if step < _COPY_STEPS:
            with torch.autocast("cpu", torch.bfloat16):
                loss = loss + copy_loss(model)
        return loss

    return fit("llama", model, RECIPE, loss_of, work), tokenizer


class PackedParameters(nn.Module):
    """A Llama's parameters as they stand in the packed graph, where projections that read the same are joined.

    Layers that are not joined are the model's own; `give_back` fills the others from the joined ones.
    """

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__()
        steps, layers = LlamaSteps(model), model.model.layers
        self.embedding, self.norm = model.model.embed_tokens, model.model.norm  # the output's matrix is the embedding
        self.norms = nn.ModuleList(m for la in layers for m in (la.input_layernorm, la.post_attention_layernorm))
        self.outputs = nn.ModuleList(m for la in layers for m in (la.self_attn.o_proj, la.mlp.down_proj))
        self.projections, self.gates = steps.projections, steps.gates

    @torch.no_grad()
    def give_back(self, model: LlamaForCausalLM) -> None:
        """Give the model, of which this was made, its projections."""
        for layer, projections, gates in zip(model.model.layers, self.projections, self.gates, strict=True):
            attention, mlp = layer.self_attn, layer.mlp
            for joined, parts in (
                (projections, (attention.q_proj, attention.k_proj, attention.v_proj)),
                (gates, (mlp.gate_proj, mlp.up_proj)),
            ):
                rows = torch.split(joined.get_parameter("weight"), [part.out_features for part in parts])
                for part, own in zip(parts, rows, strict=True):
                    part.weight.copy_(own)


def write_packed(model: LlamaForCausalLM, tokenizer: Tokenizer, weights: Path) -> None:
    """Write the language model to `weights/llm`, and where its parameters stand there to the map beside it."""
    write_llama(model, tokenizer, END, weights / "llm")
    record("llm", dict(PackedParameters(model).named_parameters()), weights, ("llm/model.xml",))
