"""A Llama as the graph that answers many questions at once (engine/language/llama.py): rows read any next tokens.

A torch module of transformers, with its tokenizer, becomes a folder: model.xml and model.bin (fp16), the end token and
the longest context in them, and tokenizer.json. The attention is written out so that what all rows begin with is read
once: its keys and values have no batch axis, and all rows' queries meet them in one product (cf. Hydragen, arXiv
2402.05099). What a row has read beyond that comes in and its new keys and values go out, so that rows come and go
between steps.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.runtime.quiet_openvino import ov

from ..graphs.mapped import lay_out

_FAR = -1e9  # added to the scores of places that hold nothing


class LlamaSteps(nn.Module):
    """One step of all rows.

    In: tokens int64 [B, K]; read int64 [B], how many tokens each row's cache holds; fresh int64 [B], how many of the K
    are the row's (the first ones; 0 for a row that waits); common int64 [1], how many of the P places of the common
    beginning are filled; for each layer keys and values of that beginning [H, P, D] and of the rows [B, H, T, D].
    Out: logits [B, V] after each row's last fresh token, and for each layer the new keys and values [B, H, K, D].
    """

    frequencies: Tensor

    def __init__(self, model: LlamaForCausalLM, scratch: Path | None = None) -> None:
        """Joined weights, two thirds of all, are laid out in the folder `scratch`, or without it in memory."""
        super().__init__()
        self.model = model
        config = model.config
        if config.attention_bias or config.mlp_bias or config.rope_parameters["rope_type"] != "default":
            why = "only a Llama with plain rotary positions and no biases can be"
            raise CounterfactoryError(f"{model.name_or_path or 'the model'} cannot be exported: {why}")
        self.heads, self.groups = config.num_attention_heads, config.num_key_value_heads
        self.size = model.model.layers[0].self_attn.head_dim
        powers = torch.arange(0, self.size, 2).float() / self.size
        self.register_buffer("frequencies", config.rope_parameters["rope_theta"] ** -powers)
        # One product each for what reads the same: small steps cost by the operation.
        attention = [layer.self_attn for layer in model.model.layers]
        self.projections = _joined([[a.q_proj, a.k_proj, a.v_proj] for a in attention], scratch, "projections")
        self.gates = _joined([[la.mlp.gate_proj, la.mlp.up_proj] for la in model.model.layers], scratch, "gates")

    def forward(
        self, tokens: Tensor, read: Tensor, fresh: Tensor, common: Tensor, *caches: Tensor
    ) -> tuple[Tensor, ...]:
        """See the class; `caches` is (prefix keys, prefix values, keys, values) of each layer in turn."""
        length, (beginning, held) = tokens.shape[1], (caches[0].shape[1], caches[2].shape[2])
        places = torch.arange(length)
        angles = (common + read[:, None] + places)[..., None].float() * self.frequencies
        angles = torch.cat([angles, angles], -1)[:, None]
        turn = angles.cos(), angles.sin()
        everywhere = (read[:, None, None] >= 0) & (places[:, None] >= 0)  # True, [B, K, 1]: gives the others its shape
        of_common = (torch.arange(beginning) >= common) & everywhere
        of_rows = (torch.arange(held) >= read[:, None])[:, None] & everywhere
        later = (places[None] > places[:, None])[None] | (places >= fresh[:, None])[:, None]
        # Added to the scores, so that places that hold nothing weigh nothing: [B, 1, heads of a group * K, P + T + K].
        empty = torch.cat([of_common, of_rows, later], -1).float()[:, None] * _FAR
        empty = empty.repeat(1, 1, self.heads // self.groups, 1)
        hidden = self.model.model.embed_tokens(tokens)
        new: list[Tensor] = []
        for i, layer in enumerate(self.model.model.layers):
            query, key, value = self._projected(self.projections[i](layer.input_layernorm(hidden)), turn)
            mixed = self._mixed(query, (key, value), caches[4 * i : 4 * i + 4], empty)
            hidden = hidden + layer.self_attn.o_proj(mixed)
            gate, up = self.gates[i](layer.post_attention_layernorm(hidden)).chunk(2, -1)
            hidden = hidden + layer.mlp.down_proj(layer.mlp.act_fn(gate) * up)
            new += [key, value]
        last = (fresh - 1).clamp(min=0)[:, None, None].expand(-1, 1, hidden.shape[2])
        return self.model.lm_head(self.model.model.norm(hidden.gather(1, last)[:, 0])), *new

    def _projected(self, projected: Tensor, turn: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [B, heads, K, D], and keys and values [B, groups, K, D]; queries scaled, positions turned in."""
        batch, length = projected.shape[:2]
        heads = projected.view(batch, length, self.heads + 2 * self.groups, self.size).transpose(1, 2)
        # Rotary positions (Su et al. 2021, arXiv 2104.09864), halves as transformers lays them out.
        plain = heads[:, : -self.groups]
        first, second = plain.chunk(2, -1)
        turned = plain * turn[0] + torch.cat([-second, first], -1) * turn[1]
        return turned[:, : self.heads] / math.sqrt(self.size), turned[:, self.heads :], heads[:, -self.groups :]

    def _mixed(self, query: Tensor, own: tuple[Tensor, Tensor], cached: tuple[Tensor, ...], empty: Tensor) -> Tensor:
        """Attention over the common beginning, the row's cache and its new tokens: [B, K, heads * D]."""
        batch, _, length, size = query.shape
        group, each = self.groups, self.heads // self.groups
        common_keys, common_values, keys, values = cached
        # All rows' queries of a group of heads in one product with what is common: [G, B * each * K, D].
        together = query.reshape(batch, group, each * length, size).transpose(0, 1).reshape(group, -1, size)
        common = (together @ common_keys.transpose(1, 2)).view(group, batch, each * length, -1).transpose(0, 1)
        rows = query.reshape(batch, group, each * length, size)
        scores = torch.cat([common, rows @ keys.transpose(2, 3), rows @ own[0].transpose(2, 3)], -1)
        weights = (scores + empty).softmax(-1)
        first, second = common.shape[3], common.shape[3] + keys.shape[2]
        shared = weights[..., :first].transpose(0, 1).reshape(group, -1, first) @ common_values
        mixed = shared.view(group, batch, each * length, size).transpose(0, 1)
        mixed = mixed + weights[..., first:second] @ values + weights[..., second:] @ own[1]
        return mixed.reshape(batch, self.heads, length, size).transpose(1, 2).reshape(batch, length, -1)


