"""The networks of a peer on OpenVINO, in the pipelines of diffusers and transformers, as OpenVINO documents it.

`ov.convert_model` traces each torch module and OpenVINO compiles it for the CPU, once for each set of shapes, so that
shapes are static. Language models keep their keys and values in states of the graph, as optimum-intel exports them:
attention then reads and extends them in place. Modules keep their types, which pipelines ask for; what is replaced is
how they are called.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from peer_networks import PeerNetworks, TorchLanguage
from torch import nn
from transformers import Cache
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutputWithPast

from counterfactory.engine.runtime.openvino import open_core, resolve_precision
from counterfactory.engine.runtime.quiet_openvino import ov

ops: Any = ov.opset15


def settings(threads: int) -> dict[str, Any]:
    """What graphs are compiled with: calls come one at a time, so each gets all cores. Keys and values are not rounded
    to 8 bits, OpenVINO's default, as no other side rounds them.
    """
    hints = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
    return hints | dict.fromkeys(("INFERENCE_PRECISION_HINT", "KV_CACHE_PRECISION"), resolve_precision("auto"))


class Traced(nn.Module):
    """`call` of tensors to tensors as a module that holds the parameters of `module`."""

    def __init__(self, module: nn.Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.module, self._call = module, call

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self._call(*tensors)


def convert(module: nn.Module, call: Callable[..., Any], example: Sequence[torch.Tensor], **more: Any) -> Any:
    """`call`, which computes with `module` alone, as OpenVINO's graph."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what Python decides while it traces: that is by sizes, which are static
        return ov.convert_model(Traced(module, call).eval(), example_input=tuple(example), **more)


class Graph:
    """`call` compiled for each set of shapes when they first come."""

    def __init__(self, module: nn.Module, call: Callable[..., Any], config: dict[str, Any]) -> None:
        self._call, self._config, self._core = (module, call), config, open_core()
        self._compiled: dict[tuple[tuple[int, ...], ...], Any] = {}

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        shapes = tuple(tuple(tensor.shape) for tensor in tensors)
        if shapes not in self._compiled:
            model = convert(*self._call, tensors, input=list(shapes))
            self._compiled[shapes] = self._core.compile_model(model, "CPU", self._config)
        results = self._compiled[shapes]([tensor.contiguous().numpy() for tensor in tensors])
        return tuple(torch.from_numpy(results[i]) for i in range(len(results)))


class Past(Cache):  # type: ignore[misc]  # transformers has no types here
    """The keys and values of a trace, each [rows, heads, past, D], by layer one after the other."""

    def __init__(self, past: Sequence[torch.Tensor]) -> None:
        super().__init__(layers=[])
        self.states = list(past)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.states[2 * layer_idx].shape[2]

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any, **__: Any) -> Any:
        """All of a layer with those of new positions."""
        both = slice(2 * layer_idx, 2 * layer_idx + 2)
        self.states[both] = [torch.cat(pair, 2) for pair in zip(self.states[both], (keys, values), strict=True)]
        return tuple(self.states[both])


class StatefulDecoder:
    """A causal language model whose graph keeps keys and values; stands in for its `forward` within `generate`."""

    def __init__(self, model: Any, config: dict[str, Any]) -> None:
        self._embedding, self._forward = model.get_input_embeddings(), model.forward
        text, size = model.config, model.config.hidden_size // model.config.num_attention_heads
        layers, heads = text.num_hidden_layers, getattr(text, "num_key_value_heads", text.num_attention_heads)
        example = [torch.zeros(2, 3, text.hidden_size), torch.ones(2, 5, dtype=torch.int64)]
        example += [torch.ones(2, 3, dtype=torch.int64)] + [torch.zeros(2, heads, 2, size)] * (2 * layers)
        graph = convert(model, self._step, example)
        shapes = [[-1, -1, text.hidden_size], [-1, -1], [-1, -1]] + [[-1, heads, -1, size]] * (2 * layers)
        graph.reshape(dict(zip(graph.inputs, map(ov.PartialShape, shapes), strict=True)))
        keep_states(graph, 3)
        self._request = open_core().compile_model(graph, "CPU", config).create_infer_request()
        self._cache: Any = None
        self._seen = 0

    def _step(
        self, embeds: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, *past: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Logits of the last position, and all keys and values, by layer."""
        cache = Past(past)
        total, new = mask.shape[1], embeds.shape[1]
        seen = torch.arange(total)[None] <= (torch.arange(new) + total - new)[:, None]
        visible = torch.where(seen[None] & mask[:, None].bool(), 0.0, -1e9)[:, None]
        given = {"inputs_embeds": embeds, "attention_mask": visible, "position_ids": positions}
        out = self._forward(**given, past_key_values=cache, logits_to_keep=1)
        return out.logits, *cache.states

    def __call__(
        self, input_ids: torch.Tensor | None = None, attention_mask: torch.Tensor | None = None,
        past_key_values: Any = None, inputs_embeds: torch.Tensor | None = None, **_: Any,
    ) -> CausalLMOutputWithPast:  # fmt: skip
        """The next step of a generation, as `forward`; another cache than the last, itself left empty, begins one."""
        embeds = self._embedding(input_ids) if inputs_embeds is None else inputs_embeds
        new = embeds.shape[1]
        if past_key_values is not self._cache:
            self._request.reset_state()
            self._cache, self._seen = past_key_values, 0
        self._seen += new
        if attention_mask is None:  # no row is padded
            attention_mask = torch.ones(len(embeds), self._seen, dtype=torch.int64)
        positions = (attention_mask.cumsum(1) - 1).clamp(min=0)[:, -new:]
        rows = np.arange(len(embeds), dtype=np.int32)
        feeds = [embeds, attention_mask, positions]
        results = self._request.infer([*(feed.contiguous().numpy() for feed in feeds), rows])
        return CausalLMOutputWithPast(logits=torch.from_numpy(results[0]), past_key_values=past_key_values)


def keep_states(graph: Any, others: int) -> None:
    """Turn the inputs behind the first `others` and the outputs behind the first into states, [rows, heads, past, D].

    They begin empty, with as many rows as are asked for. The new last input says which row each row goes on from, which
    the CPU's attention in place asks for.
    """
    rows = ops.parameter([-1], np.int32)
    graph.add_parameters([rows])
    count = ops.gather(ops.shape_of(graph.inputs[0]), ops.constant([0]), ops.constant(0))
    pairs = list(zip(graph.get_parameters()[others:-1], graph.get_results()[1:], strict=True))
    for i, (past, new) in enumerate(pairs):
        _, heads, _, size = past.get_partial_shape()
        shape = ops.concat([count, ops.constant([heads.get_length(), 0, size.get_length()])], 0)
        info = ov.op.util.VariableInfo()
        info.data_shape, info.data_type, info.variable_id = past.get_partial_shape(), ov.Type.f32, f"state {i}"
        variable = ov.op.util.Variable(info)
        graph.add_variables([variable])
        state = ov.op.read_value(ops.broadcast(ops.constant(np.float32(0)), shape), variable)
        chosen = ops.gather(state, rows, ops.constant(0))
        for reader in past.output(0).get_target_inputs():
            reader.replace_source_output(chosen.output(0))
        graph.add_sinks([ov.op.assign(new.input_value(0).get_node(), variable)])
        graph.remove_result(new)
        graph.remove_parameter(past)
    graph.validate_nodes_and_infer_types()


def put_on_openvino(networks: PeerNetworks, text: Any, image: Any) -> tuple[Any, Any]:
    """Let the pipelines of diffusers and transformers call graphs; returns those of CLIP's two modules."""
    config = settings(torch.get_num_threads())
    put_painters(networks.unet, networks.controlnet, networks.vae, config)
    put_language(networks, config)
    image_graph = Graph(image, image.forward, config)
    return Graph(text, text.forward, config), lambda pixels: image_graph(pixels)[0]


def put_painters(unet: Any, controlnet: Any, vae: Any, config: dict[str, Any]) -> None:
    predict, control, decode = unet.forward, controlnet.forward, vae.decode

    def predict_graph(latents: Any, timestep: Any, text: Any, mid: Any, *down: Any) -> Any:
        added = {"down_block_additional_residuals": down, "mid_block_additional_residual": mid}
        return predict(latents, timestep, text, **added, return_dict=False)[0]

    def control_graph(latents: Any, timestep: Any, text: Any, hint: Any, scale: Any) -> Any:
        down, mid = control(latents, timestep, text, hint, scale, return_dict=False)
        return mid, *down

    painter, controller = Graph(unet, predict_graph, config), Graph(controlnet, control_graph, config)
    decoder = Graph(vae, lambda latents: decode(latents, return_dict=False)[0], config)

    def unet_forward(latents: Any, timestep: Any, encoder_hidden_states: Any, **more: Any) -> Any:
        down, mid = more["down_block_additional_residuals"], more["mid_block_additional_residual"]
        return painter(latents, timestep[None], encoder_hidden_states, mid, *down)

    def controlnet_forward(latents: Any, timestep: Any, **more: Any) -> Any:
        scale = torch.tensor(more["conditioning_scale"])
        mid, *down = controller(latents, timestep[None], more["encoder_hidden_states"], more["controlnet_cond"], scale)
        return down, mid

    unet.forward, controlnet.forward = unet_forward, controlnet_forward
    vae.decode = lambda latents, **_: decoder(latents)


def put_language(networks: PeerNetworks, config: dict[str, Any]) -> None:
    blip2 = networks.blip2
    see, ask = blip2.vision_model.forward, blip2.qformer.forward
    eyes = Graph(blip2.vision_model, lambda pixels: see(pixel_values=pixels).last_hidden_state, config)

    def ask_graph(queries: Any, states: Any) -> Any:
        return ask(query_embeds=queries, encoder_hidden_states=states).last_hidden_state

    asker = Graph(blip2.qformer, ask_graph, config)

    def see_forward(pixel_values: Any, **_: Any) -> Any:
        return BaseModelOutput(eyes(pixel_values)[0])

    def ask_forward(query_embeds: Any, encoder_hidden_states: Any, **_: Any) -> Any:
        return BaseModelOutput(asker(query_embeds, encoder_hidden_states)[0])

    blip2.language_model.forward = StatefulDecoder(blip2.language_model, config)
    blip2.vision_model.forward, blip2.qformer.forward = see_forward, ask_forward
    if isinstance(networks.language, TorchLanguage):
        networks.language.model.forward = StatefulDecoder(networks.language.model, config)