def _joined(groups: list[list[nn.Linear]], scratch: Path | None, name: str) -> nn.ModuleList:
    """A layer for each group, one after another: together they would be held twice."""
    with torch.device("meta"):
        wide = [nn.Linear(some[0].in_features, sum(one.out_features for one in some), bias=False) for some in groups]
    joined = lay_out(nn.ModuleList(wide), scratch and scratch / f"{name}.weights")
    for layer, some in zip(wide, groups, strict=True):
        parts = torch.split(layer.weight, [one.out_features for one in some])
        for part, one in zip(parts, some, strict=True):
            part.copy_(one.weight.detach())
    return joined


def write_llama(model: LlamaForCausalLM, tokenizer: Tokenizer, end: int, folder: Path) -> None:
    """Write the folder that `[llm] backend = "openvino"` names; `model` is in float32, `end` the token that closes an
    answer. Raises CounterfactoryError for a Llama with biases in its attention or scaled rotary positions.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        _write(model, tokenizer, end, folder, Path(scratch))


def _write(model: LlamaForCausalLM, tokenizer: Tokenizer, end: int, folder: Path, scratch: Path) -> None:
    steps = LlamaSteps(model.eval(), scratch)
    config, size = model.config, steps.size
    layers, groups = config.num_hidden_layers, config.num_key_value_heads
    example = [torch.zeros(2, 3, dtype=torch.int64), torch.tensor([0, 4]), torch.tensor([3, 2]), torch.tensor([5])]
    caches = [torch.zeros(groups, 5, size)] * 2 + [torch.zeros(2, groups, 4, size)] * 2
    with torch.no_grad():
        graph = ov.convert_model(steps, example_input=tuple(example + caches * layers))
    shapes: dict[str, list[int]] = {"tokens": [-1, -1], "read": [-1], "fresh": [-1], "common": [1]}
    for i in range(layers):
        shapes |= {f"prefix_{kind}_{i}": [groups, -1, size] for kind in ("key", "value")}
        shapes |= {f"{kind}_{i}": [-1, groups, -1, size] for kind in ("key", "value")}
    for port, name in zip(graph.inputs, shapes, strict=True):
        port.get_tensor().set_names({name})
    named = ["logits", *(f"new_{kind}_{i}" for i in range(layers) for kind in ("key", "value"))]
    for port, name in zip(graph.outputs, named, strict=True):
        port.get_tensor().set_names({name})
    graph.reshape({name: ov.PartialShape(shape) for name, shape in shapes.items()})
    for name, value in (("end", end), ("context", config.max_position_embeddings)):
        graph.set_rt_info(value, ["counterfactory", name])
    ov.save_model(_halved(graph, scratch / "halves.xml"), scratch / "model.xml", compress_to_fp16=False)
    for part in ("model.bin", "model.xml"):
        (scratch / part).replace(folder / part)
    tokenizer.save(str(folder / "tokenizer.json"))


def _halved(graph: Any, aside: Path) -> Any:
    """The matrices in fp16, by OpenVINO's own compression: what it marks stays so when the graph is compiled, all else
    becomes float32 there, at four times the memory. The rest is put back: rotary frequencies would lose three digits.
    """
    constants = [op for op in graph.get_ops() if op.get_type_name() == "Constant"]
    exact = (op for op in constants if op.get_element_type() == ov.Type.f32 and op.data.ndim != 2)
    kept = {op.get_friendly_name(): np.array(op.data) for op in exact}
    ov.save_model(graph, aside, compress_to_fp16=True)
    halves = ov.Core().read_model(aside)
    for op in halves.get_ops():
        if op.get_type_name() == "Convert" and op.get_friendly_name() in kept:
            op.output(0).replace(ov.op.Constant(kept[op.get_friendly_name()]).output(0))
    return halves
